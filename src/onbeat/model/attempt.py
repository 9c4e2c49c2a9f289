"""One try at a job, as kept."""

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
    """One ended try: `number` counts as the job did while it ran, `token` tells tries apart."""

    job_id: JobId
    token: Token
    number: int
    worker: WorkerId | None
    started_at: datetime
    finished_at: datetime
    outcome: OutcomeName
    error: str | None = None
