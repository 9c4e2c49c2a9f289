"""A task that workers in other languages run."""

from datetime import timedelta

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
