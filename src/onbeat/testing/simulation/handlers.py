"""Model handlers: they take their time, fail, and write down what they did, outside the store."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.journal import Attempted, Journal
from onbeat.testing.simulation.loop import SimulationLoop
from onbeat.testing.simulation.options import SimulationOptions

TASK: Final = "work"
TICK: Final = "tick"
LANES: Final = frozenset({TASK, TICK})


class WorkOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of the simulation asks for: how long it takes, and how often it fails first."""

    seconds: float = 0.1
    fails: int = 0


class ModelRunner:
    """Implements `TargetRunner` for one process."""

    def __init__(
        self,
        loop: SimulationLoop,
        options: SimulationOptions,
        chance: Chance,
        journal: Journal,
        process: str,
        store_time: Callable[[], datetime],
        is_healed: Callable[[], bool],
    ) -> None:
        self.loop = loop
        self.options = options
        self.chance = chance
        self.journal = journal
        self.process = process
        self.store_time = store_time
        self.is_healed = is_healed

    async def open(self) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""

    async def run(self, run: Run) -> Outcome:
        job = run.job
        attempt = Attempted(
            job=job.id,
            token=job.token,
            process=self.process,
            at=self.loop.at,
            store_time=self.store_time(),
            due_at=job.due_at,
        )
        self.journal.attempts.append(attempt)
        self.note("begins", attempt)
        assert isinstance(job.target, HandlerTarget)
        work = msgspec.json.decode(job.target.kwargs, type=WorkOrder)
        try:
            await asyncio.sleep(work.seconds)
        except asyncio.CancelledError:
            self.end(attempt, f"stopped: {run.stop_reason}")
            raise
        if job.attempt <= work.fails or self.fails_by_chance():
            self.end(attempt, "failed")
            return Failed("the handler failed")
        self.end(attempt, "succeeded")
        return Succeeded()

    def fails_by_chance(self) -> bool:
        return not self.is_healed() and self.chance.happens(self.options.handler_failures)

    def end(self, attempt: Attempted, how: str) -> None:
        attempt.ended, attempt.how = self.loop.at, how
        self.note("ends", attempt)

    def note(self, what: str, attempt: Attempted) -> None:
        about = f"{attempt.job[-12:]} token {attempt.token} {attempt.how or ''}"
        self.journal.note(self.loop.at, self.process, what, about)
