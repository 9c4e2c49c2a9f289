"""Steps: parts of a task whose results are kept, so that a next attempt does not run them again.

They are stored where a distributor keeps its cursor: behind the fence of the job's lease, and as
long as the job is live.
"""

import asyncio
import hashlib
import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Invalid, LeaseLost
from onbeat.model.event import StoredEvent
from onbeat.model.event_wait import EventWait, WaitResult
from onbeat.model.ids import EventSeq, JobId
from onbeat.model.job import Job
from onbeat.model.limits import NAME_CHARS_MAX, SPAN_MAX, STEPS_BYTES_MAX
from onbeat.model.outcome import Snoozed
from onbeat.model.signals import Fail, Snooze
from onbeat.ports.events import EventFilter
from onbeat.ports.store import SentJobs
from onbeat.rules.event_waits import reason_of
from onbeat.targets.app_context import AppContext
from onbeat.targets.codec import decoder_for, encode_value, hints_of
from onbeat.targets.fan_out import store_batch, until_available
from onbeat.wire.event_waits import read_awaited_key, read_awaited_type, read_within
from onbeat.wire.values import read_name, read_span

SLEEP: Final = "sleep"  # what a step of a pause is instead of a function
WAIT: Final = "wait_for"
DIGEST_CHARS: Final = 32


class StoredStep(msgspec.Struct, frozen=True, array_like=True):
    """A step that has ended: a digest of what was called, and its result."""

    called: str
    result: msgspec.Raw


class EventAwaited(Snooze):
    """Puts a job off until an event."""

    def __init__(self, delay: timedelta, step: str, reason: str) -> None:
        super().__init__(delay)
        self.outcome = Snoozed(delay, reason, awaits=step)


