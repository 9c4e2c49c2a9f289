"""An operator over a memory store, whose clock stands still until it is moved."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.worker import WorkerRecord
from onbeat.operations.context import OperationContext
from onbeat.operations.invoke import call, request_from
from onbeat.operations.tables.operation import Operation
from onbeat.ports.store import ClaimRequest, Settlement, Store
from onbeat.rules.settlement import attempt_of, settle
from onbeat.stores.memory import MemoryStore

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
WORKER = WorkerId("w1")


class StoppedClock:
    def __init__(self, at: datetime = NOON) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


class CountingRandomness:
    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def ids(self, count: int) -> Sequence[str]:
        return [f"01910000-0000-7000-8000-{next(self.numbers):012x}" for _ in range(count)]

    def fraction(self) -> float:
        return 0.5


class OperationsHarness:
    """Asks operations as a surface would, and plays the worker."""

    def __init__(self, store: Store | None = None, **options: Any) -> None:
        self.clock = StoppedClock()
        self.store = store or MemoryStore()
        self.context = OperationContext(
            store=self.store, clock=self.clock, randomness=CountingRandomness(), **options
        )

    async def ask(self, operation: Operation, body: object = None, **named: str) -> dict[str, Any]:
        sent = None if body is None else msgspec.json.encode(body)
        answer = await call(self.context, operation, request_from(operation, named, sent))
        return msgspec.json.decode(msgspec.json.encode(answer))

    def move(self, **span: float) -> None:
        self.clock.at += timedelta(**span)

    async def claim(self, *lanes: str, limit: int = 10) -> Sequence[Job]:
        request = ClaimRequest(
            worker=WORKER, now=self.clock.at, limit=limit, lanes=frozenset(lanes or {"@http"})
        )
        return (await self.store.claim(request)).jobs

    async def run(self, outcome: Outcome, *lanes: str) -> Job:
        """One due job through one attempt; the clock goes on by a second."""
        (job,) = await self.claim(*lanes, limit=1)
        self.move(seconds=1)
        ended = settle(job, outcome, self.clock.at, 0.5)
        attempt = attempt_of(job, outcome, self.clock.at)
        assert all(await self.store.settle([Settlement(job=ended, attempt=attempt)]))
        self.context.faults.note(ended, attempt)
        await self.store.note_faults(self.context.faults.take())
        return ended

    async def hire(self, *lanes: str, **fields: object) -> None:
        worker = WorkerRecord(
            id=WORKER, host="h", pid=1, started_at=self.clock.at, beat_at=self.clock.at, lanes=lanes
        )
        await self.store.heartbeat(msgspec.structs.replace(worker, **fields))
