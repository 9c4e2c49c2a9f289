"""What ended jobs leave behind, and what is left to do for their dependents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from onbeat.model.fault import FaultRecord
from onbeat.model.held_key import HeldKey
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.log_line import JobLogLine


class EndTables:
    """`held_keys` are those of jobs with `unique_for`, past ones until they are pruned.

    `caused` has the jobs that were cancelled because of another, by that one, without those that
    were cancelled by request as well. `unfinished` are jobs
    with more dependents than one verb handles, with their states. `lines` are what handlers logged,
    by number.
    """

    def __init__(self) -> None:
        self.held_keys: dict[str, HeldKey] = {}
        self.caused: dict[JobId, set[JobId]] = defaultdict(set)
        self.unfinished: dict[JobId, str] = {}
        self.faults: dict[int, FaultRecord] = {}
        self.lines: dict[JobId, dict[int, JobLogLine]] = {}

    def add(self, job: Job) -> None:
        if job.cause_id is not None and job.cancel_reason is None:
            self.caused[job.cause_id].add(job.id)

    def discard(self, job: Job) -> None:
        if job.cause_id is not None and job.cancel_reason is None:
            self.caused[job.cause_id].discard(job.id)
            if not self.caused[job.cause_id]:
                del self.caused[job.cause_id]

    def caused_by(self, causes: Iterable[JobId]) -> Iterator[JobId]:
        """What was cancelled because of these jobs alone."""
        return (id for cause in causes for id in sorted(self.caused.get(cause, ())))
