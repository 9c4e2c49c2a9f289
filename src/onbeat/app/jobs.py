"""`beat.jobs`: stored jobs by id."""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from onbeat.app.backend import Backend
from onbeat.model.job import JobState
from onbeat.operations.table import (
    JOB_CANCEL,
    JOB_LIST,
    JOB_RETRY,
    JOB_SHOW,
    JOB_WHY,
)
from onbeat.wire.jobs import JobInfo, ReasonBody
from onbeat.wire.requests import (
    CancelJob,
    Explanation,
    JobById,
    ListJobs,
)


class JobFilters(TypedDict, total=False):
    """Filters for listed jobs."""

    state: JobState | None
    queue: str | None
    task: str | None
    schedule_id: str | None


class Jobs:
    """Stored jobs by id."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, id: str) -> JobInfo:
        """The current state of the job, with its attempts and history. Raises `NotFound`."""
        return self._backend.wait_for(self.aget(id))

    async def aget(self, id: str) -> JobInfo:
        return await self._backend.call(JOB_SHOW, JobById(id))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Sequence[JobInfo]:
        """Jobs, newest first."""
        return self._backend.wait_for(self.alist(limit=limit, **filters))

    async def alist(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Sequence[JobInfo]:
        return (await self._backend.call(JOB_LIST, ListJobs(limit=limit, **filters))).jobs

    def why(self, id: str) -> Explanation:
        """Why the job does not run, and when it may. Raises `NotFound`."""
        return self._backend.wait_for(self.awhy(id))

    async def awhy(self, id: str) -> Explanation:
        return await self._backend.call(JOB_WHY, JobById(id))

    def cancel(self, id: str, reason: str | None = None) -> None:
        """Cancel a waiting job; ask a running one to stop. Raises `NotFound`, `Conflict`."""
        self._backend.wait_for(self.acancel(id, reason))

    async def acancel(self, id: str, reason: str | None = None) -> None:
        await self._backend.call(JOB_CANCEL, CancelJob(id, ReasonBody(reason=reason)))

    def retry(self, id: str) -> None:
        """Run a failed or cancelled job again, with a new budget of attempts.

        Raises `NotFound`, and `Conflict` for a job in another state.
        """
        self._backend.wait_for(self.aretry(id))

    async def aretry(self, id: str) -> None:
        await self._backend.call(JOB_RETRY, JobById(id))
