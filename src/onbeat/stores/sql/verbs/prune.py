"""Pruning by age, and jobs that may no longer start."""

from collections.abc import Sequence
from typing import Final

from onbeat.model.ids import DeadLetterId, JobId
from onbeat.model.job import Job, JobState
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.dead_letters import delete_dead_letters
from onbeat.stores.sql.verbs.history import delete_histories
from onbeat.stores.sql.verbs.jobs import delete_by_id, select_first

NEVER: Final = 0
"""An age that no job has: it ended before 1970."""


async def prune(
    session: Session, table: str, finished_before: int, failed_before: int, limit: int
) -> int:
    """Delete the oldest ended jobs of the table with their histories, and what else is old."""
    gone = await prune_jobs(session, table, finished_before, failed_before, limit)
    await prune_dispositions(session, failed_before, limit)
    await prune_dead_letters(session, failed_before, limit)
    await prune_meters(session, finished_before, limit)
    return gone


async def prune_jobs(
    session: Session, table: str, finished_before: int, failed_before: int, limit: int
) -> int:
    past = await past_jobs(session, table, finished_before, failed_before, limit)
    return await delete_jobs(session, table, past) if past else 0


async def past_jobs(
    session: Session, table: str, finished_before: int, failed_before: int, limit: int
) -> list[JobId]:
    before = {
        JobState.SUCCEEDED: finished_before,
        JobState.CANCELLED: finished_before,
        JobState.FAILED: failed_before,
    }
    index = session.dialect.use_index("finished_by_end")
    parts = (
        f"""
        SELECT * FROM (SELECT id, finished_at FROM onbeat.{table} {index}
                       WHERE state = '{state.value}' AND finished_at < ?
                       ORDER BY finished_at
                       LIMIT ?) AS {state.value}
        """  # noqa: S608  values are bound
        for state in before
    )
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS past ORDER BY finished_at, id LIMIT ?"
    bounds = [value for instant in before.values() for value in (instant, limit)]
    return [id for (id,) in await session.select("id", rest, *bounds, limit)]


async def delete_jobs(session: Session, table: str, ids: Sequence[JobId]) -> int:
    """A job that was retried meanwhile is gone from the table, and keeps its history."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.{table} {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    chosen = tuple(id for (id,) in await session.select("id", rest, tuple(ids)))
    await delete_by_id(session, table, chosen)
    await delete_histories(session, chosen)
    return len(chosen)


async def overdue_jobs(session: Session, now: int, limit: int) -> Sequence[Job]:
    """Lapsed jobs, both those that claims have flagged and those not flagged yet."""
    form, dialect = session.forms.jobs, session.dialect
    start_by = dialect.start_by
    is_overdue = f"{start_by} < ? AND {start_by} IS NOT NULL AND {dialect.is_waiting}"
    chosen = [
        (form.live, "jobs_bounded", f"lapsed = {lapsed} AND {is_overdue}")
        for lapsed in ("TRUE", "FALSE")
    ]
    found = await select_first(session, chosen, start_by, (now, limit))
    return sorted(found, key=lambda job: (job.start_by, job.id))[:limit]


async def prune_dispositions(session: Session, before: int, limit: int) -> None:
    """Keeps the dispositions of live jobs: they record what became of the occurrence."""
    dialect, form = session.dialect, session.forms.dispositions
    rest = f"""
        FROM onbeat.dispositions {dialect.use_index("dispositions_by_age")}
        WHERE last < ?
          AND (job_id IS NULL
               OR NOT EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.id = job_id))
        ORDER BY last
        LIMIT ?
        {dialect.skip_locked}
    """  # noqa: S608  values are bound
    old = await session.select(", ".join(form.key), rest, before, limit)
    await session.delete_rows("dispositions", form.key, old)


async def prune_dead_letters(session: Session, before: int, limit: int) -> None:
    index = session.dialect.use_index("dead_letters_by_age")
    rest = f"FROM onbeat.dead_letters {index} WHERE at < ? ORDER BY at LIMIT ?"
    if old := await session.select("id", rest, before, limit):
        await delete_dead_letters(session, [DeadLetterId(str(id)) for (id,) in old])


async def prune_meters(session: Session, before: int, limit: int) -> None:
    """A full bucket equals one that was never used. Buckets locked by a claim are skipped."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.meters {dialect.use_index("meters_full")}
        WHERE full_at < ?
        LIMIT ?
        {dialect.skip_locked}
    """
    full = await session.select("queue, grp", rest, before, limit)
    await session.delete_rows("meters", {"queue": "text", "grp": "text"}, full)
