"""The overlap rule of a claimed job, applied to the other jobs of its schedule.

The caller holds the schedule's lock, so that no other claimant admits its jobs meanwhile.
"""

from collections.abc import Collection, Sequence

from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job
from onbeat.ports.store import Hint
from onbeat.rules.dependents import Wait
from onbeat.rules.overlap import REPLACED, EarlierJob, decide_overlap
from onbeat.stores.sql.dialect import Argument
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.dependents import add_waits, cancel_waiting, lock_jobs
from onbeat.stores.sql.verbs.history import note


async def admit(session: Session, job: Job, now: int) -> bool:
    """Apply the overlap rule of a job that this claim may start. False if it may not start now.

    The other jobs may change before a decision is applied, so they are read again until no change
    is needed.
    """
    while True:
        decision = decide_overlap(job, await find_earlier(session, job, now))
        if decision.changes_nothing:
            return True
        if decision.cancel:
            await cancel_waiting(session, decision.cancel, now)
        if job.id in decision.cancel:
            return False
        await ask_to_stop(session, decision.stop, REPLACED, now)
        if decision.wait_for and await wait_for(session, job.id, decision.wait_for):
            return False


async def find_earlier(session: Session, job: Job, now: int) -> list[EarlierJob]:
    """The jobs that `rules.overlap.comes_before` names, in the order `decide_overlap` needs."""
    dialect = session.dialect
    comes_before = dialect.is_running
    values: tuple[Argument, ...] = ()
    if job.token == 0:
        comes_before += """
            OR token > 0
            OR (due_at < ? OR due_at = ? AND id < ?) AND (start_by IS NULL OR start_by >= ?)
        """
        values = (micros(job.due_at), micros(job.due_at), job.id, now)
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("jobs_of_schedule")}
        WHERE schedule_id = ? AND id <> ? AND ({comes_before})
        ORDER BY CASE WHEN {dialect.is_running} THEN 0 ELSE 1 END, due_at DESC, id DESC
    """
    rows = await session.select("id, worker", rest, job.schedule_id, job.id, *values)
    return [EarlierJob(JobId(str(id)), worker is not None) for id, worker in rows]


async def wait_for(session: Session, id: JobId, others: Sequence[JobId]) -> bool:
    """Block the job until the others end. False if all of them have just ended."""
    live = await lock_jobs(session, [id, *others])
    await add_waits(session, [Wait(id, other, Edge.END) for other in others], live)
    return any(other in live for other in others)


async def ask_to_stop(session: Session, ids: Collection[JobId], reason: str, now: int) -> None:
    """Note on running jobs why they should stop; an earlier reason is kept."""
    if not ids:
        return
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_running} AND cancel_reason IS NULL
        ORDER BY id
        {dialect.for_update}
    """
    rows = await session.select("id, attempt, worker", rest, tuple(ids))
    if rows:
        reasons = [(id, reason) for id, *_ in rows]
        await session.update_rows("jobs", {"id": "uuid"}, {"cancel_reason": "text"}, reasons)
        notes = [(JobId(str(id)), reason, attempt, worker) for id, attempt, worker in rows]
        await note(session, "cancel requested", now, notes)
        session.hints.add(Hint.CANCELS)
