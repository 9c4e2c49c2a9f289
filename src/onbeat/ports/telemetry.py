"""The few things that the engine tells the world."""

from datetime import timedelta
from typing import Protocol

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.letter import DeadLetter
from onbeat.model.outcome import Outcome
from onbeat.model.schedule import Schedule


class Telemetry(Protocol):
    def started(self, job: Job, lateness: timedelta) -> None:
        """An attempt began, `lateness` after it was due."""
        ...

    def ended(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        """An attempt ended and was recorded; `job` is as it then stands."""
        ...

    def lease_lost(self, job: Job) -> None:
        """An attempt's result was refused, since another holder has the job."""
        ...

    def planned(self, jobs: int, skipped: int) -> None: ...

    def unplannable(self, schedule: Schedule, error: Exception) -> None:
        """The schedule's rule raised, or is a function that this process does not know."""
        ...

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        """So many planned occurrences lie elsewhere by newer zone data, and were planned anew."""
        ...

    def rescued(self, job: Job, worker: WorkerId) -> None:
        """The job was taken back from a worker that is gone; `job` is as it then stands."""
        ...

    def pruned(self, jobs: int) -> None: ...

    def buried(self, letter: DeadLetter) -> None:
        """A message could not be understood or used, and was put aside."""
        ...

    def clock_stepped(self, seconds: float) -> None:
        """The clock that due-ness is judged by was set, forward, or back by a negative number."""
        ...

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        """Calls to `endpoint` (scheme, host and port) are held back from now on, or no longer."""
        ...

    def loop_failed(self, loop: str, error: BaseException) -> None:
        """A loop's step raised; it is tried again after a pause."""
        ...

    def loop_beat(self, loop: str) -> None:
        """A loop went round."""
        ...
