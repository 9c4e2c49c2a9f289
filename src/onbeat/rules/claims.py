"""What a claim changes in a job."""

from datetime import datetime

from msgspec.structs import replace

from onbeat.model.ids import Token, WorkerId
from onbeat.model.job import Job, JobState


def as_claimed(job: Job, worker: WorkerId, now: datetime, lease_until: datetime | None) -> Job:
    """The job as it runs under a new lease, which has an end only if it is timed."""
    return replace(
        job,
        state=JobState.RUNNING,
        worker=worker,
        token=Token(job.token + 1),
        attempt=job.attempt + 1,
        started_at=now,
        lease_until=lease_until,
        progress=None,
    )
