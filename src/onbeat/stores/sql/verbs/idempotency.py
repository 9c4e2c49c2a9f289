"""Idempotency keys: requests that take effect once."""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest, StoredRequest
from onbeat.model.ids import JobId
from onbeat.ports.store import Enqueued
from onbeat.stores.sql.dialect import Columns, Dialect
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros

T = TypeVar("T", bound=Session)
New = TypeVar("New")
Answer = TypeVar("Answer")

DIGEST: Final[Columns] = {"digest": "bytea"}
COLUMNS: Final[Columns] = {
    **DIGEST,
    "fingerprint": "bytea",
    "made_at": "bigint",
    "kept_from": "bigint",
    "first_job": "uuid",
    "last_job": "uuid",
    "answer": "bytea",
}


class KeyedJobs(msgspec.Struct, Generic[New], frozen=True):
    """New jobs, and the request for them."""

    request: KeyedRequest
    jobs: Sequence[New]


class KeyVerbs(msgspec.Struct, Generic[T, New], frozen=True, kw_only=True):
    """What each database does itself.

    `take` returns which of the keys are free, and holds those until the commit. `keep` stores the
    answers. `enqueue` adds jobs within the transaction.
    """

    take: Callable[[T, Sequence[KeyedRequest]], Awaitable[Sequence[bool]]]
    keep: Callable[[T, Sequence[tuple[KeyedRequest, bytes]]], Awaitable[None]]
    enqueue: Callable[[T, Sequence[New]], Awaitable[Sequence[Enqueued]]]


async def run_keyed(
    session: T,
    verbs: KeyVerbs[T, Any],
    request: KeyedRequest,
    work: Callable[[T], Awaitable[Answer]],
) -> Answer:
    """Run the work; raises `RequestInFlight` if another request has the key."""
    if not all(await verbs.take(session, [request])):
        raise RequestInFlight
    answer = await work(session)
    await verbs.keep(session, [(request, request.answer(answer))])
    return answer


async def enqueue_keyed(
    session: T, verbs: KeyVerbs[T, New], requests: Sequence[KeyedJobs[New]]
) -> list[Sequence[Enqueued] | None]:
    """Add the jobs of several requests; None for a request whose key another one has."""
    is_free = await verbs.take(session, [one.request for one in requests])
    taken = [one for one, free in zip(requests, is_free, strict=True) if free]
    stored = iter(await verbs.enqueue(session, [job for one in taken for job in one.jobs]))
    answers = [list(islice(stored, len(one.jobs))) for one in taken]
    await verbs.keep(
        session,
        [(one.request, one.request.answer(its)) for one, its in zip(taken, answers, strict=True)],
    )
    rest = iter(answers)
    return [next(rest) if free else None for free in is_free]


async def insert_requests(session: Session, answered: Sequence[tuple[KeyedRequest, bytes]]) -> None:
    """Raises `RequestInFlight` if another request with one of the keys was committed."""
    rows = sorted((request_row(*one) for one in answered), key=itemgetter(0))
    ending = session.dialect.unless_there(*DIGEST)
    if await session.insert_rows("idempotency_keys", COLUMNS, rows, ending) < len(rows):
        raise RequestInFlight


def request_row(request: KeyedRequest, answer: bytes) -> tuple[Any, ...]:
    at = micros(request.made_at)
    return request.digest, request.fingerprint, at, at, request.first_job, request.last_job, answer


async def keyed_answers(session: Session, digests: Sequence[bytes]) -> list[KeyedAnswer | None]:
    columns, rest = "digest, fingerprint, made_at, answer", by_digest(session.dialect)
    as_bytes = session.dialect.read_bytes
    known = {
        as_bytes(digest): KeyedAnswer(
            fingerprint=as_bytes(fingerprint), made_at=instant(made_at), answer=as_bytes(answer)
        )
        for digest, fingerprint, made_at, answer in await session.select(
            columns, rest, tuple(digests)
        )
    }
    return [known.get(digest) for digest in digests]


@cache
def by_digest(dialect: Dialect) -> str:
    return f"""
        FROM (SELECT {dialect.in_json("digest")} AS digest,
                     {dialect.in_json("fingerprint")} AS fingerprint,
                     made_at,
                     {dialect.in_json("answer")} AS answer
              FROM onbeat.idempotency_keys {dialect.use_index("PRIMARY")}
              WHERE {dialect.in_list("digest", "bytea")}) AS known
    """  # noqa: S608  values are bound


async def forget_requests(session: Session, before: int, now: int, limit: int) -> int:
    """Keys of live jobs get a later `kept_from`, so that each is checked only now and then."""
    dialect = session.dialect
    rest = f"""
        FROM (SELECT {dialect.in_json("digest")} AS digest,
                     EXISTS (SELECT 1 FROM onbeat.jobs {dialect.use_index("PRIMARY")}
                             WHERE id BETWEEN first_job AND last_job) AS is_live
              FROM onbeat.idempotency_keys {dialect.use_index("idempotency_keys_by_age")}
              WHERE kept_from < ?
              ORDER BY kept_from
              LIMIT ?
              {dialect.skip_locked}) AS past
    """  # noqa: S608  values are bound
    rows = await session.select("digest, is_live", rest, before, limit)
    past = [(dialect.read_bytes(digest), is_live) for digest, is_live in rows]
    live = [(digest, now) for digest, is_live in past if is_live]
    await session.update_rows("idempotency_keys", DIGEST, {"kept_from": "bigint"}, live)
    gone = [(digest,) for digest, is_live in past if not is_live]
    await session.delete_rows("idempotency_keys", DIGEST, gone)
    return len(past)


async def export_requests(
    session: Session, after: bytes | None, limit: int
) -> Sequence[StoredRequest]:
    as_bytes = session.dialect.read_bytes
    lowest = b"" if after is None else after
    return [
        StoredRequest(
            digest=as_bytes(digest),
            answer=KeyedAnswer(
                fingerprint=as_bytes(fingerprint), made_at=instant(made_at), answer=as_bytes(answer)
            ),
            kept_from=instant(kept_from),
            first_job=None if first_job is None else JobId(str(first_job)),
            last_job=None if last_job is None else JobId(str(last_job)),
        )
        for digest, fingerprint, made_at, kept_from, first_job, last_job, answer in (
            await session.select(", ".join(COLUMNS), above(session.dialect), lowest, limit)
        )
    ]


@cache
def above(dialect: Dialect) -> str:
    columns = ", ".join(
        f"{dialect.in_json(name)} AS {name}" if type == "bytea" else name
        for name, type in COLUMNS.items()
    )
    return f"""
        FROM (SELECT {columns}
              FROM onbeat.idempotency_keys {dialect.use_index("PRIMARY")}
              WHERE digest > ?
              ORDER BY onbeat.idempotency_keys.digest
              LIMIT ?) AS above
        ORDER BY digest
    """  # noqa: S608  values are bound


async def import_requests(session: Session, requests: Sequence[StoredRequest]) -> int:
    rows = sorted(map(stored_row, requests), key=itemgetter(0))
    ending = session.dialect.unless_there(*DIGEST)
    return await session.insert_rows("idempotency_keys", COLUMNS, rows, ending)


def stored_row(request: StoredRequest) -> tuple[Any, ...]:
    answer = request.answer
    made_at, kept_from = micros(answer.made_at), micros(request.kept_from)
    jobs = request.first_job, request.last_job
    return request.digest, answer.fingerprint, made_at, kept_from, *jobs, answer.answer
