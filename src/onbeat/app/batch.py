"""Many calls with one handle, and what follows when all of them have ended."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from onbeat.app.backend import Backend
from onbeat.app.call import After, Call
from onbeat.app.flows import Flows
from onbeat.app.handle import JobHandle
from onbeat.model.flow import SENT
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, JobState, Progress
from onbeat.wire.flows import FlowCounts, FlowSummary


class Batch(msgspec.Struct, frozen=True, eq=False):
    """Sent calls. `then` and `on_failure` are the jobs that follow, where they were given.

    `id` is that of their flow.
    """

    backend: Backend
    id: JobId
    jobs: Sequence[JobHandle[Any]]
    then: JobHandle[Any] | None
    on_failure: JobHandle[Any] | None

    def __repr__(self) -> str:
        return f"Batch({self.id!r}, {len(self.jobs)} jobs)"

    async def ainfo(self) -> FlowSummary:
        """State and counts, with one query. Raises `NotFound` when all jobs have been pruned."""
        return await Flows(self.backend).ashow(self.id, limit=0)

    def info(self) -> FlowSummary:
        """State and counts, with one query. Raises `NotFound` when all jobs have been pruned."""
        return self.backend.wait_for(self.ainfo())

    async def acounts(self) -> FlowCounts:
        """How many of the calls are in each state."""
        return (await self.ainfo()).counts

    def counts(self) -> FlowCounts:
        """How many of the calls are in each state."""
        return self.backend.wait_for(self.acounts())

    async def aprogress(self) -> Progress:
        """How many of the calls have ended."""
        counts = await self.acounts()
        return Progress(counts.done, counts.total)

    def progress(self) -> Progress:
        """How many of the calls have ended."""
        return self.backend.wait_for(self.aprogress())

    async def astate(self) -> JobState:
        """`running` until all have ended, and what follows; then how they ended."""
        return (await self.ainfo()).state

    def state(self) -> JobState:
        """`running` until all have ended, and what follows; then how they ended."""
        return self.backend.wait_for(self.astate())

    async def acancel(self, reason: str | None = None) -> None:
        """Cancel what waits, and ask what runs to stop."""
        await Flows(self.backend).acancel(self.id, reason)

    def cancel(self, reason: str | None = None) -> None:
        """Cancel what waits, and ask what runs to stop."""
        self.backend.wait_for(self.acancel(reason))

    async def aretry(self) -> None:
        """Run what failed or was cancelled again; what follows waits for it."""
        await Flows(self.backend).aretry(self.id)

    def retry(self) -> None:
        """Run what failed or was cancelled again; what follows waits for it."""
        self.backend.wait_for(self.aretry())


def following(call: Call[Any], on: Edge) -> Call[Any]:
    """The call after all that are sent with it, besides what it comes after already."""
    after = (*call.options.awaited, After(JobId(SENT), on))
    return Call(call.target, replace(call.options, after=after, on=Edge.SUCCESS))
