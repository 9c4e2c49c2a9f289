"""Processes of several versions on one store, and a caller that goes on meanwhile."""

import asyncio
import contextlib
import itertools
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp

from conditions import eventually
from crash.invariants import lines
from free_ports import free_port
from upgrade.versions import environment

PROGRAM: Final = Path(__file__).with_name("program.py")
SIZE: Final = 3
PACE: Final = 0.03
PATIENCE: Final = 5.0  # seconds for an answer


class Fleet:
    """Places for processes, each with a port; in each runs one version at a time."""

    def __init__(self, place: Path, size: int = SIZE) -> None:
        self.place = place
        self.ports = [free_port() for _ in range(size)]
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.lives = itertools.count(1)
        (place / "program.py").write_text(PROGRAM.read_text())

    def start(self, number: int, source: Path) -> None:
        command = [
            sys.executable, "-m", "onbeat", "up", "program.py", "--port", str(self.ports[number]),
            "--store", (self.place / "store").read_text(),
        ]  # fmt: skip
        with (self.place / f"life-{next(self.lives)}.log").open("wb") as log:
            self.running[number] = subprocess.Popen(
                command, cwd=self.place, env=environment(source), stdout=log, stderr=log
            )

    async def wait_until_ready(self, number: int) -> None:
        async def answers() -> bool:
            assert self.running[number].poll() is None, self.logs()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", self.ports[number])
                writer.close()
                return True
            return False

        await eventually(answers, f"process {number} answers")

    async def stop(self, number: int) -> None:
        """As an operator does; it has to drain."""
        process = self.running.pop(number)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 60) == 0, self.logs()

    async def wait_for_work(self, jobs: int = 20) -> None:
        done = len(lines(self.place / "ended"))
        await eventually(lambda: len(lines(self.place / "ended")) >= done + jobs, "jobs run")

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.place.glob("life-*.log")))

    async def close(self) -> None:
        for number in list(self.running):
            self.running.pop(number).kill()


def refusal(source: Path, place: Path, *words: str) -> tuple[int, list[str]]:
    """The exit code of the command of a version, and the lines that it has written."""
    command = [sys.executable, "-m", "onbeat", *words, "--store", (place / "store").read_text()]
    done = subprocess.run(
        command, cwd=place, env=environment(source), capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).splitlines()


@contextlib.asynccontextmanager
async def load(fleet: Fleet) -> AsyncIterator[None]:
    """Jobs are sent until the block ends; what is accepted is written down, what is not is not."""
    accepted = (fleet.place / "accepted").open("ab", buffering=0)
    chance = random.Random(1)

    async def send() -> None:
        url = f"http://127.0.0.1:{chance.choice(fleet.ports)}/api/jobs"
        body = {"task": "work", "args": [chance.choice((0.0, 0.02, 0.3))]}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.post(url, json=body) as answer:
                if answer.status < 300:
                    accepted.write(((await answer.json())["id"] + "\n").encode())

    async def go_on() -> None:
        while not is_over.is_set():
            await send()
            await asyncio.sleep(PACE)

    is_over = asyncio.Event()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE)) as session:
        sending = asyncio.create_task(go_on())
        try:
            yield
        finally:
            is_over.set()
            await sending
            accepted.close()
