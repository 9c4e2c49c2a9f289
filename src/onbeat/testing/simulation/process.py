"""One process of a fleet: the real engine on a simulated machine, to be started and killed."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from datetime import timedelta
from typing import Any

from onbeat.app.brokers import build_broker_setup
from onbeat.engine.broker.remote import RemoteTasks
from onbeat.engine.broker.setup import BrokerSetup
from onbeat.engine.clocks import ClockKeeper, StoreClock
from onbeat.engine.dependencies import Dependencies
from onbeat.engine.options import RuntimeOptions
from onbeat.engine.runtime import Runtime
from onbeat.model.errors import OnbeatError, Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.role import Role
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import WorkerRecord
from onbeat.operations.context import OperationContext
from onbeat.ports.side_loop import Main
from onbeat.recurrence import compile_spec
from onbeat.telemetry.composite import NullTelemetry
from onbeat.testing.simulation.broker import BrokerServer, ModelBroker
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.clocks import ProcessClock, ProcessRandomness
from onbeat.testing.simulation.handlers import LANES, ModelRunner
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.loop import Process, SimulationLoop
from onbeat.testing.simulation.options import SimulationOptions
from onbeat.testing.simulation.store_link import StoreLink, StoreServer

RESTART_SECONDS = 0.3
REMOTE_LEASE = timedelta(minutes=1)


class SideTask:
    """Implements `SideLoop`: a task beside the others, as their loop is simulated too."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None

    def start(self, main: Main) -> None:
        self.task = asyncio.get_running_loop().create_task(main())

    async def join(self) -> None:
        if self.task is not None:
            await asyncio.wait([self.task])


class JournalTelemetry(NullTelemetry):
    """Notes what loops report, so that a failing history shows it."""

    def __init__(self, loop: SimulationLoop, journal: Journal, name: str) -> None:
        self.loop = loop
        self.journal = journal
        self.name = name

    def loop_failed(self, loop: str, error: BaseException) -> None:
        self.journal.note(self.loop.at, self.name, "loop failed", f"{loop}: {error!r}"[:160])
        if not isinstance(error, OnbeatError):
            self.journal.violate("engine", f"{self.name}, {loop}: {error!r}")

    def clock_stepped(self, seconds: float) -> None:
        self.journal.note(self.loop.at, self.name, "clock stepped", f"{seconds:.3f}")


class HostView:
    """Implements `Liveness`: the kernel of the worker's own machine knows whether it has died.

    Processes that have just begun are found by the next round of the rescuer.
    """

    tells = False

    def __init__(self, host: str, is_dead: Callable[[str], bool]) -> None:
        self.host = host
        self.is_dead = is_dead
        self.watched: Collection[str] = ()
        self.on_end: Callable[[], None] | None = None

    def is_gone(self, worker: WorkerRecord) -> bool:
        return worker.host == self.host and self.is_dead(worker.id)

    def watch(self, workers: Iterable[WorkerRecord], on_end: Callable[[], None]) -> None:
        self.watched = {worker.id for worker in workers if worker.host == self.host}
        self.on_end = on_end

    def hear_of_death(self, worker: str) -> None:
        if worker in self.watched and self.on_end is not None:
            self.on_end()


class Machine:
    """Where one process of the fleet lives: its clock stays when the process is started again."""

    def __init__(
        self,
        name: str,
        roles: frozenset[Role],
        host: str,
        clock: ProcessClock,
        server: StoreServer,
        broker: BrokerServer | None,
        seed: str,
        on_death: Callable[[str], None],
    ) -> None:
        self.name = name
        self.on_death = on_death
        self.roles = roles
        self.host = host
        self.clock = clock
        self.server = server
        self.loop = server.loop
        self.options: SimulationOptions = server.options
        self.journal = server.journal
        self.broker = broker
        self.seed = seed
        self.is_cut = False
        self.runs: list[Incarnation] = []
        self.dead: set[str] = set()

    @property
    def now(self) -> "Incarnation | None":
        """The process that runs here; None between two."""
        return self.runs[-1] if self.runs and not self.runs[-1].process.is_dead else None

    def start(self, is_dead: Callable[[str], bool]) -> None:
        """Start a new process, with nothing left of the one before."""
        if self.now is None:
            self.runs.append(Incarnation(self, len(self.runs), is_dead))

    def crash(self) -> None:
        run = self.now
        if run is not None:
            run.die("is killed")


