"""A job: one piece of work for a target, due once.

Records that exist in large numbers are not tracked by the garbage collector: they cannot form a
cycle, and traversing them would cost more than most jobs do.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from onbeat.model.condition import Condition, Window
from onbeat.model.event import EventCause
from onbeat.model.ids import JobId, ScheduleId, Token, WorkerId
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Overlap, ScheduleSpec
from onbeat.model.target import Target


class JobState(StrEnum):
    """The five states; due, later and blocked are predicates over `waiting`."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Edge(StrEnum):
    """Which end of another job a job needs, to start after it."""

    SUCCESS = "success"
    FAILURE = "failure"
    END = "end"


FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class Progress(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Progress as reported by a running job."""

    done: float
    total: float | None = None


class Suspicion(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Evidence against a job whose worker died while the job ran.

    `alone` counts the deaths that no other job of that worker can explain. `company_max` is how
    many jobs its worker may hold at once while it runs, itself included; None without a bound.
    """

    alone: int = 0
    company_max: int | None = None


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The definition of a job: never changes after enqueue, except by an edit of its schedule.

    This is the list of what a job is made of; stored text, request bodies and options follow it.
    `after` names jobs that must have ended first: with success, but for those that `edges` names.
    That is None without any, since an empty dictionary for each job would cost the collector time.
    `name` is what the others of its request call it, and those that come after it. `start_by` is
    the latest instant at which a first attempt may start on time: the misfire bound of an
    occurrence or the job's expiry; a job that waits again after an attempt has none. `group` names
    the jobs of its queue with which it shares the group limits. `unique_for` is how long others
    cannot have its `unique` key after its end; `model.held_key.ALWAYS` is for ever. `cause` is the
    event behind the job. It starts only while its `condition` holds and one of its windows is open.
    The payload of a `sensitive` one is not shown again. `flow` is the id of the job or the request
    that sent it, or that its sender was sent by; `awaits_flow` is the flow that has to end before
    it starts, which is another one. `traceparent` is the trace context of its sender, as W3C writes
    it, and `tracestate` what other systems put beside it; jobs are equal work whatever these are,
    so no comparison of requests reads them.
    """

    id: JobId
    target: Target
    created_at: datetime
    due_at: datetime
    queue: str = "default"
    priority: int = 0
    unique: str | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    start_by: datetime | None = None
    after: tuple[JobId, ...] = ()
    edges: dict[JobId, Edge] | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    schedule_id: ScheduleId | None = None
    occurrence: datetime | None = None
    overlap: Overlap = Overlap.ALLOW
    group: str | None = None
    unique_for: timedelta | None = None
    cause: EventCause | None = None
    condition: Condition | None = None
    window: tuple[Window, ...] = ()
    sensitive: bool = False
    flow: JobId | None = None
    awaits_flow: JobId | None = None
    traceparent: str | None = None
    tracestate: str | None = None

    def edge_to(self, other: JobId) -> Edge:
        """The end that it needs of a job that it comes after."""
        return (self.edges or {}).get(other, Edge.SUCCESS)


INHERITED: Final = tuple(
    name
    for name in ScheduleSpec.__struct_fields__
    if name in JobSpec.__struct_fields__ and name not in {"id", "name", "created_at"}
)
"""The fields that a schedule passes on to its jobs."""


class Job(JobSpec, frozen=True, kw_only=True, gc=False):
    """One job as stored. Changes by copy: `msgspec.structs.replace(job, state=...)`.

    `attempt` counts attempts started, less those snoozed or released; `lost` counts those whose
    worker died, and `suspicion` is the evidence from these. `token` is the fence: it rises at every
    claim, and a write by an attempt counts only while the stored token is the attempt's and the job
    is running. `lease_until` is when a timed lease runs out; None where the lease lasts as long as
    the heartbeats of its worker. `cursor` is JSON text that says where a job that sends others
    continues. `cause_id` is the job whose end cancelled this one, which came after it. `fault` is
    what its last failure has in common with others (`rules.faults`), until it succeeds.
    """

    state: JobState = JobState.WAITING
    reason: str | None = None
    blocked_by: int = 0
    token: Token = Token(0)
    worker: WorkerId | None = None
    lease_until: datetime | None = None
    attempt: int = 0
    lost: int = 0
    released: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_reason: str | None = None
    result: msgspec.Raw | None = None
    error: str | None = None
    fault: int | None = None
    progress: Progress | None = None
    cursor: msgspec.Raw | None = None
    suspicion: Suspicion | None = None
    cause_id: JobId | None = None

    @property
    def run_time(self) -> datetime:
        """The instant of its occurrence; when it is due, where it is of none."""
        return self.occurrence or self.due_at

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES
