"""Idempotency keys: requests that take effect once."""

from collections.abc import Callable
from typing import TypeVar

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite.transaction import Transaction

Answer = TypeVar("Answer")


def run_keyed(
    transaction: Transaction,
    request: KeyedRequest,
    work: Callable[[Transaction], Answer],
) -> Answer:
    """There is only one writer, so a free key stays free until it is stored here."""
    if keyed_answer(transaction, request.digest) is not None:
        raise RequestInFlight
    answer = work(transaction)
    at = micros(request.made_at)
    transaction.run(
        """
        INSERT INTO onbeat_idempotency_keys
          (digest, fingerprint, made_at, kept_from, first_job, last_job, answer)
        VALUES (?, ?, ?, ?, ?, ?, ?)
        """,
        (
            request.digest,
            request.fingerprint,
            at,
            at,
            request.first_job,
            request.last_job,
            request.answer(answer),
        ),
    )
    return answer


def keyed_answer(transaction: Transaction, digest: bytes) -> KeyedAnswer | None:
    sql = "SELECT fingerprint, made_at, answer FROM onbeat_idempotency_keys WHERE digest = ?"
    row = transaction.row(sql, (digest,))
    if row is None:
        return None
    fingerprint, made_at, answer = row
    return KeyedAnswer(fingerprint=fingerprint, made_at=instant(made_at), answer=answer)


PAST = """
    digest IN (SELECT digest FROM onbeat_idempotency_keys
               WHERE kept_from < ? ORDER BY kept_from LIMIT ?)
"""


def forget_requests(transaction: Transaction, before: int, now: int, limit: int) -> int:
    """Keys of live jobs get a later `kept_from`, so that each is checked only now and then."""
    kept = transaction.run(
        f"""
        UPDATE onbeat_idempotency_keys
        SET kept_from = ?
        WHERE {PAST} AND EXISTS (SELECT 1 FROM onbeat_jobs WHERE id BETWEEN first_job AND last_job)
        """,  # noqa: S608  no value in it
        (now, before, limit),
    )
    gone = transaction.run(
        f"DELETE FROM onbeat_idempotency_keys WHERE {PAST}",  # noqa: S608  no value in it
        (before, limit - kept),
    )
    return kept + gone
