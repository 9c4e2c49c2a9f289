"""A sent job, in the sender's hand."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from onbeat.app.calls import Call
from onbeat.app.desk import Desk
from onbeat.model.errors import OnbeatError
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.operations.table import JOB_SHOW
from onbeat.wire.jobs import NO_RESULT, JobAnswer
from onbeat.wire.requests import JobById

Result_co = TypeVar("Result_co", covariant=True)

LOOK_AGAIN = 0.25


class JobFailed(OnbeatError):
    """The job ended without a result. `job` is as it ended."""

    def __init__(self, job: JobAnswer) -> None:
        why = job.error or job.reason or "no reason given"
        super().__init__(f"job {job.id} {job.state}: {why}")
        self.job = job


class Reader(Protocol):
    """What a handle needs of the `Onbeat` that it came from."""

    desk: Desk

    def wait_for(self, work: Coroutine[Any, Any, Any]) -> Any: ...

    def runs_here(self) -> bool: ...

    def decoder_of(self, call: Call[Any]) -> Callable[[bytes], Any]: ...


class Job(msgspec.Struct, Generic[Result_co], frozen=True, eq=False, gc=False):
    """`created` is False when a live job held the unique key; `id` is then that job's."""

    reader: Reader
    id: JobId
    call: Call[Result_co]
    created: bool

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    async def astate(self) -> JobAnswer:
        """The job as it is now. Raises `NotFound` when it has been pruned."""
        return await self.reader.desk.ask(JOB_SHOW, JobById(self.id))

    def state(self) -> JobAnswer:
        """The job as it is now. Raises `NotFound` when it has been pruned."""
        answer: JobAnswer = self.reader.wait_for(self.astate())
        return answer

    async def aresult(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result.

        Raises `JobFailed` when it ended otherwise, TimeoutError after `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                value: Result_co = self.unpacked(await self.ended())
                return value
        except TimeoutError as error:
            if timeout is None:
                raise
            raise TimeoutError(f"job {self.id} had not ended after {timeout} s") from error

    def result(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result; raises as `aresult` does.

        Raises RuntimeError in the event loop that runs the jobs: it would wait for itself.
        """
        if self.reader.runs_here():
            raise RuntimeError(
                "result() would stop the event loop that runs the jobs; use `await job.aresult()`"
            )
        value: Result_co = self.reader.wait_for(self.aresult(timeout))
        return value

    async def ended(self) -> JobAnswer:
        changes = self.reader.desk.changes()
        try:
            while (job := await self.reader.desk.ended(self.id)) is None:
                await changes.wait(LOOK_AGAIN)
            return job
        finally:
            changes.close()

    def unpacked(self, job: JobAnswer) -> Any:
        if job.state is not JobState.SUCCEEDED:
            raise JobFailed(job)
        if job.result == NO_RESULT:
            return None
        return self.reader.decoder_of(self.call)(bytes(job.result))


def decode_plain(packed: bytes) -> Any:
    return msgspec.json.decode(packed)
