"""What stands beside the search of jobs: their counts, and the queues and tasks to pick."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import UNSET

from onbeat.dashboard.formats import number, rounded
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import OnbeatError
from onbeat.model.job import JobState
from onbeat.model.limits import COUNTED_JOBS_MAX
from onbeat.operations.tables.fleet import WORKER_LIST
from onbeat.operations.tables.pulses import PULSE_QUEUES, PULSE_SHOW
from onbeat.wire.requests import JobsAnswer, StateCount

PICKS_MAX: Final = 100
"""Names in one list to pick from; others are typed."""
PICKED: Final = ("queue", "task")
WAS: Final = "_was"
"""Behind the name of a list: what was picked in it when the page was made."""
STATES_IN_ORDER: Final = (
    JobState.FAILED,
    JobState.RUNNING,
    JobState.WAITING,
    JobState.SUCCEEDED,
    JobState.CANCELLED,
)


def counts_of(answer: JobsAnswer) -> list[tuple[str, str]]:
    """Each state with its count in words, those with none left out."""
    counts = {} if answer.counts is UNSET else answer.counts
    found = ((str(state), counts.get(str(state))) for state in STATES_IN_ORDER)
    return [(name, in_words(one)) for name, one in found if one and (one.count or one.more)]


def in_words(counted: StateCount) -> str:
    """38, `about 1.2 M`, `more than 10,000`, or `3 or more` where a search stopped early."""
    if counted.about:
        return f"about {rounded(counted.count)}"
    if not counted.more:
        return number(counted.count)
    if counted.count >= COUNTED_JOBS_MAX:
        return f"more than {number(counted.count)}"
    return f"{number(counted.count)} or more"


async def picks_of(viewer: Viewer, filters: Mapping[str, str]) -> dict[str, list[str]]:
    """Queues of the newest sample and of the last hour, and tasks of workers and of that sample."""
    try:
        sample = (await viewer.ask(PULSE_SHOW)).sample
        queues = list((await viewer.ask(PULSE_QUEUES)).queues)
        workers = (await viewer.ask(WORKER_LIST, jobs=0)).workers
    except OnbeatError:
        return {name: named([], filters.get(name)) for name in PICKED}
    tasks = [task for worker in workers for task in worker.tasks]
    if sample is not None:
        queues += sample.queues
        tasks += sample.unknown_tasks
    return {
        "queue": named(queues, filters.get("queue")),
        "task": named(tasks, filters.get("task")),
    }


def named(names: Iterable[str], chosen: str | None) -> list[str]:
    """The names in order, with the one that is chosen, also where it is not among the first."""
    found = sorted(set(names))[:PICKS_MAX]
    return found if chosen is None or chosen in found else [chosen, *found]


def picked(given: Mapping[str, str]) -> dict[str, str | None]:
    """What was picked anew in a form, which goes before the line of search; None for any."""
    return {
        name: given.get(name) or None
        for name in PICKED
        if name + WAS in given and given.get(name, "") != given[name + WAS]
    }


def is_form(given: Mapping[str, Any]) -> bool:
    """Whether it was sent by the form of the search, also with an empty line."""
    return bool(given.get("q")) or any(name + WAS in given for name in PICKED)
