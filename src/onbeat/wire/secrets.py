"""Wire records of encryption at rest."""

from typing import Annotated

import msgspec
from msgspec import Meta

from onbeat.model.limits import REENCRYPT_MAX

CURSOR_CHARS_MAX = 100


class ReencryptBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to continue, and how many schedules or jobs to examine."""

    cursor: (
        Annotated[
            str,
            Meta(description="Where the part before ended", max_length=CURSOR_CHARS_MAX),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=REENCRYPT_MAX)] = REENCRYPT_MAX


class Reencrypt(msgspec.Struct, frozen=True):
    part: ReencryptBody = ReencryptBody()


class ReencryptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one batch. `key` is the id of the current encryption key.

    Of the `scanned` schedules and jobs, `changed` were re-encrypted; `unreadable` need a key that
    is not configured, or were changed meanwhile. `cursor` leads to the next batch and is null after
    the last.
    """

    key: str
    scanned: int
    changed: int
    unreadable: int
    cursor: str | None
