"""Runs claimed jobs and records their outcomes."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from onbeat.engine.attempt_tasks import AttemptTasks
from onbeat.engine.handed_back import HandedBack, Lease
from onbeat.engine.job_log import JobLog
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.quarantine import APART, Quarantine
from onbeat.engine.running_attempt import RunningAttempt, StopReason
from onbeat.engine.settler import Settler
from onbeat.engine.start_check import StartCheck
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Failed, Outcome, Released, Snoozed, Succeeded
from onbeat.ports.clock import Clock
from onbeat.ports.expressions import NO_EXPRESSIONS, Expressions
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, WorkerStore
from onbeat.ports.target import HandedOver, Runners, TargetRunner
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.claims_ahead import ClaimsAhead
from onbeat.rules.event_delivery import GONE, reads_events
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.shortage import describe_error, postpone, shortage_in

# Seconds to wait for stopped attempts at the end of a drain. An attempt that ignores its stop is
# abandoned and counts as lost.
STOP_PATIENCE = 10.0

NO_SLOT = "put back at once: its worker had no free slot"
SHUT_DOWN = "put back at once: its worker shut down before it began"

NOT_COMMITTED = (
    "its handler called finish_in_transaction and returned, but the transaction was not committed; "
    "commit it before the handler returns"
)


class HandledAttempt(RunningAttempt, eq=False, gc=False):
    """`finished` is the settlement in the handler's own transaction, if that commits.

    `reports_until`: the target has taken the job on, and reports its outcome until then. `due` is
    the time of the monotonic clock when the job was due.
    """

    finished: Settlement | None = None
    reports_until: datetime | None = None
    due: float = 0.0


class JobRunner:
    """Runs at most `concurrency` attempts; further claimed jobs wait in `backlog`.

    `running` also has those that have ended and are being settled. They hold no slot, so that the
    next ones run meanwhile, but the worker claims as few more as if they ran.
    """

    def __init__(
        self,
        store: WorkerStore,
        runners: Runners,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
        guard: LeaseGuard,
        *,
        concurrency: int,
        prefetch: int | None,
        on_slot_free: Callable[[], None],
        expressions: Expressions = NO_EXPRESSIONS,
        faults: FaultTally | None = None,
        log: JobLog | None = None,
    ) -> None:
        self.store = store
        self.guard = guard
        self.log = None if log is None or log.level is None else log
        self.runners = runners
        self.start_check = StartCheck(runners, expressions, clock, store)
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.concurrency = concurrency
        self.claims_ahead = ClaimsAhead(concurrency, prefetch)
        self.running: dict[JobId, HandledAttempt] = {}
        self.active = 0  # of `running`, those whose target runs
        self.backlog: deque[Job] = deque()
        self.quarantine = Quarantine(concurrency)
        self.is_draining = False
        self.starting = asyncio.Lock()  # of jobs that carriers hold
        self.idle = asyncio.Event()
        self.idle.set()
        self.handing_back: set[asyncio.Task[None]] = set()
        self.handed_back = HandedBack()
        self.on_slot_free = on_slot_free
        self.tasks = AttemptTasks(self.run_one, self.fill_slots)
        self.settler = Settler(
            store,
            clock,
            randomness,
            telemetry,
            self.release,
            faults or FaultTally(),
        )

    def capacity(self) -> int:
        """How many more jobs this worker can take; 0 while the store refuses its heartbeats."""
        if self.is_draining or not self.guard.may_claim():
            return 0
        busy = len(self.running) + len(self.backlog)
        room = self.concurrency + self.claims_ahead.most - busy
        return max(0, room if self.quarantine.is_empty else self.quarantine.free_slots(room, busy))

    def room_for_claim(self, coming: int = 0) -> int:
        """As `capacity`, but 0 while so many jobs wait here that the claim can be a larger one.

        `coming` jobs are claimed already, and about to be accepted.
        """
        room = max(0, self.capacity() - coming)
        return 0 if self.claims_ahead.is_stocked(room, len(self.backlog) + coming) else room

    def accept(self, jobs: Sequence[Job]) -> None:
        """Begin claimed jobs in order as slots become free. While draining, put them back.

        Jobs whose lease was handed back meanwhile, as their answer was slow, do not begin.
        """
        if self.handed_back:
            for job in jobs:
                if job in self.handed_back:
                    self.telemetry.lease_lost(job)
            jobs = [job for job in jobs if job not in self.handed_back]
        if self.is_draining:
            for job in jobs:
                self.spawn(self.record(job, put_back(SHUT_DOWN)))
            return
        if not self.running:
            self.claims_ahead.note_work(self.clock.monotonic())
        # Attempts begin in the claimant's: the end of one begins another, which must not see its
        # variables.
        self.tasks.context = copy_context()
        self.tasks.context.run(ATTEMPT_LOG.set, None)
        self.backlog.extend(self.quarantine.keep_suspects(jobs))
        self.fill_slots()
        for job in self.quarantine.release_surplus():
            self.spawn(self.record(job, Snoozed(timedelta(), APART)))

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run work outside the slots; a drain waits for it."""
        task = asyncio.create_task(self.run_guarded(work))
        self.handing_back.add(task)
        task.add_done_callback(self.handing_back.discard)

    async def run_guarded(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  a later heartbeat finds these leases
            self.telemetry.loop_failed("worker", error)

    def fill_slots(self) -> None:
        """Begin waiting jobs. Beside a suspect, those being settled count as company too."""
        is_calm = self.quarantine.is_empty
        if self.is_draining or (is_calm and not self.backlog):
            return
        now, reading = self.clock.now(), self.clock.monotonic()
        free = self.quarantine.slots - (self.active if is_calm else len(self.running))
        for _ in range(min(free, len(self.backlog))):
            self.begin(self.backlog.popleft(), now, reading)
        while not self.backlog and (job := self.quarantine.next(len(self.running))) is not None:
            self.begin(job, now, reading)
        if self.running:
            self.idle.clear()
        self.tasks.start()

    def begin(self, job: Job, now: datetime, reading: float) -> None:
        """`reading` is the monotonic clock's at `now`."""
        deadline = now + job.timeout if job.timeout is not None else None
        # A line of a sensitive job could show what it worked on.
        log = None if job.sensitive else self.log
        due = reading - (now - job.due_at).total_seconds()
        running = HandledAttempt(job, deadline, self.guard, log=log, due=due)
        self.running[job.id] = running
        self.active += 1
        self.claims_ahead.begun += 1
        self.tasks.ready.append(running)

    async def run_one(self, running: HandledAttempt, task: "asyncio.Task[None]") -> None:
        """Run one claimed job and submit its outcome."""
        try:
            # Not earlier: the cancellation of a task that has not begun would not come to here.
            running.task = task
            began = self.clock.monotonic()
            if running.log is not None:
                ATTEMPT_LOG.set(running)
            self.telemetry.started(running.job, began - running.due)
            try:
                outcome = await self.attempt(running, began)
            except HandedOver as later:
                outcome, running.reports_until = None, later.until
            except GeneratorExit as error:
                # A GeneratorExit of a task that the handler awaited is raised in the outermost
                # coroutine.
                if running.is_closed():
                    raise
                outcome = Failed(f"GeneratorExit: {error}")
            ended_at = self.clock.monotonic()
            seconds = ended_at - began
            self.claims_ahead.note_duration(seconds)
            self.end_target(running)
            # What follows is no more of this attempt: it settles others with it.
            ATTEMPT_LOG.set(None)
            self.finish(running, outcome, seconds, ended_at)
        except BaseException as error:
            self.end_target(running)
            self.release_one(running)
            if not isinstance(error, Exception):
                raise
            # A later heartbeat finds outcomes that could not be recorded.
            self.telemetry.loop_failed("worker", error)

    def end_target(self, running: HandledAttempt) -> None:
        """The target has ended, in whichever way: its slot is free, and nothing is logged more."""
        if running.is_settling:
            return
        running.is_settling, running.task = True, None
        self.active -= 1
        if running.lines is not None:
            running.end_log()

    def finish(
        self, running: HandledAttempt, outcome: Outcome | None, seconds: float, ended_at: float
    ) -> None:
        if running.finished is not None:
            self.spawn(self.confirm(running, running.finished, outcome, seconds))
        elif running.reports_until is not None:
            self.spawn(self.hand_over(running, running.reports_until))
        elif outcome is None:
            self.telemetry.lease_lost(running.job)
            self.release_one(running)
        else:
            self.settler.submit(running.job, outcome, seconds, running, ended_at=ended_at)

    def release_one(self, running: RunningAttempt) -> None:
        self.release([running])

    def release(self, ended: Sequence[RunningAttempt]) -> None:
        """Free the slots of ended attempts, and fill them with waiting jobs."""
        self.claims_ahead.note_ended(len(ended), self.clock.monotonic())
        for running in ended:
            if self.running.get(running.job.id) is running:
                del self.running[running.job.id]
                if self.quarantine.running:
                    self.quarantine.end(running.job.id)
        self.fill_slots()
        if not self.running:
            self.idle.set()
        self.on_slot_free()

    async def attempt(self, running: RunningAttempt, now: float) -> Outcome | None:
        """The outcome of the target; None if the lease was lost meanwhile."""
        if running.stop_reason is not None:
            return stop_outcome(running)
        timer = timer_of(running)
        try:
            # If the worker was frozen meanwhile, the job may belong to another worker by now.
            if now > self.guard.held_until:
                await self.guard.confirm()
            return await self.run_target(running)
        except asyncio.CancelledError:
            if running.stop is None and is_being_cancelled():
                raise
            return stop_outcome(running)
        except (
            GeneratorExit,
            HandedOver,
        ):  # the coroutine is being closed, or the job held elsewhere
            raise
        except BaseException as error:  # noqa: BLE001  a target may raise anything
            return self.outcome_of(error)
        finally:
            if timer is not None:
                timer.cancel()

    def run_target(self, running: RunningAttempt) -> Coroutine[Any, Any, Outcome]:
        # No coroutine of its own: thousands of attempts run per second.
        job = running.job
        runner = self.runners[type(job.target)]
        if job.cause is None and job.condition is None and not job.window:
            return runner.run(running)
        return self.run_checked(runner, running)

    async def run_checked(self, runner: TargetRunner, running: RunningAttempt) -> Outcome:
        """Run the target with the events of its job, where its windows and condition allow it."""
        job = running.job
        if reads_events(job):
            ask = partial(self.store.events_of_job, job.id)
            stored = await self.settler.retry_until_stored(ask)
            if not stored:
                return GONE
            running.events = tuple(one.event for one in stored)
        return await self.start_check.run(runner, running)

    def outcome_of(self, error: BaseException) -> Outcome:
        """The outcome of a runner's error. A handler's errors have become outcomes before."""
        means = shortage_in(error)
        if means is None:
            return Failed(describe_error(error))
        self.telemetry.ran_short(means)
        return postpone(means, self.randomness.fraction())

    async def confirm(
        self,
        running: HandledAttempt,
        finished: Settlement,
        outcome: Outcome | None,
        seconds: float,
    ) -> None:
        """Check whether the handler's own transaction was committed; if so, only that counts."""
        job = running.job
        try:
            stored = await self.settler.retry_until_stored(lambda: self.store.job(job.id))
        except BaseException:
            self.release_one(running)
            raise
        if stored is not None and (stored.token, stored.state) == (job.token, JobState.SUCCEEDED):
            self.telemetry.ended(finished.job, Succeeded(finished.job.result), seconds)
            self.release_one(running)
        elif outcome is None:
            self.telemetry.lease_lost(job)
            self.release_one(running)
        elif isinstance(outcome, Succeeded):
            self.settler.submit(job, Failed(NOT_COMMITTED), seconds, running)
        else:
            self.settler.submit(job, outcome, seconds, running)

    async def hand_over(self, running: HandledAttempt, until: datetime) -> None:
        """Let the receiver hold the lease; where it has reported already, there is none to give."""
        job = running.job
        try:
            await self.settler.retry_until_stored(
                lambda: self.store.hand_over(job.id, job.token, until)
            )
        finally:
            self.release_one(running)

    async def record(self, job: Job, outcome: Outcome) -> None:
        """Store the outcome of an attempt that holds no slot here."""
        await self.settler.record(job, outcome)

    def return_surplus(self) -> None:
        """Hand back the last of the jobs that were claimed ahead, if they would wait too long."""
        back = put_back(NO_SLOT)
        for _ in range(self.claims_ahead.surplus(len(self.backlog), self.clock.monotonic())):
            self.spawn(self.record(self.backlog.pop(), back))

    def take_unbegun(self, leases: Collection[Lease]) -> Sequence[Job]:
        """Take out the jobs that are claimed under these leases and have not begun."""
        taken = [job for job in self.unbegun if (job.id, job.token) in leases]
        if taken:
            left = [job for job in self.backlog if (job.id, job.token) not in leases]
            self.backlog = deque(left)
            for job in taken:
                self.quarantine.take(job.id, job.token)
        return taken

    def known_jobs(self) -> set[JobId]:
        """The ids of jobs that this worker holds."""
        return {*self.running, *(job.id for job in self.unbegun)}

    @property
    def unbegun(self) -> Sequence[Job]:
        """Claimed jobs that have not begun."""
        return (*self.backlog, *self.quarantine.waiting)

    async def drain(self, grace: timedelta) -> int:
        """Begin nothing more; after `grace`, stop the running attempts and release their jobs.

        Returns how many attempts were stopped. Jobs in the backlog are put back at once.
        """
        self.is_draining = True
        waiting = self.unbegun
        self.backlog.clear()
        self.quarantine.waiting.clear()
        self.accept(waiting)
        await self.wait_idle(grace.total_seconds())
        self.settler.is_out_of_time = True
        late = [running for running in self.running.values() if not running.is_settling]
        for running in late:
            running.request_stop(StopReason.SHUTDOWN, "shutdown")
        await self.wait_idle(STOP_PATIENCE)
        return len(late)

    async def wait_idle(self, seconds: float) -> None:
        """Returns when nothing runs or is being handed back, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self.idle.wait()
                while self.handing_back:
                    await asyncio.wait(self.handing_back)
        except TimeoutError:
            return


def put_back(reason: str) -> Snoozed:
    """The outcome of a job that has not begun here; it has no part in that, so it may recur."""
    return Snoozed(timedelta(), reason, unstarted=True)


def timer_of(running: RunningAttempt) -> asyncio.TimerHandle | None:
    """Stops the attempt at its timeout; a bare timer is cheap, and there are many attempts."""
    if running.job.timeout is None:
        return None
    seconds = running.job.timeout.total_seconds()
    return asyncio.get_running_loop().call_later(seconds, time_out, running, seconds)


def time_out(running: RunningAttempt, seconds: float) -> None:
    running.request_stop(StopReason.TIMEOUT, f"timed out after {seconds:g} s")


def is_being_cancelled() -> bool:
    """Whether this task was cancelled from outside, and not by an error of the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stop_outcome(running: RunningAttempt) -> Outcome | None:
    """The outcome of an attempt that was cancelled, mostly since it should stop."""
    match running.stop:
        case None:
            return Failed("CancelledError: something that the handler awaited was cancelled")
        case StopReason.CANCEL:
            return Cancelled(running.stop_reason or "cancelled")
        case StopReason.TIMEOUT:
            return Failed(running.stop_reason or "timed out")
        case StopReason.LEASE_LOST:
            return None
        case StopReason.SHUTDOWN:
            return Released()
