"""What a handler may ask about the job it runs for."""

import logging
from collections.abc import Awaitable
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Progress
from onbeat.model.outcome import Succeeded
from onbeat.model.target import lane_of
from onbeat.ports.store import Settlement
from onbeat.ports.target import Run
from onbeat.rules.settling import attempt_of, settle
from onbeat.targets.arguments import encode_result
from onbeat.targets.distributing import Outbox
from onbeat.targets.program import Program


@runtime_checkable
class Finishable(Protocol):
    """An attempt whose handler may settle the job itself, as `finished` then says."""

    finished: Settlement | None


class Context:
    """Given to a handler for the parameter annotated with this type.

    All of it may be used from the handler's thread as well as from an event loop.
    """

    def __init__(
        self, run: Run, program: Program | None = None, outbox: Outbox | None = None
    ) -> None:
        self.run = run
        self.program = program
        self.outbox = outbox

    @property
    def job_id(self) -> JobId:
        """Stable over attempts: use it as the idempotency key of effects elsewhere."""
        return self.run.job.id

    @property
    def attempt(self) -> int:
        """The number of this try, from 1."""
        return self.run.job.attempt

    @property
    def attempts_max(self) -> int:
        return self.run.job.retry.attempts_max

    @property
    def token(self) -> Token:
        """Fencing token: rises with every claim of the job.

        A store of effects that keeps the highest it has seen can so refuse a worker that was given
        up and woke again.
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
        """When the attempt is stopped for taking too long, None without a timeout."""
        return self.run.deadline

    @property
    def cancelled(self) -> bool:
        """Whether the work should stop: a cancel, its time over, its lease lost, a shutdown."""
        return self.run.stop_reason is not None

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the work is. Only the latest counts.

        Stored with the worker's next beat, or with the next batch of a task that yields calls.
        """
        progress = Progress(done, total)
        if self.outbox is None:
            self.run.note_progress(progress)
        else:
            self.outbox.note(progress)

    @property
    def saved(self) -> Any:
        """What a task that yields calls saved in its earlier attempts; None before the first."""
        return None if self.outbox is None else msgspec.json.decode(self.outbox.begun_at.saved)

    def save(self, value: Any) -> None:
        """Say where a next attempt of a task that yields calls shall go on; only the last counts.

        Stored in one transaction with the jobs of all calls that were yielded before, and never
        earlier. `value` is anything with a JSON form. Raises `Invalid` where it has none, and
        RuntimeError in a task that yields no calls.
        """
        if self.outbox is None:
            raise RuntimeError("save() is for tasks that yield calls; this one does not")
        self.outbox.save(value)

    def finish_within(self, connection: object, result: Any = None) -> Awaitable[None]:
        """Let this job succeed with the transaction that `connection` is in, and not without it.

        To be awaited in a coroutine; in plain code it is done when it returns. What the function
        returns later does not count any more; where the transaction is not committed, the attempt
        has failed. Raises `LeaseLost` when another worker holds the job now: then let go of the
        transaction. Raises `Invalid` for a connection without a transaction or to another
        database, TypeError for what is no connection known here, RuntimeError in a process of its
        own and in a task that yields calls.
        """
        program, run = self.program, self.run
        if program is None or not isinstance(run, Finishable):
            raise RuntimeError("a task with isolation='process' cannot finish within a transaction")
        if self.outbox is not None:
            raise RuntimeError("a task that yields calls ends when it has yielded them all")
        run.finished = self.settlement(program, result)
        return program.finish(connection, run.finished)

    def settlement(self, program: Program, result: Any) -> Settlement:
        job, now = self.run.job, program.clock.now()
        outcome = Succeeded(encode_result(lane_of(job.target), result))
        return Settlement(job=settle(job, outcome, now, 0.0), attempt=attempt_of(job, outcome, now))

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose lines carry the job's id and attempt."""
        job = self.run.job
        return logging.LoggerAdapter(
            logging.getLogger("onbeat.handler"), {"job": job.id, "attempt": job.attempt}
        )
