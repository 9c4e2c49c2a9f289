"""The durable state, as each of its readers sees it; `Store` is their sum.

What holds for every verb:

- One call is one transaction: all of it or nothing. Many calls may share one commit.
- A call that returns has been made durable. One that raised `Unavailable` may or may not have been;
  every verb may be repeated.
- It may be awaited from any event loop, in any thread.
- Verbs take and give sequences; answers come in the order of what was asked.
- `now` is the instant that counts as the present: nothing due later is claimed.
- Driver errors come out as `Unavailable` (worth another try) or `Conflict`, with the cause kept.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from enum import Enum, auto
from typing import Protocol

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.event import Stats, Transition
from onbeat.model.ids import JobId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Queue
from onbeat.model.schedule import Schedule
from onbeat.model.worker import Worker


class Hint(Enum):
    """What may have changed; a hint may be lost, doubled or wrong.

    JOBS: some may be due. SCHEDULES: some may need planning. CANCELS: running jobs were asked to
    stop. ENDED: jobs have ended.
    """

    JOBS = auto()
    SCHEDULES = auto()
    CANCELS = auto()
    ENDED = auto()


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker can take: up to `limit` due jobs in its queues (None: all) and lanes."""

    worker: WorkerId
    now: datetime
    limit: int
    lanes: frozenset[str]
    queues: tuple[str, ...] | None = None


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that now run under the claimant's lease, and when the next could be due.

    `next_due_at` is the earliest due time after `now` among jobs that this claimant could take;
    when `jobs` filled the limit it may be None although more is due.
    """

    jobs: tuple[Job, ...]
    next_due_at: datetime | None


class Settlement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job as it shall be after the attempt that ended, and that attempt, whose token fences."""

    job: Job
    attempt: Attempt


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """`created` is False where a live job holds the same unique key; `id` is then that job's."""

    id: JobId
    created: bool


class Held(msgspec.Struct, frozen=True, gc=False):
    """A lease that a worker holds by the store's word, and why it should stop, if it should."""

    job_id: JobId
    token: Token
    cancel_reason: str | None


