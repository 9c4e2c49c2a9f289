"""The context of a running job, as its handler sees it."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeVar, cast, overload, runtime_checkable

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Progress
from onbeat.model.outcome import Succeeded
from onbeat.model.target import lane_of
from onbeat.ports.clock import Clock
from onbeat.ports.store import Settlement
from onbeat.ports.target import Run
from onbeat.ports.tracing import active_ids
from onbeat.rules.settlement import attempt_of, settle
from onbeat.targets.app_context import AppContext
from onbeat.targets.codec import encode_result
from onbeat.targets.event import HandlerEvent, plain_event
from onbeat.targets.fan_out import Buffer
from onbeat.targets.handler_log import HANDLERS, HandlerLogger
from onbeat.targets.predecessors import Predecessors, PriorJob, decode_plain
from onbeat.targets.steps import Steps, checked_wait, checked_within

Value = TypeVar("Value")
ANY_DATA: Final = msgspec.json.Decoder[Any]()


@runtime_checkable
class Finishable(Protocol):
    """An attempt whose handler may settle the job itself, by setting `finished`."""

    finished: Settlement | None


class JobLogger(HandlerLogger):
    """Adds the fields of the job and of the active span to those of each call.

    The base class replaces those of the call.
    """

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        given: dict[str, Any] = kwargs.get("extra") or {}
        return msg, {**kwargs, "extra": {**given, **(self.extra or {}), **active_ids()}}


class Context:
    """Passed to a handler for the parameter annotated with this type.

    All methods may be called from the handler's thread or from an event loop.
    """

    def __init__(
        self,
        run: Run,
        program: AppContext | None = None,
        outbox: Buffer | None = None,
        earlier: Sequence[PriorJob] = (),
        clock: Clock | None = None,
    ) -> None:
        self.run = run
        self.app = program
        self.clock = clock
        self.buffer = outbox
        self.earlier = earlier
        self.stored_steps: Steps | None = None

    @property
    def job_id(self) -> JobId:
        """The same for all attempts: use it as the idempotency key of effects elsewhere."""
        return self.run.job.id

    @property
    def task(self) -> str:
        """The name of the task."""
        return lane_of(self.run.job.target)

    @property
    def queue(self) -> str:
        return self.run.job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.run.job.attempt

    @property
    def attempts_max(self) -> int:
        return self.run.job.retry.attempts_max

    @property
    def token(self) -> Token:
        """Fencing token: rises with every claim of the job.

        A system that stores the highest token it has seen can refuse a worker that lost its lease
        and continued later.
        """
        return self.run.job.token

    @property
    def due_at(self) -> datetime:
        return self.run.job.due_at

    @property
    def now(self) -> datetime:
        """The current time, aware, in UTC: by the clock of the store, in a trial by the trial's."""
        assert self.clock is not None, "whoever runs the job gives its clock"
        return self.clock.now()

    @property
    def schedule_id(self) -> ScheduleId | None:
        return self.run.job.schedule_id

    @property
    def occurrence(self) -> datetime | None:
        """The instant of the schedule that this job is for, None outside a schedule's calendar."""
        return self.run.job.occurrence

    @property
    def events(self) -> "Sequence[HandlerEvent[Any]]":
        """The events that this job was made for, in their order; none for other jobs."""
        return [plain_event(event, ANY_DATA, self.earlier) for event in self.run.events]

    @property
    def after(self) -> Predecessors:
        """The jobs that this one came after, with their results, by name or id."""
        after = [one for one in self.earlier if one.id in self.run.job.after]
        return Predecessors(after, self.app.decode_result if self.app else decode_plain)

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.run.job.labels)

    @property
    def deadline(self) -> datetime | None:
        """When the attempt reaches its timeout, None without a timeout."""
        return self.run.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: job cancelled, timeout, lost lease or shutdown."""
        return self.run.stop_reason is not None

    def progress(self, done: float, total: float | None = None) -> None:
        """Report progress. Only the latest call counts.

        Stored with the worker's next heartbeat, or with the next batch of a task that yields calls.
        Raises `Invalid` for what is no finite number of 0 or more.
        """
        whole = None if total is None else amount(total, "total")
        progress = Progress(amount(done, "done"), whole)
        if self.buffer is None:
            self.run.note_progress(progress)
        else:
            self.buffer.note(progress)

    @property
    def saved(self) -> Any:
        """The cursor that a task that yields calls saved in an earlier attempt; None at first."""
        return None if self.buffer is None else msgspec.json.decode(self.buffer.begun_at.saved)

    def save(self, value: Any) -> None:
        """Save a cursor from which a next attempt of a task that yields calls continues.

        Only the last call counts. Stored in one transaction with the jobs of all calls yielded
        before, and never earlier. `value` is anything with a JSON form. Raises `Invalid` if it has
        none, and RuntimeError in a task that yields no calls.
        """
        if self.buffer is None:
            raise RuntimeError("save() is for tasks that yield calls; this one does not")
        self.buffer.save(value)

    @overload
    async def step(
        self, key: str, function: Callable[..., Awaitable[Value]], *args: Any
    ) -> Value: ...

    @overload
    async def step(self, key: str, function: Callable[..., Value], *args: Any) -> Value: ...

    async def step(self, key: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call the function, unless an earlier attempt did; returns its result, as stored.

        The result is stored under the key, behind the fence of the lease, when the function has
        returned: a worker that dies before runs it again. Its arguments and its result need a JSON
        form; the result comes back in the type that the function declares. A coroutine function
        runs in the event loop, and so does plain code. Fails the job for a key that stands for
        another function or other arguments. Raises RuntimeError with process isolation and in a
        task that yields calls.
        """
        return await self._steps.run(key, function, args)

    async def sleep(self, delay: timedelta | float | str, *, key: str) -> None:
        """Put the job off until the delay has passed; it costs no attempt, and frees its slot.

        The first call raises `Snooze`, so that the handler ends; it is called again when the delay
        has passed, and then this returns. Raises as `step`.
        """
        await self._steps.sleep(delay, key)

    async def wait_for(
        self,
        type: str,
        *,
        by: str | None = None,
        within: timedelta | float | str | None = None,
        key: str | None = None,
    ) -> "HandlerEvent[Any] | None":
        """Put the job off until an event comes; it costs no attempt, and frees its slot.

        The event's type is `type`, which may have a `*` at its end, and its subject is `by`, if
        that is given. Events count from the first call on. That call raises an exception, so that
        the handler ends. It is called again with the event, or when the span `within` has passed
        without one; then this returns the event or None, and so it does in later attempts. `key`
        names the step; without it, `type` and `by` do. Raises as `step`.
        """
        wait = checked_wait(self.job_id, type, by, key)
        stored = await self._steps.wait_for(wait, checked_within(within))
        return None if stored is None else plain_event(stored.event, ANY_DATA)

    @property
    def _steps(self) -> Steps:
        if self.run.is_question:
            raise RuntimeError("a condition has no steps: it is judged before the attempt begins")
        if self.app is None:
            raise RuntimeError("a task with isolation='process' has no steps")
        if self.buffer is not None:
            raise RuntimeError("a task that yields calls has no steps; it has save()")
        if self.stored_steps is None:
            self.stored_steps = Steps(self.app, self.run.job)
        return self.stored_steps

    def finish_within(self, connection: object, result: Any = None) -> Awaitable[None]:
        """The older name of `finish_in_transaction`, which stays."""
        return self.finish_in_transaction(connection, result)

    def finish_in_transaction(self, connection: object, result: Any = None) -> Awaitable[None]:
        """Let this job succeed if and only if the transaction of `connection` commits.

        Await it in a coroutine; in plain code it is done when it returns. The function's later
        return value is ignored; if the transaction is not committed, the attempt fails. Raises
        `LeaseLost` when another worker holds the job now: then roll back the transaction. Raises
        `Invalid` for a connection without a transaction or to another database, TypeError for an
        unknown type of connection, RuntimeError with process isolation and in a task that yields
        calls.
        """
        program, run = self.app, self.run
        if program is None or not isinstance(run, Finishable):
            raise RuntimeError("a task with isolation='process' cannot finish within a transaction")
        if self.buffer is not None:
            raise RuntimeError("a task that yields calls ends when it has yielded them all")
        run.finished = self.settlement(program, result)
        return program.finish(connection, run.finished)

    def settlement(self, program: AppContext, result: Any) -> Settlement:
        job, now = self.run.job, program.clock.now()
        outcome = Succeeded(encode_result(lane_of(job.target), result))
        return Settlement(job=settle(job, outcome, now, 0.0), attempt=attempt_of(job, outcome, now))

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger that adds the job's id and attempt to each record, beside its own `extra`.

        Its lines are kept with the job, whatever the program's logging leaves out.
        """
        job = self.run.job
        return JobLogger(logging.getLogger(HANDLERS), {"job": job.id, "attempt": job.attempt})


def amount(value: object, name: str) -> float:
    """A number of any type, as JSON can hold it. Raises `Invalid`."""
    try:
        number = float("nan") if isinstance(value, str) else float(cast("float", value))
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not 0 <= number < float("inf"):
        raise Invalid(
            f"{name} of the progress must be a finite number of at least 0, not {value!r:.100}",
            field=name,
        )
    return value if type(value) is int else number


class NoContext:
    """The default where no context was passed."""

    def __repr__(self) -> str:
        return "onbeat.CURRENT"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            f"context.{name}: no job runs here; a worker gives its handler a context, "
            "pass one in a direct call"
        )


CURRENT: Final = cast("Context", NoContext())
"""Default of a context that is not the first parameter: `def f(x: int, c: Context = CURRENT)`.

A worker replaces it with the context of the running job. With the default, type checkers know that
`send` takes no context; a context that comes first needs none.
"""
