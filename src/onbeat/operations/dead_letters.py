"""The operations of dead letters: list, show, delete and replay."""

from datetime import UTC, datetime

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Conflict, Invalid, NotFound, Unavailable
from onbeat.model.ids import DeadLetterId
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REASON_CHARS_MAX
from onbeat.model.origin import RPC
from onbeat.operations.context import OperationContext
from onbeat.operations.encryption import decrypted_letter, keep_letter, shown_letter
from onbeat.operations.event_messages import store_message
from onbeat.operations.results import Verdict, judge_message
from onbeat.operations.submissions import Origin, reason_of, store_job
from onbeat.wire.broker_messages import EVENTS, RESULTS, SUBMIT, TOKEN_HEADER
from onbeat.wire.dead_letters import (
    DeadLetterDetail,
    DeadLettersAnswer,
    Replayed,
    dead_letter_answer,
    dead_letter_detail,
)
from onbeat.wire.jsonrpc import read_call, split
from onbeat.wire.requests import DeadLetterById, ListDeadLetters, Message
from onbeat.wire.submissions import KEY_HEADER, SENT_HEADER
from onbeat.wire.values import dead_letter_id

ABSENT = "Dead letter not found"
DELETED = Message("Dead letter deleted.")
"""The source of submissions over HTTP."""


async def list_dead_letters(
    context: OperationContext, request: ListDeadLetters
) -> DeadLettersAnswer:
    """Newest first."""
    before = dead_letter_id(request.cursor, "cursor") if request.cursor else None
    limit = request.limit
    letters = await context.store.dead_letters(before, limit, request.source or None)
    return DeadLettersAnswer(
        letters=tuple(dead_letter_answer(shown_letter(context.cipher, one)) for one in letters),
        limit=limit,
        cursor=letters[-1].id if len(letters) == limit else None,
    )


async def show(context: OperationContext, request: DeadLetterById) -> DeadLetterDetail:
    return dead_letter_detail(
        shown_letter(context.cipher, await get_dead_letter(context, request.id))
    )


async def delete(context: OperationContext, request: DeadLetterById) -> Message:
    if await context.store.delete_dead_letters([dead_letter_id(request.id)]) == 0:
        raise NotFound(ABSENT)
    return DELETED


async def replay(context: OperationContext, request: DeadLetterById) -> Replayed:
    """Process the message of the dead letter like a new message.

    Raises `Conflict` for a message that only its sender can send again, or that cannot be
    decrypted.
    """
    letter = decrypted_letter(context.cipher, await get_dead_letter(context, request.id))
    try:
        # The key is stored with the result; until then a repeated request is executed again.
        job_id = await redo(replace(context, key=None), letter)
    except (Unavailable, Conflict):
        raise
    except Exception as error:  # noqa: BLE001  any error keeps the dead letter
        return await keep_with_reason(context, letter, reason_of(error))
    answer = Replayed(replayed=True, id=letter.id, reason=None, job_id=job_id or UNSET)
    ids = [job_id] if job_id else []
    await context.store.delete_dead_letters(
        [letter.id], context.keyed_request(lambda _: answer, ids)
    )
    return answer


async def redo(context: OperationContext, dead_letter: DeadLetter) -> str | None:
    """Process the message again; returns the id of the job. Raises the reason where it fails."""
    if dead_letter.source == RESULTS:
        judged = await judge_message(
            context, dead_letter.body, dead_letter.headers.get(TOKEN_HEADER)
        )
        if judged.verdict is not Verdict.SETTLED:
            raise Invalid(judged.reason)
        return None if judged.job is None else judged.job.id
    if dead_letter.source == EVENTS:
        key = dead_letter.headers.get(KEY_HEADER, dead_letter.id)
        await store_message(context, dead_letter.body, key)
        return None
    if dead_letter.source not in {RPC, SUBMIT}:
        raise Conflict(f"What came in at {dead_letter.source} can be sent again only by its sender")
    calls, is_batch = split(dead_letter.body, BULK_REQUEST_BYTES_MAX)
    if is_batch:
        raise Invalid("A batch that could not be read has to be sent again call by call")
    return (await store_job(context, read_call(calls[0]), origin_of(dead_letter))).id


def origin_of(dead_letter: DeadLetter) -> Origin:
    """The origin of the original message; a message without a key uses the dead letter's id."""
    return Origin(
        source=dead_letter.source,
        key=dead_letter.headers.get(KEY_HEADER, dead_letter.id),
        sent_at=sent_at(dead_letter),
    )


def sent_at(dead_letter: DeadLetter) -> datetime | None:
    try:
        return datetime.fromisoformat(dead_letter.headers[SENT_HEADER]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


async def keep_with_reason(
    context: OperationContext, dead_letter: DeadLetter, reason: str
) -> Replayed:
    """Store the dead letter with this reason; under a new id where the reason has changed."""
    reason = reason[:REASON_CHARS_MAX]
    if reason == dead_letter.reason:
        return Replayed(replayed=False, id=dead_letter.id, reason=reason)
    headers = dead_letter.headers | {
        KEY_HEADER: dead_letter.headers.get(KEY_HEADER, dead_letter.id)
    }
    kept = replace(dead_letter, id=DeadLetterId(context.fresh_id()), reason=reason, headers=headers)
    # A crash between the two writes leaves two dead letters of one message, which is harmless.
    await keep_letter(context.store, context.cipher, kept)
    answer = Replayed(replayed=False, id=kept.id, reason=reason)
    await context.store.delete_dead_letters(
        [dead_letter.id], context.keyed_request(lambda _: answer)
    )
    return answer


async def get_dead_letter(context: OperationContext, id: str) -> DeadLetter:
    letters = await context.store.dead_letters_by_id([dead_letter_id(id)])
    if not letters:
        raise NotFound(ABSENT)
    return letters[0]
