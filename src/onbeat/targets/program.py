"""What a handler can reach of the program that it belongs to, beside its job."""

from collections.abc import Awaitable
from datetime import datetime
from typing import Protocol

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Settlement, WorkerStore


class Program(Protocol):
    @property
    def store(self) -> WorkerStore: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def chance(self) -> Chance: ...

    def job_of(self, call: object, id: JobId, now: datetime) -> Job:
        """The job that a call asks for. Raises TypeError for what is no call."""
        ...

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle in the transaction that `connection` is in; on a plain one, before it returns.

        Raises `LeaseLost` when the lease is not valid any more.
        """
        ...
