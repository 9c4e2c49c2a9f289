"""One log line for each event that the engine reports."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from onbeat.model.credentials import NOT_SHOWN
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import OnbeatError
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.origin import API, PROGRAM
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.owner import Owner
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.model.trace_context import ids_of
from onbeat.ports.store import SucceededAttempt
from onbeat.rules.storable import storable_text
from onbeat.telemetry.repeats import Repeats
from onbeat.telemetry.structured_log import Log

ERROR_CHARS_SHOWN: Final = 500
DECLARATION: Final = "declaration"
LEVELS_OF_DUPLICATES: Final = {PROGRAM: logging.DEBUG, API: logging.INFO}


class LogEvents:
    """A `Telemetry` that writes log lines.

    Starts and successes are logged at `level`, debug by default: at full speed, logging would be
    most of the work. Each round of a loop looks whether that level is on.
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, level: int = logging.DEBUG
    ) -> None:
        self._jobs = Log("onbeat.jobs")
        self._level = level
        self._is_verbose = True  # until a loop has looked: the level may be set after this is made
        self._loops = Log("onbeat.loops")
        # A failing loop fails several times per second while its store is away.
        self._failing = Repeats(monotonic)

    def _writes_all(self) -> bool:
        return self._jobs.logger.isEnabledFor(self._level)

    def started(self, job: Job, late: float) -> None:
        if self._is_verbose:
            fields = job_fields(job) | {"late": span_text(late)}
            self._jobs.write(self._level, "job.started", fields)

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        # Success is the common case, and its line is usually disabled.
        if self._is_verbose or type(outcome) is not Succeeded:
            self._note_end(job, outcome, seconds)

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        if self._is_verbose:
            for success in ended:
                self._note_end(success.job, Succeeded(success.result), success.seconds)

    def _note_end(self, job: Job, outcome: Outcome, seconds: float) -> None:
        fields = job_fields(job) | {"took": span_text(seconds)}
        match outcome:
            case Succeeded():
                self._jobs.write(self._level, "job.succeeded", fields)
            case Failed(error=error):
                error = NOT_SHOWN if job.sensitive else error
                self._jobs.warning(
                    "job.failed", **fields, **state_fields(job), **error_fields(error)
                )
            case Snoozed(reason=reason):
                why = {} if reason is None else {"reason": storable_text(reason)}
                self._jobs.write(self._level, "job.snoozed", fields | state_fields(job) | why)
            case Cancelled(reason=reason):
                self._jobs.info("job.cancelled", **fields, reason=storable_text(reason))
            case Lost(reason=reason):
                self._jobs.warning("job.lost", **fields, **state_fields(job), reason=reason)
            case Released():
                self._jobs.info("job.released", **fields)

    def lease_lost(self, job: Job) -> None:
        self._jobs.warning("job.lease_lost", **job_fields(job))

    def made(self, jobs: Iterable[Job]) -> None:
        """They are logged by their number, as planned or routed."""

    def planned(self, jobs: int, skipped: int) -> None:
        if jobs or skipped:
            self._loops.debug("schedules.planned", jobs=jobs, skipped=skipped)

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        """Logged at once, then once a minute: the planner tries again every few seconds."""
        if times := self._failing.times_to_log(schedule.id):
            names = {"schedule": schedule.id, "name": schedule.name}
            self._loops.error("schedule.unplannable", error, **names, times=times)

    def routed(self, events: int, jobs: int) -> None:
        self._loops.debug("events.routed", events=events, jobs=jobs)

    def route_refused(self, events: int) -> None:
        self._loops.debug("route.refused", events=events)

    def zone_in_doubt(self, schedule: Schedule, reason: str) -> None:
        names = {"schedule": schedule.id, "name": schedule.name}
        self._loops.warning("schedule.zone_in_doubt", **names, reason=reason)

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        names = {"schedule": schedule.id, "name": schedule.name}
        self._loops.warning("schedule.moved", **names, occurrences=occurrences)

    def orphaned(self, schedule: Schedule) -> None:
        names = {"schedule": schedule.id, "key": schedule.key, "owner": schedule.owner}
        self._loops.warning("schedule.orphaned", **names, reason="no longer declared")

    def doubled(self, schedule: Schedule) -> None:
        names = {"schedule": schedule.id, "key": schedule.key, "owner": schedule.owner}
        self._loops.warning(
            "schedule.doubled", **names, reason="deleted; the cell of its key has it"
        )

    def older_release(self, owner: Owner, newest: str) -> None:
        fields = {"owner": owner.name, "release": owner.release, "newest": newest}
        self._loops.warning("program.older_release", **fields)

    def undeclared(self, error: BaseException) -> None:
        """As `loop_failed`."""
        self._log_failure("program.undeclared", DECLARATION, error)

    def declared(self) -> None:
        self._failing.forget(DECLARATION)
        self._loops.info("program.declared")

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self._jobs.warning("job.rescued", **job_fields(job), **state_fields(job), worker=worker)

    def pruned(self, jobs: int) -> None:
        if jobs:
            self._loops.info("jobs.pruned", jobs=jobs)

    def dead_lettered(self, dead_letter: DeadLetter) -> None:
        fields = {"letter": dead_letter.id, "source": dead_letter.source}
        self._jobs.warning(
            "message.dead_lettered", **fields, reason=dead_letter.reason[:ERROR_CHARS_SHOWN]
        )

    def sent(self, jobs: int, source: str) -> None:
        """They are counted, and each is logged when it starts."""

    def duplicated(self, task: str, job: JobId, source: str) -> None:
        """Who asks with a unique key expects them; who submits a task of others may not."""
        level = LEVELS_OF_DUPLICATES.get(source, logging.WARNING)
        fields = {"task": task, "job": job, "source": source}
        self._jobs.write(level, "submission.duplicate", fields)

    def repeated(self, operation: str, id: str | None) -> None:
        made = {} if id is None else {"id": id}
        self._jobs.info("request.repeated", operation=operation, **made)

    def clock_stepped(self, seconds: float) -> None:
        self._loops.warning("clock.stepped", seconds=f"{seconds:+.3f}s")

    def interpreter_held(self, seconds: float) -> None:
        self._loops.warning("interpreter.held", seconds=f"{seconds:.1f}s")

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        if is_open:
            self._jobs.warning("endpoint.down", endpoint=endpoint)
        else:
            self._jobs.info("endpoint.back", endpoint=endpoint)

    def ran_short(self, means: str) -> None:
        """Logged at once, then once a minute with the number of delayed attempts."""
        if times := self._failing.times_to_log(f"short of {means}"):
            self._jobs.warning("worker.resources_exhausted", means=means, times=times)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        """Logged at once, then once a minute with the number of failures."""
        self._log_failure("loop.failed", loop, error, loop=loop)

    def _log_failure(self, event: str, name: str, error: BaseException, **fields: str) -> None:
        if not (times := self._failing.times_to_log(name)):
            return
        # Errors of Onbeat need no traceback; other errors are bugs.
        trace = None if isinstance(error, OnbeatError) else error
        message = str(error)[:ERROR_CHARS_SHOWN] or type(error).__name__
        self._loops.error(event, trace, **fields, times=times, error=message)

    def loop_rested(self, loop: str) -> None:
        pass

    def loop_beat(self, loop: str) -> None:
        self._is_verbose = self._writes_all()
        if self._failing.forget(loop):
            self._loops.info("loop.recovered", loop=loop)


def job_fields(job: Job) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "job": job.id,
        "task": lane_of(job.target),
        "queue": job.queue,
        "attempt": f"{job.attempt}/{job.retry.attempts_max}",
    }
    if job.schedule_id:
        fields["schedule"] = job.schedule_id
    if job.traceparent:
        # Such lines are written after the attempt, when its span is no longer the active one.
        fields["trace_id"], _ = ids_of(job.traceparent)
    return fields


def state_fields(job: Job) -> dict[str, Any]:
    """The current state of the job: its next attempt, or its end."""
    if job.is_final:
        return {"state": str(job.state)}
    return {"next_at": job.due_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def error_fields(error: str) -> dict[str, Any]:
    """The last line of an error, and the full text if it has more.

    As it is stored: no file takes half of a character, and the line would be lost with it.
    """
    error = storable_text(error)
    lines = error.strip().splitlines() or [""]
    fields = {"error": lines[-1][:ERROR_CHARS_SHOWN]}
    return fields | {"exception": error.strip()} if len(lines) > 1 else fields


def span_text(seconds: float) -> str:
    return f"{seconds:.3f}s"
