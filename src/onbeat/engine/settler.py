"""Records what attempts came to: all that have ended meanwhile in one go."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar

import msgspec

from onbeat.engine.keeper import pause_after
from onbeat.engine.running import Running
from onbeat.model.errors import Unavailable
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Settlement, WorkerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.settling import attempt_of, settle

Answer = TypeVar("Answer")

BATCH_MAX: Final = 1_000
FLIGHTS_MAX: Final = 2  # one is made ready while the store works at the other


class Ended(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An attempt that has ended, and whoever waits for that to be stored."""

    job: Job
    outcome: Outcome
    duration: timedelta
    settlement: Settlement
    running: Running | None
    done: "asyncio.Future[None] | None"


class Settler:
    """`let_go` is called with running attempts whose outcomes are stored, or given up."""

    def __init__(
        self, store: WorkerStore, clock: Clock, chance: Chance, telemetry: Telemetry
    ) -> None:
        self.store = store
        self.clock = clock
        self.chance = chance
        self.telemetry = telemetry
        self.is_out_of_time = False
        self.let_go: Callable[[Sequence[Running]], None] = lambda _running: None
        self.waiting: list[Ended] = []
        self.flying = 0
        self.flights: set[asyncio.Task[None]] = set()

    def put(
        self,
        job: Job,
        outcome: Outcome,
        duration: timedelta,
        running: Running | None = None,
        done: "asyncio.Future[None] | None" = None,
    ) -> None:
        """Store the outcome soon; the attempt keeps its slot until then."""
        now = self.clock.now()
        settlement = Settlement(
            job=settle(job, outcome, now, self.chance.fraction()),
            attempt=attempt_of(job, outcome, now),
        )
        self.waiting.append(Ended(job, outcome, duration, settlement, running, done))
        if self.flying < FLIGHTS_MAX:
            self.flying += 1
            flight = asyncio.create_task(self.fly())
            self.flights.add(flight)
            flight.add_done_callback(self.flights.discard)

    async def record(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        """The same, and wait for it."""
        done = asyncio.get_running_loop().create_future()
        self.put(job, outcome, duration, done=done)
        await done

    async def fly(self) -> None:
        """Nothing comes between finding nobody waiting and no longer being counted."""
        try:
            while self.waiting:
                batch, self.waiting = self.waiting[:BATCH_MAX], self.waiting[BATCH_MAX:]
                await self.write(batch)
        finally:
            self.flying -= 1

    async def write(self, batch: Sequence[Ended]) -> None:
        """One that the store refuses keeps no other from being stored."""
        settlements = [one.settlement for one in batch]
        try:
            answers = await self.insist(lambda: self.store.settle(settlements))
        except Exception as error:  # noqa: BLE001  the beat finds what could not be stored
            if len(batch) > 1 and not isinstance(error, Unavailable):
                for one in batch:
                    await self.write([one])
                return
            self.telemetry.loop_failed("worker", error)
            self.release(batch)
            return
        for one, was_ours in zip(batch, answers, strict=True):
            if was_ours:
                self.telemetry.ended(one.settlement.job, one.outcome, one.duration)
            else:
                self.telemetry.lease_lost(one.job)
        self.release(batch)

    def release(self, batch: Sequence[Ended]) -> None:
        self.let_go([one.running for one in batch if one.running is not None])
        for one in batch:
            if one.done is not None and not one.done.done():
                one.done.set_result(None)

    async def insist(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask the store for as long as it takes; repeating is harmless.

        So a store that is away holds back new work instead of losing what was done. Only a shutdown
        that has waited long enough gives up; the jobs then count as lost.
        """
        failures = 0
        while True:
            try:
                return await ask()
            except Unavailable as error:
                self.telemetry.loop_failed("settle", error)
                if self.is_out_of_time:
                    raise
                await asyncio.sleep(pause_after(failures, self.chance.fraction()))
                failures += 1
