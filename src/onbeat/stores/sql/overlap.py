"""May this job of a schedule start while earlier ones are unfinished?"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap

SKIPPED = "overlap: an earlier job of the schedule had not ended"
REPLACED = "overlap: replaced by a later job of the schedule"


class Earlier(msgspec.Struct, frozen=True):
    id: JobId
    running: bool


class Neighbours(Protocol):
    """What can be seen of the other jobs of a schedule, and done about them.

    Whoever has it holds the schedule's lock, so that nobody else admits a job of it meanwhile.
    """

    async def earlier(self, job: Job) -> Sequence[Earlier]:
        """Unfinished jobs that come first, the running ones last.

        A job that was tried has had its turn: only a running one comes before it. Otherwise two
        that are both tried could wait for each other for ever. What has lapsed is in nobody's way.
        """
        ...

    async def cancel(self, reasons: Mapping[JobId, str]) -> object:
        """End those of the jobs that wait, with each its reason."""
        ...

    async def ask_to_stop(self, ids: Sequence[JobId], reason: str) -> object:
        """Note on running jobs why they should stop; a reason given earlier stays."""
        ...

    async def wait_for(self, id: JobId, others: Sequence[JobId]) -> bool:
        """Block the job until the others end. False where all of them have just ended."""
        ...


async def admit(neighbours: Neighbours, job: Job) -> bool:
    """Apply the overlap rule of a job that is ours to start. False when it may not start now."""
    while earlier := await neighbours.earlier(job):
        match job.overlap:
            case Overlap.SKIP:
                await neighbours.cancel({job.id: SKIPPED})
                return False
            case Overlap.WAIT:
                # Waiting for the last of them makes a chain, so that each end frees one job.
                if await neighbours.wait_for(job.id, [earlier[-1].id]):
                    return False
            case Overlap.REPLACE:
                if await replace(neighbours, job, earlier):
                    return False
            case Overlap.ALLOW:
                return True
    return True


async def replace(neighbours: Neighbours, job: Job, earlier: Sequence[Earlier]) -> bool:
    """True where the job has to wait for the end of running ones."""
    running = [one.id for one in earlier if one.running]
    waiting = [one.id for one in earlier if not one.running]
    await neighbours.cancel(dict.fromkeys(waiting, REPLACED))
    if not running:
        return False
    await neighbours.ask_to_stop(running, REPLACED)
    return await neighbours.wait_for(job.id, running)
