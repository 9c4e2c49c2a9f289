"""Failed attempts of one process that are not stored yet, counted by fault."""

from collections.abc import Sequence

from msgspec.structs import replace

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.fault import FaultChange, FaultProcess
from onbeat.model.job import Job
from onbeat.model.limits import FAULTS_MAX
from onbeat.rules.faults import as_other, change_of, hour_of, joined, with_attempt

COUNTED = frozenset({OutcomeName.FAILED, OutcomeName.LOST})


class FaultTally:
    """Holds at most one change for each of `FAULTS_MAX` faults, and one for all others.

    Only the event loop of the engine may use it. `process` is this one, once it runs jobs.
    """

    def __init__(self) -> None:
        self.pending: dict[int, FaultChange] = {}
        self.process: FaultProcess | None = None

    def note(self, job: Job, attempt: Attempt) -> None:
        """Count the attempt if it failed; `job` is its state after that."""
        if attempt.outcome not in COUNTED or job.fault is None:
            return
        known = self.pending.get(job.fault)
        if known is not None:
            at = attempt.finished_at
            self.pending[job.fault] = with_attempt(known, job.queue, job.id, hour_of(at), at)
            return
        at = attempt.finished_at
        change = change_of(job.target, job.queue, job.id, job.error or "", at)
        own = self.process is not None and self.process.id == attempt.worker
        self.add(replace(change, process=self.process) if own else change)

    def add(self, change: FaultChange) -> None:
        """Count a change, as other where there is no room for it."""
        if change.fault not in self.pending and len(self.pending) >= FAULTS_MAX:
            change = as_other(change)
        known = self.pending.get(change.fault)
        self.pending[change.fault] = change if known is None else joined(known, change)

    def take(self) -> Sequence[FaultChange]:
        """All that is pending, by key; nothing is after that."""
        taken, self.pending = self.pending, {}
        return [change for _, change in sorted(taken.items())]
