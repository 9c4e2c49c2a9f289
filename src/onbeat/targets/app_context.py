"""The parts of the program that a handler can use besides its job."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Protocol

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.clock import Clock
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, WorkerStore


class AppContext(Protocol):
    @property
    def store(self) -> WorkerStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def randomness(self) -> Randomness: ...

    def job_of(self, call: object, id: JobId, now: datetime) -> Job:
        """The job for a call. Raises TypeError if the object is not a call."""
        ...

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle in the transaction of `connection`; with a synchronous one, before this returns.

        Raises `LeaseLost` when the lease is no longer valid.
        """
        ...
