"""Pruning of events by age, and of what only they and ended jobs keep."""

from collections.abc import Collection, Sequence
from typing import Final

from onbeat.model.ids import EventSeq, JobId
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.event_waits import awaited_seqs, prune_waits
from onbeat.stores.sql.verbs.events import carried_by

PUT_OFF_MICROS: Final = 3_600_000_000
"""How long until an event that its job keeps is examined again."""


async def prune_events(session: Session, before: int, limit: int) -> int:
    """Events of stored jobs get a later `kept_from`, so that each is examined only now and then."""
    await prune_waits(session, limit)
    dialect = session.dialect
    rest = f"""
        FROM onbeat.events {dialect.use_index("events_by_age")}
        WHERE kept_from < ? AND routed_at IS NOT NULL
        ORDER BY kept_from
        LIMIT ?
        {dialect.skip_locked}
    """
    past = [EventSeq(seq) for (seq,) in await session.select("seq", rest, before, limit)]
    if not past:
        return 0
    carried = await carried_by(session, past)
    stored = await stored_jobs(session, {one.job_id for one in carried})
    kept = {one.seq for one in carried if one.job_id in stored} | await awaited_seqs(session, past)
    await session.update_rows(
        "events",
        {"seq": "bigint"},
        {"kept_from": "bigint"},
        [(seq, before + PUT_OFF_MICROS) for seq in past if seq in kept],
    )
    await delete_events(session, [seq for seq in past if seq not in kept])
    await delete_keys(session, {one.job_id for one in carried} - stored)
    return len(past)


async def stored_jobs(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Which of the jobs are stored, live or ended."""
    if not ids:
        return set()
    dialect, found = session.dialect, set[JobId]()
    for table in ("jobs", "finished"):
        chosen = f"{dialect.use_index('PRIMARY')} WHERE {dialect.in_list('id', 'uuid')}"
        rows = await session.select("id", f"FROM onbeat.{table} {chosen}", tuple(ids))
        found.update(JobId(str(id)) for (id,) in rows)
    return found


async def delete_events(session: Session, seqs: Sequence[EventSeq]) -> None:
    if seqs:
        dialect = session.dialect
        for table in ("event_jobs", "events"):
            sql = f"{dialect.delete_from(table)} WHERE {dialect.in_list('seq', 'bigint')}"
            await session.execute(sql, tuple(seqs))


async def delete_keys(session: Session, ids: Collection[JobId]) -> None:
    if ids:
        delete = session.dialect.delete_from("event_keys", "event_keys_of_job")
        of_job = session.dialect.in_list("job_id", "uuid")
        await session.execute(f"{delete} WHERE {of_job}", tuple(ids))
