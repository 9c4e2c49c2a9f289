"""Starts all loops of one process, and drains them at shutdown."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property

import msgspec

from onbeat.engine.alerts import AlertWatch
from onbeat.engine.broker.runtime import BrokerRuntime
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.engine.bulk import BulkRunner
from onbeat.engine.clocks import ClockKeeper
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.faults import FaultRecorder
from onbeat.engine.heartbeat import Heartbeat, HeartbeatThread
from onbeat.engine.job_log import JobLogWriter
from onbeat.engine.lateness import LatenessWatch
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.live import LiveExchange
from onbeat.engine.loop import PAUSE_MAX, Step, Wakeup, cancel_all, run_loop
from onbeat.engine.options import RuntimeOptions
from onbeat.engine.planner import Planner
from onbeat.engine.pruner import Pruner
from onbeat.engine.pulse import DepthSampler, HistoryFolder, PulseRecorder
from onbeat.engine.replanner import Replanner
from onbeat.engine.rescuer import Rescuer
from onbeat.engine.router import Router
from onbeat.engine.session_watcher import SessionWatcher
from onbeat.engine.worker import JobRunner
from onbeat.engine.worker_leases import WorkerLeases
from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.model.fault import process_of
from onbeat.model.role import Role
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import Hint
from onbeat.rules.liveness import GAP_SHARE

LAPSE_PERIOD = 1.0
WATCH_PAUSE = 0.1  # some stores take any change for a new worker
RESCUE_PERIOD = 1.0  # also the longest pause after a failed round: lost jobs wait for it
PLAN_PAUSE = 0.25
CLAIM_PATIENCE = 2.0  # a claim is answered within milliseconds, unless the network is silent


class Runtime:
    """Made in an event loop. Call `start`, later `drain` and `stop`, each in the same loop.

    With a `broker_setup` jobs go over its broker to workers anywhere, else to the worker here.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        options: RuntimeOptions,
        broker_setup: BrokerSetup | None = None,
    ) -> None:
        self.dependencies = dependencies
        self.options = options
        store, clock = dependencies.store, dependencies.clock
        self.plan_wakeup, self.claim_wakeup = Wakeup(), Wakeup()
        self.rescue_wakeup, self.route_wakeup, self.watch_wakeup = Wakeup(), Wakeup(), Wakeup()
        self.guard = LeaseGuard(clock, options.lease_seconds, self.claim_again)
        self.planner = self.build_planner()
        self.replanner = self.build_replanner()
        self.router = self.build_router()
        self.worker = self.build_worker(has_broker=broker_setup is not None)
        self.dispatcher = Dispatcher(
            store,
            self.worker,
            clock,
            dependencies.identity.id,
            dependencies.lanes,
            options.queues,
        )
        self.rescuer = self.build_rescuer()
        self.pruner = self.build_pruner()
        self.lateness = LatenessWatch(store, clock)
        look = dependencies.look
        self.alerts = None if look is None else AlertWatch(store, clock, look, dependencies.live)
        self.recorder = self.build_recorder()
        self.sampler, self.folder = DepthSampler(store, clock), HistoryFolder(store, clock)
        dependencies.faults.process = process_of(dependencies.identity)
        self.faults = FaultRecorder(store, dependencies.faults)
        self.bulks = BulkRunner(store, clock, dependencies.live)
        self.job_log = JobLogWriter(store, dependencies.log, dependencies.live)
        self.live = LiveExchange(store, clock, dependencies.live, dependencies.identity.id)
        self.heartbeat = self.build_heartbeat()
        self.clocks = ClockKeeper(clock, store, dependencies.telemetry)
        self.heartbeat_thread: HeartbeatThread | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.claiming: asyncio.Task[None] | None = None
        self.unlisten: Callable[[], None] | None = None
        self.broker_runtime = self.build_broker_runtime(broker_setup)

    def build_heartbeat(self) -> Heartbeat:
        store, clock = self.dependencies.store, self.dependencies.clock
        leases = WorkerLeases(self.worker)
        return Heartbeat(store, store, clock, self.row, leases, self.guard)

    def build_planner(self) -> Planner:
        dependencies = self.dependencies
        return Planner(
            dependencies.store,
            dependencies.clock,
            dependencies.randomness,
            dependencies.telemetry,
            self.options.horizon,
            dependencies.compile,
        )

    def build_replanner(self) -> Replanner:
        dependencies = self.dependencies
        return Replanner(
            dependencies.store,
            dependencies.clock,
            dependencies.randomness,
            dependencies.telemetry,
            self.options.horizon,
            dependencies.compile,
        )

    def build_router(self) -> Router:
        dependencies = self.dependencies
        return Router(
            dependencies.store,
            dependencies.clock,
            dependencies.randomness,
            dependencies.telemetry,
            dependencies.expressions,
            dependencies.compile,
        )

    def build_worker(self, *, has_broker: bool) -> JobRunner:
        dependencies, options = self.dependencies, self.options
        # What a broker delivers was claimed by its carrier, not at the pace of this worker.
        prefetch = options.prefetch_count if has_broker else options.prefetch
        return JobRunner(
            dependencies.store,
            dependencies.runners,
            dependencies.clock,
            dependencies.randomness,
            dependencies.telemetry,
            self.guard,
            concurrency=options.concurrency,
            prefetch=prefetch,
            on_slot_free=self.on_slot_free,
            expressions=dependencies.expressions,
            faults=dependencies.faults,
            log=dependencies.log,
        )

    def build_rescuer(self) -> Rescuer:
        dependencies, on_end = self.dependencies, self.rescue_wakeup.wake
        return Rescuer(
            dependencies.store,
            dependencies.store,
            dependencies.clock,
            dependencies.randomness,
            dependencies.liveness,
            dependencies.telemetry,
            dependencies.faults,
            SessionWatcher(dependencies.sessions, dependencies.clock, on_end),
            on_end,
        )

    def build_pruner(self) -> Pruner:
        dependencies, options = self.dependencies, self.options
        return Pruner(
            dependencies.store,
            dependencies.clock,
            dependencies.telemetry,
            keeping=options.keeping,
            keep_audit=options.keep_audit,
            keep_keys=options.keep_keys,
            keep_events=options.keep_events,
        )

    def build_recorder(self) -> PulseRecorder | None:
        dependencies = self.dependencies
        read = dependencies.read_counters
        if read is None:
            return None
        source = dependencies.identity.id
        return PulseRecorder(dependencies.store, dependencies.clock, read, source)

    def build_broker_runtime(self, setup: BrokerSetup | None) -> BrokerRuntime | None:
        if setup is None:
            return None
        return BrokerRuntime(
            setup,
            self.dependencies,
            self.options,
            self.start_loop,
            self.worker,
            self.dispatcher,
        )

    @property
    def rescue_period(self) -> float:
        """Seconds between two checks for dead workers; shorter for short leases."""
        return min(RESCUE_PERIOD, self.options.lease_seconds * GAP_SHARE)

    def row(self) -> WorkerRecord:
        """The row of this process in the store."""
        return msgspec.structs.replace(
            self.dependencies.identity,
            concurrency=self.options.concurrency,
            queues=self.options.queues,
            lanes=tuple(sorted(self.dependencies.lanes())),
            lease_seconds=self.options.lease_seconds,
            session=self.dependencies.sessions.name,
            running=self.worker.active,
            memory=self.dependencies.memory(),
        )

    async def start(self) -> None:
        """Start all loops of the process's roles. The store must be open."""
        self.unlisten = self.dependencies.store.listen(self.on_hint)
        self.start_reports()
        roles = self.options.roles
        if Role.PLANNER in roles:
            self.start_planning()
        if Role.MAINTENANCE in roles:
            self.start_maintenance()
        if self.broker_runtime is not None:
            if Role.WORKER in roles:
                await self.register()
            await self.broker_runtime.start()
        elif {Role.DISPATCHER, Role.WORKER} <= roles:
            await self.register()
            self.start_work()

    def start_reports(self) -> None:
        """The loops that say what this process sees and does, whatever its roles."""
        self.start_loop("clock", self.clocks.step, Wakeup())
        self.start_loop("faults", self.faults.step, Wakeup())
        if Role.WORKER in self.options.roles and self.dependencies.log.level is not None:
            self.start_log()
        self.live_wakeup = Wakeup()
        self.live.wake_with(self.live_wakeup.wake_threadsafe)
        self.start_loop("live", self.live.step, self.live_wakeup)
        outages = self.dependencies.outages
        if Role.WORKER in self.options.roles and outages is not None:
            self.start_loop("outages", outages.step, outages.wakeup)
        if self.recorder is not None:
            self.start_loop("recorder", self.recorder.step, Wakeup())

    def start_log(self) -> None:
        wakeup = Wakeup()
        self.dependencies.log.on_ready = wakeup.wake_threadsafe
        self.start_loop("job_log", self.job_log.step, wakeup)

    def start_planning(self) -> None:
        self.start_loop("planner", self.plan_step, self.plan_wakeup)
        self.start_loop("router", self.router.step, self.route_wakeup)
        self.start_loop("replanner", self.replanner.step, Wakeup())
        self.start_loop("expirer", self.expire_step, Wakeup())
        self.start_loop("lateness", self.lateness.step, Wakeup())

    def start_maintenance(self) -> None:
        self.start_loop("rescuer", self.rescue_step, self.rescue_wakeup, RESCUE_PERIOD)
        if self.dependencies.liveness.tells:
            self.start_loop("watcher", self.watch_step, self.watch_wakeup)
        if self.dependencies.sessions.name:
            self.start_loop("sessions", self.rescuer.sessions.step, Wakeup(), RESCUE_PERIOD)
        self.start_loop("pruner", self.pruner.step, Wakeup())
        self.start_loop("vacuum", self.dependencies.store.vacuum, Wakeup())
        self.start_loop("sampler", self.sampler.step, Wakeup())
        self.start_loop("folder", self.folder.step, Wakeup())
        self.start_loop("bulks", self.bulks.step, Wakeup())
        if self.alerts is not None:
            self.start_loop("alerts", self.alerts.step, Wakeup())

    async def register(self) -> None:
        """Register before the first claim: a lease without a worker row counts as abandoned."""
        await self.heartbeat.renew_leases()
        self.heartbeat_thread = HeartbeatThread(
            self.heartbeat,
            self.options.heartbeat_period,
            self.dependencies.telemetry,
            self.dependencies.sidecar,
            self.dependencies.side_loop,
        )
        self.heartbeat_thread.start()

    def claim_again(self) -> None:
        """Claim due jobs: the store accepts heartbeats again."""
        if self.broker_runtime is None:
            self.claim_wakeup.wake()
        else:
            self.broker_runtime.on_slot_free()

    def on_slot_free(self) -> None:
        """Claim due jobs if some may be left."""
        if self.broker_runtime is not None or self.dispatcher.may_find_more:
            self.claim_again()

    def start_work(self) -> None:
        self.claiming = self.start_loop("dispatcher", self.dispatcher.step, self.claim_wakeup)

    def start_loop(
        self, name: str, step: Step, wakeup: Wakeup, pause_max: float = PAUSE_MAX
    ) -> asyncio.Task[None]:
        dependencies = self.dependencies
        task = asyncio.create_task(
            run_loop(
                name,
                step,
                wakeup,
                dependencies.randomness,
                dependencies.telemetry,
                pause_max=pause_max,
            )
        )
        self.tasks.append(task)
        return task

    def on_hint(self, hint: Hint) -> None:
        """Handle a hint from the store, in any thread."""
        wakeup = self.wakeups.get(hint)
        if wakeup is not None:
            wakeup.wake_threadsafe()
        if hint is Hint.JOBS and self.broker_runtime is not None:
            self.broker_runtime.on_jobs_due()
        if hint is Hint.CANCELS and self.heartbeat_thread is not None:
            self.heartbeat_thread.beat_now()

    @cached_property
    def wakeups(self) -> Mapping[Hint, Wakeup]:
        return {
            Hint.JOBS: self.claim_wakeup,
            Hint.SCHEDULES: self.plan_wakeup,
            Hint.EVENTS: self.route_wakeup,
            Hint.WORKERS: self.watch_wakeup,
        }

    async def plan_step(self) -> float:
        """One round; the next follows when a schedule needs it, or after the interval.

        Schedules that need planning at almost the same time are planned together.
        """
        if await self.planner.plan_due() > 0:
            return 0.0
        at = await self.dependencies.store.next_plan_at()
        now = self.dependencies.clock.now()
        wait = self.options.planner_interval if at is None else at - now
        return min(
            self.options.planner_interval.total_seconds(), max(PLAN_PAUSE, wait.total_seconds())
        )

    async def expire_step(self) -> float:
        """Runs again at once while it finds work, which may take many transactions."""
        judged = await self.planner.judge_overdue()
        continued = await self.planner.continue_cascades()
        closed = await self.planner.close_flows()
        return 0.0 if judged or continued or closed else LAPSE_PERIOD

    async def rescue_step(self) -> float:
        return 0.0 if await self.rescuer.rescue_expired() > 0 else self.rescue_period

    async def watch_step(self) -> float:
        """The rescuer watches processes too, once a round; this is for those that begin between."""
        await self.rescuer.watch_processes()
        await asyncio.sleep(WATCH_PAUSE)
        return PAUSE_MAX

    async def drain(self, grace: timedelta) -> int:
        """Claim nothing more, let running attempts finish within `grace`, then release the others.

        Returns how many attempts had to be stopped. Heartbeats continue until the end.
        """
        until = self.dependencies.clock.monotonic() + grace.total_seconds()
        self.worker.is_draining = True
        claiming = asyncio.create_task(self.stop_claiming())
        stopped = await self.worker.drain(grace)
        await self.end_claims(claiming, until)
        await self.record_faults()
        await self.write_log()
        await self.stop_heartbeat()
        await self.unregister()
        await self.write_history()
        return stopped

    async def write_history(self) -> None:
        """If the store is unavailable, the last seconds are missing in the plots."""
        if self.recorder is None:
            return
        try:
            await self.recorder.finish()
        except Unavailable as error:
            self.dependencies.telemetry.loop_failed("recorder", error)

    async def record_faults(self) -> None:
        """Store the last failures; an unavailable store loses their counts, and no job."""
        try:
            await self.faults.flush()
        except Unavailable as error:
            self.dependencies.telemetry.loop_failed("faults", error)

    async def write_log(self) -> None:
        """Store the last log lines; an unavailable store loses them, and no job."""
        try:
            await self.job_log.flush()
        except OnbeatError as error:
            self.dependencies.telemetry.loop_failed("job_log", error)

    async def stop_heartbeat(self) -> None:
        if self.heartbeat_thread is not None:
            await self.heartbeat_thread.stop()
        await asyncio.to_thread(self.dependencies.sidecar.close)

    async def end_claims(self, claiming: "asyncio.Task[None]", until: float) -> None:
        """Wait for the answer to the last claim, whose jobs are put back, until `until`.

        At least for `CLAIM_PATIENCE`. What a claim without an answer has taken is lost with this
        process.
        """
        left = until - self.dependencies.clock.monotonic()
        await asyncio.wait([claiming], timeout=max(left, CLAIM_PATIENCE))
        if claiming.done():
            await claiming
            await self.worker.wait_idle(CLAIM_PATIENCE)
        else:
            await cancel_all([claiming])

    async def stop_claiming(self) -> None:
        if self.broker_runtime is not None:
            await self.broker_runtime.stop_claiming()
        elif self.claiming is not None:
            # An interrupted claim could leave leases that this process does not know of.
            async with self.dispatcher.claiming:
                await cancel_all([self.claiming])

    async def unregister(self) -> None:
        """Delete this worker's row; if the store is unavailable, the row expires by its silence."""
        holder = None if self.broker_runtime is None else self.broker_runtime.holder_id
        ids = (
            [self.dependencies.identity.id]
            if holder is None
            else [self.dependencies.identity.id, holder]
        )
        try:
            await self.dependencies.store.forget_workers(ids)
        except Unavailable as error:
            self.dependencies.telemetry.loop_failed("drain", error)

    async def stop(self) -> None:
        """End every loop. Attempts that were not drained count as lost when the lease runs out."""
        if self.unlisten is not None:
            self.unlisten()
        if self.broker_runtime is not None:
            await self.broker_runtime.stop()
        await cancel_all(self.tasks)
        self.rescuer.close()
        await self.stop_heartbeat()
