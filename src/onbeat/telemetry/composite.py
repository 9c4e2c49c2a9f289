"""The telemetry of the engine: counters and log lines."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
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
from onbeat.ports.store import SucceededAttempt
from onbeat.rules.live_feed import LiveFeed
from onbeat.rules.settlement import settle
from onbeat.telemetry.counters import Counters
from onbeat.telemetry.log_events import LogEvents


def no_clock() -> datetime:
    """Only a feed that somebody reads needs the time."""
    return datetime.min.replace(tzinfo=UTC)


def cause_of(job: Job, outcome: Outcome) -> str | None:
    """Why the job is in its state after this outcome, where the state does not tell."""
    if job.reason is not None:
        return job.reason
    match outcome:
        case Succeeded():
            return None
        case Snoozed(reason=reason) | Cancelled(reason=reason) | Lost(reason=reason):
            return reason
        case Failed():
            return "failed"
        case Released():
            return "released"


def settled(success: SucceededAttempt) -> Job:
    """The job as it was stored."""
    return settle(success.job, Succeeded(success.result), success.finished_at, 0.0)


class CompositeTelemetry:
    """A `Telemetry` that counts and logs, and tells the live feed while somebody reads it."""

    def __init__(
        self,
        counts: Counters | None = None,
        journal: LogEvents | None = None,
        live: LiveFeed | None = None,
        now: Callable[[], datetime] = no_clock,
    ) -> None:
        self.counters = counts or Counters()
        self.log_events = journal or LogEvents()
        self.live = live or LiveFeed()
        self.now = now

    def started(self, job: Job, late: float) -> None:
        self.counters.started(job, late)
        self.log_events.started(job, late)
        if self.live.is_read:
            self.live.started(job, self.now(), late)

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        self.counters.ended(job, outcome, seconds)
        self.log_events.ended(job, outcome, seconds)
        if self.live.is_read:
            self.live.ended(job, self.now(), cause_of(job, outcome))

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        self.counters.succeeded(ended)
        self.log_events.succeeded(ended)
        if self.live.is_read:
            now = self.now()
            for success in ended:
                self.live.ended(settled(success), now, None)

    def lease_lost(self, job: Job) -> None:
        self.counters.lease_lost(job)
        self.log_events.lease_lost(job)

    def made(self, jobs: Iterable[Job]) -> None:
        if self.live.is_read:
            self.live.made(jobs, self.now())

    def planned(self, jobs: int, skipped: int) -> None:
        self.counters.planned(jobs, skipped)
        self.log_events.planned(jobs, skipped)

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        self.counters.unplannable(schedule, error)
        self.log_events.unplannable(schedule, error)

    def routed(self, events: int, jobs: int) -> None:
        self.counters.routed(events, jobs)
        self.log_events.routed(events, jobs)

    def route_refused(self, events: int) -> None:
        self.counters.route_refused(events)
        self.log_events.route_refused(events)

    def zone_in_doubt(self, schedule: Schedule, reason: str) -> None:
        self.log_events.zone_in_doubt(schedule, reason)

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        self.log_events.zone_data_moved(schedule, occurrences)

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self.counters.rescued(job, worker)
        self.log_events.rescued(job, worker)
        if self.live.is_read:
            self.live.ended(job, self.now(), "its worker was lost")

    def pruned(self, jobs: int) -> None:
        self.counters.pruned(jobs)
        self.log_events.pruned(jobs)

    def orphaned(self, schedule: Schedule) -> None:
        self.log_events.orphaned(schedule)

    def doubled(self, schedule: Schedule) -> None:
        self.log_events.doubled(schedule)

    def older_release(self, owner: Owner, newest: str) -> None:
        self.log_events.older_release(owner, newest)

    def undeclared(self, error: BaseException) -> None:
        self.log_events.undeclared(error)

    def declared(self) -> None:
        self.log_events.declared()

    def dead_lettered(self, dead_letter: DeadLetter) -> None:
        self.counters.dead_lettered(dead_letter)
        self.log_events.dead_lettered(dead_letter)

    def interpreter_held(self, seconds: float) -> None:
        self.log_events.interpreter_held(seconds)

    def sent(self, jobs: int, source: str) -> None:
        self.counters.sent(jobs, source)

    def repeated(self, operation: str, id: str | None) -> None:
        self.counters.repeated(operation, id)
        self.log_events.repeated(operation, id)

    def duplicated(self, task: str, job: JobId, source: str) -> None:
        self.counters.duplicated(task, job, source)
        self.log_events.duplicated(task, job, source)

    def clock_stepped(self, seconds: float) -> None:
        self.counters.clock_stepped(seconds)
        self.log_events.clock_stepped(seconds)

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        self.counters.breaker_changed(endpoint, is_open)
        self.log_events.breaker_changed(endpoint, is_open)

    def ran_short(self, means: str) -> None:
        self.counters.ran_short(means)
        self.log_events.ran_short(means)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.counters.loop_failed(loop, error)
        self.log_events.loop_failed(loop, error)

    def loop_beat(self, loop: str) -> None:
        self.counters.loop_beat(loop)
        self.log_events.loop_beat(loop)

    def loop_rested(self, loop: str) -> None:
        self.counters.loop_beat(loop)


class NullTelemetry:
    """A `Telemetry` that does nothing."""

    def started(self, job: Job, late: float) -> None: ...

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None: ...

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None: ...

    def lease_lost(self, job: Job) -> None: ...

    def made(self, jobs: Iterable[Job]) -> None: ...

    def planned(self, jobs: int, skipped: int) -> None: ...

    def unplannable(self, schedule: Schedule, error: BaseException) -> None: ...

    def orphaned(self, schedule: Schedule) -> None: ...

    def doubled(self, schedule: Schedule) -> None: ...

    def older_release(self, owner: Owner, newest: str) -> None: ...

    def undeclared(self, error: BaseException) -> None: ...

    def declared(self) -> None: ...

    def routed(self, events: int, jobs: int) -> None: ...

    def route_refused(self, events: int) -> None: ...

    def zone_in_doubt(self, schedule: Schedule, reason: str) -> None: ...

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None: ...

    def rescued(self, job: Job, worker: WorkerId) -> None: ...

    def pruned(self, jobs: int) -> None: ...

    def dead_lettered(self, dead_letter: DeadLetter) -> None: ...

    def sent(self, jobs: int, source: str) -> None: ...

    def duplicated(self, task: str, job: JobId, source: str) -> None: ...

    def repeated(self, operation: str, id: str | None) -> None: ...

    def clock_stepped(self, seconds: float) -> None: ...

    def interpreter_held(self, seconds: float) -> None: ...

    def breaker_changed(self, endpoint: str, is_open: bool) -> None: ...  # noqa: FBT001  a state

    def ran_short(self, means: str) -> None: ...

    def loop_failed(self, loop: str, error: BaseException) -> None: ...

    def loop_beat(self, loop: str) -> None: ...

    def loop_rested(self, loop: str) -> None: ...
