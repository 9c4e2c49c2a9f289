"""Settlements of ended attempts, fenced by the token."""

from msgspec.structs import replace

from onbeat.model.attempt import Attempt
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.ports.store import Settlement
from onbeat.stores.memory.dependents import as_cancelled, end
from onbeat.stores.memory.event_waits import wake_ended
from onbeat.stores.memory.leases import find_leased, runs_under
from onbeat.stores.memory.tables import Tables


def settle_one(tables: Tables, settlement: Settlement) -> bool:
    attempt = settlement.attempt
    stored = tables.jobs.get(attempt.job_id)
    if stored is None:
        return False
    if not holds_lease(stored, attempt):
        return attempt in tables.attempts.get(stored.id, ())
    tables.attempts[stored.id].append(attempt)
    settled = merge_settlement(stored, settlement)
    if settled.is_final:
        end(tables, settled, attempt.finished_at)
    else:
        tables.put_job(settled)
        if settlement.awaits is not None:
            wake_ended(tables, (settled.id, settlement.awaits), attempt.finished_at)
    return True


def holds_lease(stored: Job, attempt: Attempt) -> bool:
    return runs_under(stored, attempt.token) and stored.worker == attempt.worker


def merge_settlement(stored: Job, settlement: Settlement) -> Job:
    """The settled job, with changes stored since the attempt began."""
    job = replace(
        settlement.job,
        worker=None,
        lease_until=None,
        token=stored.token,
        blocked_by=0,
        cancel_reason=stored.cancel_reason,
        cursor=stored.cursor,
    )
    if job.is_final:
        return replace(job, progress=stored.progress, cursor=None)
    if stored.cancel_reason is not None:
        return as_cancelled(job, stored.cancel_reason, settlement.attempt.finished_at)
    return job


def note_progress(tables: Tables, id: JobId, token: Token, progress: Progress) -> bool:
    stored = find_leased(tables, id, token)
    if stored is None:
        return False
    tables.put_job(replace(stored, progress=progress))
    return True
