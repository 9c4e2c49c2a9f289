"""What an attempt came to."""

from datetime import timedelta

import msgspec


class Succeeded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The work is done; `result` is JSON text."""

    result: msgspec.Raw | None = None


class Failed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The attempt failed. `retry_after` is the least wait that the target asked for."""

    error: str
    retryable: bool = True
    retry_after: timedelta | None = None


class Snoozed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The job is put off by `delay`, by its handler or for `reason`; this costs no attempt."""

    delay: timedelta
    reason: str | None = None


class Cancelled(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The work was given up on purpose, by the handler or by a caller."""

    reason: str


class Lost(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The worker died or was not heard of; what the attempt did is unknown."""

    reason: str


class Released(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The worker shut down and hands the job back; this costs no attempt."""


Outcome = Succeeded | Failed | Snoozed | Cancelled | Lost | Released
