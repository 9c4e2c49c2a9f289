"""Workers: their heartbeats, and the jobs that each runs."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.worker import FIRST_BEAT, RECEIVER, WorkerRecord
from onbeat.ports.store import HeldLease, Hint
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import to_json

WORKER = msgspec.json.Decoder(WorkerRecord)


def worker_text(worker: WorkerRecord) -> str:
    """The record as JSON text; `running` is 0, as it is counted on read."""
    return to_json(msgspec.structs.replace(worker, running=0))


async def heartbeat(session: Session, worker: WorkerRecord) -> Sequence[HeldLease]:
    sql = f"""
        INSERT INTO onbeat.workers (id, record) VALUES (?, ?)
        {session.dialect.or_change("id", ["record"])}
    """  # noqa: S608  values are bound
    await session.execute(sql, worker.id, worker_text(worker))
    if worker.beat == FIRST_BEAT:
        session.hints.add(Hint.WORKERS)
    return await held_leases(session, worker.id)


async def held_leases(session: Session, worker: WorkerId) -> Sequence[HeldLease]:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("jobs_running")}
        WHERE worker = ? AND {dialect.is_running}
        ORDER BY id
    """
    rows = await session.select("id, token, cancel_reason", rest, worker)
    return [
        HeldLease(job_id=JobId(str(id)), token=Token(token), cancel_reason=reason)
        for id, token, reason in rows
    ]


async def hand_over(session: Session, id: JobId, token: Token, until: int) -> bool:
    """Let the receiver of a callback hold the lease; one that it holds is not changed."""
    is_held = f"id = ? AND token = ? AND {session.dialect.is_running}"
    sql = f"""
        UPDATE onbeat.jobs
        SET worker = ?, {session.dialect.set_lease}
        WHERE {is_held} AND worker <> ?
    """  # noqa: S608  values are bound
    if await session.execute(sql, RECEIVER, until, id, token, RECEIVER):
        return True
    rest = f"FROM onbeat.jobs WHERE {is_held} AND worker = ?"
    return bool(await session.select("token", rest, id, token, RECEIVER))


async def workers(session: Session) -> Sequence[WorkerRecord]:
    dialect = session.dialect
    rest = f"""
        FROM (SELECT id, record,
                     (SELECT count(*) FROM onbeat.jobs {dialect.use_index("jobs_running")}
                      WHERE worker = onbeat.workers.id AND {dialect.is_running}) AS running
              FROM onbeat.workers) AS counted
        ORDER BY id
    """  # noqa: S608  no value in it
    return [
        msgspec.structs.replace(WORKER.decode(record), running=running)
        for record, running in await session.select("record, running", rest)
    ]


async def rewrite_workers(session: Session, ids: Collection[WorkerId]) -> int:
    dialect = session.dialect
    sql = f"""
        UPDATE onbeat.workers SET {dialect.rewrite("record")} WHERE {dialect.in_list("id", "text")}
    """  # noqa: S608  values are bound
    return await session.execute(sql, tuple(ids))


async def forget_workers(
    session: Session, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None = None
) -> int:
    """Delete the workers, except those with running jobs, or with another beat than in `beats`."""
    dialect = session.dialect
    if beats is not None:
        rest = f"""
            FROM onbeat.workers
            WHERE {dialect.in_list("id", "text")}
            ORDER BY id
            {dialect.for_update}
        """
        rows = [WORKER.decode(text) for (text,) in await session.select("record", rest, tuple(ids))]
        ids = [row.id for row in rows if row.beat == beats.get(row.id)]
        if not ids:
            return 0
    sql = f"""
        DELETE FROM onbeat.workers
        WHERE {dialect.in_list("id", "text")}
          AND NOT EXISTS (SELECT 1 FROM onbeat.jobs
                          WHERE worker = onbeat.workers.id AND {dialect.is_running})
    """  # noqa: S608  values are bound
    return await session.execute(sql, tuple(ids))
