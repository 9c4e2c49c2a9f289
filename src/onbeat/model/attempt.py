"""One attempt at a job, as stored."""

from datetime import datetime
from enum import StrEnum

import msgspec

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job


class OutcomeName(StrEnum):
    """The outcome of an attempt, by name."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SNOOZED = "snoozed"
    CANCELLED = "cancelled"
    LOST = "lost"
    RELEASED = "released"


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One ended attempt. `number` is the job's `attempt` while it ran, `token` is unique."""

    job_id: JobId
    token: Token
    number: int
    worker: WorkerId | None
    started_at: datetime
    finished_at: datetime
    outcome: OutcomeName
    error: str | None = None

    def ended(self, job: Job) -> bool:
        """True if this attempt ended `job`; a job can also end while it waits for the next one."""
        return job.is_final and self.finished_at == job.finished_at
