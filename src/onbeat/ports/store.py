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
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Protocol

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.event import Stats, Transition
from onbeat.model.ids import JobId, LetterId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, Progress
from onbeat.model.letter import DeadLetter
from onbeat.model.page import JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.queue import Limits, Queue
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
    """What a worker can take: up to `limit` due jobs in its queues (None: all) and lanes.

    With `lease` the leases are timed: each runs out so long after `now` unless it is renewed.
    """

    worker: WorkerId
    now: datetime
    limit: int
    lanes: frozenset[str]
    queues: tuple[str, ...] | None = None
    lease: timedelta | None = None


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


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that a running job sends, and how far it then is.

    The ids of the jobs are made from the sender's, so that sending again what was sent before the
    sender last stopped adds nothing. `cursor` is where it would go on; None leaves the stored one.
    """

    sender: JobId
    token: Token
    jobs: tuple[Job, ...]
    cursor: msgspec.Raw | None = None
    progress: Progress | None = None


class Carton(msgspec.Struct, frozen=True, kw_only=True):
    """One job with all that is kept of it, on its way into another store."""

    job: Job
    attempts: tuple[Attempt, ...] = ()
    transitions: tuple[Transition, ...] = ()


class Traced(msgspec.Struct, frozen=True):
    """A disposition and the schedule that it belongs to, on their way into another store."""

    schedule_id: ScheduleId
    disposition: "Disposition"


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
        """Waiting jobs whose `start_by` is before `now`, earliest first; what began has none."""
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
        given out: what is blocked, what has lapsed (waits, with `start_by` before now), what
        stands in a paused queue or belongs to a paused schedule, what is in a lane that the
        claimant does not know, what is over a limit of its queue or its group. None of these is in
        the way of others: cost does not grow with their number, but for the groups of a queue that
        limits groups or is fair: there it grows with the number of groups that wait.

        In a fair queue it is by turns over groups, as `rules.turns` has them, that jobs of one
        priority are chosen. The answer is in order of priority, due time and id all the same.

        Limits hold over all claimants, as `rules.admitting` counts them: a job counts as running
        from its claim until it is settled, and its claim counts as its start. Where only a rate
        holds a job back, `next_due_at` is at the latest when the rate lets it go.

        While an earlier job of the same schedule is unfinished (it runs, or it was tried, or it
        was due earlier), a job with overlap `skip` is cancelled, one with `wait` is blocked until
        that job ends, and one with `replace` has that job cancelled and waits for its end.
        """
        ...

    async def name_queues(self, names: Collection[str]) -> None:
        """Note that these queues are in use, so that workers of all queues find them."""
        ...

    async def queue_names(self) -> Sequence[str]:
        """Queues that were named, limited or paused at some time, by name."""
        ...


class WorkerStore(Protocol):
    async def job(self, id: JobId) -> Job | None: ...

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        """Take over leases whose job is carried (`model.worker.is_carried`) or that are timed.

        The job then runs under `worker`, with the token and attempt of its claim, `started_at` now
        and a lease that lasts as long as the worker beats. None where the lease is not valid any
        more, or another worker has taken it over. Repeating answers as the first time.
        """
        ...

    async def send_from(self, sent: Sequence[Sent]) -> Sequence[bool]:
        """Store the jobs that running jobs send, with cursor and progress, behind the fence.

        False, and nothing is stored, where the sender's lease was lost. Jobs that exist already,
        live or ended, are left as they are; a job whose unique key a live job holds is left out.
        """
        ...

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

    async def held(self, worker: WorkerId) -> Sequence[Held]:
        """The leases that this worker or carrier holds, by id of their jobs."""
        ...

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[Held | None]:
        """Let these timed leases run until then; None where one is not valid, or not timed."""
        ...


class RescuerStore(Protocol):
    async def workers(self) -> Sequence[Worker]:
        """All workers that have a row, with the number of jobs each runs."""
        ...

    async def abandoned(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        """Running jobs whose lease has run out.

        A timed one has when `lease_until` is before `now`; another has when its worker is one of
        the dead, or has no row.
        """
        ...

    async def forget_workers(self, ids: Collection[WorkerId]) -> int:
        """Delete the rows of those workers that run nothing. Returns how many went."""
        ...


class PrunerStore(Protocol):
    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        """Delete up to `limit` ended jobs past their keep, oldest first, with their attempts.

        Dispositions and dead letters older than `failed_before` go too; watermarks stay, so nothing
        that is gone is planned again. Returns how many jobs went.
        """
        ...


class OperationsStore(Protocol):
    async def now(self) -> datetime | None:
        """What the store's own clock shows, at some moment of this call; None without one.

        A store without a clock of its own goes by this machine's.
        """
        ...

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
        """Queues that have live jobs, are paused or are limited, by name."""
        ...

    async def pause_queue(self, name: str, *, paused: bool) -> None: ...

    async def limit_queue(self, name: str, limits: Limits) -> None:
        """These limits replace the queue's; they hold from the next claim on."""
        ...

    async def bury(self, letters: Sequence[DeadLetter]) -> None:
        """Keep dead letters; those that are kept already (by id) stay as they are."""
        ...

    async def dead_letters(
        self, before: LetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        """The newest first; those with an id below `before`, of one source if it is given."""
        ...

    async def dead_letters_by_id(self, ids: Collection[LetterId]) -> Sequence[DeadLetter]:
        """Those that exist, in any order."""
        ...

    async def exhume(self, ids: Collection[LetterId]) -> int:
        """Delete these dead letters. Returns how many there were."""
        ...

    async def stats(self, now: datetime) -> Stats: ...


class CopyStore(Protocol):
    """Moving everything into another store. What is read is in order of ids, so it can go on."""

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        """Schedules with an id above `after`."""
        ...

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[Traced]:
        """Dispositions by schedule and first instant, beyond `after`."""
        ...

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[Carton]:
        """Jobs, live and ended, with an id above `after`."""
        ...

    async def restore_schedules(self, schedules: Sequence[Schedule]) -> int:
        """Add schedules as they are, without jobs; returns how many changed something.

        Over one that exists the newer version wins, unless the one here was edited later, and
        within one edit the one with which the planner has come further. Before a newer version go
        the dispositions here, but for those of jobs that were given out, and the jobs of
        occurrences that never were and that no other job waits for: they come anew from where it
        comes. Waiting jobs follow it as at an edit. Raises `Conflict` where another schedule has
        the key.
        """
        ...

    async def restore_dispositions(self, traced: Sequence[Traced]) -> int:
        """Add those whose first instant has none yet; returns how many were added."""
        ...

    async def restore_jobs(self, cartons: Sequence[Carton]) -> int:
        """Add jobs as they are; returns how many changed something.

        A running job is added as waiting, with its token. A job that exists stays where it went on
        here: it runs, its token is higher, or its history is not how the carton's begins. Else the
        carton wins where it is further on: by its token, by its history, by its end, or in any way
        while it runs where it comes from. Jobs that are `after` live ones wait for them; a wait
        that an overlap rule had made is made anew at the claim. A live job whose unique key is held
        by another live job here is left out.
        """
        ...


class Store(
    PlannerStore,
    DispatcherStore,
    WorkerStore,
    RenewerStore,
    RescuerStore,
    PrunerStore,
    OperationsStore,
    CopyStore,
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
