"""Changes of jobs, for their history, and the counts of a store."""

from datetime import datetime

import msgspec

from onbeat.model.ids import JobId


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """One state change of a job. `cause` explains it in words, where the state alone does not."""

    job_id: JobId
    at: datetime
    to: str
    cause: str | None = None
    attempt: int | None = None
    worker: str | None = None


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the whole store."""

    jobs: dict[str, int]
    schedules: dict[str, int]
    workers: int
    oldest_due_seconds: float
    unknown_tasks: dict[str, int] = {}
