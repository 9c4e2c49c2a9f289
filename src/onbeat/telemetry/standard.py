"""What the engine is given to tell its doings to."""

from datetime import timedelta

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.letter import DeadLetter
from onbeat.model.outcome import Outcome
from onbeat.model.schedule import Schedule
from onbeat.telemetry.counts import Counts
from onbeat.telemetry.journal import Journal


class Standard:
    """A `Telemetry` that counts and logs."""

    def __init__(self, counts: Counts | None = None, journal: Journal | None = None) -> None:
        self.counts = counts or Counts()
        self.journal = journal or Journal()

    def started(self, job: Job, lateness: timedelta) -> None:
        self.counts.started(job, lateness)
        self.journal.started(job, lateness)

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        self.counts.ended(job, outcome, duration)
        self.journal.ended(job, outcome, duration)

    def lease_lost(self, job: Job) -> None:
        self.counts.lease_lost(job)
        self.journal.lease_lost(job)

    def planned(self, jobs: int, skipped: int) -> None:
        self.counts.planned(jobs, skipped)
        self.journal.planned(jobs, skipped)

    def unplannable(self, schedule: Schedule, error: Exception) -> None:
        self.counts.unplannable(schedule, error)
        self.journal.unplannable(schedule, error)

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        self.journal.zone_data_moved(schedule, occurrences)

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self.counts.rescued(job, worker)
        self.journal.rescued(job, worker)

    def pruned(self, jobs: int) -> None:
        self.counts.pruned(jobs)
        self.journal.pruned(jobs)

    def buried(self, letter: DeadLetter) -> None:
        self.counts.buried(letter)
        self.journal.buried(letter)

    def clock_stepped(self, seconds: float) -> None:
        self.counts.clock_stepped(seconds)
        self.journal.clock_stepped(seconds)

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        self.counts.breaker_changed(endpoint, is_open)
        self.journal.breaker_changed(endpoint, is_open)

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.counts.loop_failed(loop, error)
        self.journal.loop_failed(loop, error)

    def loop_beat(self, loop: str) -> None:
        self.counts.loop_beat(loop)
        self.journal.loop_beat(loop)


class Silent:
    """A `Telemetry` that says nothing."""

    def started(self, job: Job, lateness: timedelta) -> None: ...

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None: ...

    def lease_lost(self, job: Job) -> None: ...

    def planned(self, jobs: int, skipped: int) -> None: ...

    def unplannable(self, schedule: Schedule, error: Exception) -> None: ...

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None: ...

    def rescued(self, job: Job, worker: WorkerId) -> None: ...

    def pruned(self, jobs: int) -> None: ...

    def buried(self, letter: DeadLetter) -> None: ...

    def clock_stepped(self, seconds: float) -> None: ...

    def breaker_changed(self, endpoint: str, is_open: bool) -> None: ...  # noqa: FBT001  a state

    def loop_failed(self, loop: str, error: BaseException) -> None: ...

    def loop_beat(self, loop: str) -> None: ...
