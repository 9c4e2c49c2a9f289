"""Schedules, jobs and queues of an `Onbeat`, from plain code and from coroutines alike."""

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from msgspec import UNSET

from onbeat.app.calls import Call, Span, span
from onbeat.model.errors import NotFound
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.queue import Queue
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, Schedule, ScheduleStatus
from onbeat.operations import schedules as verbs
from onbeat.operations.operator import Operator, checked_target
from onbeat.ports.store import Store
from onbeat.recurrence import Recurrence
from onbeat.recurrence import function as function_of_time
from onbeat.wire.requests import ScheduleById
from onbeat.wire.schedules import ScheduleDraft

Value = TypeVar("Value")
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


class Host(Protocol):
    """What the facades need of their `Onbeat`."""

    store: Store
    functions: dict[str, Recurrence]

    @property
    def operator(self) -> Operator: ...

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value: ...

    async def open(self) -> None: ...


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
            await verbs.declare(self.host.operator, key, draft)

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
        await self.host.open()
        draft = self.draft(key, recurrence, call, policies)
        answer = await verbs.declare(self.host.operator, key, draft)
        return ScheduleId(answer.id)

    def get(self, key: str) -> Schedule:
        """The schedule under `key`. Raises `NotFound`."""
        return self.host.wait_for(self.aget(key))

    async def aget(self, key: str) -> Schedule:
        await self.host.open()
        found = await self.host.store.schedule_by_key(key)
        if found is None:
            raise NotFound(f"no schedule has the key {key!r}")
        return found

    def list(self, *, q: str | None = None, limit: int = 100) -> Sequence[Schedule]:
        """Schedules, newest first; `q` is looked for in name and key."""
        return self.host.wait_for(self.alist(q=q, limit=limit))

    async def alist(self, *, q: str | None = None, limit: int = 100) -> Sequence[Schedule]:
        await self.host.open()
        return (await self.host.store.schedules(ScheduleFilter(q=q, limit=limit))).items

    def pause(self, key: str) -> None:
        """No further occurrence runs until `resume`."""
        self.host.wait_for(self.apause(key))

    async def apause(self, key: str) -> None:
        await verbs.pause(self.host.operator, await self.by_key(key))

    def resume(self, key: str) -> None:
        """Go on from now; what the pause passed over does not run."""
        self.host.wait_for(self.aresume(key))

    async def aresume(self, key: str) -> None:
        await verbs.resume(self.host.operator, await self.by_key(key))

    def trigger(self, key: str) -> JobId:
        """Run it once now, beside its calendar."""
        return self.host.wait_for(self.atrigger(key))

    async def atrigger(self, key: str) -> JobId:
        answer = await verbs.trigger(self.host.operator, await self.by_key(key))
        return JobId(answer.job_id)

    def delete(self, key: str) -> None:
        """Its waiting jobs are cancelled; what has run stays readable."""
        self.host.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await verbs.delete(self.host.operator, await self.by_key(key))

    async def by_key(self, key: str) -> ScheduleById:
        return ScheduleById(id=(await self.aget(key)).id)

    def draft(
        self, key: str, recurrence: Rule, call: Call[Any], policies: Policies
    ) -> ScheduleDraft:
        said = call.options
        return ScheduleDraft(
            name=policies.get("name", key),
            key=key,
            recurrence=self.spec_of(key, recurrence),
            target=checked_target(self.host.operator, call.target, ""),
            starts_at=policies.get("starts_at", UNSET),
            ends_at=policies.get("ends_at", UNSET),
            status=ScheduleStatus.PAUSED if policies.get("paused") else UNSET,
            catch_up=CatchUp(policies.get("catch_up", CatchUp.LATEST)),
            grace=span("grace", policies.get("grace")),
            overlap=Overlap(policies.get("overlap", Overlap.ALLOW)),
            jitter=span("jitter", policies.get("jitter")) or UNSET,
            retry=policies.get("retry", said.retry) or UNSET,
            timeout=span("timeout", policies.get("timeout", said.timeout)),
            queue=policies.get("queue", said.queue),
            priority=policies.get("priority", said.priority),
            expires_after=span("expires_after", policies.get("expires_after", said.expires_in)),
            labels=policies.get("labels", said.labels),
        )

    def spec_of(self, key: str, recurrence: Rule) -> RecurrenceSpec:
        """The rule as stored. A function of time stays here, and the store keeps only its key."""
        if isinstance(recurrence, Recurrence) and recurrence.spec().kind != "function":
            return recurrence.spec()
        value = recurrence if isinstance(recurrence, Recurrence) else function_of_time(recurrence)
        self.host.functions[key] = value
        return RecurrenceSpec("function", key)


class Jobs:
    """Stored jobs by id."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def get(self, id: str) -> Job:
        """The job as it is now. Raises `NotFound`."""
        return self.host.wait_for(self.aget(id))

    async def aget(self, id: str) -> Job:
        await self.host.open()
        found = await self.host.store.job(JobId(id))
        if found is None:
            raise NotFound(f"no job has the id {id!r}")
        return found

    def list(self, filter: JobFilter | None = None) -> Sequence[Job]:
        """Jobs, newest first."""
        return self.host.wait_for(self.alist(filter))

    async def alist(self, filter: JobFilter | None = None) -> Sequence[Job]:
        await self.host.open()
        return (await self.host.store.jobs(filter or JobFilter(limit=100))).items

    def cancel(self, id: str, reason: str = "cancelled by hand") -> Job:
        """End it if it waits, ask it to stop if it runs. Raises `NotFound`."""
        return self.host.wait_for(self.acancel(id, reason))

    async def acancel(self, id: str, reason: str = "cancelled by hand") -> Job:
        await self.host.open()
        now = self.host.operator.clock.now()
        (job,) = await self.host.store.cancel([JobId(id)], reason, now)
        if job is None:
            raise NotFound(f"no job has the id {id!r}")
        return job

    def retry(self, id: str) -> Job:
        """Run a failed or cancelled job again, with fresh attempts. Raises `NotFound`."""
        return self.host.wait_for(self.aretry(id))

    async def aretry(self, id: str) -> Job:
        await self.host.open()
        (job,) = await self.host.store.retry([JobId(id)], self.host.operator.clock.now())
        if job is None:
            raise NotFound(f"no job has the id {id!r}")
        return job


class Queues:
    """Queues by name."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def list(self) -> Sequence[Queue]:
        return self.host.wait_for(self.alist())

    async def alist(self) -> Sequence[Queue]:
        await self.host.open()
        return await self.host.store.queues(self.host.operator.clock.now())

    def pause(self, name: str) -> None:
        """Nothing of the queue is begun until `resume`; what runs goes on."""
        self.host.wait_for(self.apause(name))

    async def apause(self, name: str) -> None:
        await self.host.open()
        await self.host.store.pause_queue(name, paused=True)

    def resume(self, name: str) -> None:
        self.host.wait_for(self.aresume(name))

    async def aresume(self, name: str) -> None:
        await self.host.open()
        await self.host.store.pause_queue(name, paused=False)
