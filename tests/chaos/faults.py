"""What is done to the fleet and to its store, by chance and one after another."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from chaos.client import Client
from chaos.fleet import LEASE, Fleet
from chaos.ground import Ground
from chaos.journals import runs
from conditions import eventually
from transports.proxy import Proxy

Fault = Callable[[], Awaitable[None]]
RECOVERY: Final = 90.0  # seconds, on a busy machine, until the fleet works again
LONGER: Final = LEASE * 1.7  # than a lease


class Attack:
    def __init__(
        self,
        fleet: Fleet,
        store: Ground,
        proxies: list[Proxy],
        wires: list[Proxy],
        client: Client,
        chance: random.Random,
    ) -> None:
        self.fleet = fleet
        self.store = store
        self.proxies = proxies
        self.wires = wires
        self.client = client
        self.chance = chance
        self.told: list[str] = []

    def faults(self) -> dict[str, Fault]:
        """By name: every one of them heals what it did."""
        kills = {f"kill {role}": self.killing(role) for role in ROLES}
        freezes = {f"freeze {role}": self.freezing(role) for role in ("worker", "planner")}
        ground = {name: self.on_store(name) for name in self.store.faults}
        cuts = {"cut off worker": self.cut_off} if self.wires else {}
        return {
            **kills,
            **freezes,
            **ground,
            **cuts,
            "kill all": self.kill_all,
            "lose answers": self.lose_answers,
            "poison": self.poison,
        }

    def killing(self, role: str) -> Fault:
        async def kill() -> None:
            self.fleet.kill(self.chance.choice(self.fleet.of(role)))

        return kill

    def freezing(self, role: str) -> Fault:
        async def freeze() -> None:
            member = self.chance.choice(self.fleet.of(role))
            member.signal(signal.SIGSTOP)
            await asyncio.sleep(LONGER)
            member.signal(signal.SIGCONT)

        return freeze

    def on_store(self, name: str) -> Fault:
        return lambda: getattr(self.store, name)(LONGER)

    async def cut_off(self) -> None:
        """The network between a worker and its store passes nothing on, and tells nobody."""
        wire = self.chance.choice(self.wires)
        wire.silence()
        await asyncio.sleep(LONGER)
        await wire.reconnect()

    async def kill_all(self) -> None:
        for member in self.fleet.members:
            self.fleet.kill(member)

    async def lose_answers(self) -> None:
        """Requests get through, and what comes back does not."""
        for _ in range(10):
            for proxy in self.proxies:
                await proxy.drop()
            await asyncio.sleep(0.2 * self.chance.random())

    async def poison(self) -> None:
        await self.client.ask("poison", [])

    def is_busy(self) -> bool:
        """Whether a job runs in a process that lives: then a kill meets something."""
        names = {member.name for member in self.fleet.of("worker") if member.is_up}
        return any(run.ended is None and run.process in names for run in runs(self.fleet.place))

    async def go_on(self, seconds: float, only: Collection[str] = ()) -> None:
        """All faults, or `only` these, in an order of chance: one whole round at least."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        faults = self.faults()
        names = sorted(only or faults)
        while not self.told or loop.time() < end:
            for name in self.chance.sample(names, len(names)):
                if len(self.told) >= len(names) and loop.time() >= end:
                    return
                await eventually(self.is_busy, "jobs run again after the last fault", RECOVERY)
                await asyncio.sleep(self.chance.uniform(0.0, 1.0))
                self.told.append(name)
                await faults[name]()


ROLES: Final = ("api", "planner", "worker", "maintenance")
