"""The overlap rule of a claimed job, applied to the other jobs of its schedule."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.rules.overlap import REPLACED, EarlierJob, decide_overlap


class OtherJobs(Protocol):
    """Reads and changes the other jobs of a schedule.

    The caller holds the schedule's lock, so that no other claimant admits its jobs meanwhile.
    """

    async def earlier(self, job: Job) -> Sequence[EarlierJob]:
        """The jobs that `rules.overlap.comes_before` names, in the order `decide_overlap` needs."""
        ...

    async def cancel(self, reasons: Mapping[JobId, str]) -> object:
        """Cancel the waiting ones among the jobs, each with its reason."""
        ...

    async def ask_to_stop(self, ids: Sequence[JobId], reason: str) -> object:
        """Note on running jobs why they should stop; an earlier reason is kept."""
        ...

    async def wait_for(self, id: JobId, others: Sequence[JobId]) -> bool:
        """Block the job until the others end. False if all of them have just ended."""
        ...


async def admit(neighbours: OtherJobs, job: Job) -> bool:
    """Apply the overlap rule of a job that this claim may start. False if it may not start now.

    The other jobs may change before a decision is applied, so they are read again until no change
    is needed.
    """
    while True:
        decision = decide_overlap(job, await neighbours.earlier(job))
        if decision.changes_nothing:
            return True
        if decision.cancel:
            await neighbours.cancel(decision.cancel)
        if job.id in decision.cancel:
            return False
        if decision.stop:
            await neighbours.ask_to_stop(decision.stop, REPLACED)
        if decision.wait_for and await neighbours.wait_for(job.id, decision.wait_for):
            return False
