"""How long an ended job keeps its unique key from others."""

from datetime import datetime, timedelta
from typing import Protocol

from onbeat.model.held_key import ALWAYS, HeldKey
from onbeat.model.ids import JobId
from onbeat.model.job import JobState


class EndedJob(Protocol):
    @property
    def id(self) -> JobId: ...

    @property
    def unique(self) -> str | None: ...

    @property
    def unique_for(self) -> timedelta | None: ...

    @property
    def started_at(self) -> datetime | None: ...


def held_key(job: EndedJob, state: str, ended_at: datetime) -> HeldKey | None:
    """The key that the job holds after its end.

    A job that was cancelled before it started did nothing, so its work may be sent again.
    """
    if job.unique is None or job.unique_for is None:
        return None
    if state == JobState.CANCELLED and job.started_at is None:
        return None
    until = None if job.unique_for == ALWAYS else ended_at + job.unique_for
    return HeldKey(key=job.unique, job_id=job.id, until=until)


def outlasts(one: HeldKey, other: HeldKey | None) -> bool:
    """Whether a copy of a key is held longer than the one that is stored."""
    if other is None or other.until is None:
        return other is None
    return one.until is None or one.until > other.until


def is_held(held: HeldKey, now: datetime) -> bool:
    return held.until is None or held.until > now
