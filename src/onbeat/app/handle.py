"""A sent job, in the sender's hand."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from onbeat.model.errors import NotFound, OnbeatError
from onbeat.model.ids import JobId
from onbeat.model.job import Job as JobRecord
from onbeat.model.job import JobState

Result_co = TypeVar("Result_co", covariant=True)

LOOK_AGAIN = 0.25


class JobFailed(OnbeatError):
    """The job ended without a result. `job` is as it ended."""

    def __init__(self, job: JobRecord) -> None:
        why = job.error or job.reason or "no reason given"
        super().__init__(f"job {job.id} {job.state}: {why}")
        self.job = job


class Reader(Protocol):
    """What a handle needs of the `Onbeat` that it came from."""

    def wait_for(self, work: Coroutine[Any, Any, Any]) -> Any: ...

    async def job_record(self, id: JobId) -> JobRecord | None: ...

    def changes(self) -> "Changes": ...


class Changes(Protocol):
    """Wakes when jobs may have changed."""

    async def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class Job(Generic[Result_co]):
    """`created` is False when a live job held the unique key; `id` is then that job's."""

    def __init__(
        self, reader: Reader, id: JobId, *, created: bool, decode: Callable[[bytes], Any]
    ) -> None:
        self.reader = reader
        self.id = id
        self.created = created
        self.decode = decode

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    async def astate(self) -> JobRecord:
        """The job as it is now. Raises `NotFound` when it has been pruned."""
        record = await self.reader.job_record(self.id)
        if record is None:
            raise NotFound(f"job {self.id} is not there; it was pruned, or never accepted")
        return record

    def state(self) -> JobRecord:
        """The job as it is now. Raises `NotFound` when it has been pruned."""
        record: JobRecord = self.reader.wait_for(self.astate())
        return record

    async def aresult(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result.

        Raises `JobFailed` when it ended otherwise, TimeoutError after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            value: Result_co = self.unpacked(await self.ended())
            return value

    def result(self, timeout: float | None = None) -> Result_co:
        """Wait until the job has ended and return its result; raises as `aresult` does."""
        value: Result_co = self.reader.wait_for(self.aresult(timeout))
        return value

    async def ended(self) -> JobRecord:
        changes = self.reader.changes()
        try:
            while not (record := await self.astate()).is_final:
                await changes.wait(LOOK_AGAIN)
            return record
        finally:
            changes.close()

    def unpacked(self, record: JobRecord) -> Any:
        if record.state is not JobState.SUCCEEDED:
            raise JobFailed(record)
        return None if record.result is None else self.decode(bytes(record.result))


def decode_plain(packed: bytes) -> Any:
    return msgspec.json.decode(packed)
