"""What was done to a job by hand or by policy, and its attempts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.event import Transition
from onbeat.model.ids import JobId
from onbeat.stores.sql.values import instant, to_json
from onbeat.stores.sqlite.transaction import Transaction, listed

ATTEMPTS = msgspec.json.Decoder(list[Attempt])
Kept = TypeVar("Kept", Attempt, Transition)
TRANSITIONS = msgspec.json.Decoder(list[Transition])


def note(
    transaction: Transaction,
    ids: Iterable[JobId],
    at: int,
    to: str,
    causes: Mapping[JobId, str] | None = None,
) -> None:
    """Keep that each job, as it now is, went `to` a state, and by what cause."""
    sql = """
        SELECT json_group_array(json_array(id, attempt, worker))
        FROM (
          SELECT id, attempt, worker FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
          UNION ALL
          SELECT id, attempt, worker FROM finished WHERE id IN (SELECT value FROM json_each(:ids))
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
        for id, attempt, worker in transaction.values(sql, {"ids": listed(ids)})
    ]
    transaction.run(
        """
        INSERT INTO transitions (job_id, record)
        SELECT value ->> 0, value ->> 1 FROM json_each(?)
        """,
        (listed((step.job_id, to_json(step)) for step in steps),),
    )


def transitions(transaction: Transaction, id: JobId) -> Sequence[Transition]:
    return transitions_of(transaction, [id]).get(id, [])


def transitions_of(
    transaction: Transaction, ids: Collection[JobId]
) -> Mapping[JobId, list[Transition]]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM transitions
          WHERE job_id IN (SELECT value FROM json_each(?))
          ORDER BY seq
        )
    """
    text = transaction.value(sql, (listed(ids),))
    return by_job(TRANSITIONS.decode(text) if text else [])


def attempts(transaction: Transaction, id: JobId) -> Sequence[Attempt]:
    return attempts_of(transaction, [id]).get(id, [])


def attempts_of(transaction: Transaction, ids: Collection[JobId]) -> Mapping[JobId, list[Attempt]]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT token, record FROM attempts WHERE job_id IN (SELECT value FROM json_each(:ids))
          UNION ALL
          SELECT token, last_attempt
          FROM finished
          WHERE id IN (SELECT value FROM json_each(:ids)) AND last_attempt IS NOT NULL
          ORDER BY token
        )
    """
    text = transaction.value(sql, {"ids": listed(ids)})
    return by_job(ATTEMPTS.decode(text) if text else [])


def by_job(records: Iterable[Kept]) -> Mapping[JobId, list[Kept]]:
    found: dict[JobId, list[Kept]] = defaultdict(list)
    for record in records:
        found[record.job_id].append(record)
    return found
