"""A task that workers in other languages run, and what tells their results apart."""

from datetime import timedelta
from enum import StrEnum

import msgspec


class RemoteTask(msgspec.Struct, frozen=True, kw_only=True):
    """What submissions of the task must have.

    `requires` are the params that a submission must give. `key` makes the job's unique key of its
    params (`rules.submission_keys`), where the sender gives none; `unique_for` is how long the key
    stays taken after the job's end.
    """

    name: str
    requires: tuple[str, ...] = ()
    key: str | None = None
    unique_for: timedelta | None = None


class RemoteFence(StrEnum):
    """What a result on the results queue needs, to count for the running attempt.

    TOKEN: the token of its call, which cannot be guessed. ATTEMPT: where it has no token, the
    number of the attempt, which can; for workers that know no token.
    """

    TOKEN = "token"  # noqa: S105  its name
    ATTEMPT = "attempt"
