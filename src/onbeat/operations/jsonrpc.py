"""Handles one JSON-RPC text and returns at most one, whatever its calls and its transport."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from onbeat.model.errors import RequestInFlight, TooLarge, Unavailable
from onbeat.model.limits import ASIDE_BYTES_MIN, BULK_REQUEST_BYTES_MAX
from onbeat.wire.jsonrpc import InvalidCall, RpcCall, failure, read_call, split, success

RESPONSE_BYTES_MAX: Final = 33_554_432  # of a batch's responses, like the bound of one request

Handle = Callable[[RpcCall], Awaitable[object]]
"""Executes a call and returns its result; raises its error."""

Failed = Callable[[bytes, RpcCall | None, Exception], Awaitable[None]]
"""Called with every failure: its text, the call if it could be parsed, and the error."""


class Reply(msgspec.Struct, frozen=True):
    """The response text; None where no response is due.

    `unavailable` is set where a notification, which is never answered, failed because the store is
    away: the transport can deliver it again.
    """

    text: bytes | None
    unavailable: Unavailable | RequestInFlight | None = None


async def ignore_failure(_text: bytes, _call: RpcCall | None, _error: Exception) -> None:
    pass


async def handle_batch(body: bytes, handle: Handle, failed: Failed = ignore_failure) -> Reply:
    """Execute the calls of a body one after the other, and answer in the same order.

    Errors become responses; only errors of `failed` are raised.
    """
    try:
        calls, is_batch = await split_calls(body)
    except Exception as error:  # noqa: BLE001  every error becomes a response
        await failed(body, None, error)
        return Reply(failure(error))
    answers: list[msgspec.Raw] = []
    unavailable: Unavailable | RequestInFlight | None = None
    room = RESPONSE_BYTES_MAX
    for text in calls:
        reply = await handle_one(text, handle, failed, room)
        unavailable = unavailable or reply.unavailable
        if reply.text is not None:
            room -= len(reply.text)
            answers.append(msgspec.Raw(reply.text))
    if not answers:
        return Reply(None, unavailable)
    return Reply(msgspec.json.encode(answers) if is_batch else bytes(answers[0]), unavailable)


async def split_calls(body: bytes) -> tuple[list[msgspec.Raw], bool]:
    """The calls of the body, and whether they came as a batch."""
    if len(body) >= ASIDE_BYTES_MIN:
        # Long enough to delay everything else on the loop.
        calls, is_batch = await asyncio.to_thread(split, body, BULK_REQUEST_BYTES_MAX)
    else:
        calls, is_batch = split(body, BULK_REQUEST_BYTES_MAX)
    return list(calls), is_batch


async def handle_one(text: msgspec.Raw, handle: Handle, failed: Failed, room: int) -> Reply:
    call: RpcCall | None = None
    try:
        call = read_call(text)
        check_room(room)
        result = await handle(call)
    except InvalidCall as error:
        await failed(bytes(text), None, error)
        return Reply(failure(error, error.id))
    except Exception as error:  # noqa: BLE001  every error becomes a response
        await failed(bytes(text), call, error)
        if call is None:
            return Reply(failure(error))
        if call.id is not None:
            return Reply(failure(error, call.id))
        return Reply(None, error if isinstance(error, Unavailable | RequestInFlight) else None)
    return Reply(None if call.id is None else success(result, call.id))


def check_room(room: int) -> None:
    if room <= 0:
        raise TooLarge(
            f"The answers of this batch are over {RESPONSE_BYTES_MAX} bytes;"
            " send this call in another"
        )