class Steps:
    """The steps of one attempt, with those of earlier attempts. For the event loop only."""

    def __init__(self, program: AppContext, job: Job) -> None:
        self.app = program
        self.job = job
        self.ended = read_steps(job.cursor)
        self.running: set[str] = set()
        self.lock = asyncio.Lock()

    async def run(self, key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The result of the function: of this call, or of an earlier attempt."""
        called = digest_of(key, name_of(function), args)
        if (step := self.find(key, called)) is None:
            step = await self.end(key, called, function, args)
        return decoder_for(hints_of(function).get("return", Any)).decode(step.result)

    async def sleep(self, delay: timedelta | float | str, key: str) -> None:
        """Raises `Snooze` until the delay since the first call has passed."""
        now = self.app.clock.now()
        span = delay if isinstance(delay, timedelta) else read_span(delay, "the delay of a sleep")
        called = digest_of(key, SLEEP, (span,))
        if (step := self.find(key, called)) is None:
            step = StoredStep(called, pack(key, now + span))
            await self.store(key, step)
        until = msgspec.json.decode(step.result, type=datetime)
        if now < until:
            raise Snooze(until - now)

    async def wait_for(self, wait: EventWait, span: timedelta | None) -> StoredEvent | None:
        """The event, or None after the span. Raises `EventAwaited` while the wait is open."""
        called = digest_of(wait.step, WAIT, (wait.type, wait.by, span))
        if (step := self.find(wait.step, called)) is None:
            step = await self.begin_wait(wait, called, span)
        until = msgspec.json.decode(step.result, type=datetime | None)
        answer = await self.ask_for(replace(wait, until=until))
        if not answer.is_open:
            return answer.event
        delay = SPAN_MAX if until is None else until - self.app.clock.now()
        reason = reason_of(replace(wait, until=until), is_sensitive=self.job.sensitive)
        raise EventAwaited(max(delay, timedelta()), wait.step, reason)

    async def begin_wait(self, wait: EventWait, called: str, span: timedelta | None) -> StoredStep:
        """Events from this moment on count: those stored meanwhile are looked for afterwards."""
        self.running.add(wait.step)
        try:
            newest = await until_available(
                self.app, lambda: self.app.store.events(EventFilter(limit=1))
            )
            until = None if span is None else self.app.clock.now() + span
            since = newest[0].seq if newest else EventSeq(0)
            step = StoredStep(called, pack(wait.step, until))
            await self.store(wait.step, step, replace(wait, since=since, until=until))
        finally:
            self.running.discard(wait.step)
        return step

    async def ask_for(self, wait: EventWait) -> WaitResult:
        """What has become of the wait. Raises `LeaseLost`."""
        answer = await until_available(
            self.app,
            lambda: self.app.store.await_event(wait, self.job.token, self.app.clock.now()),
        )
        if answer is None:
            raise LeaseLost
        return answer

    def find(self, key: str, called: str) -> StoredStep | None:
        """Raises `Fail`, as no other attempt could help, for a key that stands for another call."""
        if key in self.running:
            raise Fail(f"step {key!r} runs already; give each step its own key", retryable=False)
        step = self.ended.get(key)
        if step is not None and step.called != called:
            text = f"step {key!r} was another function, or had other arguments, when it was stored"
            raise Fail(f"{text}; give it another key", retryable=False)
        return step

    async def end(
        self, key: str, called: str, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> StoredStep:
        self.running.add(key)
        try:
            value = function(*args)
            if inspect.isawaitable(value):
                value = await value
            step = StoredStep(called, pack(key, value))
            await self.store(key, step)
        finally:
            self.running.discard(key)
        return step

    async def store(self, key: str, step: StoredStep, wait: EventWait | None = None) -> None:
        """One after another, so that no older list of steps replaces a newer one."""
        async with self.lock:
            steps = self.ended | {key: step}
            packed = msgspec.json.encode(steps)
            if len(packed) > STEPS_BYTES_MAX:
                raise Fail(
                    f"the results of its steps take {len(packed)} bytes with that of {key!r};"
                    f" at most {STEPS_BYTES_MAX} are kept. Give back ids of what is kept elsewhere",
                    retryable=False,
                )
            sent = SentJobs(
                sender=self.job.id,
                token=self.job.token,
                jobs=(),
                cursor=msgspec.Raw(packed),
                wait=wait,
            )
            if not await store_batch(self.app, sent):
                raise LeaseLost
            self.ended = steps


def read_steps(cursor: msgspec.Raw | None) -> dict[str, StoredStep]:
    """No steps where the cursor is one of a distributor, which this task was before."""
    if cursor is None or bytes(cursor)[:1] != b"{":
        return {}
    return msgspec.json.decode(cursor, type=dict[str, StoredStep])


def checked_wait(id: JobId, type: str, by: str | None, key: str | None) -> EventWait:
    """Raises `Fail`, as no other attempt could help, for what no event has."""
    try:
        read_awaited_type(type)
        if by is not None:
            read_awaited_key(by)
    except Invalid as error:
        raise Fail(f"wait_for: {error}", retryable=False) from None
    step = default_key(type, by) if key is None else key
    return EventWait(job_id=id, step=step, type=type, by=by)


def checked_within(within: timedelta | float | str | None) -> timedelta | None:
    """Raises `Fail` as `checked_wait`."""
    try:
        return None if within is None else read_within(within)
    except Invalid as error:
        raise Fail(f"wait_for: {error}", retryable=False) from None


def default_key(type: str, by: str | None) -> str:
    """Names a wait by what it is for; in a few letters where that is long."""
    key = type if by is None else f"{type} {by}"
    if len(key) <= NAME_CHARS_MAX:
        return key
    return hashlib.sha256(key.encode()).hexdigest()[:DIGEST_CHARS]


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def pack(key: str, value: Any) -> msgspec.Raw:
    return encode(f"the result of step {key!r}", value)


def digest_of(key: str, called: str, args: tuple[Any, ...]) -> str:
    """Names what is called in a few bytes. Raises `Fail` for a key or arguments without a form."""
    try:
        read_name(key, "the key of a step")
    except Invalid as error:
        raise Fail(str(error), retryable=False) from None
    packed = encode(f"the arguments of step {key!r}", args)
    return hashlib.sha256(called.encode() + b"\0" + bytes(packed)).hexdigest()[:DIGEST_CHARS]


def encode(name: str, value: Any) -> msgspec.Raw:
    try:
        return encode_value(name, value, STEPS_BYTES_MAX)
    except Invalid as error:
        raise Fail(str(error), retryable=False) from None
