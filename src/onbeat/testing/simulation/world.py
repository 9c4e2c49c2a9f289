"""A fleet, its clients and its store on one loop, and what happens to them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from onbeat.model.role import Role
from onbeat.testing.simulation.broker import BrokerServer
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.client import Scheduler, SimulatedClient
from onbeat.testing.simulation.clocks import ProcessClock
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.loop import SimulationLoop
from onbeat.testing.simulation.model_store import ModelStore
from onbeat.testing.simulation.options import SimulationOptions
from onbeat.testing.simulation.process import Machine
from onbeat.testing.simulation.store_link import StoreServer

MakeStore = Callable[[SimulationOptions, ProcessClock, Chance, Journal], ModelStore]

QUIET_SECONDS: Final = 0.5
"""How often it is looked whether all jobs have ended."""

RESTART_MAX: Final = 4.0


class World:
    """One history. Everything that chance decides comes from `seed` and `options`."""

    def __init__(
        self,
        seed: int,
        options: SimulationOptions,
        journal: Journal,
        loop: SimulationLoop,
        make_store: MakeStore,
    ) -> None:
        self.seed = f"{seed}"
        self.options = options
        self.journal = journal
        self.loop = loop
        self.chance = Chance(f"world {seed}")
        self.store_clock = ProcessClock(loop)
        self.store = make_store(options, self.store_clock, self.draw_from("store"), journal)
        self.server = StoreServer(self.store, loop, options, self.draw_from("server"), journal)
        self.broker: BrokerServer | None = None
        if options.broker:
            self.broker = BrokerServer(loop, options, self.draw_from("broker"), journal)
        self.fleet = self.build_fleet()
        self.callers = [self.machine(f"caller{n}", frozenset()) for n in range(options.clients)]
        self.clients: list[asyncio.Task[None]] = []
        self.healed_at = self.store_clock.now()

    def draw_from(self, name: str) -> Chance:
        return Chance(f"{name} {self.seed}")

    def build_fleet(self) -> list[Machine]:
        options = self.options
        plan = frozenset({Role.PLANNER, *({Role.DISPATCHER} if options.broker else ())})
        work = frozenset({Role.WORKER, *(() if options.broker else {Role.DISPATCHER})})
        fleet = [self.machine(f"planner{n}", plan) for n in range(options.planners)]
        fleet += [self.machine(f"worker{n}", work) for n in range(options.workers)]
        fleet += [
            self.machine(f"keeper{n}", frozenset({Role.MAINTENANCE}))
            for n in range(options.maintainers)
        ]
        if options.isolated is not None:
            fleet[options.isolated % len(fleet)].is_cut = True
        return fleet

    def machine(self, name: str, roles: frozenset[Role]) -> Machine:
        options, chance = self.options, self.chance
        skew = options.skew * (chance.around_zero())
        drift = options.drift * (chance.around_zero())
        host = f"host{chance.below(3)}"
        clock = ProcessClock(self.loop, skew, drift)
        return Machine(
            name, roles, host, clock, self.server, self.broker, self.seed, self.report_death
        )

    def is_dead(self, worker: str) -> bool:
        return any(worker in machine.dead for machine in self.fleet)

    def report_death(self, worker: str) -> None:
        """The kernels tell the processes that watch this one."""
        for machine in self.fleet:
            if machine.now is not None:
                machine.now.liveness.hear_of_death(worker)

    def note(self, what: str, about: str = "") -> None:
        self.journal.note(self.loop.at, "nemesis", what, about)

    # The history.

    async def run(self, quiet_max: float) -> None:
        """Work and faults up to the horizon, then rest until all jobs have ended.

        Violates `I2` where they have not after `quiet_max` seconds without faults.
        """
        for machine in self.fleet:
            machine.start(self.is_dead)
        self.start_clients()
        faults = [self.loop.create_task(each) for each in self.faults()]
        await asyncio.sleep(self.options.horizon)
        for fault in faults:
            fault.cancel()
        self.heal()
        await self.wait_until_quiet(quiet_max)

    def start_clients(self) -> None:
        for number, machine in enumerate(self.callers):
            machine.start(self.is_dead)
            run = machine.now
            assert run is not None
            kind = Scheduler if number == 0 else SimulatedClient
            client = kind(run, machine.name, self.seed)
            self.clients.append(self.loop.spawn(run.process, client.work()))

    async def wait_until_quiet(self, quiet_max: float) -> None:
        until = self.loop.at + quiet_max
        while self.loop.at < until:
            await asyncio.sleep(QUIET_SECONDS)
            if all(task.done() for task in self.clients) and not self.unended():
                for task in self.clients:
                    task.result()  # a mistake of a client is one of the simulation
                return
        left = [
            f"{job.id} is {job.state}, due {job.due_at:%H:%M:%S.%f}, worker {job.worker}"
            for job in self.unended()
        ]
        stuck = [
            machine.name
            for machine, task in zip(self.callers, self.clients, strict=True)
            if not task.done()
        ]
        self.journal.violate(
            "I2", f"not ended {quiet_max:.0f} s after the last fault: {left[:3]} {stuck}"
        )

    def unended(self) -> list[Any]:
        """The jobs that should have ended; schedules go on, so theirs only up to the last fault."""
        return [
            job
            for job in self.store.tables.jobs.values()
            if not job.is_final and (job.schedule_id is None or job.due_at < self.healed_at)
        ]

    # Faults.

    def faults(self) -> list[Coroutine[Any, Any, None]]:
        options = self.options
        kinds: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "crashes": self.crash_one,
            "pauses": self.pause_one,
            "stops": self.stop_one,
            "outages": partial(self.disturb, "is_down", "the store is down"),
            "read_only": partial(self.disturb, "is_read_only", "the store refuses writes"),
            "clock_steps": self.step_clock,
            "store_clock_steps": self.step_store_clock,
            "broker_outages": self.stop_broker,
        }
        return [
            self.at_some_time(act)
            for name, act in kinds.items()
            for _ in range(getattr(options, name))
        ]

    async def at_some_time(self, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await asyncio.sleep(self.options.horizon * 0.9 * self.chance.fraction())
        await act()

    def pick(self) -> Machine:
        return self.chance.one_of(self.fleet)

    def pick_worker(self) -> Machine:
        """Mostly one of those that run jobs, which have most to lose."""
        workers = [machine for machine in self.fleet if Role.WORKER in machine.roles]
        return self.chance.one_of(workers) if self.chance.happens(0.7) else self.pick()

    async def crash_one(self) -> None:
        machine = self.pick()
        machine.crash()
        await asyncio.sleep(RESTART_MAX * self.chance.fraction())
        machine.start(self.is_dead)

    async def pause_one(self) -> None:
        """Up to three leases, so that some attempts outlive theirs."""
        run = self.pick_worker().now
        if run is None:
            return
        seconds = self.options.lease * 3 * self.chance.fraction()
        run.note("is paused", f"for {seconds:.2f} s")
        self.loop.pause(run.process)
        self.journal.halt(run.id, self.loop.at, self.loop.at + seconds)
        await asyncio.sleep(seconds)
        run.note("goes on")
        self.loop.resume(run.process)

    async def stop_one(self) -> None:
        machine = self.pick()
        run = machine.now
        if run is None:
            return
        run.stop(grace=3 * self.chance.fraction())
        await asyncio.sleep(RESTART_MAX * self.chance.fraction())
        run.die("is killed after its stop")
        machine.start(self.is_dead)

    async def disturb(self, name: str, what: str) -> None:
        seconds = self.options.outage_max * self.chance.fraction()
        self.note(what, f"for {seconds:.2f} s")
        setattr(self.server, name, True)
        await asyncio.sleep(seconds)
        setattr(self.server, name, False)
        self.note("the store is well")

    async def step_clock(self) -> None:
        machine = self.pick()
        seconds = self.draw_step()
        self.journal.note(self.loop.at, machine.name, "clock is set", f"by {seconds:.1f} s")
        machine.clock.step(seconds)

    async def step_store_clock(self) -> None:
        seconds = self.draw_step() / 600
        self.note("the store's clock is set", f"by {seconds:.1f} s")
        self.store_clock.step(seconds)
        self.journal.store_steps += abs(seconds)

    async def stop_broker(self) -> None:
        if self.broker is None:
            return
        self.note("the broker is down")
        self.broker.stop()
        await asyncio.sleep(self.options.outage_max * self.chance.fraction())
        self.broker.is_down = False
        self.note("the broker is well")

    def draw_step(self) -> float:
        sign = 1 if self.chance.happens(0.5) else -1
        return sign * 3600 * self.chance.fraction()

    def heal(self) -> None:
        """Undo everything; what is cut off for good stays so."""
        self.note("all faults end")
        self.server.heal()
        if self.broker is not None:
            self.broker.is_healed, self.broker.is_down = True, False
        self.healed_at = self.store_clock.now()
        for machine in self.fleet:
            run = machine.now
            if run is not None and run.is_stopping:
                run.die("is killed after its stop")
            elif run is not None and run.process.is_paused:
                self.loop.resume(run.process)
            machine.start(self.is_dead)
