"""The context of a running job, as its handler sees it."""

import logging
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Final, Protocol, cast, runtime_checkable

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Progress
from onbeat.model.outcome import Succeeded
from onbeat.model.renamed import warn_renamed
from onbeat.model.target import lane_of
from onbeat.ports.store import Settlement
from onbeat.ports.target import Run
from onbeat.rules.settlement import attempt_of, settle
from onbeat.targets.app_context import AppContext
from onbeat.targets.codec import encode_result
from onbeat.targets.fan_out import Buffer


@runtime_checkable
class Finishable(Protocol):
    """An attempt whose handler may settle the job itself, by setting `finished`."""

    finished: Settlement | None


class Context:
    """Passed to a handler for the parameter annotated with this type.

    All methods may be called from the handler's thread or from an event loop.
    """

    def __init__(
        self, run: Run, program: AppContext | None = None, outbox: Buffer | None = None
    ) -> None:
        self.run = run
        self.app = program
        self.buffer = outbox

    @property
    def job_id(self) -> JobId:
        """The same for all attempts: use it as the idempotency key of effects elsewhere."""
        return self.run.job.id

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
    def schedule_id(self) -> ScheduleId | None:
        return self.run.job.schedule_id

    @property
    def occurrence(self) -> datetime | None:
        """The instant of the schedule that this job is for, None outside a schedule's calendar."""
        return self.run.job.occurrence

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
        """
        progress = Progress(done, total)
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

    def finish_within(self, connection: object, result: Any = None) -> Awaitable[None]:
        """The older name of `finish_in_transaction`."""
        warn_renamed("context.finish_within", "context.finish_in_transaction")
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
        """A logger that adds the job's id and attempt to each record."""
        job = self.run.job
        return logging.LoggerAdapter(
            logging.getLogger("onbeat.handler"), {"job": job.id, "attempt": job.attempt}
        )


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
