"""The program as an operator runs it: `credits`, and the service that `credits up` becomes."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from credits.app import build
from credits.status import Status, status_of
from onbeat import NotFound, Onbeat, Unavailable
from world import World

PATIENCE = 40


def command(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "credits", *arguments],
        env=environment(world),
        capture_output=True,
        text=True,
        check=False,
    )


def environment(world: World) -> dict[str, str]:
    url = world.config.database
    parts = urlsplit(url)
    connection = {
        "sqlite": ("sqlite3", f"file:{url.removeprefix('sqlite:///')}?cache=shared"),
        "mysql": ("mysql", f"root@tcp({parts.hostname}:{parts.port})/{parts.path[1:]}"),
    }[parts.scheme]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "DB_TYPE": connection[0],
        "DB_CONNECTION": connection[1],
        "UPLOADS_DIR": str(world.config.uploads),
        "CUSTOM_CREDIT_DOMAINS": "@a.com:50",
    }


class Service:
    def __init__(self, world: World) -> None:
        self.world = world
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        options = ("--port", str(self.port), "--worker-lease", "2s", "--log-level", "warning")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "credits", "up", *options], env=environment(world)
        )

    def status(self) -> Status:
        """As another process sees it."""

        async def asked() -> Status:
            program = build(self.world.config)
            try:
                return await status_of(program, datetime.now(UTC))
            finally:
                await program.beat.aclose()

        result: Status = self.world.finish(asked())
        return result

    def wait(self, condition: Callable[[Status], object]) -> Status:
        """The first status that meets the condition."""
        result: Status = self.eventually(
            lambda: status if condition(status := self.status()) else None
        )
        return result

    def trigger(self) -> None:
        """Run the top-up by hand, through the API of the service."""

        def triggered() -> bool:
            with Onbeat(f"http://127.0.0.1:{self.port}") as remote:
                try:
                    remote.schedules.trigger("credits.monthly_top_up")
                except (Unavailable, NotFound):
                    return False
                return True

        self.eventually(triggered)

    def states(self, task: str) -> list[str]:
        """Of its jobs."""
        with Onbeat(f"http://127.0.0.1:{self.port}") as remote:
            return [job.state for job in remote.jobs.list(task=task, limit=100)]

    def eventually(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (answer := condition()):
            assert time.monotonic() < deadline, "it does not happen"
            assert self.process.poll() is None, "the service has ended"
            time.sleep(0.05)
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


@contextmanager
def running(world: World) -> Iterator[Service]:
    service = Service(world)
    try:
        yield service
        if service.process.poll() is None:
            assert service.stop() == 0
    finally:
        if service.process.poll() is None:
            service.kill()
