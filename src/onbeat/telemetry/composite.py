"""The telemetry of the engine: counters and log lines."""

from datetime import timedelta

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.schedule import Schedule
from onbeat.telemetry.counters import Counters
from onbeat.telemetry.log_events import LogEvents


class CompositeTelemetry:
    """A `Telemetry` that counts and logs."""

    def __init__(self, counts: Counters | None = None, journal: LogEvents | None = None) -> None:
        self.counters = counts or Counters()
        self.log_events = journal or LogEvents()

    def started(self, job: Job, lateness: timedelta) -> None:
        self.counters.started(job, lateness)
        self.log_events.started(job, lateness)

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        self.counters.ended(job, outcome, duration)
        self.log_events.ended(job, outcome, duration)

    def lease_lost(self, job: Job) -> None:
        self.counters.lease_lost(job)
        self.log_events.lease_lost(job)

    def planned(self, jobs: int, skipped: int) -> None:
        self.counters.planned(jobs, skipped)
        self.log_events.planned(jobs, skipped)

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        self.counters.unplannable(schedule, error)
        self.log_events.unplannable(schedule, error)

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        self.log_events.zone_data_moved(schedule, occurrences)

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self.counters.rescued(job, worker)
        self.log_events.rescued(job, worker)

    def pruned(self, jobs: int) -> None:
        self.counters.pruned(jobs)
        self.log_events.pruned(jobs)

    def dead_lettered(self, dead_letter: DeadLetter) -> None:
        self.counters.dead_lettered(dead_letter)
        self.log_events.dead_lettered(dead_letter)

    def interpreter_held(self, seconds: float) -> None:
        self.log_events.interpreter_held(seconds)

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

    def started(self, job: Job, lateness: timedelta) -> None: ...

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None: ...

    def lease_lost(self, job: Job) -> None: ...

    def planned(self, jobs: int, skipped: int) -> None: ...

    def unplannable(self, schedule: Schedule, error: BaseException) -> None: ...

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None: ...

    def rescued(self, job: Job, worker: WorkerId) -> None: ...

    def pruned(self, jobs: int) -> None: ...

    def dead_lettered(self, dead_letter: DeadLetter) -> None: ...

    def clock_stepped(self, seconds: float) -> None: ...

    def interpreter_held(self, seconds: float) -> None: ...

    def breaker_changed(self, endpoint: str, is_open: bool) -> None: ...  # noqa: FBT001  a state

    def ran_short(self, means: str) -> None: ...

    def loop_failed(self, loop: str, error: BaseException) -> None: ...

    def loop_beat(self, loop: str) -> None: ...

    def loop_rested(self, loop: str) -> None: ...
