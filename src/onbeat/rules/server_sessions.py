"""When the sessions on a server show that a process has ended.

A killed process leaves all of its sessions within milliseconds, and comes back with none. One that
lives may lose them too: the server ends them, or something between does. So their absence counts
only where

- the same watcher has seen some before, in an unbroken series of looks at the same run of a server;
- the server counts them as left by their client, and has ended none itself meanwhile;
- none is there again after the time in which a living process connects anew.

`rules.liveness` adds that the process has sent a heartbeat shortly before, so that its network was
not silent; and processes that something between may cut off have no name here.
"""

from collections.abc import Mapping
from math import inf
from typing import Final

from msgspec import Struct

from onbeat.model.session_look import SessionLook

PERIOD: Final = 0.5  # seconds between two looks of a lone watcher
ALONE_PERIOD: Final = 2.0  # the same while there is no other process
WATCHERS: Final = 3  # more of them together look no more often than these
RETURN_PERIOD: Final = 0.05  # the same while a session is on its way out, or a process missing
RETURN_SECONDS: Final = 2.0  # in which a living process connects anew, also a busy one
LOST_SECONDS: Final = 0.5  # between the server's count of a lost session and that session's end
KEPT_SECONDS: Final = 60.0  # for which an ended process is remembered


class SessionWatch(Struct, frozen=True):
    """What one watcher has seen, by its own monotonic clock, since its series of looks began.

    `lost_at`: when the server last counted a lost session; it `is_losing` one if that was just now,
    and its process may leave the list any moment. `missing` and `ended` are the names of
    processes without a session, and since when; those in `ended` do not return.
    """

    look: SessionLook | None = None
    lost_at: float = -inf
    is_losing: bool = False
    missing: Mapping[str, float] = {}
    ended: Mapping[str, float] = {}


UNSEEN: Final = SessionWatch()
"""The watch at the start, and after any failed look."""


def after_look(watch: SessionWatch, look: SessionLook, monotonic: float) -> SessionWatch:
    """The watch after a look at the instant `monotonic`."""
    before = watch.look
    if before is None or look.ended != before.ended:
        return SessionWatch(look)
    lost_at = watch.lost_at if look.lost == before.lost else monotonic
    is_losing = monotonic - lost_at <= LOST_SECONDS
    left = before.names if is_losing else frozenset[str]()
    missing = {**watch.missing, **dict.fromkeys(left, monotonic)}
    absent = {name: since for name, since in missing.items() if name not in look.names}
    ended = {
        name: since
        for name, since in {**watch.ended, **absent}.items()
        if name not in look.names and RETURN_SECONDS <= monotonic - since <= KEPT_SECONDS
    }
    return SessionWatch(
        look,
        lost_at,
        is_losing,
        {name: since for name, since in absent.items() if name not in ended},
        ended,
    )


def pause_after_look(watch: SessionWatch) -> float:
    """Seconds until the next look."""
    if watch.missing or watch.is_losing:
        return RETURN_PERIOD
    if watch.look is None:
        return PERIOD
    if len(watch.look.names) <= 1:
        return ALONE_PERIOD
    return PERIOD * max(1.0, watch.look.watchers / WATCHERS)
