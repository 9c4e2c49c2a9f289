"""How many calls of a task may be in flight: as many as its remote workers answer in time.

Nothing says how many remote workers there are, or how fast they work. But an answer shows how long
its call took, and a call that waits in the broker for its whole lease runs out there.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.ids import JobId, Token

IN_FLIGHT_MAX: Final = 1_000  # calls of one sender without an answer: how far a queue may grow
RESTART_MAX: Final = 100  # after a time without work: enough for many workers, not for a slow one
SOON: Final = 0.5  # of a lease; of twice as many calls the last is then answered within a whole one

Lease = tuple[JobId, Token]


class SentCall(msgspec.Struct, frozen=True, gc=False):
    """When a call was sent, as which one of its task, and until when its lease lasts."""

    number: int
    sent_at: datetime
    until: datetime

    @property
    def lease(self) -> timedelta:
        return self.until - self.sent_at


class CallsInFlight:
    """The calls of one task that one sender has sent, and that are not known to be answered.

    `most` doubles once that many are in flight, and as many have soon been answered. When one runs
    out that no worker had taken, it falls to what the workers answer in a lease at their pace;
    where they answer nothing, to one call to try with, until that is answered. Only what was sent
    since the last change counts. A queue is a line: when a call is answered, the earlier ones were
    taken. Brokers without that order make the number fall less.
    """

    __slots__ = ("answered", "answered_to", "before", "count", "most", "sent", "since", "soon")

    def __init__(self) -> None:
        self.most = IN_FLIGHT_MAX  # nothing is known of the workers yet
        self.before = 0  # what `most` was before nothing was answered
        self.sent: dict[Lease, SentCall] = {}
        self.since: datetime | None = None
        self.count = 0
        self.answered_to = 0  # the last call that was answered, by its number
        self.answered = 0
        self.soon = 0

    @property
    def room(self) -> int:
        """How many more may be sent."""
        return max(0, self.most - len(self.sent))

    def note_sent(self, lease: Lease, sent_at: datetime, until: datetime) -> None:
        self.since = self.since or sent_at
        self.count += 1
        self.sent[lease] = SentCall(self.count, sent_at, until)

    def note_held(self, held: Collection[Lease], now: datetime) -> int:
        """These leases are still held. Returns how many of the calls are in flight no more."""
        gone = [call for lease, call in self.sent.items() if lease not in held]
        if not gone:
            return 0
        is_full = self.room == 0
        self.sent = {lease: call for lease, call in self.sent.items() if lease in held}
        since = self.since or now
        fresh = [call for call in gone if call.sent_at >= since]
        answered = [call.number for call in gone if call.until >= now]
        self.answered += len(answered)
        self.answered_to = max(self.answered_to, *answered, 0)
        if any(call.until < now and call.number > self.answered_to for call in fresh):
            self.fall((now - since) / gone[0].lease, now)
        elif answered and self.before:
            self.change(self.before, now)
        elif answered and not is_full:
            self.change(self.most if self.sent else max(self.most, RESTART_MAX), now)
        elif answered:
            self.note_full(fresh, now)
        return len(gone)

    def note_full(self, calls: Collection[SentCall], now: datetime) -> None:
        """These were answered while no more could be sent."""
        is_late = any(now - call.sent_at > SOON * call.lease for call in calls)
        self.soon = 0 if is_late else self.soon + len(calls)
        if self.soon >= self.most < IN_FLIGHT_MAX:
            self.change(min(IN_FLIGHT_MAX, 2 * self.most), now)

    def fall(self, leases: float, now: datetime) -> None:
        """Fewer from now on; `leases` of them have passed since the last change."""
        if self.answered:
            self.change(max(1, min(self.most, int(self.answered / leases))), now)
        else:
            before = max(self.before, self.most)
            self.change(1, now)
            self.before = before

    def change(self, most: int, now: datetime) -> None:
        self.most, self.since = most, now
        self.before = self.answered = self.soon = 0
