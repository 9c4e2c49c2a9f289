"""A request whose effects are in several cells, so that a repeat of it does each part once."""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.ports.store import Store
from onbeat.rules.idempotency import check_same, compress_answer, decompress_answer
from onbeat.stores.cells.fleet import Ask, Fleet, OpenCell

Result = TypeVar("Result")

PART: Final = b"part"


class RequestPart(msgspec.Struct, Generic[Result], frozen=True):
    """What one cell does of a request, in one transaction; `ids` are the jobs that it makes."""

    cell: OpenCell
    run: Callable[[Store, KeyedRequest | None], Awaitable[Result]]
    ids: Sequence[JobId] = ()


async def run_parts(
    fleet: Fleet,
    parts: Sequence[RequestPart[Result]],
    keyed: KeyedRequest | None,
    combine: Callable[[Sequence[Result]], Any],
    kind: Any,
) -> Sequence[Result]:
    """The results by part. `kind` is the type of one, `combine` makes of all what a store returns.

    Under a key the last part is done when the others are: it stores the answer of the whole
    request, as one store would. Each other part stores its result under a digest of its own, in
    its transaction. So where a request broke off, its repeat finds what was done. Raises
    `RequestInFlight` as a store does, and `Invalid` where the key came with another body.
    """
    if keyed is None:
        return await fleet.ask_each([(part.cell, plain(part)) for part in parts])
    *others, last = sorted(parts, key=lambda part: part.cell.place)
    asks = [(part.cell, keyed_part(part, keyed, kind)) for part in others]
    done = dict(zip((part.cell.place for part in others), await fleet.ask_each(asks), strict=True))

    def whole(mine: Result) -> bytes:
        results = done | {last.cell.place: mine}
        return keyed.answer(combine([results[part.cell.place] for part in parts]))

    own = spanning(replace(keyed, answer=whole), last.ids)
    done[last.cell.place] = await fleet.ask(last.cell, lambda store: last.run(store, own))
    return [done[part.cell.place] for part in parts]


def plain(part: RequestPart[Result]) -> Ask[Result]:
    return lambda store: part.run(store, None)


def keyed_part(part: RequestPart[Result], keyed: KeyedRequest, kind: Any) -> Ask[Result]:
    """The question that does the part once."""
    digest = digest_of_part(keyed.digest)
    record = replace(keyed, digest=digest, answer=encode_result)
    own = spanning(record, part.ids)

    async def run(store: Store) -> Result:
        try:
            return await part.run(store, own)
        except RequestInFlight:
            first = await store.keyed_answer(digest)
            if first is None:
                raise
        check_same(first, keyed.fingerprint)
        done: dict[str, Result] = msgspec.json.decode(
            decompress_answer(first.answer), type=dict[str, kind]
        )
        return done["part"]

    return run


def digest_of_part(digest: bytes) -> bytes:
    """Under which a cell stores its part of the request with this digest."""
    return sha256(digest + PART).digest()


def encode_result(result: Any) -> bytes:
    return compress_answer(msgspec.json.encode({"part": result}))


def spanning(keyed: KeyedRequest, ids: Sequence[JobId]) -> KeyedRequest:
    """The record, kept while one of these jobs is live if the request is kept by its jobs."""
    if keyed.first_job is None:
        return keyed
    return replace(keyed, first_job=min(ids, default=None), last_job=max(ids, default=None))
