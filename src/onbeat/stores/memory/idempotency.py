"""Idempotency keys: requests that take effect once."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import TypeVar

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest, StoredRequest
from onbeat.model.ids import JobId
from onbeat.stores.memory.tables import KeyedRow, Tables

Result = TypeVar("Result")


def run(tables: Tables, keyed: KeyedRequest | None, verb: Callable[[], Result]) -> Result:
    """The verb's result; raises `RequestInFlight` if the request has taken effect before."""
    if keyed is None:
        return verb()
    if keyed.digest in tables.requests.rows:
        raise RequestInFlight
    result = verb()
    answer = KeyedAnswer(
        fingerprint=keyed.fingerprint, made_at=keyed.made_at, answer=keyed.answer(result)
    )
    tables.requests.put(
        keyed.digest, KeyedRow(answer, keyed.made_at, keyed.first_job, keyed.last_job)
    )
    return result


def forget(tables: Tables, before: datetime, now: datetime, limit: int) -> int:
    oldest = islice(tables.requests.by_age, limit)
    past = [key for key in oldest if key < (before, b"")]
    for _, digest in past:
        row = tables.requests.rows[digest]
        if has_live_job(tables, row):
            tables.requests.put(digest, row._replace(kept_from=now))
        else:
            tables.requests.remove(digest)
    return len(past)


def has_live_job(tables: Tables, row: KeyedRow) -> bool:
    if row.first_job is None or row.last_job is None:
        return False
    first, last = row.first_job, row.last_job

    def is_in_range(id: JobId) -> bool:
        return id <= last

    between = takewhile(is_in_range, tables.ids.after(first))
    return tables.is_live(first) or any(tables.is_live(id) for id in between)


def export(tables: Tables, after: bytes | None, limit: int) -> list[StoredRequest]:
    digests = tables.requests.digests
    above = iter(digests) if after is None else digests.after(after)
    return [stored(digest, tables.requests.rows[digest]) for digest in islice(above, limit)]


def stored(digest: bytes, row: KeyedRow) -> StoredRequest:
    return StoredRequest(
        digest=digest,
        answer=row.answer,
        kept_from=row.kept_from,
        first_job=row.first_job,
        last_job=row.last_job,
    )


def restore(tables: Tables, requests: Sequence[StoredRequest]) -> int:
    new = [one for one in requests if one.digest not in tables.requests.rows]
    for one in new:
        row = KeyedRow(one.answer, one.kept_from, one.first_job, one.last_job)
        tables.requests.put(one.digest, row)
    return len(new)
