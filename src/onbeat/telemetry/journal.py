"""One log line for each transition, where the engine tells of it."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from onbeat.model.errors import OnbeatError
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.letter import DeadLetter
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.model.schedule import Schedule
from onbeat.model.target import lane_of
from onbeat.telemetry.lines import Log

# A loop that fails goes on failing, several times a second when its store is away.
REPEAT_SECONDS: Final = 60.0
ERROR_CHARS_SHOWN: Final = 500

# Loops are few, but schedules that cannot be planned may be many; past this all are said anew.
FAILING_MAX: Final = 1_000


class Journal:
    """A `Telemetry` that writes log lines.

    What goes well is said at debug only: at full speed it would be most of the work.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._jobs = Log("onbeat.jobs")
        self._loops = Log("onbeat.loops")
        self._failing: dict[str, Failing] = {}

    def started(self, job: Job, lateness: timedelta) -> None:
        if self._jobs.is_on(logging.DEBUG):
            self._jobs.debug("job.started", **named(job), late=seconds(lateness))

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        # A job that succeeds is the common case, and its line is mostly unwanted.
        if not isinstance(outcome, Succeeded) or self._jobs.is_on(logging.DEBUG):
            self.note_end(job, outcome, duration)

    def note_end(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        fields = named(job) | {"took": seconds(duration)}
        match outcome:
            case Succeeded():
                self._jobs.debug("job.succeeded", **fields)
            case Failed(error=error):
                self._jobs.warning("job.failed", **fields, **standing(job), **told(error))
            case Snoozed(reason=reason):
                why = {} if reason is None else {"reason": reason}
                self._jobs.debug("job.snoozed", **fields, **standing(job), **why)
            case Cancelled(reason=reason):
                self._jobs.info("job.cancelled", **fields, reason=reason)
            case Lost(reason=reason):
                self._jobs.warning("job.lost", **fields, **standing(job), reason=reason)
            case Released():
                self._jobs.info("job.released", **fields)

    def lease_lost(self, job: Job) -> None:
        self._jobs.warning("job.lease_lost", **named(job))

    def planned(self, jobs: int, skipped: int) -> None:
        if jobs or skipped:
            self._loops.debug("schedules.planned", jobs=jobs, skipped=skipped)

    def unplannable(self, schedule: Schedule, error: Exception) -> None:
        """Said at once, then once a minute: the planner comes by every few seconds."""
        if times := self.times_to_say(schedule.id):
            names = {"schedule": schedule.id, "name": schedule.name}
            self._loops.error("schedule.unplannable", error, **names, times=times)

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        names = {"schedule": schedule.id, "name": schedule.name}
        self._loops.warning("schedule.moved", **names, occurrences=occurrences)

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self._jobs.warning("job.rescued", **named(job), **standing(job), worker=worker)

    def pruned(self, jobs: int) -> None:
        if jobs:
            self._loops.info("jobs.pruned", jobs=jobs)

    def buried(self, letter: DeadLetter) -> None:
        fields = {"letter": letter.id, "source": letter.source}
        self._jobs.warning("message.buried", **fields, reason=letter.reason[:ERROR_CHARS_SHOWN])

    def clock_stepped(self, seconds: float) -> None:
        self._loops.warning("clock.stepped", seconds=f"{seconds:+.3f}s")

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        if is_open:
            self._jobs.warning("endpoint.down", endpoint=endpoint)
        else:
            self._jobs.info("endpoint.back", endpoint=endpoint)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        """Said at once, then once a minute with the number of times since."""
        if not (times := self.times_to_say(loop)):
            return
        # What we raised ourselves says all there is to say; other errors are somebody's mistake.
        trace = None if isinstance(error, OnbeatError) else error
        said = str(error)[:ERROR_CHARS_SHOWN] or type(error).__name__
        self._loops.error("loop.failed", trace, loop=loop, times=times, error=said)

    def loop_beat(self, loop: str) -> None:
        if loop in self._failing:
            del self._failing[loop]
            self._loops.info("loop.recovered", loop=loop)

    def times_to_say(self, what: str) -> int:
        """How often it has failed since that was last said; 0 while it is not to be said again."""
        now = self._monotonic()
        if len(self._failing) >= FAILING_MAX:
            self._failing.clear()
        failing = self._failing.setdefault(what, Failing())
        failing.times += 1
        if failing.said_at is not None and now - failing.said_at < REPEAT_SECONDS:
            return 0
        times, failing.times, failing.said_at = failing.times, 0, now
        return times


class Failing:
    """Something that fails: when that was last said, and how often it failed since."""

    __slots__ = ("said_at", "times")

    def __init__(self) -> None:
        self.said_at: float | None = None
        self.times = 0


def named(job: Job) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "job": job.id,
        "task": lane_of(job.target),
        "queue": job.queue,
        "attempt": f"{job.attempt}/{job.retry.attempts_max}",
    }
    if job.schedule_id:
        fields["schedule"] = job.schedule_id
    return fields


def standing(job: Job) -> dict[str, Any]:
    """Where the job is now: when it is tried next, or how it ended."""
    if job.is_final:
        return {"state": str(job.state)}
    return {"next_at": job.due_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def told(error: str) -> dict[str, Any]:
    """The line of an error that says most, and the whole of it where there is more."""
    lines = error.strip().splitlines() or [""]
    fields = {"error": lines[-1][:ERROR_CHARS_SHOWN]}
    return fields | {"exception": error.strip()} if len(lines) > 1 else fields


def seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.3f}s"
