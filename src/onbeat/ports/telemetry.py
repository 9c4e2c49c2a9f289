"""Events that the engine reports to metrics and logs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.owner import Owner
from onbeat.model.pulse import CounterState
from onbeat.model.schedule import Schedule
from onbeat.ports.store import SucceededAttempt

ReadCounters = Callable[[], CounterState]
"""What this process has counted since its start, and the greatest lateness since the last call.

Counters only rise."""


class Telemetry(Protocol):
    def started(self, job: Job, late: float) -> None:
        """An attempt began, `late` seconds after it was due."""
        ...

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """An attempt of `seconds` ended and was recorded; `job` is its state after that."""
        ...

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        """As `ended`, for attempts that succeeded."""
        ...

    def lease_lost(self, job: Job) -> None:
        """An attempt's result was refused because another holder has the job."""
        ...

    def made(self, jobs: Iterable[Job]) -> None:
        """A loop added these jobs."""
        ...

    def planned(self, jobs: int, skipped: int) -> None: ...

    def unplannable(self, schedule: Schedule, error: BaseException) -> None:
        """The schedule's rule raised, or is a function that this process does not have."""
        ...

    def orphaned(self, schedule: Schedule) -> None:
        """The schedule was paused because its program no longer declares it."""
        ...

    def doubled(self, schedule: Schedule) -> None:
        """The schedule was deleted, since the cell of its key has it too."""
        ...

    def older_release(self, owner: Owner, newest: str) -> None:
        """A release of a program started, and changed nothing: a newer one has declared before."""
        ...

    def undeclared(self, error: BaseException) -> None:
        """The declared schedules could not be stored at the start; they are tried again."""
        ...

    def declared(self) -> None:
        """After that, the declared schedules have been stored."""
        ...

    def routed(self, events: int, jobs: int) -> None:
        """The router decided on so many events, and made so many jobs."""
        ...

    def route_refused(self, events: int) -> None:
        """A decision on so many events was out of date, and is made again."""
        ...

    def zone_in_doubt(self, schedule: Schedule, reason: str) -> None:
        """A stored schedule has a zone that a new one may not have, for this reason; it goes on."""
        ...

    def zone_data_moved(self, schedule: Schedule, occurrences: int) -> None:
        """Newer time zone data moved this many planned occurrences, which were planned again."""
        ...

    def rescued(self, job: Job, worker: WorkerId) -> None:
        """The job was taken back from a dead worker; `job` is its state after that."""
        ...

    def pruned(self, jobs: int) -> None: ...

    def dead_lettered(self, dead_letter: DeadLetter) -> None:
        """A message could not be understood or used, and was stored as a dead letter."""
        ...

    def sent(self, jobs: int, source: str) -> None:
        """So many new jobs were stored for a sender: `program`, `api`, `rpc`, or a queue's name."""
        ...

    def duplicated(self, task: str, job: JobId, source: str) -> None:
        """A submission added nothing: `job` has its unique key."""
        ...

    def repeated(self, operation: str, id: str | None) -> None:
        """A request did nothing: an earlier one had its idempotency key, and made `id`."""
        ...

    def clock_stepped(self, seconds: float) -> None:
        """The clock that decides when jobs are due was set by `seconds`; negative means back."""
        ...

    def interpreter_held(self, seconds: float) -> None:
        """One call blocked this process for `seconds`; its sidecar sent the heartbeats."""
        ...

    def breaker_changed(self, endpoint: str, is_open: bool) -> None:  # noqa: FBT001  a state
        """The circuit breaker of `endpoint` (scheme, host and port) opened or closed."""
        ...

    def ran_short(self, means: str) -> None:
        """An attempt could not start because this process or machine lacks the resource `means`."""
        ...

    def loop_failed(self, loop: str, error: BaseException) -> None:
        """A loop's step raised; it is retried after a pause."""
        ...

    def loop_beat(self, loop: str) -> None:
        """A loop completed a round."""
        ...

    def loop_rested(self, loop: str) -> None:
        """A loop completed a round but could do no work: it is alive but has not recovered."""
        ...
