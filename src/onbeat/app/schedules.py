"""`beat.schedules`: schedules by key."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, Unpack

from msgspec import UNSET

from onbeat.app.backend import Backend
from onbeat.app.call import (
    Call,
    InheritedOptions,
    JobOptions,
    Span,
    check_call,
    instant,
    name_of,
    options,
    span,
)
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.model.target import HttpTarget, Target
from onbeat.operations.table import (
    SCHEDULE_DELETE,
    SCHEDULE_LIST,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
)
from onbeat.recurrence import Recurrence
from onbeat.recurrence import function as function_of_time
from onbeat.wire.requests import (
    ListSchedules,
    ScheduleById,
)
from onbeat.wire.schedules import ScheduleAnswer, ScheduleDraft

Choice = TypeVar("Choice", CatchUp, Overlap)
Rule = Recurrence | Callable[[datetime], datetime | None]


class Policies(InheritedOptions, total=False):
    """Policies of a schedule; each has a default."""

    name: str
    starts_at: datetime | None
    ends_at: datetime | None
    paused: bool
    catch_up: str
    grace: Span | None
    overlap: str
    jitter: Span
    expires_after: Span | None


SHARED: Final = InheritedOptions.__annotations__.keys() - {"retry", "timeout"}
"""Options that are read alike for a call and for a schedule."""


class Schedules:
    """Schedules by key. Each method has an `a`-form for coroutines; the plain form blocks."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.declared: list[tuple[str, ScheduleDraft]] = []

    def declare(self, key: str, recurrence: Rule, call: Call[Any], policies: Policies) -> None:
        """Declare a schedule that is stored when the program starts to run."""
        self.declared.append((key, self.draft(key, recurrence, call, policies)))

    async def put_declared(self) -> None:
        for key, draft in self.declared:
            await self.backend.put_schedule(key, draft)

    def put(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create the schedule under `key`, update it, or leave it unchanged.

        Its waiting jobs follow at once. Raises `Invalid` naming the invalid argument.
        """
        return self.backend.wait_for(self.aput(key, recurrence, call, **policies))

    async def aput(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create or update the schedule under `key`; see `put`."""
        draft = self.draft(key, recurrence, call, policies)
        return ScheduleId((await self.backend.put_schedule(key, draft)).id)

    def get(self, key: str) -> ScheduleAnswer:
        """The schedule under `key`, with its next occurrence. Raises `NotFound`."""
        return self.backend.wait_for(self.aget(key))

    async def aget(self, key: str) -> ScheduleAnswer:
        return await self.backend.call(SCHEDULE_SHOW, await self.by_key(key))

    def list(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        """Schedules, newest first; `q` matches any part of name or key."""
        return self.backend.wait_for(self.alist(q=q, limit=limit))

    async def alist(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        request = ListSchedules(q=q, limit=limit)
        return (await self.backend.call(SCHEDULE_LIST, request)).schedules

    def pause(self, key: str) -> None:
        """Run no further occurrence until `resume`."""
        self.backend.wait_for(self.apause(key))

    async def apause(self, key: str) -> None:
        await self.backend.call(SCHEDULE_PAUSE, await self.by_key(key))

    def resume(self, key: str) -> None:
        """Continue from now; occurrences missed during the pause do not run."""
        self.backend.wait_for(self.aresume(key))

    async def aresume(self, key: str) -> None:
        await self.backend.call(SCHEDULE_RESUME, await self.by_key(key))

    def trigger(self, key: str) -> JobId:
        """Run it once now, independent of its occurrences."""
        return self.backend.wait_for(self.atrigger(key))

    async def atrigger(self, key: str) -> JobId:
        answer = await self.backend.call(SCHEDULE_TRIGGER, await self.by_key(key))
        return JobId(answer.job_id)

    def delete(self, key: str) -> None:
        """Cancel its waiting jobs and delete it; its ended jobs stay readable."""
        self.backend.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await self.backend.call(SCHEDULE_DELETE, await self.by_key(key))

    async def by_key(self, key: str) -> ScheduleById:
        return ScheduleById(id=await self.backend.schedule_id(key))

    def draft(
        self, key: str, recurrence: Rule, call: Call[Any], policies: Policies
    ) -> ScheduleDraft:
        check_call(call)
        shared: dict[str, Any] = {name: policies.get(name) for name in SHARED}
        job_options = options(call.options, **shared)
        return ScheduleDraft(
            name=name_of("name", policies.get("name", key)),
            recurrence=self.spec_of(key, recurrence),
            target=self.check_target(call.target),
            status=ScheduleStatus.PAUSED if policies.get("paused") else UNSET,
            options={"key": key} | read_policies(policies, job_options),
        )

    def check_target(self, target: Target) -> Target:
        """Raises `Invalid` for a callback to an address that is not allowed here."""
        if isinstance(target, HttpTarget) and (
            why := self.backend.options.http.refusal_of(target.url)
        ):
            raise Invalid(f"The URL is not allowed: {why}", "url")
        return target

    def spec_of(self, key: str, recurrence: Rule) -> RecurrenceSpec:
        """The rule as stored. A function of time stays here, and the store has only its key."""
        if isinstance(recurrence, Recurrence) and recurrence.spec().kind != "function":
            return recurrence.spec()
        check_rule(recurrence)
        value = recurrence if isinstance(recurrence, Recurrence) else function_of_time(recurrence)
        self.backend.registry.functions[key] = value
        return RecurrenceSpec("function", key)


def read_policies(policies: Policies, base: JobOptions) -> dict[str, Any]:
    """The fields of the schedule; `base` has the options of its call."""
    retry = policies.get("retry", base.retry)
    timeout = policies.get("timeout", base.job.timeout)
    expires_after = policies.get("expires_after", base.expires_in)
    fields = {name: getattr(base.job, name) for name in SHARED} | {
        "starts_at": instant("starts_at", policies.get("starts_at")),
        "ends_at": instant("ends_at", policies.get("ends_at")),
        "catch_up": choice("catch_up", policies.get("catch_up"), CatchUp.LATEST),
        "grace": span("grace", policies.get("grace")),
        "overlap": choice("overlap", policies.get("overlap"), Overlap.ALLOW),
        "jitter": span("jitter", policies.get("jitter")) or UNSET,
        "retry": retry or UNSET,
        "timeout": span("timeout", timeout),
        "expires_after": span("expires_after", expires_after),
    }
    return {name: value for name, value in fields.items() if value is not UNSET}


def check_rule(rule: object) -> None:
    """Raises TypeError for other objects; the rule's text alone is the common mistake."""
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
