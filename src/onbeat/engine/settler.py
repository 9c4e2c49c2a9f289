"""Records the outcomes of attempts in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from onbeat.engine.loop import pause_after
from onbeat.engine.progress import keep_progress
from onbeat.engine.running_attempt import RunningAttempt
from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome, Snoozed, Succeeded
from onbeat.ports.clock import Clock
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, SucceededAttempt, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.settlement import attempt_of, settle

Answer = TypeVar("Answer")

BATCH_MAX: Final = 1_000
FLIGHTS_MAX: Final = 2  # one batch is prepared while the store writes the other
NOT_STORABLE: Final = "the outcome of the attempt cannot be stored"


class EndedAttempt(msgspec.Struct, eq=False, gc=False):
    """An attempt that has ended, and the future of a caller that waits for it to be stored.

    It took `seconds`, until `ended_at` of the monotonic clock. `record` is what the store writes. A
    success has none before its batch is written, and no settlement, since most attempts succeed.
    """

    job: Job
    outcome: Outcome
    seconds: float
    ended_at: float
    record: SucceededAttempt | Settlement | None
    running: RunningAttempt | None
    stored: "asyncio.Future[None] | None"


class Settler:
    """Calls `on_released` with the attempts whose outcome was stored or could not be."""

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
        seconds: float,
        running: RunningAttempt | None = None,
        done: "asyncio.Future[None] | None" = None,
        ended_at: float | None = None,
    ) -> None:
        """Store the outcome soon; the attempt keeps its slot until then.

        It ended at `ended_at` of the monotonic clock, by default now.
        """
        if ended_at is None:
            ended_at = self.clock.monotonic()
        record: Settlement | None = None
        if type(outcome) is not Succeeded:
            try:
                record = self.settlement_of(job, outcome)
            except Exception as error:  # noqa: BLE001  no outcome may keep a job from its end
                outcome = not_storable(error)
                record = self.settlement_of(job, outcome)
        self.pending.append(EndedAttempt(job, outcome, seconds, ended_at, record, running, done))
        if self.is_flushing < FLIGHTS_MAX:
            self.is_flushing += 1
            flight = asyncio.create_task(self.flush())
            self.in_flight.add(flight)
            flight.add_done_callback(self.in_flight.discard)

    def settlement_of(self, job: Job, outcome: Outcome) -> Settlement:
        now = self.clock.now()
        return Settlement(
            job=settle(job, outcome, now, self.randomness.fraction()),
            attempt=attempt_of(job, outcome, now),
            awaits=outcome.awaits if isinstance(outcome, Snoozed) else None,
        )

    async def record(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of an attempt that holds no slot here, and wait for it."""
        done = asyncio.get_running_loop().create_future()
        self.submit(job, outcome, 0.0, done=done)
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
        """Store a batch, its successes apart. What the store refuses is written one by one."""
        self.add_records(batch)
        successes = [one for one in batch if type(one.record) is SucceededAttempt]
        if len(successes) == len(batch):
            await self.write_alike(self.store.succeed, batch)
            return
        others = [one for one in batch if type(one.record) is not SucceededAttempt]
        if successes:
            # At once, so that the store can write both in one commit.
            await asyncio.gather(
                self.write_alike(self.store.succeed, successes),
                self.write_alike(self.store.settle, others),
            )
        else:
            await self.write_alike(self.store.settle, others)

    def add_records(self, batch: Sequence[EndedAttempt]) -> None:
        """Make the records of successes, once, with one reading of the clock for all."""
        now, reading = self.clock.now(), self.clock.monotonic()
        for one in batch:
            if isinstance(one.outcome, Succeeded):
                finished_at = now + timedelta(seconds=one.ended_at - reading)
                one.record = SucceededAttempt(one.job, finished_at, one.outcome.result, one.seconds)

    async def write_alike(
        self,
        write: Callable[[Sequence[Any]], Awaitable[Sequence[bool]]],
        batch: Sequence[EndedAttempt],
    ) -> None:
        """Store attempts whose records are of one kind, which `write` takes."""
        records = [one.record for one in batch]
        telling = [one.running for one in batch if one.running is not None and tells_progress(one)]

        async def write_all() -> Sequence[bool]:
            if telling:
                await self.keep_last_progress(telling)
            return await write(records)

        try:
            answers = await self.retry_until_stored(write_all)
        except Exception as error:  # noqa: BLE001  a later heartbeat finds these leases
            if len(batch) > 1 and not isinstance(error, Unavailable):
                for one in batch:
                    await self.write_alike(write, [one])
                return
            if isinstance(error, Invalid) and not is_last_resort(batch[0].outcome):
                await self.fail(batch[0], error)
                return
            self.telemetry.loop_failed("worker", error)
            self.release(batch)
            return
        stored = batch if all(answers) else self.report_lost(batch, answers)
        self.report(stored)
        self.release(batch)

    async def fail(self, one: EndedAttempt, error: Invalid) -> None:
        """End a job in whose outcome the store refuses something; else it would run for ever."""
        one.outcome = not_storable(error)
        one.record = self.settlement_of(one.job, one.outcome)
        await self.write_alike(self.store.settle, [one])

    async def keep_last_progress(self, ended: Sequence[RunningAttempt]) -> None:
        """Progress that the store refuses is worth no outcome."""
        try:
            await keep_progress(self.store, ended)
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  as above
            self.telemetry.loop_failed("worker", error)

    def report_lost(
        self, batch: Sequence[EndedAttempt], answers: Sequence[bool]
    ) -> Sequence[EndedAttempt]:
        """Report the attempts whose lease was lost; returns the others."""
        stored: list[EndedAttempt] = []
        for one, was_ours in zip(batch, answers, strict=True):
            if was_ours:
                stored.append(one)
            else:
                self.telemetry.lease_lost(one.job)
        return stored

    def report(self, stored: Sequence[EndedAttempt]) -> None:
        successes = [one.record for one in stored if isinstance(one.record, SucceededAttempt)]
        if successes:
            self.telemetry.succeeded(successes)
        for one in stored:
            record = one.record
            if isinstance(record, Settlement):
                self.faults.note(record.job, record.attempt)
                self.telemetry.ended(record.job, one.outcome, one.seconds)

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


def not_storable(error: Exception) -> Failed:
    return Failed(f"{NOT_STORABLE}: {error}", retryable=False)


def tells_progress(one: EndedAttempt) -> bool:
    """Whether the job ends with progress that may not be stored yet; most report none."""
    running, record = one.running, one.record
    if running is None or running.progress is None:
        return False
    return not isinstance(record, Settlement) or record.job.is_final


def is_last_resort(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.error.startswith(NOT_STORABLE)
