"""The loops of one process: opens with them all, drains on the way out."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import msgspec

from onbeat.engine.brokered import Brokerage, Brokered, Surroundings, cancelled
from onbeat.engine.clocks import ClockKeeper
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.keeper import Alarm, Step, keep
from onbeat.engine.planner import Planner
from onbeat.engine.pruner import Pruner
from onbeat.engine.renewer import Renewer, RenewerThread
from onbeat.engine.replanner import Replanner
from onbeat.engine.rescuer import Rescuer
from onbeat.engine.worker import Runners, Worker
from onbeat.model.errors import Unavailable
from onbeat.model.role import Role
from onbeat.model.worker import Worker as WorkerRow
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.liveness import Liveness
from onbeat.ports.store import Hint, Store
from onbeat.ports.target import Lanes
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.transport import Transport
from onbeat.rules.planning import Read

LAPSE_PERIOD = 1.0
RESCUE_PERIOD = 1.0
PLAN_PAUSE = 0.25
BEATS_PER_LEASE = 4


class RuntimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the loops of one process behave."""

    roles: frozenset[Role] = frozenset(Role)
    concurrency: int = 100
    prefetch: int = 100
    queues: tuple[str, ...] | None = None
    lease: timedelta = timedelta(seconds=15)
    planner_interval: timedelta = timedelta(seconds=20)
    horizon: timedelta = timedelta(minutes=10)
    keep: timedelta = timedelta(days=7)
    keep_failed: timedelta = timedelta(days=30)


class World(msgspec.Struct, frozen=True, kw_only=True):
    """What the loops are given of the world outside.

    With a `brokerage` jobs go over its broker to workers anywhere, else over `transport`.
    """

    store: Store
    clock: Clock
    chance: Chance
    liveness: Liveness
    telemetry: Telemetry
    runners: Runners
    lanes: Lanes
    identity: WorkerRow
    read: Read
    transport: Callable[[Callable[[], int]], Transport]
    brokerage: Brokerage | None = None


