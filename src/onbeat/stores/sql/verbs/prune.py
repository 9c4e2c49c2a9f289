"""Deletes old dispositions, dead letters and full token buckets."""

from onbeat.model.ids import DeadLetterId
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.dead_letters import delete_dead_letters


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
