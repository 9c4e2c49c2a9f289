"""A backend over HTTP: it builds every request from the table of operations."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeVar, Unpack

import msgspec
from msgspec import UNSET

from onbeat.app import shutdown
from onbeat.app.backend import Backend, BackendParts, Changes, unknown_key
from onbeat.app.registry import TaskRegistry
from onbeat.app.request_bodies import job_body, schedule_body
from onbeat.app.service_client import RetryPermission, ServiceClient, fresh_key, path_of
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job
from onbeat.model.limits import BULK_JOBS_MAX, NAME_CHARS_MAX, PAGE_LIMIT_MAX
from onbeat.operations.invoke import request_from, to_http_request
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import SCHEDULE_LIST, SCHEDULE_PUT
from onbeat.ports.store import Enqueued
from onbeat.wire.jobs import EnqueueBody, JobInfo
from onbeat.wire.options import read_schedule_key
from onbeat.wire.requests import Enqueue, JobById, ListSchedules, PutResult, PutSchedule
from onbeat.wire.schedules import ScheduleDraft

Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")

LOOK_AGAIN: Final = 0.1


class RemoteBackend(Backend):
    """Sends requests to the service at `url`. Raises `Misconfigured` for an invalid URL."""

    def __init__(
        self,
        url: str,
        registry: TaskRegistry | None = None,
        *,
        api_key: str | None = None,
        **parts: Unpack[BackendParts],
    ) -> None:
        super().__init__(url, registry, **parts)
        self.client = ServiceClient(url, api_key)

    async def call(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        named, body = to_http_request(operation, request)
        return self.read_answer(await self.send(operation, named, body), operation.answer)

    async def ask(
        self,
        operation: Operation[Request, Answer],
        named: Mapping[str, str],
        body: bytes | None = None,
    ) -> Answer:
        return self.read_answer(await self.send(operation, named, body), operation.answer)

    async def call_json(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> Any:
        return self.read_answer(await self.send(operation, named, body), object)

    async def send(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> bytes:
        self.find_tracing()  # nothing is opened before a request
        check_texts(operation, named)
        query = {name: text for name, text in named.items() if f"{{{name}}}" not in operation.path}
        path, repeat = path_of(operation.path, named), retry_permission(operation)
        sending = self.client.send(operation.method, path, query, body, repeat=repeat)
        if self.client.is_measured:
            return await sending
        # The caller's event loop may end before the next request, and the connections with it.
        self.note_open()
        return await self.portal.run(sending)

    def note_open(self) -> None:
        """Have the connections closed at the end of the program, if nobody does before."""
        if not self.is_open:
            self.is_open = True
            shutdown.register(self)

    async def aclose(self) -> None:
        """Close the connections. The next request opens new ones."""
        if self.is_open:
            self.is_open = False
            shutdown.unregister(self)
            await self.portal.run(self.client.close())

    def read_answer(self, content: bytes, type: type[Answer]) -> Answer:
        """Raises `Unavailable` for an answer that is not the service's."""
        try:
            return msgspec.json.decode(content, type=type)
        except msgspec.DecodeError:
            raise self.client.unreadable_answer() from None

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        return (await self.enqueue_flow(jobs))[0]

    async def enqueue_flow(
        self, jobs: Sequence[Job], *, is_flow: bool = False
    ) -> tuple[Sequence[Enqueued], JobId | None]:
        answers: list[Enqueued] = []
        flow: JobId | None = None
        names = {job.id: job.name for job in jobs if job.name is not None}
        refuse_long_flow(jobs, is_flow=is_flow or is_linked(jobs, names))
        for start in range(0, len(jobs), BULK_JOBS_MAX):
            part = jobs[start : start + BULK_JOBS_MAX]
            bodies = tuple(job_body(job, names) for job in part)
            body = EnqueueBody(jobs=bodies, flow=is_flow or UNSET)
            answer = await self.call(JOB_ENQUEUE, Enqueue(body))
            answers += match_results(answer.ids or (), answer.existing or ())
            flow = JobId(answer.flow) if answer.flow else None
        return answers, flow

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult:
        return await self.call(SCHEDULE_PUT, PutSchedule(key, schedule_body(draft)))

    async def schedule_id(self, key: str) -> str:
        for number in count(1):
            request = ListSchedules(q=key[:NAME_CHARS_MAX], limit=PAGE_LIMIT_MAX, page=number)
            page = await self.call(SCHEDULE_LIST, request)
            for schedule in page.schedules:
                if schedule.key == key:
                    return schedule.id
            if number * PAGE_LIMIT_MAX >= page.total:
                break
        raise unknown_key(key)

    async def finished_job(self, id: JobId) -> JobInfo | None:
        job = await self.call(JOB_SHOW, JobById(id))
        return job if job.state in FINAL_STATES else None

    def changes(self) -> Changes:
        return PolledChanges()


def check_texts(operation: Operation[Any, Any], named: Mapping[str, str]) -> None:
    """Raises `Invalid` as a store does, for what a service forgives or never gets to read.

    It takes its default for a number out of bounds, and a slash or a dot leads to another address.
    """
    if operation.method == "GET":
        request_from(operation, named, None)
    if "{name}" in operation.path and "/" in named["name"]:
        raise Invalid("name must not contain /", "name")
    if "{key}" in operation.path:
        read_schedule_key(named["key"], "key")


def retry_permission(operation: Operation[Request, Answer]) -> RetryPermission | None:
    """How a request that creates something may be repeated when its answer is lost."""
    if operation.takes_key:
        return RetryPermission(key=fresh_key())
    # PUT is idempotent.
    return RetryPermission() if operation.method == "PUT" else None


def match_results(ids: Sequence[str], existing: Sequence[str]) -> list[Enqueued]:
    """Mark the jobs that this request created; a duplicate counts only at its first position."""
    met = Counter(existing)
    named = Counter(ids)
    first = {id: place for place, id in reversed(tuple(enumerate(ids)))}
    return [
        Enqueued(JobId(id), named[id] > met[id] and first[id] == place)
        for place, id in enumerate(ids)
    ]


class PolledChanges:
    """Polls: the service sends no notifications of changes."""

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, LOOK_AGAIN))

    def close(self) -> None: ...


def is_linked(jobs: Sequence[Job], names: Mapping[JobId, str]) -> bool:
    """Whether some of the jobs wait for others of them."""
    return any(job.awaits_flow or any(other in names for other in job.after) for job in jobs)


def refuse_long_flow(jobs: Sequence[Job], *, is_flow: bool) -> None:
    """Names are local to a request, so jobs that name one another go in one."""
    if is_flow and len(jobs) > BULK_JOBS_MAX:
        raise Invalid(
            f"a service takes at most {BULK_JOBS_MAX} jobs that come after one another at once;"
            " send parts, where later ones come after the ids of earlier ones",
            "after",
        )
