"""Where an `Onbeat` sends requests: to its own store, or to a remote service."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from onbeat.app.signals import StoreChanges
from onbeat.model.errors import NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.operations import schedules as schedule_verbs
from onbeat.operations.audit import note_change
from onbeat.operations.context import OperationContext
from onbeat.operations.encryption import encrypted_jobs
from onbeat.operations.invoke import call
from onbeat.operations.table import JOB_SHOW, Operation
from onbeat.ports.encryption import Cipher
from onbeat.ports.store import Enqueued, Store
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import JobById, PutResult
from onbeat.wire.schedules import ScheduleDraft

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")


class Changes(Protocol):
    """A waiter for changes of jobs."""

    async def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class Backend(Protocol):
    async def call(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        """The answer of the operation. Raises an `OnbeatError`."""
        ...

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]: ...

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult: ...

    async def schedule_id(self, key: str) -> str:
        """Raises `NotFound`."""
        ...

    async def finished_job(self, id: JobId) -> JobInfo | None:
        """The job if it has ended. Raises `NotFound`."""
        ...

    def changes(self) -> Changes: ...


class LocalHost(Protocol):
    """The `Onbeat` behind a local backend."""

    @property
    def context(self) -> OperationContext: ...

    @property
    def store(self) -> Store: ...

    @property
    def cipher(self) -> Cipher: ...

    @property
    def is_open(self) -> bool: ...

    async def open(self) -> None: ...


class LocalBackend:
    """Runs operations in this process, on its own store."""

    def __init__(self, host: LocalHost) -> None:
        self.host = host

    async def call(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        await self.host.open()
        return await call(self.host.context, operation, request)

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        # Sending has usually opened it just before, to read its clock.
        if not self.host.is_open:
            await self.host.open()
        return await self.host.store.enqueue(encrypted_jobs(self.host.cipher, jobs))

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult:
        await self.host.open()
        put = await schedule_verbs.declare(self.host.context, key, draft)
        if put.changed:
            await note_change(self.host.context, "schedule.put", f"schedule/{key}")
        return put

    async def schedule_id(self, key: str) -> str:
        await self.host.open()
        stored = await self.host.context.store.schedule_by_key(key)
        if stored is None:
            raise unknown_key(key)
        return stored.id

    async def finished_job(self, id: JobId) -> JobInfo | None:
        await self.host.open()
        job = await self.host.context.store.job(id)
        if job is not None and job.state in LIVE:
            return None
        return await self.call(JOB_SHOW, JobById(id))

    def changes(self) -> Changes:
        return StoreChanges(self.host.context.store)


LIVE = frozenset({JobState.WAITING, JobState.RUNNING})


def unknown_key(key: str) -> NotFound:
    return NotFound(f"no schedule has the key {key!r}")
