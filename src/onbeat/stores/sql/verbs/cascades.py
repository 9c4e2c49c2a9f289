"""What the end or the retry of a job does to more dependents than one transaction changes."""

from collections.abc import Collection

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.cancel_and_retry import continue_retries
from onbeat.stores.sql.verbs.dependents import cascade


async def has_cascades(session: Session) -> bool:
    return bool(await session.select("job_id", "FROM onbeat.cascades LIMIT 1"))


async def continue_cascades(session: Session, now: int) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    begun = await take_cascades(session)
    if begun:
        live = await lock_ended(session, begun)
        waiting = [id for id, state in begun.items() if state == JobState.WAITING]
        ended = {id: state for id, state in begun.items() if id not in live}
        await cascade(session, {id: ended[id] for id in ended if id not in waiting}, now)
        await continue_retries(session, waiting, now)
    return len(begun)


async def take_cascades(session: Session) -> dict[JobId, str]:
    """Some jobs with more dependents, with their state; other processes take others."""
    dialect = session.dialect
    rest = f"FROM onbeat.cascades LIMIT ? {dialect.skip_locked}"
    rows = await session.select("job_id, state", rest, DEPENDENTS_MAX)
    begun: dict[JobId, str] = {JobId(str(id)): state for id, state in rows}
    if begun:
        of_job = dialect.in_list("job_id", "uuid")
        await session.execute(f"DELETE FROM onbeat.cascades WHERE {of_job}", tuple(begun))  # noqa: S608  values are bound
    return begun


async def lock_ended(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Lock the ended jobs against a retry, which then comes after this; returns the live ones."""
    dialect = session.dialect
    chosen = f"{dialect.use_index('PRIMARY')} WHERE {dialect.in_list('id', 'uuid')}"
    ended = f"FROM onbeat.finished {chosen} ORDER BY id {dialect.for_update}"
    await session.select("id", ended, tuple(ids))
    live = await session.select("id", f"FROM onbeat.jobs {chosen}", tuple(ids))
    return {JobId(str(id)) for (id,) in live}
