"""What became of an event: the rows of its notices, with what Onbeat knows of their jobs."""

from typing import Any, Final

from notifications import notices
from notifications.app import SOURCE, Program
from onbeat import NotFound
from onbeat.types import JobInfo

Row = dict[str, Any]
HIDDEN: Final = "…"
"""What Onbeat shows for the data of a sensitive job."""


def publish_key(event: str) -> str:
    """The unique key of the job that will publish the event."""
    return f"publish {event}"


async def outcomes_of(program: Program, event: str, after: str, limit: int) -> list[Row]:
    """In portions by name. The first one begins with the job that has yet to publish the event."""
    async with program.database.session() as session:
        found = await notices.of_event(session, event, after, limit)
    data = {
        source: await data_of(program, event, source) for source in {r["source"] for r in found}
    }
    rows = [row | {"data": data[row["source"]]} | await job_of(program, row) for row in found]
    return rows if after else await unpublished(program, event) + rows


async def unpublished(program: Program, event: str) -> list[Row]:
    """The delayed event that waits, or why it was not published; none of one that was."""
    jobs = await program.beat.jobs.alist(unique=publish_key(event), limit=1)
    return [await publish_row(program, event, job) for job in jobs if job.state != "succeeded"]


async def publish_row(program: Program, event: str, job: JobInfo) -> Row:
    args = job.target.args
    return {
        "source": SOURCE,
        "event": event,
        "topic": job.labels.get("topic", ""),
        "recipient": "",
        "channel": "",
        "outcome": "waiting" if job.state == "running" else job.state,
        "why": job.reason or "",
        "data": args[1] if len(args) > 1 else HIDDEN,
        **await with_attempts(program, job.id),
    }


async def data_of(program: Program, event: str, source: str) -> object:
    """The data of the event, as far as Onbeat still has it and shows it."""
    try:
        return (await program.beat.events.ashow(event, source=source)).data
    except NotFound:
        return None


async def job_of(program: Program, row: Row) -> Row:
    """Of a notice: by its id, which is known from the first attempt on, else by its unique key."""
    if row["job"]:
        return await with_attempts(program, row["job"])
    if not row["channel"]:
        return {}
    jobs = await program.beat.jobs.alist(unique=row["name"], limit=1)
    return await with_attempts(program, jobs[0].id) if jobs else {}


async def with_attempts(program: Program, id: str) -> Row:
    try:
        job = await program.beat.jobs.aget(id)
    except NotFound:
        return {"job": id}
    errors = [attempt.error for attempt in job.attempts or () if attempt.error]
    return {
        "job": id,
        "state": job.state,
        "created_at": job.created_at,
        "run_at": job.run_at,
        "attempt": job.attempt,
        "attempts_max": job.attempts_max,
        "last_error": errors[-1] if errors else None,
    }
