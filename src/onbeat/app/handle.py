"""The sender's handle of a sent job."""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.call import Call
from onbeat.model.errors import OnbeatError
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.renamed import warn_renamed
from onbeat.operations.tables.jobs import JOB_SHOW
from onbeat.wire.jobs import NO_RESULT, JobInfo
from onbeat.wire.requests import JobById

Result_co = TypeVar("Result_co", covariant=True)


class JobFailed(OnbeatError):
    """The job ended without a result. `job` is its final state."""

    def __init__(self, job: JobInfo) -> None:
        why = job.error or job.reason or "no reason given"
        super().__init__(f"job {job.id} {job.state}: {why}")
        self.job = job


class JobHandle(msgspec.Struct, Generic[Result_co], frozen=True, eq=False, gc=False):
    """`created` is False when a live job held the unique key; `id` is then that job's."""

    backend: Backend
    id: JobId
    call: Call[Result_co]
    created: bool

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    async def ainfo(self) -> JobInfo:
        """The current state of the job. Raises `NotFound` when it has been pruned."""
        return await self.backend.call(JOB_SHOW, JobById(self.id))

    def info(self) -> JobInfo:
        """The current state of the job. Raises `NotFound` when it has been pruned."""
        return self.backend.wait_for(self.ainfo())

    async def astate(self) -> JobInfo:
        """Deprecated name of `ainfo`."""
        warn_renamed("job.astate()", "job.ainfo()")
        return await self.ainfo()

    def state(self) -> JobInfo:
        """Deprecated name of `info`."""
        warn_renamed("job.state()", "job.info()")
        return self.info()

    async def aresult(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result.

        Raises `JobFailed` when it ended otherwise, TimeoutError after `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                value: Result_co = self.decode_result(await self.backend.wait_for_end(self.id))
                return value
        except TimeoutError as error:
            if timeout is None or error.args:  # a trial says why; that of asyncio says nothing
                raise
            raise TimeoutError(f"job {self.id} had not ended after {timeout} s") from error

    def result(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result; raises as `aresult` does.

        Raises RuntimeError in the event loop that runs the jobs, where it would deadlock.
        """
        if self.backend.in_jobs_loop():
            raise RuntimeError(
                "result() would stop the event loop that runs the jobs; use `await job.aresult()`"
            )
        return self.backend.wait_for(self.aresult(timeout))

    def decode_result(self, job: JobInfo) -> Any:
        if job.state is not JobState.SUCCEEDED:
            raise JobFailed(job)
        if job.result_json == NO_RESULT:
            return None
        return self.backend.registry.decoder_of(self.call)(bytes(job.result_json))


Job = JobHandle
"""The name that programs import."""
