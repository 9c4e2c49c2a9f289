"""Sends the worker's heartbeats to the store, and reads which leases it still holds."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.loop import Wakeup, pause_after
from onbeat.engine.progress import keep_progress
from onbeat.engine.running_attempt import RunningAttempt
from onbeat.engine.side_thread import SideThread
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.worker import WorkerRecord
from onbeat.ports.clock import Clock
from onbeat.ports.side_loop import OpenSideLoop
from onbeat.ports.sidecar import NO_SIDECAR, Sidecar
from onbeat.ports.store import HeartbeatStore, HeldLease, WorkerStore
from onbeat.ports.telemetry import Telemetry

RETRY_MAX: Final = 1.0
"""Seconds at most until a refused heartbeat is retried: work waits for it."""


class LeaseHolder(Protocol):
    """Holds leases and runs attempts under them."""

    @property
    def running(self) -> Mapping[JobId, RunningAttempt]: ...

    @property
    def unbegun(self) -> Collection[Job]:
        """Claimed jobs that have not begun."""
        ...

    def reconcile_leases(self, answer: "LeaseAnswer") -> None:
        """Apply the store's answer to the leases that were known before the heartbeat."""
        ...


class LeaseAnswer(Struct, frozen=True, gc=False):
    """The answer to a heartbeat: the leases `held`, and those `known` here before it was sent.

    A known lease that the store does not name is lost, whether its attempt is begun or `unbegun`.
    """

    known: Sequence[RunningAttempt]
    unbegun: Sequence[Job]
    held: Sequence[HeldLease]
    sent_at: float


class NoAttempts:
    """Implements `LeaseHolder` for a carrier, which runs nothing and reads its leases itself."""

    running: Mapping[JobId, RunningAttempt] = MappingProxyType({})
    unbegun: Collection[Job] = ()

    def reconcile_leases(self, answer: LeaseAnswer) -> None:
        """Nothing runs that would have to be stopped."""


class Heartbeat:
    """Renews all leases of the worker with one heartbeat."""

    def __init__(
        self,
        store: HeartbeatStore,
        notes: WorkerStore,
        clock: Clock,
        row: Callable[[], WorkerRecord],
        holder: LeaseHolder,
        guard: LeaseGuard,
    ) -> None:
        self.store = store
        self.progress_store = notes
        self.clock = clock
        self.row = row
        self.holder = holder
        self.guard = guard
        self.beats = 0

    async def renew_leases(self) -> LeaseAnswer:
        """Send one heartbeat."""
        sent_at = self.clock.monotonic()
        # In this order: a job that begins between the two is in both, not in none.
        unbegun = tuple(self.holder.unbegun)
        known = tuple(run for run in tuple(self.holder.running.values()) if not run.is_settling)
        self.beats += 1
        try:
            held = await self.store.heartbeat(self.current_row())
        except BaseException:
            self.guard.on_refused()
            raise
        self.guard.on_accepted(sent_at)
        await keep_progress(self.progress_store, known)
        return LeaseAnswer(known, unbegun, tuple(held), sent_at)

    def current_row(self) -> WorkerRecord:
        """The worker's row, as the next heartbeat writes it."""
        return replace(self.row(), beat=self.beats, beat_at=self.clock.now())


class HeartbeatThread:
    """Sends heartbeats from an event loop of their own, which no handler can block: in a thread.

    The store's answer is applied in the worker's loop once that is free. Only the newest answer
    counts, since older ones may be out of date.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        period: float,
        telemetry: Telemetry,
        sidecar: Sidecar = NO_SIDECAR,
        side_loop: OpenSideLoop = SideThread,
    ) -> None:
        self.heartbeat = heartbeat
        self.period = period
        self.telemetry = telemetry
        self.sidecar = sidecar
        self.stopping = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.side_loop = side_loop()
        self.wakeup: Wakeup | None = None
        self.answers: deque[LeaseAnswer] = deque(maxlen=1)
        self.failures = 0

    def start(self) -> None:
        self.side_loop.start(self.run)
        self.heartbeat.guard.begin(self.beat_now)

    async def run(self) -> None:
        self.wakeup = Wakeup()
        telling = asyncio.create_task(self.report_life_forever())
        while not self.stopping.is_set():
            await self.renew()
            await self.wakeup.wait(self.pause())
        telling.cancel()

    async def report_life_forever(self) -> None:
        """Report to the sidecar independently of heartbeats, which may wait for the store."""
        while self.sidecar is not NO_SIDECAR:
            try:
                self.sidecar.report_life(self.heartbeat.current_row())
            except Exception as error:  # noqa: BLE001  heartbeats go on without it
                self.telemetry.loop_failed("sidecar", error)
            await asyncio.sleep(self.period / 2)

    def pause(self) -> float:
        """Seconds until the next heartbeat."""
        if self.failures == 0:
            return self.period
        return min(self.period, RETRY_MAX, pause_after(self.failures - 1, chance=1.0))

    async def renew(self) -> None:
        # The counter only rises, also past the heartbeats that the sidecar sent.
        self.heartbeat.beats = max(self.heartbeat.beats, self.sidecar.last_beat())
        try:
            answer = await self.heartbeat.renew_leases()
        except Exception as error:  # noqa: BLE001  without heartbeats every lease would be lost
            self.telemetry.loop_failed("renewer", error)
            self.failures += 1
            return
        self.failures = 0
        self.telemetry.loop_beat("renewer")
        self.answers.append(answer)
        self.call_in_worker_loop(self.apply_answer)

    def apply_answer(self) -> None:
        if self.answers:
            answer = self.answers.pop()
            self.heartbeat.holder.reconcile_leases(answer)
            self.heartbeat.guard.on_applied(answer.sent_at)

    def call_in_worker_loop(self, act: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(act)
        except RuntimeError:
            # The worker's loop has ended; its attempts have ended with it.
            return

    def beat_now(self) -> None:
        """Send a heartbeat now, to read changes from the store. Thread-safe."""
        if self.wakeup is not None:
            self.wakeup.wake_threadsafe()

    async def stop(self) -> None:
        self.stopping.set()
        self.beat_now()
        await self.side_loop.join()
