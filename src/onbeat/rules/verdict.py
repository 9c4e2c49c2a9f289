"""What an operator should look at first: the worst thing that is known now, in one sentence."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final, Literal

import msgspec

from onbeat.model.alert import Level
from onbeat.model.limits import FAULT_LISTED_JOBS_MAX

LATE_AFTER: Final = timedelta(seconds=60)
"""How long a due job may wait before its queue is late, unless the queue has a limit of its own."""
FAILING_WITHIN: Final = timedelta(hours=1)
"""Failures that are older need nobody at once."""


NAME_CHARS_MAX: Final = 200
ATTEMPTS_MIN: Final = 5
"""Fewer failed attempts need nobody where all are tried again."""
FAILING_MINUTE_MIN: Final = 5
"""Fewer failed attempts in a minute are no storm."""
FAILING_TIMES: Final = 5
"""How many times the hour's median a minute must have to be told."""
FAILS_NOW_WITHIN: Final = timedelta(minutes=2)
"""A fault that is named as the cause of a storm has failed within this span."""
NO_TASKS: Final[Mapping[str, int]] = {}

QueueState = Literal["late", "full", "paused", "flowing", "idle"]
QUEUE_STATES: Final[Sequence[QueueState]] = ("late", "full", "paused", "flowing", "idle")
"""The worst first."""


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs somebody, and where to look; the worst have the highest `weight`.

    `key` names the thing, whatever its numbers are now. With `is_alert` somebody is told of it who
    does not look. With `is_of_jobs` jobs fail, and what runs them is well. `state` is the state of
    the jobs that it is about, `task` their task.
    """

    key: str
    level: Level
    weight: int
    text: str
    detail: str
    queue: str | None = None
    job: str | None = None
    is_alert: bool = True
    is_of_jobs: bool = False
    state: str | None = None
    fault: str | None = None
    task: str | None = None


class QueueLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds now. `oldest_due_at` is the due time of its oldest due job.

    `running_max` is its limit of running jobs, None without one, and `late_after` how long a due
    job may wait. `started` counts the starts of the last minute, as far as they were measured.
    """

    name: str
    paused: bool = False
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
    running_max: int | None = None
    late_after: timedelta = LATE_AFTER
    started: int = 0


class FailedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed for good; `error` is the last line of its error."""

    id: str
    name: str
    at: datetime
    error: str
    fault: str | None = None


class FaultLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that failed lately: its attempts since the last hour began, and its jobs."""

    fault: str
    title: str
    name: str
    first_at: datetime
    last_at: datetime
    attempts: int
    failed: int = 0
    waiting: int = 0
    is_silenced: bool = False


def concerns(
    queues: Sequence[QueueLoad],
    workers_alive: int,
    failures: Sequence[FailedJob],
    now: datetime,
    served: Callable[[str], bool] = lambda _queue: True,
    failed_by_minute: Sequence[int | None] = (),
    faults: Sequence[FaultLoad] = (),
    unknown_tasks: Mapping[str, int] = NO_TASKS,
) -> list[Concern]:
    """All concerns, the worst first. `failures` are the newest; a fault tells of its own jobs.

    `served` says whether a live worker takes jobs of the queue. `failed_by_minute` are the failed
    attempts of each minute of the last hour, the newest last, None where nothing was measured.
    `unknown_tasks` are those that no live worker knows, with how many jobs wait for it.
    """
    known = {fault.fault for fault in faults}
    others = [job for job in failures if job.fault not in known]
    found = [*no_worker(queues, workers_alive), *alike(faults, now), *failing(others, now)]
    found += storm(failed_by_minute, faults, now)
    found += unknown(unknown_tasks) if workers_alive else []
    for queue in queues:
        if queue.paused:
            found += held(queue)
        elif workers_alive and not served(queue.name):
            found += unserved(queue)
        else:
            found += late(queue, now, is_alert=workers_alive > 0)
    return sorted(found, key=lambda concern: -concern.weight)


def no_worker(queues: Sequence[QueueLoad], workers_alive: int) -> list[Concern]:
    due = sum(queue.due for queue in queues if not queue.paused)
    if workers_alive or not due:
        return []
    return [
        Concern(
            key="no-worker",
            level="fail",
            weight=100,
            text="No worker is alive",
            detail=f"{counted(due)} due, and nobody runs them.",
        )
    ]


def failing(failures: Sequence[FailedJob], now: datetime) -> list[Concern]:
    """One concern for each job name and error, of those that failed lately."""
    groups: dict[tuple[str, str], list[FailedJob]] = {}
    for job in failures:
        if now - job.at <= FAILING_WITHIN:
            groups.setdefault((job.name, job.error), []).append(job)
    return [
        Concern(
            key=f"failing:{name[:NAME_CHARS_MAX]}",
            level="fail",
            weight=80 if len(jobs) > 1 else 70,
            text=f"{name} failed",
            detail=error,
            job=jobs[0].id,
            is_of_jobs=True,
        )
        for (name, error), jobs in groups.items()
    ]


def alike(faults: Sequence[FaultLoad], now: datetime) -> list[Concern]:
    """One concern for each fault that has failed for good lately, or fails again and again.

    Those with most jobs that failed, and the oldest, come first: an order that seldom changes.
    """
    ranked = sorted(faults, key=lambda fault: (-fault.failed, fault.first_at))
    return [
        Concern(
            key=f"failing:{fault.name[:NAME_CHARS_MAX]}:{fault.fault}",
            level="fail",
            weight=80 if fault.failed > 1 else 70,
            text=f"{fault.name} fails: {fault.title}",
            detail=detail_of(fault),
            fault=fault.fault,
            is_of_jobs=True,
        )
        for fault in ranked
        if not fault.is_silenced
        and now - fault.last_at <= FAILING_WITHIN
        and (fault.failed or fault.attempts >= ATTEMPTS_MIN)
    ]


