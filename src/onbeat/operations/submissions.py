"""Accepts work as JSON-RPC calls of `submit:<task>`, over HTTP or from a broker's queue."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import OnbeatError, RequestInFlight, Unavailable
from onbeat.model.ids import DeadLetterId, JobId
from onbeat.model.limits import REASON_CHARS_MAX, REQUEST_BYTES_MAX
from onbeat.model.remote_task import RemoteTask
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import job_from
from onbeat.operations.encryption import keep_letter
from onbeat.operations.idempotency import Repeatable, answer_once
from onbeat.operations.jobs import describe_stored, note_sent
from onbeat.operations.jsonrpc import handle_batch
from onbeat.ports.store import Enqueued
from onbeat.rules.derived_ids import derived_id, instant_of
from onbeat.rules.flows import link
from onbeat.rules.submission_keys import check_params, key_of, refuse_reserved
from onbeat.wire.jobs import JobDraft
from onbeat.wire.jsonrpc import RpcCall, UnknownMethod
from onbeat.wire.submissions import (
    KEY_HEADER,
    SENT_HEADER,
    Submitted,
    named_params,
    read_submission,
    task_of,
)
from onbeat.wire.workers import seems_alive

LETTER_BYTES_MAX: Final = REQUEST_BYTES_MAX  # of one message in a dead letter; the rest is cut off

# A message's own timestamp must be plausible, since jobs are sorted by it.
SENT_BEFORE_MAX: Final = timedelta(days=30)
SENT_AFTER_MAX: Final = timedelta(days=1)
DAY: Final = timedelta(days=1)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The `source` of a message and its transport's metadata.

    `key` is the same at every delivery of the message; `sent_at` is when it was sent, if the
    transport knows.
    """

    source: str
    key: str | None = None
    sent_at: datetime | None = None
    headers: Mapping[str, str] = {}


