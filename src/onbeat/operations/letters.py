"""The verbs of dead letters: messages that were put aside, and can be tried again."""

from datetime import UTC, datetime

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import Conflict, Invalid, NotFound, Unavailable
from onbeat.model.ids import LetterId
from onbeat.model.letter import DeadLetter
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REASON_CHARS_MAX
from onbeat.operations.operator import Operator
from onbeat.operations.settling import Verdict, judge_message
from onbeat.operations.submitting import Origin, reason_of, stored
from onbeat.wire.jsonrpc import read_call, split
from onbeat.wire.letters import (
    LetterDetail,
    LettersAnswer,
    Replayed,
    letter_answer,
    letter_detail,
)
from onbeat.wire.requests import Done, LetterById, ListLetters
from onbeat.wire.submissions import KEY_HEADER, SENT_HEADER
from onbeat.wire.values import letter_id
from onbeat.wire.work import RESULTS, SUBMIT, TOKEN_HEADER

ABSENT = "Dead letter not found"
DELETED = Done("Dead letter deleted.")
RPC = "rpc"
"""What submissions over HTTP have as their source."""


async def list_letters(operator: Operator, request: ListLetters) -> LettersAnswer:
    """Newest first."""
    before = letter_id(request.cursor, "cursor") if request.cursor else None
    limit = request.limit
    letters = await operator.store.dead_letters(before, limit, request.source or None)
    return LettersAnswer(
        letters=tuple(map(letter_answer, letters)),
        limit=limit,
        cursor=letters[-1].id if len(letters) == limit else None,
    )


async def show(operator: Operator, request: LetterById) -> LetterDetail:
    return letter_detail(await found(operator, request.id))


async def delete(operator: Operator, request: LetterById) -> Done:
    if await operator.store.exhume([letter_id(request.id)]) == 0:
        raise NotFound(ABSENT)
    return DELETED


async def replay(operator: Operator, request: LetterById) -> Replayed:
    """Do with the letter's message what is done with one that comes in.

    Raises `Conflict` for one that only its sender can send again.
    """
    letter = await found(operator, request.id)
    try:
        job_id = await redone(operator, letter)
    except (Unavailable, Conflict):
        raise
    except Exception as error:  # noqa: BLE001  the letter stays, whatever is wrong with it
        kept = await kept_for(operator, letter, reason_of(error))
        return Replayed(replayed=False, id=kept.id, reason=kept.reason)
    await operator.store.exhume([letter.id])
    return Replayed(replayed=True, id=letter.id, reason=None, job_id=job_id or UNSET)


async def redone(operator: Operator, letter: DeadLetter) -> str | None:
    """The id of the job that came of it. Raises why it came to nothing."""
    if letter.source == RESULTS:
        token = letter.headers.get(TOKEN_HEADER, "")
        judged = await judge_message(operator, letter.body, int(token) if token.isdigit() else None)
        if judged.verdict is not Verdict.SETTLED:
            raise Invalid(judged.reason)
        return None if judged.job is None else judged.job.id
    if letter.source not in {RPC, SUBMIT}:
        raise Conflict(f"What came in at {letter.source} can be sent again only by its sender")
    calls, is_batch = split(letter.body, BULK_REQUEST_BYTES_MAX)
    if is_batch:
        raise Invalid("A batch that could not be read has to be sent again call by call")
    return (await stored(operator, read_call(calls[0]), origin_of(letter))).id


def origin_of(letter: DeadLetter) -> Origin:
    """As when it came in; a message that had no key has that of its letter, to be tried once."""
    return Origin(
        source=letter.source,
        key=letter.headers.get(KEY_HEADER, letter.id),
        sent_at=sent_at(letter),
    )


def sent_at(letter: DeadLetter) -> datetime | None:
    try:
        return datetime.fromisoformat(letter.headers[SENT_HEADER]).astimezone(UTC)
    except (KeyError, ValueError):
        return None


async def kept_for(operator: Operator, letter: DeadLetter, reason: str) -> DeadLetter:
    """The letter with this reason; under a new id where it is another one than before."""
    reason = reason[:REASON_CHARS_MAX]
    if reason == letter.reason:
        return letter
    headers = letter.headers | {KEY_HEADER: letter.headers.get(KEY_HEADER, letter.id)}
    kept = replace(letter, id=LetterId(operator.fresh_id()), reason=reason, headers=headers)
    # Should this end between the two, there are two letters of one message, and no harm.
    await operator.store.bury([kept])
    await operator.store.exhume([letter.id])
    return kept


async def found(operator: Operator, id: str) -> DeadLetter:
    letters = await operator.store.dead_letters_by_id([letter_id(id)])
    if not letters:
        raise NotFound(ABSENT)
    return letters[0]
