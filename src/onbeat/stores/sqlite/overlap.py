"""The overlap rule of a claimed job, applied to the other jobs of its schedule."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.rules.overlap import REPLACED, EarlierJob, decide_overlap
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.dependents import cancel_waiting
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.transaction import Transaction, json_array


def admit(transaction: Transaction, job: Job, now: int) -> bool:
    """Apply the overlap rule of a due job. False if it may not start now."""
    if not transaction.value("SELECT ready FROM onbeat_jobs WHERE id = ?", (job.id,)):
        return False  # replaced by another job of this claim
    decision = decide_overlap(job, find_earlier(transaction, job, now))
    if decision.cancel:
        cancel_waiting(transaction, decision.cancel, now)
    if decision.stop:
        ask_to_stop(transaction, decision.stop, REPLACED, now)
    if decision.wait_for:
        wait_for(transaction, job.id, decision.wait_for)
    return job.id not in decision.cancel and not decision.wait_for


def find_earlier(transaction: Transaction, job: Job, now: int) -> list[EarlierJob]:
    """The jobs that `rules.overlap.comes_before` names, in the order `decide_overlap` needs."""
    sql = """
        SELECT json_group_array(json_array(id, json(iif(state = 'running', 'true', 'false'))))
        FROM (
          SELECT id, state
          FROM onbeat_jobs
          WHERE schedule_id = :schedule
            AND id <> :id
            AND (state = 'running'
                 OR :token = 0 AND token > 0
                 OR :token = 0 AND (due_at, id) < (:due_at, :id)
                    AND (start_by IS NULL OR start_by >= :now))
          ORDER BY state = 'running' DESC, due_at DESC, id DESC
        )
    """
    bindings = {
        "schedule": job.schedule_id,
        "id": job.id,
        "token": job.token,
        "due_at": micros(job.due_at),
        "now": now,
    }
    return msgspec.convert(transaction.values(sql, bindings), list[EarlierJob])


def wait_for(transaction: Transaction, id: JobId, others: Sequence[JobId]) -> None:
    transaction.run(
        """
        INSERT OR IGNORE INTO onbeat_waits (awaits, job_id, any_end)
        SELECT value, ?, 1 FROM json_each(?)
        """,
        (id, json_array(others)),
    )
    transaction.run(
        """
        UPDATE onbeat_jobs
        SET blocked_by = (SELECT count(*) FROM onbeat_waits WHERE job_id = ?1)
        WHERE id = ?1
        """,
        (id,),
    )


def ask_to_stop(transaction: Transaction, ids: Sequence[JobId], reason: str, now: int) -> None:
    """Note on running jobs why they should stop; an earlier reason is kept."""
    sql = """
        SELECT json_group_array(id)
        FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running' AND cancel_reason IS NULL
    """
    request = transaction.values(sql, (json_array(ids),))
    if request:
        transaction.run(
            "UPDATE onbeat_jobs SET cancel_reason = ? WHERE id IN (SELECT value FROM json_each(?))",
            (reason, json_array(request)),
        )
        note(transaction, request, now, "cancel requested", dict.fromkeys(request, reason))
        transaction.hints.add(Hint.CANCELS)
