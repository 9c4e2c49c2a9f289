"""An index of flows: their members, and those that jobs wait for."""

from collections import defaultdict

from onbeat.model.ids import JobId
from onbeat.model.job import Job


class FlowIndex:
    def __init__(self) -> None:
        self.members: dict[JobId, set[JobId]] = defaultdict(set)
        self.live: dict[JobId, set[JobId]] = defaultdict(set)
        self.awaited: set[JobId] = set()

    def add(self, job: Job) -> None:
        if job.flow is not None:
            self.members[job.flow].add(job.id)
            if not job.is_final:
                self.live[job.flow].add(job.id)

    def discard(self, job: Job) -> None:
        if job.flow is not None:
            for index in (self.members, self.live):
                index[job.flow].discard(job.id)
                if not index[job.flow]:
                    del index[job.flow]


def key_of(flow: JobId) -> JobId:
    """The flow in the indexes of waits, where it differs from the job that sent it."""
    return JobId(f"flow {flow}")
