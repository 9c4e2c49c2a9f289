"""Wire records of dead letters."""

import base64
import re
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, UnsetType

from onbeat.model.credentials import NOT_SHOWN, masked_headers
from onbeat.model.dead_letter import DeadLetter
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.broker_messages import SENSITIVE_MARK

PREVIEW_CHARS: Final = 200
# In the result, error or params of a message; the size limit may cut off its value.
TOKEN: Final = re.compile(rb'("token"[ \t\r\n]{0,20}:[ \t\r\n]{0,20}")[^"]+')
SENSITIVE: Final = re.compile(rb'"sensitive"[ \t\r\n]{0,20}:[ \t\r\n]{0,20}true')


class DeadLetterAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A dead letter without its body; `preview` is the beginning, `bytes` the size of the body."""

    id: str
    at: datetime
    source: str
    reason: str
    bytes: int
    preview: str


class DeadLettersAnswer(msgspec.Struct, frozen=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    letters: tuple[DeadLetterAnswer, ...]
    limit: int
    cursor: str | None


class DeadLetterDetail(AnswerRecord, frozen=True, kw_only=True):
    """A dead letter with its `body`, as text or, if it is binary, in base64."""

    id: str
    at: datetime
    source: str
    reason: str
    headers: dict[str, str]
    bytes: int
    encoding: Literal["text", "base64"]
    body: str


class Replayed(AnswerRecord, frozen=True, kw_only=True):
    """Whether the replay succeeded and the dead letter is deleted; if not, its id and the reason.

    `job_id` is the job of the message, existing or created.
    """

    replayed: bool
    id: Annotated[str, Meta(description="The letter")]
    reason: str | None
    job_id: str | UnsetType = msgspec.UNSET


def shown_body(dead_letter: DeadLetter) -> bytes:
    """The body without its token, which would let a reader report the job's result.

    Nothing of it is shown where it was to be a sensitive job, or is of one.
    """
    if SENSITIVE.search(dead_letter.body) or SENSITIVE_MARK.items() <= dead_letter.headers.items():
        return NOT_SHOWN.encode()
    return TOKEN.sub(rb"\1***", dead_letter.body)


def dead_letter_answer(dead_letter: DeadLetter) -> DeadLetterAnswer:
    # UTF-8 uses at most four bytes per character.
    start = shown_body(dead_letter)[: 4 * PREVIEW_CHARS].decode("utf-8", "replace")
    return DeadLetterAnswer(
        id=dead_letter.id,
        at=dead_letter.at,
        source=dead_letter.source,
        reason=dead_letter.reason,
        bytes=len(dead_letter.body),
        preview=start[:PREVIEW_CHARS],
    )


def dead_letter_detail(dead_letter: DeadLetter) -> DeadLetterDetail:
    try:
        encoding: Literal["text", "base64"] = "text"
        body = shown_body(dead_letter).decode("utf-8")
    except UnicodeDecodeError:
        encoding, body = "base64", base64.b64encode(dead_letter.body).decode("ascii")
    return DeadLetterDetail(
        id=dead_letter.id,
        at=dead_letter.at,
        source=dead_letter.source,
        reason=dead_letter.reason,
        headers=masked_headers(dead_letter.headers),
        bytes=len(dead_letter.body),
        encoding=encoding,
        body=body,
    )
