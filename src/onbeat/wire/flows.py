"""Wire records of flows: what becomes of jobs that come after one another."""

from datetime import datetime

import msgspec

from onbeat.model.flow import SENT
from onbeat.model.job import Edge, Job, JobState
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.jobs import JobInfo


class FlowCounts(AnswerRecord, frozen=True, kw_only=True):
    """How many jobs of a flow are in each state."""

    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return sum(msgspec.structs.astuple(self))

    @property
    def done(self) -> int:
        """How many have ended."""
        return self.total - self.waiting - self.running


class FlowEdge(msgspec.Struct, frozen=True):
    """`job` comes after the job `after`, or after all that were `sent` with it."""

    job: str
    after: str
    on: Edge


class FlowSummary(AnswerRecord, frozen=True, kw_only=True):
    """`state` is `running` while a job of the flow is live, then how the flow ended.

    `last` counts the jobs that wait for the end of the others, and those after them.
    """

    id: str
    state: JobState
    counts: FlowCounts
    last: FlowCounts


class FlowInfo(FlowSummary, frozen=True, kw_only=True):
    """A flow in a list. `task` is that of the job that sent the others, else of one of them.

    With `more` it has more jobs than are counted, and its state is of those.
    """

    task: str
    at: datetime | None
    more: bool


class FlowsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """The newest flows first; `cursor` leads to the next page and is null on the last."""

    flows: tuple[FlowInfo, ...]
    limit: int
    cursor: str | None


class FlowAnswer(FlowSummary, frozen=True, kw_only=True):
    """A page of a flow: unfinished jobs first, then those that failed, the others last.

    The job that sent the others is on the first page. `edges` are those of the jobs on this page;
    `cursor` leads to the next page and is null on the last.
    """

    jobs: tuple[JobInfo, ...]
    edges: tuple[FlowEdge, ...]
    limit: int
    cursor: str | None


class FlowChange(FlowSummary, frozen=True, kw_only=True):
    """`changed` jobs were cancelled, asked to stop, or tried again."""

    changed: int


def edges_between(job: Job) -> list[FlowEdge]:
    edges = [FlowEdge(job.id, other, job.edge_to(other)) for other in job.after]
    if job.awaits_flow is not None:
        edges.append(FlowEdge(job.id, SENT, job.edge_to(job.awaits_flow)))
    return edges
