"""The processes under attack: each role of `onbeat up` several times over one store."""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from chaos.clocks import Clock
from conditions import eventually
from free_ports import free_port

PROGRAM = Path(__file__).with_name("program.py")
LEASE = 3.0
TEND_EVERY = 0.2
GRACE = "1s"  # shorter than the longest jobs, so a drain hands them back

FULL = {
    "api": 2,
    "planner": 2,
    "dispatcher,worker": 3,
    "maintenance": 2,
}
DRAIN_WITHIN = 60.0
SMALL = {"api": 1, "planner,maintenance": 1, "dispatcher,worker": 2}


class Member:
    """One place in the fleet; whoever fills it has a name of its own at each life."""

    def __init__(self, roles: str, number: int) -> None:
        self.roles = roles
        self.kind = f"{roles.rpartition(',')[2]}-{number}"
        self.port = free_port()
        self.lives = itertools.count(1)
        self.name = ""
        self.store: str | None = None
        self.clock: Clock | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, place: Path, broker: str | None) -> None:
        self.name = f"{self.kind}.{next(self.lives)}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ONBEAT_")}
        command = [
            sys.executable, "-m", "onbeat", "up", "program.py", "--roles", self.roles,
            "--store", self.store or (place / "store").read_text(), "--port", str(self.port),
            "--worker-lease", f"{LEASE}s", "--planner-interval", "1s", "--planner-horizon", "3s",
            "--concurrency", "10", "--drain-timeout", GRACE,
            *(("--transport", broker) if broker is not None else ()),
        ]  # fmt: skip
        with (place / f"{self.kind}.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=place,
                env={
                    **kept,
                    **(self.clock.environment if self.clock is not None else {}),
                    "CHAOS_NAME": self.name,
                    "PYTHONPATH": str(PROGRAM.parent.parent),
                },
                stdout=log,
                stderr=log,
            )

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)


class Fleet:
    """Starts again whatever has died, as an init system would, and writes down when it did."""

    def __init__(self, place: Path, sizes: dict[str, int], broker: str | None = None) -> None:
        self.place = place
        self.broker = broker
        self.members = [Member(roles, n) for roles, size in sizes.items() for n in range(size)]
        self.kills: list[tuple[str, float]] = []

    def of(self, role: str) -> list[Member]:
        return [member for member in self.members if role in member.roles.split(",")]

    @contextlib.asynccontextmanager
    async def running(self):
        (self.place / "program.py").write_text(PROGRAM.read_text())
        for member in self.members:
            member.start(self.place, self.broker)
        tending = asyncio.create_task(self.tend())
        try:
            yield self
            if tending.done():
                tending.result()
        finally:
            tending.cancel()
            await asyncio.gather(tending, return_exceptions=True)
            await asyncio.to_thread(self.stop)

    async def tend(self) -> None:
        while True:
            for member in self.members:
                if not member.is_up:
                    self.kills.append((member.name, time.monotonic()))
                    member.start(self.place, self.broker)
            await asyncio.sleep(TEND_EVERY)

    def kill(self, member: Member) -> None:
        member.signal(signal.SIGKILL)

    async def drained(self, member: Member) -> None:
        """Ask it to end, and return when another life has begun in its place."""
        name = member.name
        member.signal(signal.SIGTERM)
        await eventually(lambda: member.name != name, f"{name} has drained", DRAIN_WITHIN)

    def stop(self) -> None:
        for member in self.members:
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGTERM)
        for member in self.members:
            try:
                member.process.wait(20)
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()