def detail_of(fault: FaultLoad) -> str:
    attempts = "attempt" if fault.attempts == 1 else "attempts"
    parts = [f"{fault.attempts:,} failed {attempts} in this hour and the last"]
    if fault.failed:
        parts.append(f"{at_most(fault.failed)} failed for good")
    if fault.waiting:
        parts.append(f"{at_most(fault.waiting)} will be tried again")
    return f"{', '.join(parts)}."


def at_most(jobs: int) -> str:
    """Jobs of a fault are counted up to a limit."""
    if jobs > FAULT_LISTED_JOBS_MAX:
        return f"more than {FAULT_LISTED_JOBS_MAX:,}"
    return f"{jobs:,}"


def storm(
    failed_by_minute: Sequence[int | None], faults: Sequence[FaultLoad], now: datetime
) -> list[Concern]:
    """Many more attempts fail in this minute than usual; most of them may be tried again.

    It leads to the fault that most attempts had lately, where one is known that fails now.
    """
    newest = failed_by_minute[-1] if failed_by_minute else None
    usual = median([count for count in failed_by_minute[:-1] if count is not None] or [0])
    if newest is None or newest < max(FAILING_MINUTE_MIN, FAILING_TIMES * usual):
        return []
    now_failing = [one for one in faults if now - one.last_at <= FAILS_NOW_WITHIN]
    most = max(now_failing, key=lambda one: one.attempts, default=None)
    named = "" if most is None else f" Most: {most.title}, in {most.name}."
    return [
        Concern(
            key="storm",
            level="fail",
            weight=90,
            text="Attempts are failing now",
            detail=f"{newest:,} failed in the last minute; the median of this hour is {usual:g}."
            + named,
            state="failed",
            fault=None if most is None else most.fault,
            is_of_jobs=True,
        )
    ]


def unknown(tasks: Mapping[str, int]) -> list[Concern]:
    """Jobs that wait for a worker which knows their task, while others run."""
    if not tasks:
        return []
    names = ", ".join(f"{task} ({jobs:,})" for task, jobs in tasks.items())
    waits = "1 job waits" if sum(tasks.values()) == 1 else f"{sum(tasks.values()):,} jobs wait"
    return [
        Concern(
            key="unknown-tasks",
            level="warn",
            weight=50,
            text="No worker knows a task" if len(tasks) == 1 else "No worker knows some tasks",
            detail=f"{waits} until one does: {names}.",
            task=next(iter(tasks)) if len(tasks) == 1 else None,
            is_alert=False,
        )
    ]


def late(queue: QueueLoad, now: datetime, *, is_alert: bool) -> list[Concern]:
    """Without workers every queue grows late: that is one alert, of the cause."""
    oldest = queue.oldest_due_at
    if oldest is None or not is_late(queue, now):
        return []
    minutes = (now - oldest).total_seconds() / 60
    return [
        Concern(
            key=f"late:{queue.name}",
            level="warn",
            weight=60,
            text=f"Queue {queue.name} is late",
            detail=f"Its oldest due job waits for {minutes:,.0f} min; {queue.due:,} due,"
            f" {queue.running:,} running.",
            queue=queue.name,
            is_alert=is_alert,
        )
    ]


def is_late(queue: QueueLoad, now: datetime) -> bool:
    return queue.oldest_due_at is not None and now - queue.oldest_due_at > queue.late_after


def state_of_queue(queue: QueueLoad, now: datetime) -> QueueState:
    """In one word: `full` where due jobs wait for running ones."""
    if queue.paused:
        return "paused"
    if is_late(queue, now):
        return "late"
    if queue.running_max is not None and queue.running >= queue.running_max and queue.due:
        return "full"
    return "flowing" if queue.running or queue.due or queue.started else "idle"


def needs_look_first(queue: QueueLoad, now: datetime) -> tuple[int, int, str]:
    """What queues are sorted by, the worst first; one that is paused and empty needs nobody."""
    state = state_of_queue(queue, now)
    is_at_rest = state == "paused" and not queue.due
    return QUEUE_STATES.index("flowing" if is_at_rest else state), -queue.due, queue.name


def short_of_disk(reason: str) -> Concern:
    """New work is refused, as the disk of the store is nearly full."""
    return Concern(key="disk", level="fail", weight=95, text="The disk is full", detail=reason)


def served_by(queues_of_workers: Iterable[Sequence[str] | None]) -> Callable[[str], bool]:
    """Whether one of these workers takes jobs of a queue; one with None takes those of all."""
    served: set[str] = set()
    for queues in queues_of_workers:
        if queues is None:
            return lambda _queue: True
        served.update(queues)
    return served.__contains__


def unserved(queue: QueueLoad) -> list[Concern]:
    """A queue that no live worker takes jobs of, though others live."""
    if not queue.due:
        return []
    return [
        Concern(
            key=f"no-worker:{queue.name}",
            level="fail",
            weight=90,
            text=f"No worker serves queue {queue.name}",
            detail=f"{counted(queue.due)} due, and the workers that live take others only.",
            queue=queue.name,
        )
    ]


def held(queue: QueueLoad) -> list[Concern]:
    """A paused queue, which may have been forgotten."""
    if not queue.due:
        return []
    return [
        Concern(
            key=f"paused:{queue.name}",
            level="warn",
            weight=40,
            text=f"Queue {queue.name} is paused",
            detail=f"{counted(queue.due)} due, until it is resumed.",
            queue=queue.name,
            is_alert=False,
        )
    ]


def counted(jobs: int) -> str:
    return "1 job is" if jobs == 1 else f"{jobs:,} jobs are"
