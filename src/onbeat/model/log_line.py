"""Lines that a handler logged while it ran."""

from datetime import datetime
from typing import Any

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.model.limits import LOG_NUMBERS


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler logged, before it is a line of a job; `fields` are plain JSON values."""

    at: datetime
    level: str
    logger: str
    text: str
    fields: dict[str, Any] = {}


class JobLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One kept line. `number` rises from line to line of a job, over all of its attempts.

    `fields` is the text of a JSON object, None without any.
    """

    job_id: JobId
    number: int
    attempt: int
    at: datetime
    level: str
    logger: str
    text: str
    fields: str | None = None


LineKey = tuple[JobId, int]
"""The job and the number of a line."""


def line_number(token: Token, place: int) -> int:
    """The number of a line, by its place in its attempt.

    By the token and not by the attempt: a job that was put off or retried by hand repeats numbers
    of attempts.
    """
    return token * LOG_NUMBERS + place
