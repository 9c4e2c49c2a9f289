"""Dead letters as they are shown."""

import base64
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, UnsetType

from onbeat.model.letter import DeadLetter

PREVIEW_CHARS: Final = 200


class LetterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter but for its body, of which `preview` is the beginning and `bytes` the size."""

    id: str
    at: datetime
    source: str
    reason: str
    bytes: int
    preview: str


class LettersAnswer(msgspec.Struct, frozen=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    letters: tuple[LetterAnswer, ...]
    limit: int
    cursor: str | None


class LetterDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter whole; its `body` as text, or in base64 where it is no text."""

    id: str
    at: datetime
    source: str
    reason: str
    headers: dict[str, str]
    bytes: int
    encoding: Literal["text", "base64"]
    body: str


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the letter went through, and is gone; if not, under which id it is kept and why.

    `job_id` is the job that it was about, or that it became.
    """

    replayed: bool
    id: Annotated[str, Meta(description="The letter")]
    reason: str | None
    job_id: str | UnsetType = msgspec.UNSET


def letter_answer(letter: DeadLetter) -> LetterAnswer:
    # A character has at most four bytes.
    start = letter.body[: 4 * PREVIEW_CHARS].decode("utf-8", "replace")
    return LetterAnswer(
        id=letter.id,
        at=letter.at,
        source=letter.source,
        reason=letter.reason,
        bytes=len(letter.body),
        preview=start[:PREVIEW_CHARS],
    )


def letter_detail(letter: DeadLetter) -> LetterDetail:
    try:
        encoding: Literal["text", "base64"] = "text"
        body = letter.body.decode("utf-8")
    except UnicodeDecodeError:
        encoding, body = "base64", base64.b64encode(letter.body).decode("ascii")
    return LetterDetail(
        id=letter.id,
        at=letter.at,
        source=letter.source,
        reason=letter.reason,
        headers=letter.headers,
        bytes=len(letter.body),
        encoding=encoding,
        body=body,
    )
