"""What a handler may ask about the job it runs for."""

import logging
from datetime import datetime

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Progress
from onbeat.ports.target import Run


class Context:
    """Given to a handler for the parameter annotated with this type.

    All of it may be used from the handler's thread as well as from an event loop.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

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
        """Whether the work should stop: it was cancelled, its lease lost, or a shutdown."""
        return self.run.stop_reason is not None

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the work is. Stored with the worker's next beat; only the latest counts."""
        self.run.note_progress(Progress(done, total))

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose lines carry the job's id and attempt."""
        job = self.run.job
        return logging.LoggerAdapter(
            logging.getLogger("onbeat.handler"), {"job": job.id, "attempt": job.attempt}
        )
