"""Records the outcomes of attempts in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import msgspec

from onbeat.engine.loop import pause_after
from onbeat.engine.running_attempt import RunningAttempt
from onbeat.model.errors import Unavailable
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome, Snoozed
from onbeat.ports.clock import Clock
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.settlement import attempt_of, settle

Answer = TypeVar("Answer")

BATCH_MAX: Final = 1_000
FLIGHTS_MAX: Final = 2  # one batch is prepared while the store writes the other


class EndedAttempt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An attempt that has ended, and the future of a caller that waits for it to be stored."""

    job: Job
    outcome: Outcome
    duration: timedelta
    settlement: Settlement
    running: RunningAttempt | None
    stored: "asyncio.Future[None] | None"


class Settler:
    """Calls `on_released` with attempts whose outcome was stored or could not be."""

    def __init__(
        self,
        store: WorkerStore,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
        on_released: Callable[[Sequence[RunningAttempt]], None],
        faults: FaultTally,
    ) -> None:
        self.store = store
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.is_out_of_time = False
        self.on_released = on_released
        self.faults = faults
        self.pending: list[EndedAttempt] = []
        self.is_flushing = 0
        self.in_flight: set[asyncio.Task[None]] = set()

    def submit(
        self,
        job: Job,
        outcome: Outcome,
        duration: timedelta,
        running: RunningAttempt | None = None,
        done: "asyncio.Future[None] | None" = None,
    ) -> None:
        """Store the outcome soon; the attempt keeps its slot until then."""
        now = self.clock.now()
        settlement = Settlement(
            job=settle(job, outcome, now, self.randomness.fraction()),
            attempt=attempt_of(job, outcome, now),
            awaits=outcome.awaits if isinstance(outcome, Snoozed) else None,
        )
        self.pending.append(EndedAttempt(job, outcome, duration, settlement, running, done))
        if self.is_flushing < FLIGHTS_MAX:
            self.is_flushing += 1
            flight = asyncio.create_task(self.flush())
            self.in_flight.add(flight)
            flight.add_done_callback(self.in_flight.discard)

    async def record(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        """Store the outcome, and wait for it."""
        done = asyncio.get_running_loop().create_future()
        self.submit(job, outcome, duration, done=done)
        await done

    async def flush(self) -> None:
        """Must not await between finding `pending` empty and lowering `is_flushing`."""
        try:
            while self.pending:
                batch, self.pending = self.pending[:BATCH_MAX], self.pending[BATCH_MAX:]
                await self.write(batch)
        finally:
            self.is_flushing -= 1

    async def write(self, batch: Sequence[EndedAttempt]) -> None:
        """Store a batch. If the store refuses it, each outcome is written alone."""
        settlements = [one.settlement for one in batch]
        try:
            answers = await self.retry_until_stored(lambda: self.store.settle(settlements))
        except Exception as error:  # noqa: BLE001  a later heartbeat finds these leases
            if len(batch) > 1 and not isinstance(error, Unavailable):
                for one in batch:
                    await self.write([one])
                return
            self.telemetry.loop_failed("worker", error)
            self.release(batch)
            return
        for one, was_ours in zip(batch, answers, strict=True):
            if was_ours:
                self.faults.note(one.settlement.job, one.settlement.attempt)
                self.telemetry.ended(one.settlement.job, one.outcome, one.duration)
            else:
                self.telemetry.lease_lost(one.job)
        self.release(batch)

    def release(self, batch: Sequence[EndedAttempt]) -> None:
        self.on_released([one.running for one in batch if one.running is not None])
        for one in batch:
            if one.stored is not None and not one.stored.done():
                one.stored.set_result(None)

    async def retry_until_stored(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Retry until the store answers; repeating the query is harmless.

        New work thus waits for an unavailable store, and no outcome is lost. Only a shutdown whose
        grace is over stops the retries; the jobs then count as lost.
        """
        failures = 0
        while True:
            try:
                return await ask()
            except Unavailable as error:
                self.telemetry.loop_failed("settle", error)
                if self.is_out_of_time:
                    raise
                await asyncio.sleep(pause_after(failures, self.randomness.fraction()))
                failures += 1
