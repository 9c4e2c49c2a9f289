"""A backend over HTTP: it builds every request from the table of operations."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET

from onbeat.app.backend import Backend, BackendParts, Changes, unknown_key
from onbeat.app.registry import TaskRegistry
from onbeat.app.service_client import RetryPermission, ServiceClient, fresh_key, path_of
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobSpec
from onbeat.model.limits import BULK_JOBS_MAX, PAGE_LIMIT_MAX
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target
from onbeat.operations.table import (
    JOB_ENQUEUE,
    JOB_SHOW,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    Operation,
)
from onbeat.ports.store import Enqueued
from onbeat.wire.jobs import EnqueueBody, JobBody, JobInfo
from onbeat.wire.recurrences import FORM_OF_KIND
from onbeat.wire.requests import Enqueue, JobById, ListSchedules, PutResult, PutSchedule
from onbeat.wire.schedules import ScheduleBody, ScheduleDraft
from onbeat.wire.targets import HttpBody, MessageBody, RetryBody, TargetBody

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

    async def call_json(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> Any:
        return self.read_answer(await self.send(operation, named, body), object)

    async def send(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> bytes:
        query = {name: text for name, text in named.items() if f"{{{name}}}" not in operation.path}
        path, repeat = path_of(operation.path, named), retry_permission(operation)
        return await self.client.send(operation.method, path, query, body, repeat=repeat)

    def read_answer(self, content: bytes, type: type[Answer]) -> Answer:
        """Raises `Unavailable` for an answer that is not the service's."""
        try:
            return msgspec.json.decode(content, type=type)
        except msgspec.DecodeError:
            raise self.client.unreadable_answer() from None

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        answers: list[Enqueued] = []
        for start in range(0, len(jobs), BULK_JOBS_MAX):
            part = jobs[start : start + BULK_JOBS_MAX]
            body = EnqueueBody(jobs=tuple(job_body(job) for job in part))
            answer = await self.call(JOB_ENQUEUE, Enqueue(body))
            answers += match_results(answer.ids or (), answer.existing or ())
        return answers

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult:
        return await self.call(SCHEDULE_PUT, PutSchedule(key, schedule_body(draft)))

    async def schedule_id(self, key: str) -> str:
        page = await self.call(SCHEDULE_LIST, ListSchedules(q=key, limit=PAGE_LIMIT_MAX))
        for schedule in page.schedules:
            if schedule.key == key:
                return schedule.id
        raise unknown_key(key)

    async def finished_job(self, id: JobId) -> JobInfo | None:
        job = await self.call(JOB_SHOW, JobById(id))
        return job if job.state in FINAL_STATES else None

    def changes(self) -> Changes:
        return PolledChanges()


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


def to_http_request(
    operation: Operation[Request, Answer], request: Request
) -> tuple[Mapping[str, str], bytes | None]:
    """The texts of path and query, and the body."""
    names = msgspec.structs.fields(cast("type[msgspec.Struct]", operation.request))
    fields: dict[str, object] = {
        field.encode_name: value
        for field in names
        if (value := getattr(request, field.name)) is not None
    }
    body = fields.pop(operation.body, None) if operation.body else None
    named = {name: text_of(value) for name, value in fields.items()}
    return named, None if body is None else msgspec.json.encode(body)


def text_of(value: object) -> str:
    return str(msgspec.to_builtins(value))


def job_body(job: Job) -> JobBody:
    fields = {
        name: wire_form(getattr(job, name))
        for name in JobBody.__struct_fields__
        if name in JobSpec.__struct_fields__ and name != "target"
    }
    return JobBody(target=target_body(job.target), run_at=job.due_at, **fields)


def wire_form(value: object) -> Any:
    """The value in a request body; UNSET for none, and for a span of no length."""
    match value:
        case None:
            return UNSET
        case timedelta():
            return value.total_seconds() or UNSET
        case RetryPolicy():
            return RetryBody(**msgspec.structs.asdict(value))
        case _:
            return value


def target_body(target: Target) -> TargetBody:
    match target:
        case HandlerTarget(task=task, args=args, kwargs=kwargs, encrypted=encrypted):
            mark = True if encrypted else UNSET
            return TargetBody(task=task, args=args, kwargs=kwargs, encrypted=mark)
        case HttpTarget():
            http = HttpBody(
                url=target.url,
                method=target.method,
                headers=target.headers,
                body=target.body or UNSET,
                secret=target.secret or UNSET,
            )
            return TargetBody(http=http)
        case MessageTarget(to=to, queue=queue, body=body, headers=headers):
            return TargetBody(message=MessageBody(to=to, queue=queue, body=body, headers=headers))


def schedule_body(draft: ScheduleDraft) -> ScheduleBody:
    """The draft as a request body. Raises `Invalid` for a rule that cannot be serialized."""
    rule = draft.recurrence
    assert rule is not UNSET
    form = FORM_OF_KIND.get(rule.kind)
    if form is None:
        raise Invalid(
            f"a {rule.kind} cannot be sent to a service; write it as an RRULE or cron", "recurrence"
        )
    fields: dict[str, Any] = {
        **{name: wire_form(value) for name, value in draft.given_fields().items()},
        form: rule.text,
        "timezone": rule.tz or UNSET,
        "dst_gap": rule.dst_gap,
        "dst_fold": rule.dst_fold,
        "target": target_body(draft.target) if draft.target is not UNSET else UNSET,
    }
    del fields["recurrence"]
    return ScheduleBody(**fields)
