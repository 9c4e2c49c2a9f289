"""One JSON-RPC text in, at most one out, whatever the calls are and wherever they came from."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.wire.jsonrpc import Call, InvalidCall, failure, read_call, split, success

RESPONSE_BYTES_MAX: Final = 33_554_432  # of a batch: what one request may bring, it may take away

Handle = Callable[[Call], Awaitable[object]]
"""Does what a call asks for and gives its result; raises what went wrong."""

Failed = Callable[[bytes, Call | None, Exception], Awaitable[None]]
"""Told of everything that came to nothing: its text, the call if it was one, and why."""


class Reply(msgspec.Struct, frozen=True):
    """The text to send back, None where nothing is to be answered.

    `unavailable` is set where a notification, which is never answered, was not done since the
    store is away: whoever carried it can try again.
    """

    text: bytes | None
    unavailable: Unavailable | None = None


async def nobody_told(_text: bytes, _call: Call | None, _error: Exception) -> None:
    pass


async def replied(body: bytes, handle: Handle, failed: Failed = nobody_told) -> Reply:
    """Do what the body's calls ask for, one after the other, and answer in the same order.

    Faults are answered, never raised, but for those of `failed`.
    """
    try:
        calls, is_batch = await apart(body)
    except Exception as error:  # noqa: BLE001  every error is told in one form
        await failed(body, None, error)
        return Reply(failure(error))
    answers: list[msgspec.Raw] = []
    unavailable: Unavailable | None = None
    room = RESPONSE_BYTES_MAX
    for text in calls:
        reply = await replied_once(text, handle, failed, room)
        unavailable = unavailable or reply.unavailable
        if reply.text is not None:
            room -= len(reply.text)
            answers.append(msgspec.Raw(reply.text))
    if not answers:
        return Reply(None, unavailable)
    return Reply(msgspec.json.encode(answers) if is_batch else bytes(answers[0]), unavailable)


async def apart(body: bytes) -> tuple[list[msgspec.Raw], bool]:
    """The calls of the body, and whether they came as a batch."""
    if len(body) > REQUEST_BYTES_MAX:
        # Long enough to be felt by everybody else on the loop.
        calls, is_batch = await asyncio.to_thread(split, body, BULK_REQUEST_BYTES_MAX)
    else:
        calls, is_batch = split(body, BULK_REQUEST_BYTES_MAX)
    return list(calls), is_batch


async def replied_once(text: msgspec.Raw, handle: Handle, failed: Failed, room: int) -> Reply:
    call: Call | None = None
    try:
        call = read_call(text)
        check_room(room)
        result = await handle(call)
    except InvalidCall as error:
        await failed(bytes(text), None, error)
        return Reply(failure(error, error.id))
    except Exception as error:  # noqa: BLE001  every error is told in one form
        await failed(bytes(text), call, error)
        if call is None:
            return Reply(failure(error))
        if call.id is not None:
            return Reply(failure(error, call.id))
        return Reply(None, error if isinstance(error, Unavailable) else None)
    return Reply(None if call.id is None else success(result, call.id))


def check_room(room: int) -> None:
    if room <= 0:
        raise TooLarge(
            f"The answers of this batch are over {RESPONSE_BYTES_MAX} bytes;"
            " send this call in another"
        )
