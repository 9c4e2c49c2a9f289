"""A program with a hook and a task in a process of its own, which imports this module."""

from onbeat import Context, Onbeat

beat = Onbeat("memory://")
seen: list[str] = []


@beat.before_job
def note(context: Context) -> None:
    seen.append(context.labels["tenant"])


@beat.task(isolation="process")
def whose() -> str:
    return seen[0]