class Incarnation:
    """One run of a process, from its start to its end."""

    def __init__(self, machine: Machine, number: int, is_dead: Callable[[str], bool]) -> None:
        self.machine = machine
        self.name = f"{machine.name}.{number}"
        loop = machine.loop
        self.process: Process = loop.new_process(self.name)
        self.link = StoreLink(machine.server, self.process)
        self.link.is_cut = machine.is_cut
        seed = f"{machine.seed} {self.name}"
        self.clock = StoreClock(machine.clock)
        self.chanceness = ProcessRandomness(seed, machine.clock)
        self.chance = Chance(f"{seed} handlers")
        self.telemetry = JournalTelemetry(loop, machine.journal, self.name)
        self.liveness = HostView(machine.host, is_dead)
        self.runtime: Runtime | None = None
        self.is_stopping = False
        self.note("starts")
        machine.journal.lives[self.id] = loop.at
        self.task = loop.spawn(self.process, self.main())

    @property
    def id(self) -> str:
        return f"w-{self.name}"

    @property
    def context(self) -> OperationContext:
        return OperationContext(
            store=self.link.store,
            clock=self.clock,
            randomness=self.chanceness,
            horizon=timedelta(seconds=4),
        )

    def note(self, what: str, about: str = "") -> None:
        self.machine.journal.note(self.machine.loop.at, self.name, what, about)

    async def main(self) -> None:
        """Start the engine; while the store is away, try again, as a supervisor would."""
        while True:
            try:
                await self.refresh_clock()
                self.runtime = self.build_runtime()
                await self.runtime.start()
            except Unavailable:
                if self.runtime is not None:
                    await self.runtime.stop()
                await asyncio.sleep(RESTART_SECONDS)
            else:
                return

    async def refresh_clock(self) -> None:
        """As every use of a `Backend` does."""
        await ClockKeeper(self.clock, self.link.store, self.telemetry).refresh()

    def build_runtime(self) -> Runtime:
        machine = self.machine
        options = machine.options
        keep = timedelta(seconds=options.keep) if options.keep else timedelta(days=7)
        return Runtime(
            self.dependencies(),
            RuntimeOptions(
                roles=machine.roles,
                concurrency=options.concurrency,
                prefetch=options.prefetch,
                lease=options.lease_span,
                planner_interval=timedelta(seconds=2),
                horizon=timedelta(seconds=4),
                keep=keep,
                keep_failed=keep,
            ),
            self.broker_setup(),
        )

    def broker_setup(self) -> BrokerSetup | None:
        server = self.machine.broker
        if server is None:
            return None
        broker = ModelBroker(server, self.process)
        no_remote_tasks = RemoteTasks(frozenset(), frozenset[str])
        return build_broker_setup(broker, self.context, no_remote_tasks, REMOTE_LEASE)

    def dependencies(self) -> Dependencies:
        machine = self.machine
        runner = ModelRunner(
            machine.loop,
            machine.options,
            self.chance,
            machine.journal,
            self.name,
            machine.server.store.clock.now,
            lambda: machine.server.is_healed,
        )
        return Dependencies(
            store=self.link.store,
            clock=self.clock,
            randomness=self.chanceness,
            liveness=self.liveness,
            telemetry=self.telemetry,
            runners={HandlerTarget: runner},
            lanes=lambda: LANES,
            identity=WorkerRecord(
                id=WorkerId(self.id),
                host=machine.host,
                pid=len(machine.runs),
                started_at=self.clock.now(),
            ),
            compile=compile_spec,
            side_loop=SideTask,
        )

    def die(self, how: str) -> None:
        """SIGKILL, or the end after a stop."""
        if self.process.is_dead:
            return
        self.note(how)
        self.machine.loop.kill(self.process)
        self.machine.dead.add(self.id)
        self.machine.on_death(self.id)
        self.machine.journal.halt(self.id, self.machine.loop.at)
        self.link.leave()
        if self.machine.broker is not None:
            self.machine.broker.forget(self.process)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.machine.loop.spawn(self.process, work)

    def stop(self, grace: float) -> None:
        """SIGTERM: drain, and then end."""
        self.is_stopping = True
        self.machine.journal.halt(self.id, self.machine.loop.at)
        self.note("is stopped", f"within {grace:.2f} s")
        self.spawn(self.drain(grace))

    async def drain(self, grace: float) -> None:
        runtime = self.runtime
        if runtime is not None:
            try:
                await runtime.drain(timedelta(seconds=grace))
            finally:
                await runtime.stop()
        self.die("ends")
