"""A bulk: one action on all jobs that a filter matches, done in chunks."""

from datetime import datetime
from enum import StrEnum
from typing import NewType

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.page import JobFilter

BulkId = NewType("BulkId", str)


class BulkAction(StrEnum):
    """What a bulk does to each job."""

    RETRY = "retry"
    CANCEL = "cancel"
    RESCHEDULE = "reschedule"


class BulkState(StrEnum):
    """`waiting` until its first chunk; `stopped` by a caller, with the rest left as it was."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """One bulk as stored.

    It goes from the newest job to the oldest: jobs with an id of `cursor` or above are behind it,
    and it begins just above `upto`. `counted` jobs matched when it was made, or more with `more`.
    Of these it has acted on `done`; `skipped` were in another state by then, and `failed` could not
    be changed. `run_at` is the due time that a rescheduling gives. `next_at` is when its next chunk
    may run, None once it has ended.
    """

    id: BulkId
    do: BulkAction
    where: JobFilter
    run_at: datetime | None = None
    upto: JobId
    cursor: JobId
    state: BulkState = BulkState.WAITING
    counted: int = 0
    more: bool = False
    done: int = 0
    skipped: int = 0
    failed: int = 0
    made_by: str
    created_at: datetime
    starts_at: datetime
    next_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.state in {BulkState.DONE, BulkState.STOPPED}


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to the next jobs of a bulk; `cursor` is None where there are no more."""

    cursor: JobId | None
    done: int = 0
    skipped: int = 0
    failed: int = 0
