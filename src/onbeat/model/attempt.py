"""One attempt at a job, as stored."""

from datetime import datetime
from enum import StrEnum

import msgspec

from onbeat.model.ids import JobId, Token, WorkerId


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
