"""Runs claimed jobs and records what became of them."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta

from onbeat.engine.keeper import pause_after
from onbeat.engine.running import Running, Stop
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Failed, Outcome, Released
from onbeat.model.target import Target
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Held, Settlement, WorkerStore
from onbeat.ports.target import TargetRunner
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.settling import attempt_of, settle

Runners = Mapping[type[Target], TargetRunner]

# While attempts are this short, jobs beyond the free slots are taken too: the way to the store is
# then longer than the work. Longer work is left to others that are free.
PREFETCH_BELOW = 0.05

# How long a stopped attempt is waited for at the end of a drain. One that does not heed its stop
# is left as it is, and counts as lost.
STOP_PATIENCE = 10.0


class Worker:
    """Keeps at most `concurrency` attempts running; further jobs taken wait in `backlog`."""

    def __init__(
        self,
        store: WorkerStore,
        runners: Runners,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        *,
        concurrency: int,
        prefetch: int,
    ) -> None:
        self.store = store
        self.runners = runners
        self.clock = clock
        self.chance = chance
        self.telemetry = telemetry
        self.concurrency = concurrency
        self.prefetch = prefetch
        self.running: dict[JobId, Running] = {}
        self.backlog: deque[Job] = deque()
        self.mean_duration = PREFETCH_BELOW
        self.is_draining = False
        self.is_out_of_time = False
        self.idle = asyncio.Event()
        self.idle.set()
        self.strays: frozenset[tuple[JobId, Token]] = frozenset()
        self.returning: set[asyncio.Task[None]] = set()
        self.freed: Callable[[], None] = lambda: None

    def capacity(self) -> int:
        """How many more jobs this worker would take."""
        if self.is_draining:
            return 0
        ahead = self.prefetch if self.mean_duration < PREFETCH_BELOW else 0
        return max(0, self.concurrency + ahead - len(self.running) - len(self.backlog))

    def accept(self, jobs: Sequence[Job]) -> None:
        """Begin these claimed jobs, in order, as slots are free; none while draining."""
        if self.is_draining:
            for job in jobs:
                self.later(self.record(job, Released(), timedelta()))
            return
        self.backlog.extend(jobs)
        self.fill_slots()

    def later(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside the attempts; a drain waits for it."""
        task = asyncio.create_task(self.tried(work))
        self.returning.add(task)
        task.add_done_callback(self.returning.discard)

    async def tried(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  the beat finds what could not be handed back
            self.telemetry.loop_failed("worker", error)

    def fill_slots(self) -> None:
        while self.backlog and len(self.running) < self.concurrency:
            self.begin(self.backlog.popleft())

    def begin(self, job: Job) -> None:
        deadline = self.clock.now() + job.timeout if job.timeout is not None else None
        running = Running(job, deadline)
        self.running[job.id] = running
        self.idle.clear()
        running.task = asyncio.create_task(self.work_one(running))

    async def work_one(self, running: Running) -> None:
        """Run one claimed job and record what became of it."""
        job = running.job
        began = self.clock.monotonic()
        try:
            self.telemetry.started(job, self.clock.now() - job.due_at)
            outcome = await self.attempt(running)
            duration = self.clock.monotonic() - began
            running.is_settling = True
            if outcome is None:
                self.telemetry.lease_lost(job)
            else:
                await self.record(job, outcome, timedelta(seconds=duration))
            self.mean_duration += (duration - self.mean_duration) / 16
        except Exception as error:  # noqa: BLE001  the beat finds what could not be recorded
            self.telemetry.loop_failed("worker", error)
        finally:
            self.end(running)

    def end(self, running: Running) -> None:
        if self.running.get(running.job.id) is running:
            del self.running[running.job.id]
        if not self.is_draining:
            self.fill_slots()
        if not self.running:
            self.idle.set()
        self.freed()

    async def attempt(self, running: Running) -> Outcome | None:
        """What the target made of the job; None when its lease was lost meanwhile."""
        runner = self.runners[type(running.job.target)]
        timeout = running.job.timeout
        limit = None if timeout is None else asyncio.timeout(timeout.total_seconds())
        try:
            if limit is None:
                return await runner.run(running)
            async with limit:
                return await runner.run(running)
        except asyncio.CancelledError:
            if running.stop is not None:
                return stopped(running.stop, running.stop_reason)
            if is_being_cancelled():
                raise
            return Failed("CancelledError: something that the handler awaited was cancelled")
        except TimeoutError:
            if timeout is None or limit is None or not limit.expired():
                return Failed("TimeoutError")
            running.stop_reason = f"timed out after {timeout.total_seconds():g} s"
            return Failed(running.stop_reason)
        except Exception as error:  # noqa: BLE001  a target may raise anything
            return Failed(f"{type(error).__name__}: {error}")

    async def record(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        """Store the outcome, for as long as it takes: the job keeps its slot meanwhile.

        So a store that is away holds back new work instead of losing what was done. Repeating is
        harmless, since the store knows a settlement that it has written already. Only a shutdown
        that has waited long enough gives up; the job then counts as lost.
        """
        now = self.clock.now()
        settled = settle(job, outcome, now, self.chance.fraction())
        settlement = Settlement(job=settled, attempt=attempt_of(job, outcome, now))
        failures = 0
        while True:
            try:
                (was_ours,) = await self.store.settle([settlement])
                break
            except Unavailable as error:
                self.telemetry.loop_failed("settle", error)
                if self.is_out_of_time:
                    raise
                await asyncio.sleep(pause_after(failures, self.chance.fraction()))
                failures += 1
        if was_ours:
            self.telemetry.ended(settled, outcome, duration)
        else:
            self.telemetry.lease_lost(job)

    def cancel(self, id: JobId, reason: str) -> None:
        running = self.running.get(id)
        if running is not None:
            running.stop_for(Stop.CANCEL, reason)

    def compare(self, known: Sequence[Running], held: Sequence[Held]) -> None:
        """Act on the store's word about the attempts that were `known` before it was asked.

        A lease that the store no longer knows is lost: the attempt is stopped, and writes nothing.
        """
        by_id = {lease.job_id: lease for lease in held}
        for running in known:
            lease = by_id.get(running.job.id)
            if lease is None or lease.token != running.job.token:
                running.stop_for(Stop.LEASE_LOST, "another worker holds this job now")
            elif lease.cancel_reason is not None:
                running.stop_for(Stop.CANCEL, lease.cancel_reason)
        self.return_strays(held)

    def return_strays(self, held: Sequence[Held]) -> None:
        """Hand back leases that the store says are ours and of which nothing is known here.

        They come from a claim whose answer was lost. A lease counts as stray when two words of the
        store in a row name it, since one alone may cross a claim that is just arriving.
        """
        mine = self.known()
        strays = frozenset(
            (lease.job_id, lease.token) for lease in held if lease.job_id not in mine
        )
        for id, token in strays & self.strays:
            self.later(self.give_back(id, token))
        self.strays = strays

    def known(self) -> set[JobId]:
        """The jobs that have arrived here and not ended."""
        return {*self.running, *(job.id for job in self.backlog)}

    async def give_back(self, id: JobId, token: Token) -> None:
        job = await self.store.job(id)
        if job is None or job.token != token or job.state is not JobState.RUNNING:
            return
        # It may have arrived after all, where the way to here was long.
        if id not in self.known():
            await self.record(job, Released(), timedelta())

    async def drain(self, grace: timedelta) -> int:
        """Begin nothing more, give running work `grace` to end, then stop it and hand it back.

        Returns how many attempts were stopped. What waits in the backlog is handed back at once.
        """
        self.is_draining = True
        waiting, self.backlog = tuple(self.backlog), deque()
        self.accept(waiting)
        await self.quiet_within(grace.total_seconds())
        self.is_out_of_time = True
        late = [running for running in self.running.values() if not running.is_settling]
        for running in late:
            running.stop_for(Stop.SHUTDOWN, "shutdown")
        await self.quiet_within(STOP_PATIENCE)
        return len(late)

    async def quiet_within(self, seconds: float) -> None:
        """Returns when nothing runs or is being handed back, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self.idle.wait()
                while self.returning:
                    await asyncio.wait(self.returning)
        except TimeoutError:
            return


def is_being_cancelled() -> bool:
    """Whether somebody asked this task to end, rather than a handler raised as if so."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stopped(stop: Stop, reason: str | None) -> Outcome | None:
    """The outcome of an attempt that was stopped from outside."""
    match stop:
        case Stop.CANCEL:
            return Cancelled(reason or "cancelled")
        case Stop.LEASE_LOST:
            return None
        case Stop.SHUTDOWN:
            return Released()
