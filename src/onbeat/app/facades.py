"""Schedules, jobs and queues of an `Onbeat`, from plain code and from coroutines alike."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from msgspec import UNSET

from onbeat.app.calls import Call, Span, check_call, instant, name_of, options, span
from onbeat.app.composition import Options
from onbeat.app.desk import Desk
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import JobState
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.model.target import HttpTarget, Target
from onbeat.operations.table import (
    JOB_CANCEL,
    JOB_LIST,
    JOB_RETRY,
    JOB_SHOW,
    JOB_WHY,
    QUEUE_LIST,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    SCHEDULE_DELETE,
    SCHEDULE_LIST,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
)
from onbeat.recurrence import Recurrence
from onbeat.recurrence import function as function_of_time
from onbeat.wire.jobs import JobAnswer, ReasonBody
from onbeat.wire.places import QueueAnswer
from onbeat.wire.requests import (
    CancelJob,
    JobById,
    ListJobs,
    ListSchedules,
    Nothing,
    QueueByName,
    ScheduleById,
    Why,
)
from onbeat.wire.schedules import ScheduleAnswer, ScheduleDraft

Value = TypeVar("Value")
Choice = TypeVar("Choice", CatchUp, Overlap)
Rule = Recurrence | Callable[[datetime], datetime | None]


class Policies(TypedDict, total=False):
    """How a schedule behaves; what is left out has its default."""

    name: str
    starts_at: datetime | None
    ends_at: datetime | None
    paused: bool
    catch_up: str
    grace: Span | None
    overlap: str
    jitter: Span
    retry: RetryPolicy
    timeout: Span | None
    queue: str
    priority: int
    expires_after: Span | None
    labels: dict[str, str]


class JobFilters(TypedDict, total=False):
    """Which jobs to list."""

    state: JobState | None
    queue: str | None
    task: str | None
    schedule_id: str | None


class Host(Protocol):
    """What the facades need of their `Onbeat`."""

    desk: Desk
    functions: dict[str, Recurrence]
    options: Options

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value: ...


class Schedules:
    """Schedules by key. Each verb has an `a`-form for coroutines; the plain form blocks."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.declared: list[tuple[str, ScheduleDraft]] = []

    def declare(self, key: str, recurrence: Rule, call: Call[Any], policies: Policies) -> None:
        """To be put in place when the program starts to run."""
        self.declared.append((key, self.draft(key, recurrence, call, policies)))

    async def put_declared(self) -> None:
        for key, draft in self.declared:
            await self.host.desk.put_schedule(key, draft)

    def put(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Make the schedule under `key` be as described: created, changed or left as it is.

        Its waiting jobs follow at once. Raises `Invalid` naming what cannot be right.
        """
        return self.host.wait_for(self.aput(key, recurrence, call, **policies))

    async def aput(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Make the schedule under `key` be as described; see `put`."""
        draft = self.draft(key, recurrence, call, policies)
        return ScheduleId((await self.host.desk.put_schedule(key, draft)).id)

    def get(self, key: str) -> ScheduleAnswer:
        """The schedule under `key`, with its next occurrence. Raises `NotFound`."""
        return self.host.wait_for(self.aget(key))

    async def aget(self, key: str) -> ScheduleAnswer:
        return await self.host.desk.ask(SCHEDULE_SHOW, await self.by_key(key))

    def list(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        """Schedules, newest first; `q` is looked for in name and key."""
        return self.host.wait_for(self.alist(q=q, limit=limit))

    async def alist(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        request = ListSchedules(q=q, limit=limit)
        return (await self.host.desk.ask(SCHEDULE_LIST, request)).schedules

    def pause(self, key: str) -> None:
        """No further occurrence runs until `resume`."""
        self.host.wait_for(self.apause(key))

    async def apause(self, key: str) -> None:
        await self.host.desk.ask(SCHEDULE_PAUSE, await self.by_key(key))

    def resume(self, key: str) -> None:
        """Go on from now; what the pause passed over does not run."""
        self.host.wait_for(self.aresume(key))

    async def aresume(self, key: str) -> None:
        await self.host.desk.ask(SCHEDULE_RESUME, await self.by_key(key))

    def trigger(self, key: str) -> JobId:
        """Run it once now, beside its calendar."""
        return self.host.wait_for(self.atrigger(key))

    async def atrigger(self, key: str) -> JobId:
        answer = await self.host.desk.ask(SCHEDULE_TRIGGER, await self.by_key(key))
        return JobId(answer.job_id)

    def delete(self, key: str) -> None:
        """Its waiting jobs are cancelled; what has run stays readable."""
        self.host.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await self.host.desk.ask(SCHEDULE_DELETE, await self.by_key(key))

    async def by_key(self, key: str) -> ScheduleById:
        return ScheduleById(id=await self.host.desk.schedule_id(key))

    def draft(
        self, key: str, recurrence: Rule, call: Call[Any], policies: Policies
    ) -> ScheduleDraft:
        check_call(call)
        said = options(
            call.options,
            queue=policies.get("queue"),
            priority=policies.get("priority"),
            labels=policies.get("labels"),
        )
        return ScheduleDraft(
            name=name_of("name", policies.get("name", key)),
            key=key,
            recurrence=self.spec_of(key, recurrence),
            target=self.allowed(call.target),
            starts_at=instant("starts_at", policies.get("starts_at")),
            ends_at=instant("ends_at", policies.get("ends_at")),
            status=ScheduleStatus.PAUSED if policies.get("paused") else UNSET,
            catch_up=choice("catch_up", policies.get("catch_up"), CatchUp.LATEST),
            grace=span("grace", policies.get("grace")),
            overlap=choice("overlap", policies.get("overlap"), Overlap.ALLOW),
            jitter=span("jitter", policies.get("jitter")) or UNSET,
            retry=policies.get("retry", said.retry) or UNSET,
            timeout=span("timeout", policies.get("timeout", said.timeout)),
            queue=said.queue,
            priority=said.priority,
            expires_after=span("expires_after", policies.get("expires_after", said.expires_in)),
            labels=said.labels,
        )

    def allowed(self, target: Target) -> Target:
        """Raises `Invalid` for a callback to an address that is not allowed here."""
        if isinstance(target, HttpTarget) and (why := self.host.options.http.refuse(target.url)):
            raise Invalid(f"The URL is not allowed: {why}", "url")
        return target

    def spec_of(self, key: str, recurrence: Rule) -> RecurrenceSpec:
        """The rule as stored. A function of time stays here, and the store keeps only its key."""
        if isinstance(recurrence, Recurrence) and recurrence.spec().kind != "function":
            return recurrence.spec()
        check_rule(recurrence)
        value = recurrence if isinstance(recurrence, Recurrence) else function_of_time(recurrence)
        self.host.functions[key] = value
        return RecurrenceSpec("function", key)


def check_rule(rule: object) -> None:
    """Raises TypeError for what is no rule; its text alone is the common slip."""
    if not isinstance(rule, Recurrence) and not callable(rule):
        raise TypeError(
            f"{rule!r} is not a recurrence; write cron(...), rrule(...), every(...),"
            " or a function of time"
        )


def choice(field: str, value: str | None, default: Choice) -> Choice:
    if value is None:
        return default
    try:
        return type(default)(value)
    except ValueError:
        raise Invalid(f"{field} must be one of {', '.join(type(default))}", field) from None


class Jobs:
    """Stored jobs by id."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def get(self, id: str) -> JobAnswer:
        """The job as it is now, with its attempts and history. Raises `NotFound`."""
        return self.host.wait_for(self.aget(id))

    async def aget(self, id: str) -> JobAnswer:
        return await self.host.desk.ask(JOB_SHOW, JobById(id))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Sequence[JobAnswer]:
        """Jobs, newest first."""
        return self.host.wait_for(self.alist(limit=limit, **filters))

    async def alist(
        self, *, limit: int = 100, **filters: Unpack[JobFilters]
    ) -> Sequence[JobAnswer]:
        return (await self.host.desk.ask(JOB_LIST, ListJobs(limit=limit, **filters))).jobs

    def why(self, id: str) -> Why:
        """Why the job does not run, and when it may. Raises `NotFound`."""
        return self.host.wait_for(self.awhy(id))

    async def awhy(self, id: str) -> Why:
        return await self.host.desk.ask(JOB_WHY, JobById(id))

    def cancel(self, id: str, reason: str | None = None) -> None:
        """End it if it waits, ask it to stop if it runs. Raises `NotFound`, `Conflict`."""
        self.host.wait_for(self.acancel(id, reason))

    async def acancel(self, id: str, reason: str | None = None) -> None:
        await self.host.desk.ask(JOB_CANCEL, CancelJob(id, ReasonBody(reason=reason)))

    def retry(self, id: str) -> None:
        """Run a failed or cancelled job again, with fresh attempts.

        Raises `NotFound`, and `Conflict` for a job that has neither failed nor been cancelled.
        """
        self.host.wait_for(self.aretry(id))

    async def aretry(self, id: str) -> None:
        await self.host.desk.ask(JOB_RETRY, JobById(id))


class Queues:
    """Queues by name."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def list(self) -> Sequence[QueueAnswer]:
        return self.host.wait_for(self.alist())

    async def alist(self) -> Sequence[QueueAnswer]:
        return (await self.host.desk.ask(QUEUE_LIST, Nothing())).queues

    def pause(self, name: str) -> None:
        """Nothing of the queue is begun until `resume`; what runs goes on."""
        self.host.wait_for(self.apause(name))

    async def apause(self, name: str) -> None:
        await self.host.desk.ask(QUEUE_PAUSE, QueueByName(name))

    def resume(self, name: str) -> None:
        self.host.wait_for(self.aresume(name))

    async def aresume(self, name: str) -> None:
        await self.host.desk.ask(QUEUE_RESUME, QueueByName(name))
