"""The open connections of a port: their limit, and which are closed first."""

from typing import Any, Final, Protocol

import msgspec

from onbeat.model.limits import HEAD_SECONDS_MAX, LINGER_SECONDS_MAX, STALL_SECONDS_MAX
from onbeat.telemetry.counters import ConnectionCounts
from onbeat.telemetry.repeats import Repeats
from onbeat.telemetry.structured_log import Log

lines = Log("onbeat.api")

FULL: Final = "full"
EVICTED: Final = "evicted"


class Peer(Protocol):
    """One connection, as its limit needs it."""

    def evict(self) -> None:
        """Close at once."""
        ...


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits for the parts of a connection, in seconds."""

    head: float = HEAD_SECONDS_MAX
    linger: float = LINGER_SECONDS_MAX
    stall: float = STALL_SECONDS_MAX


PATIENT: Final = Times()


class Connections:
    """Admits connections up to a limit.

    At the limit, the connection that has waited longest without a request is closed for the new
    one: incomplete requests and idle connections never keep a complete request out. Where every
    connection is being answered, the new one is refused.
    """

    def __init__(
        self, limit: int, counts: ConnectionCounts | None = None, times: Times = PATIENT
    ) -> None:
        self.times = times
        self.counts = ConnectionCounts() if counts is None else counts
        self.counts.limit = limit
        # In the order in which they began to wait, which a dict keeps.
        self.waiting: dict[Peer, None] = {}
        self.repeats = Repeats()

    def admit(self, peer: Peer) -> bool:
        """Whether the new connection may stay. Either way it counts until `remove`."""
        self.counts.open += 1
        if self.counts.open > self.counts.limit and not self.make_room():
            return False
        self.waiting[peer] = None
        return True

    def make_room(self) -> bool:
        oldest = next(iter(self.waiting), None)
        self.note(FULL if oldest is None else EVICTED)
        if oldest is None:
            return False
        del self.waiting[oldest]
        oldest.evict()
        return True

    def remove(self, peer: Peer) -> None:
        self.counts.open -= 1
        self.waiting.pop(peer, None)

    def busy(self, peer: Peer) -> None:
        """Mark a connection as answering a request."""
        self.waiting.pop(peer, None)

    def idle(self, peer: Peer) -> None:
        """Mark a connection as waiting for a request."""
        self.waiting[peer] = None

    def note(self, reason: str, **fields: Any) -> None:
        """Count a refusal, and log the first of each kind in a minute."""
        refused = self.counts.refused
        refused[reason] = refused.get(reason, 0) + 1
        if reason in {FULL, EVICTED}:
            fields |= {"open": self.counts.open, "limit": self.counts.limit}
            self.log("connections.full", reason=reason, **fields)
        else:
            self.log("request.refused", reason=reason, **fields)

    def log(self, event: str, **fields: Any) -> None:
        if times := self.repeats.times_to_log(f"{event} {fields.get('reason', '')}"):
            lines.warning(event, **fields, times=times)
