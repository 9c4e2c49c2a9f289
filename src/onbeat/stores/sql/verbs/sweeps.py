"""Pruning by queue and state."""

from typing import Final

from onbeat.model.ids import JobId
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sql.verbs.prune import NEVER, delete_jobs

AT_FIRST: Final = (NEVER, JobId("00000000-0000-0000-0000-000000000000"))


async def sweep(session: Session, sweep: Sweep, limit: int) -> Swept:
    """Reads jobs of all queues in the order of their end, which has an index, and picks of them."""
    at, id = AT_FIRST if sweep.place is None else (micros(sweep.place[0]), sweep.place[1])
    rest = f"""
        FROM onbeat.finished {session.dialect.use_index("finished_by_end")}
        WHERE state = ? AND finished_at >= ? AND (finished_at > ? OR id > ?) AND finished_at < ?
        ORDER BY finished_at, id
        LIMIT ?
    """
    values = (sweep.state.value, at, at, id, micros(sweep.before), limit)
    rows = await session.select("id, finished_at, queue", rest, *values)
    chosen = [JobId(str(id)) for id, _, queue in rows if sweep.takes(queue)]
    if chosen:
        await delete_jobs(session, "finished", chosen)
    if len(rows) < limit:
        return Swept(deleted=len(chosen))
    last, ended_at, _ = rows[-1]
    return Swept(deleted=len(chosen), place=(instant(ended_at), JobId(str(last))))
