"""Failure detection: when a worker counts as dead, and how long it may trust its leases.

A lease has two sides. The watcher may end it after the worker was silent for a whole lease. The
worker may act on it for half a lease after a heartbeat that the store accepted. The other half is a
margin for slow answers and for clocks that run at different rates.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from onbeat.model.ids import WorkerId
from onbeat.model.limits import HELD_LEASES_MAX
from onbeat.model.outcome import Evidence
from onbeat.model.worker import WorkerRecord

GAP_MAX: Final = 5.0
"""Seconds between two readings that count as silence: a suspended watcher proves nothing."""
GAP_SHARE: Final = 0.25  # of a lease that one gap may count: a single reading never ends a lease
UNPROVEN_SHARE: Final = 0.5  # of a lease that counts without a write of the watcher itself
WRITE_SECONDS_MAX: Final = 2.0  # after a slower write, heartbeats may have been delayed too
TIMED_PROOF: Final = 3.0
"""Seconds of proven rounds before a timed lease has run out: time to renew after an outage."""
TIMED_GAP_MAX: Final = 1.5  # seconds of them that one gap may count

LEFT_SILENCE_MAX: Final = 20.0
"""Seconds without a heartbeat after which the server may have ended sessions: their network may
have been silent until its probes ran out."""

TRUST_SHARE: Final = 0.5  # of a lease for which a worker acts on its last accepted heartbeat
STAND_IN_SHARE: Final = 0.25  # of a lease: signs of life come twice as often


class Sign(Struct, frozen=True, gc=False):
    """The last heartbeat of a worker, and for how many seconds there was no newer one."""

    beat: int
    lease_seconds: float
    silence: float = 0.0


class Watch(Struct, frozen=True):
    """What one watcher has seen since its watch began, by its own monotonic clock alone.

    `is_proven`: the watcher wrote to the store in the last round. `proven_seconds`: for how long it
    did so in every round. `is_overdue`: some timed leases have run out.
    """

    signs: Mapping[WorkerId, Sign] = {}
    read_at: float | None = None
    is_proven: bool = False
    proven_seconds: float = 0.0
    is_overdue: bool = False

    def gap(self, monotonic: float) -> float:
        """Seconds since the last reading, limited to `GAP_MAX`."""
        return 0.0 if self.read_at is None else min(monotonic - self.read_at, GAP_MAX)


UNWATCHED: Final = Watch()
"""The watch at the start and after any failure of the store.

A store that can be read but not written silences all workers, although none of them is dead.
"""


def wants_proof(watch: Watch, monotonic: float) -> bool:
    """Whether the watcher has to write before its next reading.

    No write is needed while every worker sends heartbeats.
    """
    return watch.is_overdue or bool(in_doubt(watch, monotonic))


def in_doubt(watch: Watch, monotonic: float) -> Sequence[WorkerId]:
    """The workers whose silence counts further only if the store would accept their heartbeats."""
    gap = watch.gap(monotonic)
    return [
        id
        for id, sign in watch.signs.items()
        if sign.silence + gap > sign.lease_seconds * UNPROVEN_SHARE
    ]


def is_proof(write_seconds: float) -> bool:
    """Whether a write of this duration shows that workers could write as well."""
    return write_seconds <= WRITE_SECONDS_MAX


def observe(
    watch: Watch, workers: Iterable[WorkerRecord], monotonic: float, *, proven: bool
) -> Watch:
    """The watch after a reading, `proven` by a write of the watcher in the same round.

    Time counts as proven between two such rounds.
    """
    gap = watch.gap(monotonic)
    through = proven and watch.is_proven
    return Watch(
        signs={
            worker.id: sign_of(watch.signs.get(worker.id), worker, gap, through)
            for worker in workers
        },
        read_at=monotonic,
        is_proven=proven,
        proven_seconds=watch.proven_seconds + min(gap, TIMED_GAP_MAX) if through else 0.0,
        is_overdue=watch.is_overdue,
    )


def sign_of(before: Sign | None, worker: WorkerRecord, gap: float, through: bool) -> Sign:  # noqa: FBT001  passed on
    """After a new heartbeat, and at the first reading, the whole lease has to pass again."""
    lease = worker.lease_seconds
    if before is None or before.beat != worker.beat:
        return Sign(worker.beat, lease)
    silence = before.silence + min(gap, lease * GAP_SHARE)
    return Sign(worker.beat, lease, silence if through else min(silence, lease * UNPROVEN_SHARE))


def is_silent(sign: Sign) -> bool:
    return sign.silence > sign.lease_seconds


def verdicts(
    watch: Watch, gone: Iterable[WorkerId], left: Iterable[WorkerId] = ()
) -> dict[WorkerId, Evidence]:
    """The dead workers with the evidence.

    That is a process that the kernel reports gone; one that has `left` its sessions, unless it was
    silent before; or silence.
    """
    silent = {id: Evidence.SILENT for id, sign in watch.signs.items() if is_silent(sign)}
    ended = [id for id in left if watch.signs[id].silence <= LEFT_SILENCE_MAX]
    return silent | dict.fromkeys(ended, Evidence.LEFT) | dict.fromkeys(gone, Evidence.ENDED)


def may_end_timed(watch: Watch) -> bool:
    """Whether the holders of overdue timed leases had enough time to renew them."""
    return watch.proven_seconds >= TIMED_PROOF


class BeatState(Struct, frozen=True, gc=False):
    """What a worker knows about its own heartbeats.

    `sure_at` is when the last accepted one was sent; `is_failing` is true if one was refused since.
    """

    lease_seconds: float
    sure_at: float | None = None
    is_failing: bool = False


def after_accepted(pulse: BeatState, sent_at: float) -> BeatState:
    return BeatState(pulse.lease_seconds, sent_at)


def after_refused(pulse: BeatState) -> BeatState:
    return BeatState(pulse.lease_seconds, pulse.sure_at, is_failing=True)


def holds_leases(pulse: BeatState, monotonic: float) -> bool:
    """Whether this worker certainly still holds the leases of its last heartbeat.

    It cannot count as dead before a whole lease has passed since then.
    """
    return monotonic <= sure_until(pulse)


def sure_until(pulse: BeatState) -> float:
    """The monotonic instant until which this worker certainly holds its leases."""
    if pulse.sure_at is None:
        return -inf
    return pulse.sure_at + pulse.lease_seconds * TRUST_SHARE


def may_have_ended(pulse: BeatState, sent_at: float, monotonic: float) -> bool:
    """Whether leases of a claim that was sent at `sent_at` may have been ended before its answer.

    A claim is sent within `TRUST_SHARE` of a lease after an accepted heartbeat, and a watcher waits
    for a whole lease. So none has ended while the claim took less than the rest.
    """
    return monotonic - sent_at > pulse.lease_seconds * (1 - TRUST_SHARE)


def may_claim(pulse: BeatState, monotonic: float) -> bool:
    """Whether the worker may claim: a store that refuses heartbeats could not keep leases alive."""
    return not pulse.is_failing and holds_leases(pulse, monotonic)


def needs_sidecar(silence: float, lease_seconds: float, *, runs: bool) -> bool:
    """Whether the sidecar sends heartbeats for a worker that was silent for `silence` seconds.

    `runs`: the kernel reports the worker's process as neither ended nor stopped. Its interpreter is
    then blocked by a single call, which usually ends, but not always.
    """
    if not runs:
        return False
    return lease_seconds * STAND_IN_SHARE <= silence <= lease_seconds * HELD_LEASES_MAX
