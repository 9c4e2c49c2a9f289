"""Asks a service over HTTP: every request is spelled from the operations' own table."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

import msgspec
from msgspec import UNSET

from onbeat.app.desk import Changes, unknown_key
from onbeat.app.link import Link, path_of
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job
from onbeat.model.limits import BULK_JOBS_MAX, PAGE_LIMIT_MAX
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target
from onbeat.operations.table import (
    JOB_ENQUEUE,
    JOB_SHOW,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    Operation,
)
from onbeat.ports.store import Enqueued
from onbeat.wire.jobs import EnqueueBody, JobAnswer, JobBody
from onbeat.wire.recurrences import FORM_OF_KIND
from onbeat.wire.requests import Enqueue, JobById, ListSchedules, Put, PutSchedule
from onbeat.wire.schedules import ScheduleBody, ScheduleDraft
from onbeat.wire.targets import HttpBody, MessageBody, RetryBody, TargetBody

Request = TypeVar("Request")
Answer = TypeVar("Answer")

LOOK_AGAIN: Final = 0.1


class RemoteDesk:
    """Implements `onbeat.app.desk.Desk` over a service's REST API.

    Raises `Misconfigured` for a URL that cannot be a service's.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.link = Link(url, api_key)

    async def ask(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        path, query, body = spelled(operation, request)
        content = await self.link.send(operation.method, path, query, body)
        try:
            return msgspec.json.decode(content, type=operation.answer)
        except msgspec.DecodeError:
            raise self.link.strange() from None

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        answers: list[Enqueued] = []
        for start in range(0, len(jobs), BULK_JOBS_MAX):
            part = jobs[start : start + BULK_JOBS_MAX]
            body = EnqueueBody(jobs=tuple(job_body(job) for job in part))
            answer = await self.ask(JOB_ENQUEUE, Enqueue(body))
            answers += told_apart(answer.ids or (), answer.existing or ())
        return answers

    async def put_schedule(self, key: str, draft: ScheduleDraft) -> Put:
        return await self.ask(SCHEDULE_PUT, PutSchedule(key, schedule_body(draft)))

    async def schedule_id(self, key: str) -> str:
        page = await self.ask(SCHEDULE_LIST, ListSchedules(q=key, limit=PAGE_LIMIT_MAX))
        for schedule in page.schedules:
            if schedule.key == key:
                return schedule.id
        raise unknown_key(key)

    async def ended(self, id: JobId) -> JobAnswer | None:
        job = await self.ask(JOB_SHOW, JobById(id))
        return job if job.state in FINAL_STATES else None

    def changes(self) -> Changes:
        return Polling()


def told_apart(ids: Sequence[str], existing: Sequence[str]) -> list[Enqueued]:
    """Which were made by this request; one that a later job met was made at its first place."""
    met = Counter(existing)
    named = Counter(ids)
    first = {id: place for place, id in reversed(tuple(enumerate(ids)))}
    return [
        Enqueued(JobId(id), named[id] > met[id] and first[id] == place)
        for place, id in enumerate(ids)
    ]


class Polling:
    """Changes elsewhere are not heard of, so they are looked for."""

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, LOOK_AGAIN))

    def close(self) -> None: ...


def spelled(
    operation: Operation[Request, Answer], request: Request
) -> tuple[str, Mapping[str, str], bytes | None]:
    """Path, query and body of the request."""
    names = msgspec.structs.fields(cast("type[msgspec.Struct]", operation.request))
    fields: dict[str, object] = {
        field.encode_name: value
        for field in names
        if (value := getattr(request, field.name)) is not None
    }
    body = fields.pop(operation.body, None) if operation.body else None
    texts = {name: text_of(value) for name, value in fields.items()}
    query = {name: text for name, text in texts.items() if f"{{{name}}}" not in operation.path}
    return (
        path_of(operation.path, texts),
        query,
        None if body is None else msgspec.json.encode(body),
    )


def text_of(value: object) -> str:
    return str(msgspec.to_builtins(value))


def job_body(job: Job) -> JobBody:
    return JobBody(
        target=target_body(job.target),
        run_at=job.due_at,
        queue=job.queue,
        priority=job.priority,
        unique=job.unique or UNSET,
        retry=RetryBody(**msgspec.structs.asdict(job.retry)),
        timeout=job.timeout.total_seconds() if job.timeout else UNSET,
        expires_at=job.expires_at or UNSET,
        after=job.after,
        labels=job.labels,
        group=job.group or UNSET,
    )


def target_body(target: Target) -> TargetBody:
    match target:
        case HandlerTarget(task=task, args=args, kwargs=kwargs):
            return TargetBody(task=task, args=args, kwargs=kwargs)
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
    """The draft as a body. Raises `Invalid` for a rule that only a program can hold."""
    rule = draft.recurrence
    assert rule is not UNSET
    form = FORM_OF_KIND.get(rule.kind)
    if form is None:
        raise Invalid(
            f"a {rule.kind} cannot be sent to a service; write it as an RRULE or cron", "recurrence"
        )
    said = draft.given()
    said.update(
        {
            form: rule.text,
            "timezone": rule.tz or UNSET,
            "dst_gap": rule.dst_gap,
            "dst_fold": rule.dst_fold,
            "target": target_body(draft.target) if draft.target is not UNSET else UNSET,
        }
    )
    del said["recurrence"]
    if draft.retry is not UNSET:
        said["retry"] = RetryBody(**msgspec.structs.asdict(draft.retry))
    for span in ("grace", "jitter", "timeout", "expires_after"):
        value = getattr(draft, span)
        said[span] = value.total_seconds() if value else UNSET
    return ScheduleBody(**said)  # type: ignore[arg-type]
