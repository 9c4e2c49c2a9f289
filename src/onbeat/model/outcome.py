"""The outcome of an attempt."""

from datetime import datetime, timedelta
from enum import Enum
from typing import Final

import msgspec


class Succeeded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The work is done; `result` is JSON text."""

    result: msgspec.Raw | None = None


class Failed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The attempt failed. `retry_after` is the minimum wait that the target asked for."""

    error: str
    retryable: bool = True
    retry_after: timedelta | None = None


class Snoozed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The job is postponed by `delay`, by its handler or for `reason`; this costs no attempt.

    A span counts from when the outcome is stored; `until` is an instant instead. `unstarted`: its
    target was not run, so that it must still start before it expires. `awaits` is the step that
    waits for an event: if that has come meanwhile, the job is due at once.
    """

    delay: timedelta = timedelta()
    reason: str | None = None
    unstarted: bool = False
    awaits: str | None = None
    until: datetime | None = None


class Cancelled(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The job was cancelled on purpose, by the handler or by a caller.

    `unstarted`: its target was not run, so that the attempt does not count.
    """

    reason: str
    unstarted: bool = False


UNANSWERED: Final = "no worker answered its call before the lease ran out"
"""Why the call of a remote worker is lost; it may have waited in the broker all the time."""


class Evidence(Enum):
    """How it is known that an attempt is lost. Only `ENDED` proves that something died.

    ENDED: the process that ran it is gone, according to the kernel of its machine. LEFT: it has
    left all of its sessions on the store's server, and connected no more. SILENT: its
    worker sent no heartbeat for its whole lease, while the observer could write to the store.
    EXPIRED: its timed lease was not renewed. ROWLESS: the store has no row of that worker.
    UNANSWERED: it was a call that no remote worker answered; maybe none is there to take it.
    """

    ENDED = "ended"
    LEFT = "left"
    SILENT = "silent"
    EXPIRED = "expired"
    ROWLESS = "rowless"
    UNANSWERED = "unanswered"


class Lost(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The worker died or went silent; the effects of the attempt are unknown.

    `company` is how many jobs were lost with that worker, this one included; 0 where the job had
    its own process and only that died. `is_shared`: other workers died at the same time, so the
    cause may lie outside their jobs. `returned` counts earlier losses of this job whose worker sent
    a heartbeat later, so that it had not died; `unanswered` counts earlier calls without an answer.
    """

    reason: str
    evidence: Evidence = Evidence.SILENT
    company: int = 1
    is_shared: bool = False
    returned: int = 0
    unanswered: int = 0


class Released(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The worker shut down and returned the job; this costs no attempt."""


Outcome = Succeeded | Failed | Snoozed | Cancelled | Lost | Released
