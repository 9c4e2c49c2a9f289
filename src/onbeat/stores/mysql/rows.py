"""Records and the rows that keep them."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, Progress
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import Target, lane_of
from onbeat.stores.mysql.transaction import Row
from onbeat.stores.sql.values import (
    OVERLAPS,
    STATES,
    instant,
    instant_or_none,
    micros,
    micros_or_none,
    overlap_text,
    raw_or_none,
    to_json,
)

GROUP_CHARS_MAX = 200  # as wide as the column


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job is, as far as no query needs it."""

    target: Target
    created_at: datetime
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}
    group: str | None = None


SPEC = msgspec.json.Decoder(Spec)
PROGRESS = msgspec.json.Decoder(Progress)

# What both tables of jobs have, in the order in which all statements name them.
SHARED = (
    "id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, "
    "token, attempt, lost, released, started_at, reason, cancel_reason, result, error, progress, "
    "spec"
)
NAMES = tuple(SHARED.split(", "))

LIVE_COLUMNS = (
    f"{SHARED}, IF(running, 'running', 'waiting') AS state, blocked_by, worker, lease_until, "
    "cursor_text, NULL AS finished_at"
)
ENDED_COLUMNS = (
    f"{SHARED}, state, 0 AS blocked_by, NULL AS worker, NULL AS lease_until, NULL AS cursor_text, "
    "finished_at"
)
"""What `read_job` takes, from `jobs` and from `finished`."""


def spec_of(job: Job) -> str:
    return to_json(
        Spec(
            target=job.target,
            created_at=job.created_at,
            retry=job.retry,
            timeout=job.timeout,
            expires_at=job.expires_at,
            after=job.after,
            labels=job.labels,
            group=job.group,
        )
    )


NEW_COLUMNS = (
    "id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, "
    "grp, spec"
)
"""What `job_row` gives."""


def job_row(job: Job) -> Row:
    """A new job."""
    return (
        job.id,
        job.queue,
        job.priority,
        lane_of(job.target),
        micros(job.due_at),
        micros_or_none(job.start_by),
        job.unique,
        job.schedule_id,
        micros_or_none(job.occurrence),
        overlap_text(job.overlap),
        group_key(job.group),
        spec_of(job),
    )


def group_key(group: str | None) -> str | None:
    """What stands for the group in indexes, which take no text of any length."""
    if group is None or len(group) <= GROUP_CHARS_MAX:
        return group or None
    return group[:100] + hashlib.sha256(group.encode()).hexdigest()


def named(row: Row) -> dict[str, Any]:
    """The columns that both tables of jobs have, by name."""
    return dict(zip(NAMES, row, strict=False))


def read_job(row: Sequence[Any]) -> Job:
    (
        id,
        queue,
        priority,
        _lane,
        due_at,
        start_by,
        unique,
        schedule_id,
        occurrence,
        overlap,
        token,
        attempt,
        lost,
        released,
        started_at,
        reason,
        cancel_reason,
        result,
        error,
        progress,
        spec_text,
        state,
        blocked_by,
        worker,
        lease_until,
        cursor,
        finished_at,
    ) = row
    spec = SPEC.decode(spec_text)
    return Job(
        id=JobId(id),
        target=spec.target,
        created_at=spec.created_at,
        due_at=instant(due_at),
        queue=queue,
        priority=priority,
        unique=unique,
        retry=spec.retry,
        timeout=spec.timeout,
        expires_at=spec.expires_at,
        start_by=instant_or_none(start_by),
        after=spec.after,
        labels=spec.labels,
        schedule_id=None if schedule_id is None else ScheduleId(schedule_id),
        occurrence=instant_or_none(occurrence),
        overlap=OVERLAPS[overlap],
        group=spec.group,
        state=STATES[state],
        reason=reason,
        blocked_by=blocked_by,
        token=Token(token),
        worker=worker,
        lease_until=instant_or_none(lease_until),
        attempt=attempt,
        lost=lost,
        released=released,
        started_at=instant_or_none(started_at),
        finished_at=instant_or_none(finished_at),
        cancel_reason=cancel_reason,
        result=raw_or_none(result),
        error=error,
        progress=None if progress is None else PROGRESS.decode(progress),
        cursor=raw_or_none(cursor),
    )


def read_jobs(rows: Iterable[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]


def finished_row(
    stored: Mapping[str, Any], *, state: str, finished_at: int, last_attempt: str | None = None
) -> Row:
    """What `INSERT_FINISHED` takes."""
    return (*(stored[name] for name in NAMES), state, finished_at, last_attempt)


INSERT_FINISHED = f"""
    INSERT INTO finished ({SHARED}, state, finished_at, last_attempt)
    VALUES ({", ".join(["%s"] * (len(NAMES) + 3))})
"""  # noqa: S608  no value in it
