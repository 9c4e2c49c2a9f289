"""A fault: failures that are alike, with what is counted of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.ids import JobId, WorkerId
from onbeat.model.worker import WorkerRecord

HOURS_KEPT: Final = 168
"""The hours of which attempts are counted: seven days."""
OTHER: Final = 0
"""The fault under which failures are counted once there are too many others."""
OTHER_TASK: Final = "@other"
OTHER_TITLE: Final = "Other failures, beyond the number of faults that are kept"


class FaultProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The worker process in which a fault was first seen, and since when that ran which release."""

    id: WorkerId
    host: str
    pid: int
    started_at: datetime
    release: str | None = None


def process_of(worker: WorkerRecord) -> FaultProcess:
    return FaultProcess(
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        started_at=worker.started_at,
        release=worker.release,
    )


class OperatorNote(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator wrote about a fault."""

    text: str
    by: str
    at: datetime


class FaultChange(msgspec.Struct, frozen=True, kw_only=True):
    """Failed attempts to be added to a fault; `hours` counts them by the hour since the epoch.

    `process` ran the first of them; None where that is not known.
    """

    fault: int
    task: str
    queue: str
    title: str
    place: str
    first_at: datetime
    last_at: datetime
    attempts: int
    hours: Mapping[int, int]
    sample_job: JobId
    process: FaultProcess | None = None


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as stored. `queue` and `sample_job` are those of its newest failed attempt.

    `task` is a task, or `@` and the kind of target, and `place` the frame where the error was
    raised. `hours` are counts of failed attempts by hour, the last in the hour of `last_at`.
    `process` is the one that told of it first. `note` says why it is silenced; `operator_note` is
    about the fault itself.
    """

    fault: int
    task: str
    queue: str
    title: str
    place: str
    first_at: datetime
    last_at: datetime
    attempts: int = 0
    hours: tuple[int, ...] = ()
    sample_job: JobId | None = None
    silenced_until: datetime | None = None
    note: str | None = None
    process: FaultProcess | None = None
    operator_note: OperatorNote | None = None


class FaultJobs(msgspec.Struct, frozen=True):
    """How many jobs of a fault have failed for good, and how many wait for another attempt."""

    failed: int = 0
    waiting: int = 0


class Share(msgspec.Struct, frozen=True):
    """So many of the jobs have this name."""

    name: str
    jobs: int


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest `jobs` of a fault spread over queues and over what they are labelled with.

    `by_worker` counts who ran the last failed attempts of the newest `attempted` of them. A label
    is told as `key:value`.
    """

    jobs: int
    attempted: int
    by_queue: tuple[Share, ...]
    by_worker: tuple[Share, ...]
    by_label: tuple[Share, ...]


class DeadLetterHead(msgspec.Struct, frozen=True, kw_only=True):
    """What groups of dead letters are told by."""

    id: str
    at: datetime
    source: str
    reason: str
