"""Runs a request once per idempotency key, however often its caller repeats it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.model.idempotency import KeyedAnswer
from onbeat.model.limits import REQUEST_BYTES_MAX
from onbeat.operations.context import OperationContext
from onbeat.rules.idempotency import (
    RequestKey,
    check_same,
    decompress_answer,
    digest_of,
    fingerprint_of,
)

Answer = TypeVar("Answer")


class Repeatable(msgspec.Struct, Generic[Answer], frozen=True):
    """A request that may be repeated, with its `body`, any JSON.

    `run` executes it with a context that has the request's key, and stores the key in the same
    transaction. `read` rebuilds the answer from the stored bytes.
    """

    operation: str
    body: bytes
    run: Callable[[OperationContext], Awaitable[Answer]]
    read: Callable[[bytes], Awaitable[Answer]]


async def answer_once(
    context: OperationContext, key: str, request: Repeatable[Answer]
) -> tuple[Answer, bool]:
    """The answer, and whether an earlier request with the same key produced it.

    Raises `Invalid` where that request had another body, and `RequestInFlight` where it is in
    progress.
    """
    digest = digest_of(context.principal.name, request.operation, key)
    fingerprint = await compute_fingerprint(key, request.body)
    first = await context.store.keyed_answer(digest)
    if first is None:
        request_key = RequestKey(digest, fingerprint, context.clock.now())
        try:
            return await request.run(replace(context, key=request_key)), False
        except OnbeatError as error:
            first = await find_concurrent_answer(context, digest, error)
            if first is None:
                raise
    check_same(first, fingerprint)
    answer = await request.read(decompress_answer(first.answer))
    if context.telemetry is not None:
        context.telemetry.repeated(request.operation, getattr(answer, "id", None))
    return answer, True


async def find_concurrent_answer(
    context: OperationContext, digest: bytes, error: OnbeatError
) -> KeyedAnswer | None:
    """The answer of a first request that completed meanwhile and made this one fail."""
    if isinstance(error, Unavailable):
        return None
    return await context.store.keyed_answer(digest)


async def compute_fingerprint(key: str, body: bytes) -> bytes:
    if len(body) > REQUEST_BYTES_MAX:
        # Long enough to delay everything else on the loop.
        return await asyncio.to_thread(fingerprint_of, key, body)
    return fingerprint_of(key, body)
