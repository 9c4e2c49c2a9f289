"""The parts of the program that a handler can use besides its job."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.clock import Clock
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, WorkerStore


class SentCalls(Protocol):
    """The calls that a distributor has yielded lately."""

    def find(self, call: object) -> Job | None:
        """The job of a call, or of the last one that has this name."""
        ...


class AppContext(Protocol):
    @property
    def store(self) -> WorkerStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def clock_stands(self) -> bool:
        """Whether the clock is a virtual one, which stands still while a handler runs."""
        ...

    @property
    def randomness(self) -> Randomness: ...

    def decode_result(self, lane: str, packed: bytes) -> Any:
        """The result of a job in the lane, typed by its task where this process knows it."""
        ...

    def job_of(self, call: object, id: JobId, now: datetime, flow: JobId, sent: SentCalls) -> Job:
        """The job for a call, as a member of the flow; `sent` are those that it may come after.

        Raises TypeError if the object is not a call, `Invalid` if it comes after an unknown one.
        """
        ...

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle in the transaction of `connection`; with a synchronous one, before this returns.

        Raises `LeaseLost` when the lease is no longer valid.
        """
        ...
