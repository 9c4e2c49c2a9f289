"""What was done to a job by hand or by policy."""

from collections.abc import Iterable, Mapping

from onbeat.model.event import Transition
from onbeat.model.ids import JobId
from onbeat.stores.sql.values import instant
from onbeat.stores.sql.verbs.history import add_transitions
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.rows import transition_row
from onbeat.stores.sqlite.transaction import Transaction, json_array


def note(
    transaction: Transaction,
    ids: Iterable[JobId],
    at: int,
    to: str,
    causes: Mapping[JobId, str] | None = None,
) -> None:
    """Record for each job, in its current form, a transition to a state, and the cause."""
    sql = """
        SELECT json_group_array(json_array(id, attempt, worker))
        FROM (
          SELECT id, attempt, worker
          FROM onbeat_jobs
          WHERE id IN (SELECT value FROM json_each(:ids))
          UNION ALL
          SELECT id, attempt, worker
          FROM onbeat_finished
          WHERE id IN (SELECT value FROM json_each(:ids))
        )
    """
    steps = [
        Transition(
            job_id=id,
            at=instant(at),
            to=to,
            cause=causes[id] if causes else None,
            attempt=attempt,
            worker=worker,
        )
        for id, attempt, worker in transaction.values(sql, {"ids": json_array(ids)})
    ]
    finish(add_transitions(transaction, list(map(transition_row, steps))))
