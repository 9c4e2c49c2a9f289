"""What is done to the fleet, to its store and to its broker, by chance."""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from chaos import brokers
from chaos.brokers import Broker
from chaos.client import Client
from chaos.fleet import LEASE, Fleet, Member
from chaos.ground import Ground
from chaos.journals import journal, runs
from conditions import eventually
from transports.proxy import Proxy

Fault = Callable[[], Awaitable[None]]
RECOVERY: Final = 90.0  # seconds, on a busy machine, until the fleet works again
LONGER: Final = LEASE * 1.7  # than a lease
DELAY_MAX: Final = 0.3  # of a slow network, for whatever passes
BOTH: Final = 0.3  # how often two faults come together
ROLES: Final = ("api", "planner", "worker", "maintenance")


@dataclass
class Attack:
    """`proxies` lie before the APIs, `wires` between each worker and the store."""

    fleet: Fleet
    store: Ground
    broker: Broker | None
    proxies: list[Proxy]
    wires: list[Proxy]
    client: Client
    chance: random.Random
    told: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def faults(self) -> dict[str, Fault]:
        """By name: every one of them heals what it did."""
        return {**self.faults_of_fleet(), **self.faults_around()}

    def faults_of_fleet(self) -> dict[str, Fault]:
        """What processes meet."""
        kills = {f"kill {role}": self.killing(role) for role in ROLES}
        freezes = {f"freeze {role}": self.freezing(role) for role in ROLES}
        return {
            **kills,
            **freezes,
            "kill all": self.kill_all,
            "stop one after another": self.stop_rolling,
            "stop twice": self.stop_twice,
            "poison": self.poison,
        }

    def faults_around(self) -> dict[str, Fault]:
        """What the store, the broker and the network meet; two of these do not come together."""
        store = {name: self.on_store(name) for name in self.store.faults}
        hints = {} if self.broker is None else {n: self.on_broker(n) for n in brokers.FAULTS}
        network = {
            "cut off worker": lambda: self.on_wire(Proxy.silence),
            "lose requests to store": lambda: self.on_wire(lambda w: w.silence(answers=False)),
            "lose answers of store": lambda: self.on_wire(lambda w: w.silence(requests=False)),
            "slow store": lambda: self.on_wire(self.slow),
            "reset connections to store": self.reset_wires,
        }
        return {
            **store,
            **hints,
            **(network if self.wires else {}),
            "lose answers": self.lose_answers,
        }

    def killing(self, role: str) -> Fault:
        async def kill() -> None:
            self.kill(self.chance.choice(self.fleet.of(role)))

        return kill

    def kill(self, member: Member) -> None:
        self.fleet.kill(member)
        self.counts["kills"] += 1

    def freezing(self, role: str) -> Fault:
        async def freeze() -> None:
            member = self.chance.choice(self.fleet.of(role))
            member.signal(signal.SIGSTOP)
            await asyncio.sleep(LONGER)
            member.signal(signal.SIGCONT)

        return freeze

    async def kill_all(self) -> None:
        for member in self.fleet.members:
            self.kill(member)

    async def stop_rolling(self) -> None:
        """As a deployment does: each is asked to end, and the next when it is there again."""
        for member in self.fleet.members:
            await self.fleet.drained(member)

    async def stop_twice(self) -> None:
        """Somebody who does not want to wait."""
        member = self.chance.choice(self.fleet.of("worker"))
        member.signal(signal.SIGTERM)
        await asyncio.sleep(self.chance.uniform(0.0, 0.5))
        await self.fleet.drained(member)

    async def poison(self) -> None:
        await self.client.ask("poison", [])

    def on_store(self, name: str) -> Fault:
        async def attack() -> None:
            await getattr(self.store, name)(LONGER)
            self.counts["restarts"] += name in {"restart", "kill"}

        return attack

    def on_broker(self, name: str) -> Fault:
        async def attack() -> None:
            await getattr(self.broker, name)(LONGER)
            self.counts["restarts"] += name == "kill_broker"

        return attack

    async def on_wire(self, disturb: Callable[[Proxy], None]) -> None:
        """The network between a worker and its store; nobody is told."""
        wire = self.chance.choice(self.wires)
        disturb(wire)
        await asyncio.sleep(LONGER)
        await wire.reconnect()
        self.counts["partitions"] += 1

    def slow(self, wire: Proxy) -> None:
        wire.delay = self.chance.uniform(0.02, DELAY_MAX)

    async def reset_wires(self) -> None:
        """All connections of all workers, again and again, in the middle of what they carry."""
        for _ in range(10):
            for wire in self.wires:
                await wire.reset()
            await asyncio.sleep(0.2 * self.chance.random())
        self.counts["partitions"] += 1

    async def lose_answers(self) -> None:
        """Requests get through, and what comes back does not."""
        for _ in range(10):
            for proxy in self.proxies:
                await proxy.drop()
            await asyncio.sleep(0.2 * self.chance.random())
        self.counts["partitions"] += 1

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
            waiting = self.chance.sample(names, len(names))
            while waiting:
                if len(self.told) >= len(names) and loop.time() >= end:
                    return
                await eventually(self.is_busy, "jobs run again after the last fault", RECOVERY)
                await asyncio.sleep(self.chance.uniform(0.0, 1.0))
                await asyncio.gather(*(self.do(name, faults[name]) for name in self.next(waiting)))

    def next(self, waiting: list[str]) -> list[str]:
        """The first that waits; now and then with another, of which one is around the fleet."""
        first = waiting.pop()
        inner = self.faults_of_fleet().keys()
        others = [name for name in waiting if (name in inner) != (first in inner)]
        if not others or self.chance.random() >= BOTH:
            return [first]
        waiting.remove(others[0])
        return [first, others[0]]

    async def do(self, name: str, fault: Fault) -> None:
        self.told.append(name)
        journal(self.fleet.place / "faults", "begin", time.monotonic(), name)
        await fault()
        journal(self.fleet.place / "faults", "end", time.monotonic(), name)
