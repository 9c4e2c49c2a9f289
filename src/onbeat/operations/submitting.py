"""Takes in work as JSON-RPC calls of `submit:<task>`, over HTTP or from a broker's queue."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.model.ids import JobId, LetterId
from onbeat.model.letter import DeadLetter
from onbeat.model.limits import REASON_CHARS_MAX, REQUEST_BYTES_MAX
from onbeat.operations.drafts import job_from
from onbeat.operations.exchanging import replied
from onbeat.operations.operator import Operator
from onbeat.rules.deriving import derived_id, instant_of
from onbeat.wire.jsonrpc import Call, UnknownMethod
from onbeat.wire.places import seems_alive
from onbeat.wire.submissions import (
    KEY_HEADER,
    SENT_HEADER,
    Submitted,
    read_submission,
    task_of,
)

LETTER_BYTES_MAX: Final = REQUEST_BYTES_MAX  # of one message that is put aside; the rest is cut off

# A time that a message says of itself has to be about right, since jobs are sorted by it.
SENT_BEFORE_MAX: Final = timedelta(days=30)
SENT_AFTER_MAX: Final = timedelta(days=1)
DAY: Final = timedelta(days=1)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message came in (`source`) and what the transport said of it.

    `key` is the same whenever the message is delivered; `sent_at` is when it was sent, as far as
    the transport knows.
    """

    source: str
    key: str | None = None
    sent_at: datetime | None = None
    headers: Mapping[str, str] = {}


async def submit(
    operator: Operator,
    message: bytes,
    *,
    source: str,
    key: str | None,
    sent_at: datetime | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes | None:
    """Store what a message submits; the answer is JSON-RPC text, None for notifications.

    With a `key` a message that is delivered again adds nothing. What is bad is put aside as a dead
    letter, and answered where it has an id. Raises `Unavailable` when the store is away: the
    message has to be delivered again.
    """
    origin = Origin(source=source, key=key, sent_at=sent_at, headers=headers or {})
    places = count()

    async def handle(call: Call) -> Submitted:
        return await submitted(operator, call, placed(origin, next(places)))

    async def failed(text: bytes, call: Call | None, error: Exception) -> None:
        if isinstance(error, Unavailable):
            raise error
        if call is None:
            await bury(operator, text, origin, error)

    return (await replied(message, handle, failed)).text


def placed(origin: Origin, place: int) -> Origin:
    """The origin of one call of a batch."""
    if origin.key is None or place == 0:
        return origin
    return replace(origin, key=f"{origin.key}/{place}")


async def submitted(operator: Operator, call: Call, origin: Origin) -> Submitted:
    """The same for one call; one that cannot be done is put aside, and raises why."""
    try:
        return await stored(operator, call, origin)
    except Unavailable:
        raise
    except Exception as error:
        await bury(operator, bytes(call.text), origin, error)
        raise


async def stored(operator: Operator, call: Call, origin: Origin) -> Submitted:
    """Store the job that a call submits. Raises `UnknownMethod` for a task that nobody knows."""
    await operator.check_room()
    task = task_of(call.method)
    if not await knows(operator, task):
        raise UnknownMethod(f"No worker that is alive knows the task {task[:100]}")
    draft, now = read_submission(call), operator.clock.now()
    job = job_from(operator, draft, now, await own_id(operator, origin, now), "onbeat.")
    (found,) = await operator.store.enqueue([job])
    return Submitted(id=found.id, created=found.created)


async def knows(operator: Operator, task: str) -> bool:
    if await operator.knows_task(task):
        return True
    now = operator.clock.now()
    workers = await operator.store.workers()
    return any(task in worker.lanes and seems_alive(worker, now) for worker in workers)


async def own_id(operator: Operator, origin: Origin, now: datetime) -> str:
    """The id of the job; made of the message's key, so that it is the same at each delivery."""
    if origin.key is None:
        return operator.fresh_id()
    key = f"{origin.source}\n{origin.key}"
    at = told_time(origin, now)
    if at is not None:
        return derived_id(key, at)
    # Nothing says when it was sent: the day counts, and the day before it.
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    yesterdays = JobId(derived_id(key, today - DAY))
    if await operator.store.job(yesterdays) is not None:
        return yesterdays
    return derived_id(key, today)


def told_time(origin: Origin, now: datetime) -> datetime | None:
    """When the message was sent, by its transport or by its key, where that can be believed."""
    at = origin.sent_at or instant_of(origin.key or "")
    if at is None or not now - SENT_BEFORE_MAX <= at <= now + SENT_AFTER_MAX:
        return None
    return at


async def bury(operator: Operator, text: bytes, origin: Origin, error: Exception) -> None:
    """Put a message aside, once however often it is delivered."""
    letter = letter_of(operator, text, origin, reason_of(error))
    await operator.store.bury([letter])
    operator.buried(letter)


def letter_of(operator: Operator, text: bytes, origin: Origin, reason: str) -> DeadLetter:
    now = operator.clock.now()
    id = operator.fresh_id()
    headers = dict(origin.headers)
    if origin.key is not None:
        headers[KEY_HEADER] = origin.key
        if origin.sent_at is not None:
            headers[SENT_HEADER] = origin.sent_at.isoformat()
        id = derived_id(f"dead\n{origin.source}\n{origin.key}", told_time(origin, now) or now)
    return DeadLetter(
        id=LetterId(id),
        at=now,
        source=origin.source,
        reason=reason[:REASON_CHARS_MAX],
        body=text[:LETTER_BYTES_MAX],
        headers=headers,
    )


def reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, OnbeatError) else f"{type(error).__name__}: {error}"
