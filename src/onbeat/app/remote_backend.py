"""A backend over HTTP: it builds every request from the table of operations."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, Final, TypeVar, Unpack, cast

import msgspec
from msgspec import UNSET

from onbeat.app.backend import Backend, BackendParts, Changes, unknown_key
from onbeat.app.registry import TaskRegistry
from onbeat.app.service_client import RetryPermission, ServiceClient, fresh_key, path_of
from onbeat.model.condition import Condition, Window
from onbeat.model.errors import Invalid
from onbeat.model.flow import SENT
from onbeat.model.held_key import ALWAYS
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobSpec
from onbeat.model.limits import BULK_JOBS_MAX, NAME_CHARS_MAX, PAGE_LIMIT_MAX
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, NotifyTarget, Target
from onbeat.operations.table import (
    JOB_ENQUEUE,
    JOB_SHOW,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    Operation,
)
from onbeat.ports.store import Enqueued
from onbeat.wire.conditions import ConditionBody, WindowBody, one_window_answer
from onbeat.wire.jobs import EnqueueBody, JobBody, JobInfo, edge_answer
from onbeat.wire.options import ALWAYS_TEXT
from onbeat.wire.reactions import gather_body, pattern_body
from onbeat.wire.recurrences import FORM_OF_KIND
from onbeat.wire.requests import Enqueue, JobById, ListSchedules, PutResult, PutSchedule
from onbeat.wire.schedules import ScheduleBody, ScheduleDraft
from onbeat.wire.targets import HttpBody, MessageBody, NotifyBody, RetryBody, TargetBody

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
        self.find_tracing()  # nothing is opened before a request
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


def job_body(job: Job, names: Mapping[JobId, str]) -> JobBody:
    """`names` are those of the jobs in the same request, which get other ids there."""
    fields = {
        name: wire_form(getattr(job, name))
        for name in JobBody.__struct_fields__
        if name in JobSpec.__struct_fields__ and name not in {"target", "after"}
    }
    if job.unique is None:
        fields["unique_for"] = UNSET  # its task's, for jobs with a key
    after = tuple(edge_answer(names.get(id, id), job.edge_to(id)) for id in job.after)
    if job.awaits_flow is not None:
        after += (edge_answer(SENT, job.edge_to(job.awaits_flow)),)
    return JobBody(
        target=target_body(job.target), run_at=job.due_at, after=after or UNSET, **fields
    )


def wire_form(value: object) -> Any:
    """The value in a request body; UNSET for none, and for a span of no length."""
    match value:
        case None:
            return UNSET
        case timedelta() if value == ALWAYS:
            return ALWAYS_TEXT
        case timedelta():
            return value.total_seconds() or UNSET
        case RetryPolicy():
            return RetryBody(**msgspec.structs.asdict(value))
        case Condition():
            return condition_body(value)
        case tuple():
            items = cast("tuple[object, ...]", value)
            return tuple(window_body(one) if isinstance(one, Window) else one for one in items)
        case _:
            return value


def condition_body(condition: Condition) -> ConditionBody:
    postpone = condition.postpone
    return ConditionBody(
        text=condition.text or UNSET,
        predicate=condition.predicate or UNSET,
        ask=UNSET if condition.ask is None else target_body(condition.ask),
        otherwise=UNSET if postpone is None else postpone.total_seconds(),
    )


def window_body(window: Window) -> WindowBody:
    shown = one_window_answer(window)
    return WindowBody(days=shown.days, start=shown.start, end=shown.end, timezone=shown.timezone)


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
        case NotifyTarget():
            return TargetBody(notify=NotifyBody(**msgspec.structs.asdict(target)))


def reaction_body(options: Mapping[str, Any]) -> dict[str, Any]:
    """The reaction to events among the options, as fields of a request body."""
    patterns = {
        name: tuple(map(pattern_body, options[name]))
        for name in ("on", "cancel_on")
        if name in options
    }
    gather = options.get("gather")
    return patterns if gather is None else {**patterns, "gather": gather_body(gather)}


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
        "dst_gap": rule.dst_gap,
        "dst_fold": rule.dst_fold,
        "timezone": rule.tz or UNSET,
        form: rule.text,
        **reaction_body(draft.options),
        "target": target_body(draft.target) if draft.target is not UNSET else UNSET,
    }
    del fields["recurrence"]
    fields.pop("pause_reason", None)  # for a service a pause by this program is one by hand
    return ScheduleBody(**fields)
