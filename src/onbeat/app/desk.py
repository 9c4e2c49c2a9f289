"""Where an `Onbeat` asks for things: its own store, or a service elsewhere."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from onbeat.app.running import StoreChanges
from onbeat.model.errors import NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.operations import schedules as schedule_verbs
from onbeat.operations.operator import Operator
from onbeat.operations.table import JOB_SHOW, Operation
from onbeat.ports.store import Enqueued, Store
from onbeat.wire.jobs import JobAnswer
from onbeat.wire.requests import JobById, Put
from onbeat.wire.schedules import ScheduleDraft

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Changes(Protocol):
    """Wakes when jobs may have changed."""

    async def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class Desk(Protocol):
    async def ask(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        """What the operation answers; raises an `OnbeatError`."""
        ...

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]: ...

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> Put: ...

    async def schedule_id(self, key: str) -> str:
        """Raises `NotFound`."""
        ...

    async def ended(self, id: JobId) -> JobAnswer | None:
        """The job if it has ended. Raises `NotFound`."""
        ...

    def changes(self) -> Changes: ...


class Opened(Protocol):
    """The `Onbeat` behind a local desk."""

    @property
    def operator(self) -> Operator: ...

    @property
    def store(self) -> Store: ...

    @property
    def is_open(self) -> bool: ...

    async def open(self) -> None: ...


class LocalDesk:
    """Asks the operations of this process, over its own store."""

    def __init__(self, host: Opened) -> None:
        self.host = host

    async def ask(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        await self.host.open()
        return await operation.function(self.host.operator, request)

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        # Who sends has mostly opened it just now, to ask for the time.
        if not self.host.is_open:
            await self.host.open()
        return await self.host.store.enqueue(jobs)

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> Put:
        await self.host.open()
        return await schedule_verbs.declare(self.host.operator, key, draft)

    async def schedule_id(self, key: str) -> str:
        await self.host.open()
        found = await self.host.operator.store.schedule_by_key(key)
        if found is None:
            raise unknown_key(key)
        return found.id

    async def ended(self, id: JobId) -> JobAnswer | None:
        await self.host.open()
        job = await self.host.operator.store.job(id)
        if job is not None and job.state in LIVE:
            return None
        return await self.ask(JOB_SHOW, JobById(id))

    def changes(self) -> Changes:
        return StoreChanges(self.host.operator.store)


LIVE = frozenset({JobState.WAITING, JobState.RUNNING})


def unknown_key(key: str) -> NotFound:
    return NotFound(f"no schedule has the key {key!r}")
