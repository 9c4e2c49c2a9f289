"""The durable state: one protocol for each of its users; `Store` combines them.

Rules for every method:

- One call is one transaction: all or nothing. Many calls may share one commit.
- A call that returns is durable. A call that raised `Unavailable` may or may not be; every method
  may be repeated.
- It may be awaited from any event loop, in any thread.
- Methods take and return sequences; results are in the order of the arguments.
- `now` is the instant that counts as the present: nothing due later is claimed.
- `keyed` is written in the same transaction. Where another request has its digest, committed or in
  progress, the method raises `RequestInFlight` and does nothing.
- Driver errors are raised as `Unavailable` (retryable) or `Conflict`, with the cause kept.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Protocol

import msgspec

from onbeat.model.attempt import Attempt
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.event import Event, StoredEvent
from onbeat.model.event_wait import EventWait, WaitResult
from onbeat.model.flow import FlowLook
from onbeat.model.held_key import HeldKey
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest, StoredRequest
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId, Token, WorkerId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.model.page import Counted, JobFilter, OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.pulse import Gauges
from onbeat.model.queue import GroupDepths, Limits, Pause, Queue
from onbeat.model.schedule import Schedule
from onbeat.model.transition import Stats, Transition
from onbeat.model.worker import WorkerRecord
from onbeat.ports.access import AccessStore
from onbeat.ports.alerts import AlertStore
from onbeat.ports.bulks import BulkStore
from onbeat.ports.events import EventFilter, EventStore
from onbeat.ports.faults import FaultStore
from onbeat.ports.history import HistoryStore
from onbeat.ports.job_log import JobLogStore
from onbeat.ports.lateness import LatenessStore
from onbeat.ports.live import LiveStore
from onbeat.ports.timeline import TimelineStore


class Hint(Enum):
    """The kind of change that may have happened; a hint may be lost, doubled or wrong.

    JOBS: some may be due. SCHEDULES: some may need planning. CANCELS: running jobs were asked to
    stop. ENDED: jobs have ended. EVENTS: some may need routing. WORKERS: a worker has begun.
    """

    JOBS = auto()
    SCHEDULES = auto()
    CANCELS = auto()
    ENDED = auto()
    EVENTS = auto()
    WORKERS = auto()


FlowCounts = Mapping[JobId, Mapping[JobState, int]]
"""By flow, how many of its members are in each state."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A claim by a worker: up to `limit` due jobs in its queues (None: all) and lanes.

    With `lease` the leases are timed: each runs out `lease` after `now` unless it is renewed.
    """

    worker: WorkerId
    now: datetime
    limit: int
    lanes: frozenset[str]
    queues: tuple[str, ...] | None = None
    lease: timedelta | None = None

    @property
    def lease_until(self) -> datetime | None:
        return None if self.lease is None else self.now + self.lease


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that now run under the claimant's lease, and when the next job could be due.

    How many `jobs` there are is known at once; a store may read them when they are first looked at.
    `next_due_at` is the earliest due time after `now` among jobs that this claimant could take;
    when `jobs` filled the limit it may be None although more is due.
    """

    jobs: Sequence[Job]
    next_due_at: datetime | None


class Settlement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job in its state after an ended attempt, and that attempt, whose token is the fence.

    `awaits` is the step for whose event the job is put off: if that wait has ended, it is due now.
    """

    job: Job
    attempt: Attempt
    awaits: str | None = None


class SucceededAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that succeeded, and its job as it was claimed: what most settlements say.

    It took `seconds`, which stores do not keep.
    """

    job: Job
    finished_at: datetime
    result: msgspec.Raw | None
    seconds: float = 0.0


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """`created` is False where another job holds the same unique key; `id` is then that job's.

    It is live, or it has ended and holds the key by its `unique_for`.
    """

    id: JobId
    created: bool


class HeldLease(msgspec.Struct, frozen=True, gc=False):
    """A lease that a worker holds according to the store, and why to stop, if it should."""

    job_id: JobId
    token: Token
    cancel_reason: str | None


class SentJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that a running job sends, with the sender's new progress.

    The ids of the jobs are derived from the sender's id, so that sending a job again after a
    restart of the sender adds nothing. `cursor` is where the sender would continue; None keeps the
    stored one. `wait` is for an event; it replaces a wait of the same step.
    """

    sender: JobId
    token: Token
    jobs: tuple[Job, ...]
    cursor: msgspec.Raw | None = None
    progress: Progress | None = None
    wait: EventWait | None = None


class JobExport(msgspec.Struct, frozen=True, kw_only=True):
    """One job with its attempts and transitions, for import into another store."""

    job: Job
    attempts: tuple[Attempt, ...] = ()
    transitions: tuple[Transition, ...] = ()


class DispositionExport(msgspec.Struct, frozen=True):
    """A disposition and its schedule's id, for import into another store."""

    schedule_id: ScheduleId
    disposition: "Disposition"


class Disposition(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one occurrence (`first` = `last`, a job), or of a range of skipped ones."""

    first: datetime
    last: datetime
    job_id: JobId | None
    reason: str | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check of `doctor`. `remedy` says what to do when it is not `ok`."""

    name: str
    ok: bool
    value: str
    remedy: str | None = None


class SchemaChange(msgspec.Struct, frozen=True, kw_only=True):
    """What the last `open` did to the schema of a database; `before` is 0 where there was none."""

    url: str
    before: int
    after: int

    @property
    def was_needed(self) -> bool:
        return self.before != self.after


class PlannerStore(Protocol):
    async def due_schedules(self, now: datetime, limit: int) -> Sequence[Schedule]:
        """Active schedules with `plan_at <= now`, earliest first."""
        ...

    async def next_plan_at(self) -> datetime | None:
        """The earliest `plan_at` of an active schedule."""
        ...

    async def overdue_jobs(self, now: datetime, limit: int) -> Sequence[Job]:
        """Waiting jobs with `start_by` before `now`, earliest first; tried jobs have none."""
        ...

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        """The schedules with these ids that exist, in any order."""
        ...

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        """Store each plan whole (jobs, dispositions, watermark).

        False where the version has changed, or where the schedule is planned further than the plan
        goes on from.

        Plans are independent; all of them may share a commit. Jobs whose occurrence already has a
        disposition are left out. A watermark never falls.
        """
        ...

    async def cancel_overdue(self, ids: Sequence[JobId], reason: str, now: datetime) -> int:
        """Cancel those of the jobs that still wait and never started. Returns how many."""
        ...

    async def continue_cascades(self, now: datetime) -> int:
        """Continue where a job has more dependents than one transaction changes.

        Returns how many of these jobs were examined; 0 means that no dependents are left.
        """
        ...

    async def close_flows(self, now: datetime) -> int:
        """Free or cancel jobs that wait for flows which have no live job any more.

        Returns how many waited for those; 0 means that no such flow is left.
        """
        ...


class DispatcherStore(Protocol):
    @property
    def hints_at_once(self) -> bool:
        """Whether hints from other processes come within a few milliseconds at present.

        Where they do not, a busy worker looks for jobs without one.
        """
        ...

    async def claim(self, request: ClaimRequest) -> Claimed:
        """Claim due jobs by priority, then due time, then id, each with a raised token.

        A claimed job is running: `attempt` is one higher, `started_at` is now, `progress` is
        cleared. Not claimed are jobs that are blocked, have lapsed (waiting, with `start_by` before
        now), are in a paused queue, belong to a paused schedule, are in a lane that the claimant
        does not know, or exceed a limit of their queue or group. These jobs do not slow down a
        claim: its cost does not grow with their number. Only in a queue that limits groups or is
        fair, the cost grows with the number of waiting groups.

        In a fair queue, jobs of one priority are chosen by turns over groups, see `rules.fairness`.
        The result is still in order of priority, due time and id.

        Limits hold over all claimants, as counted by `rules.limits`: a job counts as running
        from its claim until it is settled, and its claim counts as its start. Where only a rate
        limit delays a job, `next_due_at` is no later than the instant at which the rate admits it.

        Each job is claimed in one transaction, but a claim may have several: one for the jobs of
        each priority, say. Readers beside it may see the first jobs running and the rest not yet.

        While an earlier job of the same schedule is unfinished (it runs, or it was tried, or it was
        due earlier), a job with overlap `skip` is cancelled, a job with `wait` is blocked until the
        earlier one ends, and a job with `replace` cancels the earlier one and waits for its end.
        """
        ...

    async def name_queues(self, names: Collection[str]) -> None:
        """Record that these queues are in use, so that workers of all queues find them."""
        ...

    async def queue_names(self) -> Sequence[str]:
        """Queues that were ever named, limited or paused, by name."""
        ...


class WorkerStore(Protocol):
    async def job(self, id: JobId) -> Job | None: ...

    async def events_of_job(self, id: JobId) -> Sequence[StoredEvent]:
        """See `EventStore.events_of_job`."""
        ...

    async def events(self, filter: EventFilter) -> Sequence[StoredEvent]:
        """See `EventStore.events`."""
        ...

    async def await_event(self, wait: EventWait, token: Token, now: datetime) -> WaitResult | None:
        """What has become of the wait of a running job; None where its lease was lost.

        An open wait ends by the first event after `since` that it is for, else once `now` has
        reached its end. A wait that is not stored is added.
        """
        ...

    async def jobs_by_id(self, ids: Collection[JobId]) -> Mapping[JobId, Job]:
        """The jobs with these ids that exist, live or ended."""
        ...

    async def start(
        self, worker: WorkerId, leases: Sequence[tuple[JobId, Token]], now: datetime
    ) -> Sequence[Job | None]:
        """Take over leases whose job is carried (`model.worker.is_carried`) or that are timed.

        Not those that a receiver holds (see `hand_over`).

        The job then runs under `worker`, with the token and attempt of its claim, `started_at` now
        and a lease that lasts as long as the worker's heartbeats. None where the lease is no longer
        valid, or another worker has taken it over. A repeated call returns the same result.
        """
        ...

    async def hand_over(self, id: JobId, token: Token, until: datetime) -> bool:
        """Let `model.worker.RECEIVER` hold this lease, as a timed one that ends at `until`.

        False where the lease is no longer valid. A repeated call returns True and changes nothing.
        A lease that the receiver holds is not taken over by `start`.
        """
        ...

    async def enqueue_from(self, sent: Sequence[SentJobs]) -> Sequence[bool]:
        """Store jobs sent by running jobs, with cursor and progress, behind the fence.

        False, and nothing is stored, where the sender's lease was lost. Jobs that already exist,
        live or ended, are left as they are; a job whose unique key a live job holds is left out.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        """Store each ended attempt and the new state of its job, if its lease is still valid.

        False means that the lease was lost and nothing was written. Repeating a stored settlement
        returns True again and changes nothing. When a job ends, jobs that waited for it are
        unblocked (it is the end that they need) or cancelled (it is not), in the same transaction;
        where there are very many, `continue_cascades` does the rest.
        """
        ...

    async def succeed(self, successes: Sequence[SucceededAttempt]) -> Sequence[bool]:
        """As `settle` with the settlements of these attempts, which a store may write faster."""
        ...

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        """Store the latest progress of running jobs; False where the lease was lost."""
        ...


class HeartbeatStore(Protocol):
    async def heartbeat(self, worker: WorkerRecord) -> Sequence[HeldLease]:
        """Store the worker's row with its new beat; returns the leases that it holds."""
        ...

    async def held_leases(self, worker: WorkerId) -> Sequence[HeldLease]:
        """The leases that this worker or carrier holds, by job id."""
        ...

    async def renew(
        self, leases: Sequence[tuple[JobId, Token]], until: datetime
    ) -> Sequence[HeldLease | None]:
        """Extend these timed leases to `until`; None where a lease is not valid, or not timed.

        A renewal shows that a worker has the job: it is carried no more (`model.worker.heard_id`).
        """
        ...


class RescuerStore(Protocol):
    async def ping(self) -> None:
        """Write and commit a small change. Raises `Unavailable` if that fails."""
        ...

    async def rewrite_workers(self, ids: Collection[WorkerId]) -> int:
        """Rewrite the rows of these workers as their heartbeats would, without changing them.

        Raises `Unavailable` unless this was committed. Returns how many of the workers exist.
        """
        ...

    async def workers(self) -> Sequence[WorkerRecord]:
        """All workers that have a row, with the number of jobs that each runs."""
        ...

    async def abandoned_jobs(
        self, dead: Collection[WorkerId], now: datetime, limit: int
    ) -> Sequence[Job]:
        """Running jobs whose lease has run out.

        A timed lease has run out when `lease_until` is before `now`; another lease has when its
        worker is one of the dead, or has no row.
        """
        ...

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        """The ended attempts of a job, in the order of their starts."""
        ...

    async def forget_workers(
        self, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None = None
    ) -> int:
        """Delete the rows of those workers that run nothing. Returns the number deleted.

        With `beats` only of those whose last heartbeat has this number: no other has come since.
        """
        ...


class PrunerStore(Protocol):
    async def prune_events(self, before: datetime, limit: int) -> int:
        """See `EventStore.prune_events`."""
        ...

    async def prune_faults(self, before: datetime) -> int:
        """See `FaultStore.prune_faults`."""
        ...

    async def prune_audit(self, before: datetime, limit: int) -> int:
        """See `AccessStore.prune_audit`."""
        ...

    async def prune_bulks(self, before: datetime, limit: int) -> int:
        """See `BulkStore.prune_bulks`."""
        ...

    async def prune(self, *, finished_before: datetime, failed_before: datetime, limit: int) -> int:
        """Delete up to `limit` ended jobs past their retention, oldest first, with their history.

        Also deletes dispositions and dead letters older than `failed_before`; watermarks stay, so
        deleted occurrences are not planned again. Returns how many jobs were deleted.
        """
        ...

    async def sweep(self, sweep: Sweep, limit: int) -> Swept:
        """Examine up to `limit` ended jobs from `sweep.place` on, in the order in which they ended.

        Those that it takes are deleted with their history, in one transaction.
        """
        ...

    async def prune_held_keys(self, now: datetime, limit: int) -> int:
        """Delete up to `limit` keys that are held no longer. Returns how many were deleted."""
        ...

    async def vacuum(self) -> float:
        """Remove the dead rows of live jobs if enough have gathered, by `rules.dead_rows`.

        Reads and writes of jobs go on meanwhile. Returns the seconds until it is worth another
        look; a store whose server removes dead rows at once has nothing to do.
        """
        ...

    async def forget_requests(self, *, before: datetime, now: datetime, limit: int) -> int:
        """Delete up to `limit` idempotency keys stored before `before`.

        A key of a live job stays, with its age counted from `now`. Returns how many were examined.
        """
        ...


class OperationsStore(Protocol):
    async def now(self) -> datetime | None:
        """The time of the store's own clock, at some moment of this call; None without one.

        A store without its own clock uses this machine's.
        """
        ...

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        """The stored answer to the first request with this digest."""
        ...

    async def begun_at(self, digest: bytes) -> datetime | None:
        """When the first try of a request began that did a part of it; only cells have parts."""
        ...

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        """Raises `Conflict` when its key is taken."""
        ...

    async def schedules_of_owner(self, owner: str) -> Sequence[Schedule]:
        """The schedules that the program with this name declared, by id."""
        ...

    async def update_schedule(
        self, schedule: Schedule, plan: Plan | None, now: datetime, event: Event | None = None
    ) -> bool:
        """Store an edit; `schedule.version` must be one above the stored one, otherwise False.

        The event is published with it if some schedule asks for its type.

        Waiting jobs of the schedule take over its target, queue, priority, retry, timeout, overlap
        and labels. A plan means that the rule itself changed: occurrences after `now` that never
        started lose their disposition and their jobs are deleted, then the plan is stored as in
        `apply_plans`. A job that others wait for, or that was changed by hand, is not deleted but
        cancelled (by `cause_of_edit`).
        """
        ...

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        """Cancel its waiting jobs, ask running ones to stop, and keep ended ones readable.

        Of the jobs that are planned for later than `now` only the first one is cancelled; the
        others are deleted as in `update_schedule`.
        """
        ...

    async def schedule(self, id: ScheduleId) -> Schedule | None: ...

    async def schedule_by_key(self, key: str) -> Schedule | None: ...

    async def doubles_of(self, keys: Collection[str]) -> Sequence[Schedule]:
        """Schedules with one of these keys that are not found by it; only cells can have any."""
        ...

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]: ...

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        """By `Job.run_time`, latest first; those of one run time stay in one order."""
        ...

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        """The dispositions of occurrences from `first` to `last`, in order."""
        ...

    async def latest_dispositions(
        self, id: ScheduleId, before: datetime, limit: int
    ) -> Sequence[Disposition]:
        """The last dispositions that end before this instant, latest first.

        Its cost does not grow with the history of the schedule.
        """
        ...

    async def trigger(self, id: ScheduleId, job: Job, keyed: KeyedRequest | None = None) -> None:
        """Add a job of a schedule beside those of its occurrences.

        Raises `NotFound` where the schedule is gone: a deletion leaves no live job of it.
        """
        ...

    async def backfill(
        self,
        id: ScheduleId,
        jobs: Sequence[Job],
        skips: Sequence[Skip],
        keyed: KeyedRequest | None = None,
    ) -> int:
        """Add jobs for past occurrences, except for those that already have a job.

        A past skip becomes a job. Returns how many jobs were added. Raises `NotFound` where the
        schedule is gone.
        """
        ...

    async def enqueue(
        self, jobs: Sequence[Job], keyed: KeyedRequest | None = None
    ) -> Sequence[Enqueued]:
        """Store new jobs, as if one came after the other. Of several with one unique key the first
        wins, unless it is cancelled at once: then it holds no key.

        A job with `unique_for` holds its key for that long after its end (`rules.held_keys`), too;
        this counts for jobs created before the key is free.

        A job with `after` is blocked by those of them that have not ended; where one has failed or
        was cancelled, the job is cancelled at once. Raises `Invalid` where one does not exist.
        """
        ...

    async def job(self, id: JobId) -> Job | None: ...

    async def jobs(self, filter: JobFilter) -> Page[Job]:
        """Jobs, newest first. What no index answers is looked for in a bounded number of jobs."""
        ...

    async def count_jobs(self, filter: JobFilter, most: int, *, look: int | None = None) -> Counted:
        """How many jobs match, up to `most`; `more` also where counting takes too long.

        With `look` it ends, with `more`, once about so many jobs were looked at.
        """
        ...

    async def held_key(self, key: str, now: datetime) -> HeldKey | None:
        """The unique key, where an ended job holds it at `now`."""
        ...

    async def attempts(self, id: JobId) -> Sequence[Attempt]:
        """Ended attempts, oldest first."""
        ...

    async def transitions(self, id: JobId) -> Sequence[Transition]:
        """Changes of the job by callers or policies, without its attempts, oldest first."""
        ...

    async def cancel(
        self, ids: Sequence[JobId], reason: str, now: datetime
    ) -> Sequence[Job | None]:
        """Waiting jobs end cancelled; running ones get `cancel_reason`; ended ones stay unchanged.

        But a job that the end of another has cancelled gets `cancel_reason` too: a retry of that
        one does not bring it back. Returns the jobs in their new state.
        """
        ...

    async def reschedule(self, id: JobId, due_at: datetime, now: datetime) -> Job | None:
        """A waiting job becomes due at `due_at`, with a transition that says so.

        It loses the misfire bound of its occurrence (`rules.reschedule`). A job that runs or has
        ended stays as it is: beside a claim, the one that comes first counts. Returns the job in
        its new state.
        """
        ...

    async def newest_flows(self, before: JobId | None, limit: int, look: int) -> Sequence[FlowLook]:
        """Flows with members, the newest id first, below `before`.

        Of each `look` members that have ended and as many live ones are counted, and one more of
        either kind where there are others. Jobs that
        wait for the end of a flow are a flow of their own here (`rules.flows.after_flow`).
        """
        ...

    async def flow_counts(self, ids: Collection[JobId]) -> FlowCounts:
        """How many members of these flows are in each state, the jobs that sent them included.

        Flows without any are left out.
        """
        ...

    async def retry(
        self,
        ids: Sequence[JobId],
        now: datetime,
        keyed: KeyedRequest | None = None,
        *,
        dependents: bool = True,
        at_once: bool = True,
    ) -> Sequence[Job | None]:
        """Failed and cancelled jobs wait again, due now, with a new budget of attempts.

        So do the jobs that were cancelled because of them, unless `dependents` is False, another
        ended job keeps them from running, or they are sensitive; where there are very many,
        `continue_cascades` does the rest. Those keep their own times, by
        `rules.reschedule.as_tried_again`, and so do `ids` unless `at_once`. Others stay unchanged.
        Raises `Conflict` when another job holds the unique key.
        """
        ...

    async def queues(self, now: datetime, sampled: Gauges | None = None) -> Sequence[Queue]:
        """Queues that have live jobs, are paused or are limited, by name.

        Waiting jobs are those of the sample, which has all queues, or counted.
        """
        ...

    async def pause_queue(self, name: str, *, paused: bool, pause: Pause | None = None) -> None:
        """Pause it, which `pause` describes, or resume it, which forgets that."""
        ...

    async def group_depths(self, name: str, look: int) -> GroupDepths:
        """The groups of a queue, of at most about `look` ready jobs and as many running ones."""
        ...

    async def limit_queue(self, name: str, limits: Limits) -> None:
        """Replace the queue's limits; they hold from the next claim on."""
        ...

    async def add_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Store dead letters; those already stored (by id) stay unchanged."""
        ...

    async def dead_letters(
        self, before: DeadLetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        """Dead letters, newest first, with an id below `before`, of one source if it is given."""
        ...

    async def dead_letters_by_id(self, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
        """The dead letters with these ids that exist, in any order."""
        ...

    async def delete_dead_letters(
        self, ids: Collection[DeadLetterId], keyed: KeyedRequest | None = None
    ) -> int:
        """Delete these dead letters. Returns how many existed."""
        ...

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats:
        """Counts over the whole store. Ended jobs are those of `ended`, by state, or counted.

        Waiting jobs are those of the sample, or counted.
        """
        ...


class CopyStore(Protocol):
    """Copying everything into another store. Reads are in order of ids, so a copy can resume."""

    async def export_schedules(self, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
        """Schedules with an id above `after`."""
        ...

    async def export_dispositions(
        self, after: tuple[ScheduleId, datetime] | None, limit: int
    ) -> Sequence[DispositionExport]:
        """Dispositions by schedule and first instant, after `after`."""
        ...

    async def export_jobs(self, after: JobId | None, limit: int) -> Sequence[JobExport]:
        """Jobs, live and ended, with an id above `after`."""
        ...

    async def export_held_keys(self, after: str | None, limit: int) -> Sequence[HeldKey]:
        """Keys that ended jobs hold, above `after`, in an order of the store."""
        ...

    async def import_held_keys(self, held: Sequence[HeldKey]) -> int:
        """Add keys; of one that is held here, too, the longer stays. Returns how many changed."""
        ...

    async def export_requests(self, after: bytes | None, limit: int) -> Sequence[StoredRequest]:
        """Requests with an idempotency key whose digest is above `after`."""
        ...

    async def import_requests(self, requests: Sequence[StoredRequest]) -> int:
        """Add those whose key is not here; returns how many."""
        ...

    async def import_schedules(self, schedules: Sequence[Schedule]) -> int:
        """Add schedules unchanged, without jobs; returns how many imports changed something.

        Where the schedule exists here, the newer version wins, unless the one here was edited
        later; of equal edits the one with the higher watermark wins. A newer version first deletes
        the dispositions here, except for those of jobs that were claimed, and the jobs of
        occurrences that were never claimed and that no other job waits for: the source's copies
        replace them. Waiting jobs take over its fields as after an edit. Raises `Conflict` where
        another schedule has the key.
        """
        ...

    async def import_dispositions(self, rows: Sequence[DispositionExport]) -> int:
        """Add dispositions whose first instant has none yet; returns how many were added."""
        ...

    async def import_jobs(self, exports: Sequence[JobExport]) -> int:
        """Add jobs unchanged; returns how many imports changed something.

        A running job is added as waiting, with its token. An existing job stays where it has
        advanced here: it runs, its token is higher, or its history is no prefix of the export's.
        Otherwise the export wins where it is further: by its token, by its history, by its end, or
        in any case while it runs in the source. Jobs that are `after` live ones wait for them; a
        wait made by an overlap rule is made again at the claim. A live job whose unique key another
        live job holds here is left out.
        """
        ...


class Store(
    PlannerStore,
    DispatcherStore,
    WorkerStore,
    HeartbeatStore,
    RescuerStore,
    PrunerStore,
    OperationsStore,
    CopyStore,
    AccessStore,
    EventStore,
    LatenessStore,
    AlertStore,
    HistoryStore,
    TimelineStore,
    FaultStore,
    BulkStore,
    LiveStore,
    JobLogStore,
    Protocol,
):
    """All parts of the store, with opening and closing."""

    @property
    def url(self) -> str:
        """The URL, without secrets."""
        ...

    @property
    def has_slots(self) -> bool:
        """Whether the ids of new schedules are to name a slot; see `rules.cells`."""
        ...

    async def open(self) -> None:
        """Connect and migrate the schema. Raises `Unavailable` or `Misconfigured`."""
        ...

    async def close(self) -> None:
        """Finish pending work and disconnect. May be called twice."""
        ...

    @property
    def schema_changes(self) -> Sequence[SchemaChange]:
        """One for each database that is open; none for a store without a schema."""
        ...

    async def doctor(self) -> Sequence[Finding]: ...

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        """Call `on_hint`, from any thread, on possible changes; returns a function that stops this.

        Changes by other processes on the same store are reported too, within about 50 ms.
        """
        ...