class Disposition(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one occurrence (`first` = `last`, a job), or of a run of skipped ones."""

    first: datetime
    last: datetime
    job_id: JobId | None
    reason: str | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that `doctor` looked at. `remedy` says what to do when it is not `ok`."""

    name: str
    ok: bool
    value: str
    remedy: str | None = None


class PlannerStore(Protocol):
    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        """Active schedules with `plan_at <= now`, earliest first."""
        ...

    async def next_plan_at(self) -> datetime | None:
        """The earliest `plan_at` of an active schedule."""
        ...

    async def lapsed(self, now: datetime, limit: int) -> Sequence[Job]:
        """Waiting jobs, never started, whose `start_by` is before `now`, earliest first."""
        ...

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        """Those of the schedules that exist, in any order."""
        ...

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        """Store each plan whole: jobs, dispositions, watermark. False where the version had moved.

        Each plan stands by itself; all of them may share a commit. Jobs whose occurrence has a
        disposition already are left out. A watermark never falls.
        """
        ...

    async def cancel_lapsed(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        """Cancel those of the jobs that still wait and never started. Returns how many."""
        ...


class DispatcherStore(Protocol):
    async def claim(self, request: ClaimRequest) -> Claimed:
        """Give out due jobs by priority, then due time, then id, each with a raised token.

        A claimed job is running: `attempt` one higher, `started_at` now, `progress` gone. Not
        given out: what is blocked, what has lapsed (`start_by` before now and never started), what
        stands in a paused queue or belongs to a paused schedule, what is in a lane that the
        claimant does not know. None of these is in the way of others: cost does not grow with
        their number.

        While an earlier job of the same schedule is unfinished (it runs, or it was tried, or it
        was due earlier), a job with overlap `skip` is cancelled, one with `wait` is blocked until
        that job ends, and one with `replace` has that job cancelled and waits for its end.
        """
        ...


class WorkerStore(Protocol):
    async def job(self, id: JobId) -> Job | None: ...

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Write each ended attempt with the job it leaves, if its lease is still valid.

        False means the lease was lost: nothing was written. Repeating a settlement that was
        written answers True again and changes nothing. When a job ends, jobs that waited for it
        become free (it succeeded) or are cancelled with it (it did not), in the same transaction.
        """
        ...

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        """Keep the latest progress of running jobs; False where the lease was lost."""
        ...


class RenewerStore(Protocol):
    async def beat(self, worker: Worker) -> Sequence[Held]:
        """Keep the worker's row with its new beat; answers with the leases that it holds."""
        ...


class RescuerStore(Protocol):
    async def workers(self) -> Sequence[Worker]:
        """All workers that have a row, with the number of jobs each runs."""
        ...

    async def abandoned(self, dead: Collection[WorkerId], limit: int) -> Sequence[Job]:
        """Running jobs whose worker is one of the dead, or has no row."""
        ...

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        """Delete the rows of those workers that run nothing. Returns how many went."""
        ...


class PrunerStore(Protocol):
    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        """Delete up to `limit` ended jobs past their keep, oldest first, with their attempts.

        Dispositions older than `failed_before` go too; watermarks stay, so nothing that is gone
        is planned again. Returns how many jobs went.
        """
        ...


class OperationsStore(Protocol):
    async def add_schedule(self, schedule: Schedule, plan: Plan) -> None:
        """Raises `Conflict` when its key is taken."""
        ...

    async def update_schedule(self, schedule: Schedule, plan: Plan | None, now: datetime) -> bool:
        """Store an edit; `schedule.version` must be one above the stored one, else False.

        Waiting jobs of the schedule follow its target, queue, priority, retry, timeout, overlap
        and labels. With a plan, the rule itself changed: occurrences after `now` that never
        started lose their disposition and their jobs are cancelled ("schedule changed"), then the
        plan is stored as `apply_plans` does.
        """
        ...

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        """Its waiting jobs are cancelled, running ones asked to stop; ended ones stay readable."""
        ...

    async def schedule(self, id: ScheduleId) -> Schedule | None: ...

    async def schedule_by_key(self, key: str) -> Schedule | None: ...

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]: ...

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]: ...

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        """What became of the occurrences from `first` to `last`, in order."""
        ...

    async def backfill(self, id: ScheduleId, jobs: Sequence[Job], skips: Sequence[Skip]) -> int:
        """Add jobs for past occurrences; those that have a job already are left out.

        A past skip is turned into a job. Returns how many jobs were added.
        """
        ...

    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]:
        """Store new jobs. Of several with one unique key the first wins.

        A job with `after` is blocked by those that have not ended; where one of them has failed
        or was cancelled, it is cancelled at once. Raises `Invalid` where one does not exist.
        """
        ...

    async def job(self, id: JobId) -> Job | None: ...

    async def jobs(self, filter: JobFilter) -> Page[Job]: ...

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        """Ended attempts, oldest first."""
        ...

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        """What was done to the job by hand or by policy, beside its attempts, oldest first."""
        ...

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        """Waiting jobs end cancelled; running ones get `cancel_reason`; ended ones stay.

        Answers with the jobs as they then are.
        """
        ...

    async def retry(self, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
        """Failed and cancelled jobs wait again, due now, with a fresh budget of attempts.

        Others stay as they are. Raises `Conflict` when a live job holds the unique key.
        """
        ...

    async def queues(self, now: datetime) -> Sequence[Queue]:
        """Queues that have live jobs or are paused, by name."""
        ...

    async def pause_queue(self, name: str, *, paused: bool) -> None: ...

    async def stats(self, now: datetime) -> Stats: ...


class Store(
    PlannerStore,
    DispatcherStore,
    WorkerStore,
    RenewerStore,
    RescuerStore,
    PrunerStore,
    OperationsStore,
    Protocol,
):
    """Everything, and its own opening and closing."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        ...

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `Unavailable` or `Misconfigured`."""
        ...

    async def close(self) -> None:
        """Finish what was begun. May be called twice."""
        ...

    async def ping(self) -> None:
        """Raises `Unavailable` unless the store answers and could write."""
        ...

    async def doctor(self) -> Sequence[Finding]: ...

    def listen(self, heard: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `heard`, from any thread, when something may have changed; returns the way to stop.

        Changes by other processes on the same store are reported too, within about 50 ms.
        """
        ...