async def submit(
    context: OperationContext,
    message: bytes,
    *,
    source: str,
    key: str | None,
    sent_at: datetime | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes | None:
    """Store the job that a message submits; returns JSON-RPC text, None for notifications.

    With a `key` a redelivered message adds nothing. An invalid message becomes a dead letter, and
    is answered where it has an id. Raises `Unavailable` when the store is away: the message has to
    be delivered again.
    """
    origin = Origin(source=source, key=key, sent_at=sent_at, headers=headers or {})
    places = count()

    async def handle(call: RpcCall) -> Submitted:
        return await submit_or_dead_letter(context, call, origin_in_batch(origin, next(places)))

    async def on_failure(text: bytes, call: RpcCall | None, error: Exception) -> None:
        if isinstance(error, Unavailable):
            raise error
        if call is None:
            await add_dead_letter(context, text, origin, error)

    return (await handle_batch(message, handle, on_failure)).text


def origin_in_batch(origin: Origin, place: int) -> Origin:
    """The origin of one call of a batch."""
    if origin.key is None or place == 0:
        return origin
    return replace(origin, key=f"{origin.key}/{place}")


async def submit_or_dead_letter(
    context: OperationContext, call: RpcCall, origin: Origin
) -> Submitted:
    """The same for one call; a failing call becomes a dead letter and raises its error."""
    try:
        return await store_job(context, call, origin)
    except (Unavailable, RequestInFlight):
        raise
    except Exception as error:
        await add_dead_letter(context, bytes(call.text), origin, error)
        raise


async def store_job(context: OperationContext, call: RpcCall, origin: Origin) -> Submitted:
    """Store the job that a call submits. Raises `UnknownMethod` for an unknown task."""
    await context.check_capacity()
    task = task_of(call.method)
    if not await knows(context, task):
        raise UnknownMethod(f"No worker that is alive knows the task {task[:100]}")
    draft, now = read_submission(call), context.clock.now()
    if (declared := context.remote_tasks.get(task)) is not None:
        draft = declared_draft(draft, declared, named_params(call))
    linked = link(draft.after, {}, "onbeat.after")
    context = context.traced_by(origin.headers)
    with context.sending() as span:
        job = job_from(context, draft, now, await own_id(context, origin, now), "onbeat.", linked)
        span.describe([job])
        keyed = context.keyed_request(submission_answer, [job.id])
        stored = await context.store.enqueue([job], keyed)
        describe_stored(span, [job], stored)
    note_sent(context.telemetry, [job], stored, origin.source)
    return submission_answer(stored)


def declared_draft(
    draft: JobDraft, declared: RemoteTask, params: Mapping[str, object] | None
) -> JobDraft:
    """The draft with the key that the task's declaration makes, unless the sender gives one.

    Raises `Invalid` for a param that is missing, and for one with a reserved name.
    """
    check_params(declared, params)
    refuse_reserved(declared.name, params or {}, "params")
    key = key_of(declared, params or {})
    if key is None or draft.options.get("unique") is not None:
        return draft
    options = {"unique": key, "unique_for": declared.unique_for} | draft.options
    return replace(draft, options=options)


def submission_answer(stored: Sequence[Enqueued]) -> Submitted:
    (result,) = stored
    return Submitted(id=result.id, created=result.created)


async def submit_once(
    context: OperationContext, call: RpcCall, origin: Origin, key: str
) -> tuple[Submitted, bool]:
    """The same as `store_job`, once for each key; the flag says whether it was done before."""

    async def run(operator: OperationContext) -> Submitted:
        return await submit_or_dead_letter(operator, call, origin)

    async def read(answer: bytes) -> Submitted:
        return msgspec.json.decode(answer, type=Submitted)

    body = msgspec.json.encode((call.method, call.params, call.onbeat))
    return await answer_once(context, key, Repeatable("submit", body, run, read))


async def knows(context: OperationContext, task: str) -> bool:
    if await context.knows_task(task):
        return True
    now = context.clock.now()
    workers = await context.store.workers()
    return any(task in worker.lanes and seems_alive(worker, now) for worker in workers)


async def own_id(context: OperationContext, origin: Origin, now: datetime) -> str:
    """The id of the job, derived from the message's key, so that it is stable over deliveries."""
    if origin.key is None:
        return context.fresh_id()
    key = f"{origin.source}\n{origin.key}"
    at = trusted_sent_at(origin, now)
    if at is not None:
        return derived_id(key, at)
    # Without a timestamp the id depends on the day; a redelivery may be of the day before.
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    yesterdays = JobId(derived_id(key, today - DAY))
    if await context.store.job(yesterdays) is not None:
        return yesterdays
    return derived_id(key, today)


def trusted_sent_at(origin: Origin, now: datetime) -> datetime | None:
    """When the message was sent, by its transport or its key, if that is plausible."""
    at = origin.sent_at or instant_of(origin.key or "")
    if at is None or not now - SENT_BEFORE_MAX <= at <= now + SENT_AFTER_MAX:
        return None
    return at


async def add_dead_letter(
    context: OperationContext, text: bytes, origin: Origin, error: Exception
) -> None:
    """Store the message as a dead letter, once for all its deliveries."""
    letter = dead_letter_of(context, text, origin, reason_of(error))
    await keep_letter(context.store, context.cipher, letter)
    context.on_dead_letter(letter)


def dead_letter_of(
    context: OperationContext, text: bytes, origin: Origin, reason: str
) -> DeadLetter:
    now = context.clock.now()
    id = context.fresh_id()
    headers = dict(origin.headers)
    if origin.key is not None:
        headers[KEY_HEADER] = origin.key
        if origin.sent_at is not None:
            headers[SENT_HEADER] = origin.sent_at.isoformat()
        id = derived_id(f"dead\n{origin.source}\n{origin.key}", trusted_sent_at(origin, now) or now)
    return DeadLetter(
        id=DeadLetterId(id),
        at=now,
        source=origin.source,
        reason=reason[:REASON_CHARS_MAX],
        body=text[:LETTER_BYTES_MAX],
        headers=headers,
    )


def reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, OnbeatError) else f"{type(error).__name__}: {error}"