class Runtime:
    """`start`, and later `drain` and `stop`, each in the same event loop."""

    def __init__(self, world: World, options: RuntimeOptions) -> None:
        self.world = world
        self.options = options
        self.planner = Planner(
            world.store,
            world.clock,
            world.chance,
            world.telemetry,
            options.horizon,
            world.read,
        )
        self.replanner = Replanner(
            world.store,
            world.clock,
            world.chance,
            world.telemetry,
            options.horizon,
            world.read,
        )
        self.worker = Worker(
            world.store,
            world.runners,
            world.clock,
            world.chance,
            world.telemetry,
            concurrency=options.concurrency,
            prefetch=options.prefetch,
        )
        self.transport = world.transport(self.worker.capacity)
        self.dispatcher = Dispatcher(
            world.store,
            self.transport,
            world.clock,
            world.identity.id,
            world.lanes,
            options.queues,
        )
        self.rescuer = Rescuer(
            world.store, world.store, world.clock, world.chance, world.liveness, world.telemetry
        )
        self.pruner = Pruner(
            world.store,
            world.clock,
            world.telemetry,
            keep=options.keep,
            keep_failed=options.keep_failed,
        )
        self.renewer = Renewer(world.store, world.store, world.clock, self.row, self.worker)
        self.clocks = ClockKeeper(world.clock, world.store, world.telemetry)
        self.beats: RenewerThread | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.claiming: asyncio.Task[None] | None = None
        self.unlisten: Callable[[], None] = lambda: None
        self.brokered = None if world.brokerage is None else self.over(world.brokerage)

    def over(self, brokerage: Brokerage) -> Brokered:
        world, options = self.world, self.options
        around = Surroundings(
            store=world.store,
            clock=world.clock,
            chance=world.chance,
            telemetry=world.telemetry,
            lanes=world.lanes,
            identity=world.identity,
            roles=options.roles,
            queues=options.queues,
            beat_period=self.beat_period,
            keep=self.keep,
        )
        return Brokered(brokerage, around, self.worker, self.dispatcher)

    @property
    def beat_period(self) -> float:
        """Seconds between two beats."""
        return self.options.lease.total_seconds() / BEATS_PER_LEASE

    def row(self) -> WorkerRow:
        """This process as others see it."""
        return msgspec.structs.replace(
            self.world.identity,
            concurrency=self.options.concurrency,
            queues=self.options.queues,
            lanes=tuple(sorted(self.world.lanes())),
            lease_seconds=self.options.lease.total_seconds(),
            running=len(self.worker.running),
        )

    async def start(self) -> None:
        """Begin all loops of the process's roles. The store must be open."""
        self.plan_alarm, self.claim_alarm, self.rescue_alarm = Alarm(), Alarm(), Alarm()
        self.unlisten = self.world.store.listen(self.heard)
        self.keep("clock", self.clocks.step, Alarm())
        roles = self.options.roles
        if Role.PLANNER in roles:
            self.keep("planner", self.plan_step, self.plan_alarm)
            self.keep("replanner", self.replanner.step, Alarm())
            self.keep("lapser", self.lapse_step, Alarm())
        if Role.SUPERVISOR in roles:
            self.keep("rescuer", self.rescue_step, self.rescue_alarm)
            self.keep("pruner", self.pruner.step, Alarm())
        if self.brokered is not None:
            if Role.WORKER in roles:
                await self.register()
                self.tasks.append(asyncio.create_task(self.consume()))
            await self.brokered.start()
        elif {Role.DISPATCHER, Role.WORKER} <= roles:
            await self.register()
            self.start_work()

    async def register(self) -> None:
        """Before the first claim: a lease whose worker has no row counts as abandoned."""
        await self.renewer.renew_held()
        self.beats = RenewerThread(self.renewer, self.beat_period, self.world.telemetry)
        self.beats.start()

    def start_work(self) -> None:
        self.worker.freed = self.claim_alarm.ring
        self.claiming = self.keep("dispatcher", self.dispatcher.step, self.claim_alarm)
        self.tasks.append(asyncio.create_task(self.consume()))

    def keep(self, name: str, step: Step, alarm: Alarm) -> asyncio.Task[None]:
        world = self.world
        task = asyncio.create_task(keep(name, step, alarm, world.chance, world.telemetry))
        self.tasks.append(task)
        return task

    async def consume(self) -> None:
        while True:
            self.worker.accept(await self.transport.receive())

    def heard(self, hint: Hint) -> None:
        """A hint from the store, in whatever thread it comes."""
        match hint:
            case Hint.JOBS:
                self.claim_alarm.ring_from_anywhere()
                if self.brokered is not None:
                    self.brokered.jobs_may_be_due()
            case Hint.SCHEDULES:
                self.plan_alarm.ring_from_anywhere()
            case Hint.CANCELS:
                if self.beats is not None:
                    self.beats.beat_soon()
            case Hint.ENDED:
                return

    async def plan_step(self) -> float:
        """One round; the next comes when a schedule needs it, at the latest after the interval.

        Many schedules that need planning at almost the same time are taken together.
        """
        if await self.planner.plan_due() > 0:
            return 0.0
        at = await self.world.store.next_plan_at()
        now = self.world.clock.now()
        wait = self.options.planner_interval if at is None else at - now
        return min(
            self.options.planner_interval.total_seconds(), max(PLAN_PAUSE, wait.total_seconds())
        )

    async def lapse_step(self) -> float:
        return 0.0 if await self.planner.judge_lapsed() > 0 else LAPSE_PERIOD

    async def rescue_step(self) -> float:
        return 0.0 if await self.rescuer.rescue_expired() > 0 else RESCUE_PERIOD

    async def drain(self, grace: timedelta) -> int:
        """Claim nothing more; running work may finish for `grace`, then it is handed back.

        Returns how many attempts had to be stopped. Beats go on until the end.
        """
        self.worker.is_draining = True
        await self.stop_claiming()
        stopped = await self.worker.drain(grace)
        if self.beats is not None:
            await self.beats.stop()
        await self.forget()
        return stopped

    async def stop_claiming(self) -> None:
        if self.brokered is not None:
            await self.brokered.stop_claiming()
        elif self.claiming is not None:
            # A claim cut off half-way would leave leases that nobody here knows of.
            async with self.dispatcher.claiming:
                await cancelled([self.claiming])

    async def forget(self) -> None:
        """Take this worker's row away; a store that is away learns by its silence."""
        holder = None if self.brokered is None else self.brokered.holder
        ids = [self.world.identity.id] if holder is None else [self.world.identity.id, holder]
        try:
            await self.world.store.forget_workers(ids)
        except Unavailable as error:
            self.world.telemetry.loop_failed("drain", error)

    async def stop(self) -> None:
        """End every loop. What was not drained counts as lost when the lease runs out."""
        self.unlisten()
        if self.brokered is not None:
            await self.brokered.stop()
        await cancelled(self.tasks)
        if self.beats is not None:
            await self.beats.stop()
