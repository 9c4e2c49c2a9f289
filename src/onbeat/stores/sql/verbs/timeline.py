"""Runs of schedules within a span of time, with as much work as their limits allow."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import STATES, instant, instant_or_none

SPAN: Final[Columns] = {"schedule_id": "uuid", "first": "bigint", "last": "bigint"}
RUN: Final = "id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason"
ATTEMPT: Final = "coalesce(attempt, token) AS attempt"  # not stored where each start counted


def tables_of(session: Session) -> tuple[tuple[str, str, str], ...]:
    """Each table of jobs with how it says the state and the end of a job."""
    running = session.dialect.is_running
    state = f"CASE WHEN {running} THEN 'running' ELSE 'waiting' END AS state"
    return (
        ("jobs", state, "NULL AS finished_at"),
        ("finished", "state", "finished_at"),
    )


def due_within(session: Session, table: str, limit: int) -> str:
    index = session.dialect.use_index(f"{table}_of_schedule")
    return f"""
        FROM onbeat.{table} {index}
        WHERE schedule_id = params.schedule_id
          AND due_at >= params.first AND due_at < params.last
        ORDER BY due_at DESC
        LIMIT {limit:d}
    """


async def runs_between(
    session: Session, ids: Collection[ScheduleId], first: int, last: int, limit: int
) -> Sequence[JobRun]:
    spans = [(id, first, last) for id in sorted(ids)]
    found: dict[ScheduleId, list[JobRun]] = {id: [] for id in ids}
    for table, state, end in tables_of(session):
        columns = RUN.replace("state", state).replace("finished_at", end)
        columns = columns.replace("attempt", ATTEMPT)
        rest = f"FROM (SELECT {columns} {due_within(session, table, limit)}) AS runs"
        for row in await session.select_each(RUN, rest, SPAN, spans):
            run = read_run(row)
            found[run.schedule_id].append(run)
    for runs in found.values():
        runs.sort(key=lambda run: (run.due_at, run.id), reverse=True)
    return [run for id in sorted(found) for run in found[id][:limit]]


def read_run(row: Sequence[Any]) -> JobRun:
    id, schedule_id, state, due_at, occurrence, started_at, finished_at, attempt, reason = row
    return JobRun(
        id=JobId(str(id)),
        schedule_id=ScheduleId(str(schedule_id)),
        state=STATES[state],
        due_at=instant(due_at),
        occurrence=instant_or_none(occurrence),
        started_at=instant_or_none(started_at),
        finished_at=instant_or_none(finished_at),
        attempt=attempt,
        reason=reason,
    )


async def run_counts(
    session: Session, ids: Collection[ScheduleId], first: int, last: int, width: int, limit: int
) -> Sequence[RunCount]:
    spans = [(id, first, last) for id in sorted(ids)]
    result: list[RunCount] = []
    for table, state, _ in tables_of(session):
        at = f"due_at - {session.dialect.remainder('due_at - params.first', width)} AS at"
        within = due_within(session, table, limit)
        rest = f"""
            FROM (
              SELECT schedule_id, at, state, count(*) AS total, min(due_at) AS first_at
              FROM (SELECT schedule_id, due_at, {at}, {state} {within}) AS runs
              GROUP BY schedule_id, at, state
            ) AS counted
        """  # noqa: S608  values are bound
        columns = "schedule_id, at, state, total, first_at"
        result += map(read_count, await session.select_each(columns, rest, SPAN, spans))
    return result


def read_count(row: Sequence[Any]) -> RunCount:
    schedule_id, at, state, total, first_at = row
    return RunCount(
        schedule_id=ScheduleId(str(schedule_id)),
        at=instant(at),
        state=STATES[state],
        count=total,
        first_at=instant(first_at),
    )


async def skips_between(
    session: Session, ids: Collection[ScheduleId], first: int, last: int, limit: int
) -> Sequence[SkippedSpan]:
    form = session.forms.dispositions
    columns = "schedule_id, first, last, reason"
    rest = f"""
        FROM (
          SELECT {columns}, job_id
          FROM onbeat.dispositions {session.dialect.use_index("PRIMARY")}
          WHERE schedule_id = params.schedule_id AND {form.within} AND {form.until}
          ORDER BY {form.end} DESC
          LIMIT {limit:d}
        ) AS looked
        WHERE job_id IS NULL AND last >= params.first
    """  # noqa: S608  values are bound
    spans = [(id, first, last) for id in sorted(ids)]
    return [
        SkippedSpan(
            schedule_id=ScheduleId(str(id)), first=instant(low), last=instant(high), reason=reason
        )
        for id, low, high, reason in await session.select_each(columns, rest, SPAN, spans)
    ]


async def forgotten_between(
    session: Session, ids: Collection[ScheduleId], first: int, last: int, limit: int
) -> Sequence[ForgottenRun]:
    form = session.forms.dispositions
    rest = f"""
        FROM (
          SELECT schedule_id, first, job_id
          FROM onbeat.dispositions {session.dialect.use_index("PRIMARY")}
          WHERE schedule_id = params.schedule_id AND {form.within} AND {form.until}
          ORDER BY {form.end} DESC
          LIMIT {limit:d}
        ) AS looked
        WHERE job_id IS NOT NULL AND first >= params.first
          AND NOT EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.id = looked.job_id)
          AND NOT EXISTS (SELECT 1 FROM onbeat.finished WHERE onbeat.finished.id = looked.job_id)
    """  # noqa: S608  values are bound
    spans = [(id, first, last) for id in sorted(ids)]
    return [
        ForgottenRun(schedule_id=ScheduleId(str(id)), at=instant(at))
        for id, at in await session.select_each("schedule_id, first", rest, SPAN, spans)
    ]
