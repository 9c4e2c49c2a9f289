"""Runs claimed jobs and records what became of them."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta

from onbeat.engine.running import Running, Stop
from onbeat.engine.settler import Settler
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Failed, Outcome, Released, Succeeded
from onbeat.model.target import Target
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Held, Settlement, WorkerStore
from onbeat.ports.target import TargetRunner
from onbeat.ports.telemetry import Telemetry

Runners = Mapping[type[Target], TargetRunner]

# While attempts are this short, jobs beyond the free slots are taken too: the way to the store is
# then longer than the work. Longer work is left to others that are free.
PREFETCH_BELOW = 0.05

# How long a stopped attempt is waited for at the end of a drain. One that does not heed its stop
# is left as it is, and counts as lost.
STOP_PATIENCE = 10.0

NOT_COMMITTED = (
    "its handler called finish_within and returned, but the transaction was not committed; "
    "commit it before the handler returns"
)


class Attempting(Running, eq=False, gc=False):
    """`finished` is how the handler's own transaction settles the job, if it commits."""

    finished: Settlement | None = None


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
        self.running: dict[JobId, Attempting] = {}
        self.backlog: deque[Job] = deque()
        self.mean_duration = PREFETCH_BELOW
        self.is_draining = False
        self.idle = asyncio.Event()
        self.idle.set()
        self.strays: frozenset[tuple[JobId, Token]] = frozenset()
        self.returning: set[asyncio.Task[None]] = set()
        self.freed: Callable[[], None] = lambda: None
        self.settler = Settler(store, clock, chance, telemetry)
        self.settler.let_go = self.end_all

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
        running = Attempting(job, deadline)
        self.running[job.id] = running
        self.idle.clear()
        running.task = asyncio.get_running_loop().create_task(self.work_one(running))

    async def work_one(self, running: Attempting) -> None:
        """Run one claimed job and have recorded what became of it."""
        try:
            began = self.clock.monotonic()
            self.telemetry.started(running.job, self.clock.now() - running.job.due_at)
            outcome = await self.attempt(running)
            duration = self.clock.monotonic() - began
            self.mean_duration += (duration - self.mean_duration) / 16
            running.is_settling, running.task = True, None
            self.conclude(running, outcome, timedelta(seconds=duration))
        except BaseException as error:
            self.end(running)
            if not isinstance(error, Exception):
                raise
            # The beat finds what could not be recorded.
            self.telemetry.loop_failed("worker", error)

    def conclude(self, running: Attempting, outcome: Outcome | None, duration: timedelta) -> None:
        if running.finished is not None:
            self.later(self.confirm(running, running.finished, outcome, duration))
        elif outcome is None:
            self.telemetry.lease_lost(running.job)
            self.end(running)
        else:
            self.settler.put(running.job, outcome, duration, running)

    def end(self, running: Running) -> None:
        self.end_all([running])

    def end_all(self, ended: Sequence[Running]) -> None:
        """Their slots are free, and taken by what waits, in one go."""
        for running in ended:
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
        timer = timer_of(running)
        try:
            return await runner.run(running)
        except asyncio.CancelledError:
            if running.stop is not None:
                return stopped(running.stop, running.stop_reason)
            if is_being_cancelled():
                raise
            return Failed("CancelledError: something that the handler awaited was cancelled")
        except Exception as error:  # noqa: BLE001  a target may raise anything
            return Failed(f"{type(error).__name__}: {error}")
        finally:
            if timer is not None:
                timer.cancel()

    async def confirm(
        self,
        running: Attempting,
        finished: Settlement,
        outcome: Outcome | None,
        duration: timedelta,
    ) -> None:
        """Look whether the handler's own transaction was committed; that alone counts then."""
        job = running.job
        try:
            stored = await self.settler.insist(lambda: self.store.job(job.id))
        except BaseException:
            self.end(running)
            raise
        if stored is not None and (stored.token, stored.state) == (job.token, JobState.SUCCEEDED):
            self.telemetry.ended(finished.job, Succeeded(finished.job.result), duration)
            self.end(running)
        elif outcome is None:
            self.telemetry.lease_lost(job)
            self.end(running)
        elif isinstance(outcome, Succeeded):
            self.settler.put(job, Failed(NOT_COMMITTED), duration, running)
        else:
            self.settler.put(job, outcome, duration, running)

    async def record(self, job: Job, outcome: Outcome, duration: timedelta) -> None:
        """Store the outcome of an attempt that holds no slot here."""
        await self.settler.record(job, outcome, duration)

    def cancel(self, id: JobId, reason: str) -> None:
        running = self.running.get(id)
        if running is not None:
            running.stop_for(Stop.CANCEL, reason)

    def compare(self, known: Sequence[Running], held: Sequence[Held]) -> None:
        """Act on the store's word about the attempts that were `known` before it was asked.

        A lease that the store no longer knows is lost: the attempt is stopped, and writes nothing.
        Where its handler has finished the job itself, that is what ended the lease.
        """
        by_id = {lease.job_id: lease for lease in held}
        for running in known:
            lease = by_id.get(running.job.id)
            if lease is None and has_finished(running):
                continue
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
        self.settler.is_out_of_time = True
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


def has_finished(running: Running) -> bool:
    return isinstance(running, Attempting) and running.finished is not None


def timer_of(running: Running) -> asyncio.TimerHandle | None:
    """Stops the attempt when its time is over; a bare timer, since there are many."""
    if running.job.timeout is None:
        return None
    seconds = running.job.timeout.total_seconds()
    return asyncio.get_running_loop().call_later(seconds, time_out, running, seconds)


def time_out(running: Running, seconds: float) -> None:
    running.stop_for(Stop.TIMEOUT, f"timed out after {seconds:g} s")


def is_being_cancelled() -> bool:
    """Whether somebody asked this task to end, rather than a handler raised as if so."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stopped(stop: Stop, reason: str | None) -> Outcome | None:
    """The outcome of an attempt that was stopped from outside."""
    match stop:
        case Stop.CANCEL:
            return Cancelled(reason or "cancelled")
        case Stop.TIMEOUT:
            return Failed(reason or "timed out")
        case Stop.LEASE_LOST:
            return None
        case Stop.SHUTDOWN:
            return Released()
