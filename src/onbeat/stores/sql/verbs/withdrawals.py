"""Planned jobs that a changed rule withdraws: they leave no trace, as if never planned."""

from collections.abc import Collection

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.dependents import awaited_among, cancel_waiting, delete_waits
from onbeat.stores.sql.verbs.jobs import delete_live


async def withdraw(session: Session, ids: Collection[JobId], reason: str, now: int) -> list[JobId]:
    """Delete those of the jobs that never started; returns the ids of those that will not start.

    A job that another one waits for, or that has a history, ends cancelled instead. So does one
    that was released and still has `start_by`.
    """
    untouched = await lock_untouched(session, ids)
    await delete_live(session, untouched)
    await delete_waits(session, untouched)
    session.hints.add(Hint.ENDED)
    reasons = {id: reason for id in ids if id not in untouched}
    return [*untouched, *await cancel_waiting(session, reasons, now, started_too=False)]


async def lock_untouched(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Those that never started, that nothing waits for, and that nobody has changed by hand.

    All that wait are locked first: a wait is written only under the lock of both its jobs.
    """
    if not ids:
        return set()
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting}
        ORDER BY id
        {dialect.for_update}
    """
    rows = await session.select("id, token", rest, tuple(ids))
    planned = {JobId(str(id)) for id, token in rows if token == 0}
    planned -= await awaited_among(session, planned)
    return planned - await changed_among(session, planned)


async def changed_among(session: Session, ids: Collection[JobId]) -> set[JobId]:
    if not ids:
        return set()
    dialect = session.dialect
    index = dialect.use_index("transitions_of_job")
    rest = f"""
        FROM (SELECT DISTINCT job_id FROM onbeat.transitions {index}
              WHERE {dialect.in_list("job_id", "uuid")}) AS changed
    """  # noqa: S608  values are bound
    return {JobId(str(id)) for (id,) in await session.select("job_id", rest, tuple(ids))}
