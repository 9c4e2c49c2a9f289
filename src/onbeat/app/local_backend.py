"""A backend on a store: it runs operations in this process."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar, Unpack

import msgspec

from onbeat.app.backend import Backend, BackendParts, Changes, unknown_key
from onbeat.app.registry import TaskRegistry
from onbeat.app.signals import StoreChanges
from onbeat.app.stores import open_store
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.origin import PROGRAM
from onbeat.operations import schedules as schedule_verbs
from onbeat.operations.audit import note_change
from onbeat.operations.conditions import has_conditions, with_stored_conditions
from onbeat.operations.encryption import encrypted_jobs
from onbeat.operations.invoke import call, checked, request_from
from onbeat.operations.jobs import new_jobs, note_duplicates
from onbeat.operations.tables.jobs import JOB_SHOW
from onbeat.operations.tables.operation import Operation
from onbeat.ports.store import Enqueued
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import JobById, PutResult
from onbeat.wire.schedules import ScheduleDraft

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")

LIVE: Final = frozenset({JobState.WAITING, JobState.RUNNING})


class LocalBackend(Backend):
    """Runs operations on the store at `url`. Raises `Misconfigured` for an unknown URL."""

    def __init__(
        self, url: str, registry: TaskRegistry | None = None, **parts: Unpack[BackendParts]
    ) -> None:
        super().__init__(url, registry, **parts)
        if parts.get("store") is None:
            self.store = open_store(url)

    async def call(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        return await self.invoke(operation, checked(operation, request))

    async def ask(
        self,
        operation: Operation[Request, Answer],
        named: Mapping[str, str],
        body: bytes | None = None,
    ) -> Answer:
        return await self.invoke(operation, request_from(operation, named, body))

    async def invoke(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        """The answer to a request that was checked."""
        await self.open()
        return await call(self.context, operation, request)

    async def call_json(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> Any:
        answer = await self.ask(operation, named, body)
        return msgspec.json.decode(msgspec.json.encode(answer))

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        # Sending has usually opened it just before, to read its clock.
        if not self.is_open:
            await self.open()
        if has_conditions(jobs):
            jobs = with_stored_conditions(self.context, jobs)
        stored = await self.store.enqueue(encrypted_jobs(self.cipher, jobs))
        if self.live.is_read:
            self.live.made(new_jobs(jobs, stored), self.clock.now())
        added = sum([one.created for one in stored])
        self.telemetry.sent(added, PROGRAM)
        if added < len(stored):
            note_duplicates(self.telemetry, jobs, stored, PROGRAM)
        return stored

    async def enqueue_flow(
        self, jobs: Sequence[Job], *, is_flow: bool = False
    ) -> tuple[Sequence[Enqueued], JobId | None]:
        del is_flow  # the jobs have it
        return await self.enqueue(jobs), None

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult:
        await self.open()
        put = await schedule_verbs.declare(self.context, key, draft)
        if put.changed:
            await note_change(self.context, "schedule.put", f"schedule/{key}")
        return put

    async def schedule_id(self, key: str) -> str:
        await self.open()
        stored = await self.store.schedule_by_key(key)
        if stored is None:
            raise unknown_key(key)
        return stored.id

    async def finished_job(self, id: JobId) -> JobInfo | None:
        await self.open()
        job = await self.store.job(id)
        if job is not None and job.state in LIVE:
            return None
        return await self.invoke(JOB_SHOW, JobById(id))

    def changes(self) -> Changes:
        return StoreChanges(self.store)
