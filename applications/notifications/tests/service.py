"""The program as an operator runs it: `notifications up`, `notifications web`, and commands."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from onbeat import Onbeat
from receivers import Mails, free_port
from world import KEY, World

PATIENCE: Final = 120
NONE: Final[Mapping[str, str]] = {}
Condition = Callable[[], Any]


def environment(world: World, **more: str) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NOTIFICATIONS_DATABASE": world.config.database,
        "NOTIFICATIONS_LINK_KEY": KEY.decode(),
        **more,
    }


def command(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "notifications", *arguments],
        env=environment(world),
        capture_output=True,
        text=True,
        check=False,
    )


def answer(world: World, *arguments: str) -> Any:
    """What the command prints as JSON."""
    ran = command(world, *arguments, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    return json.loads(ran.stdout)


class Service:
    """One process that serves HTTP."""

    def __init__(self, world: World, name: str, *options: str, **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.sign = "/readyz" if name == "up" else "/healthz"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "notifications", name, "--port", str(self.port), *options],
            env=environment(world, **variables),
        )

    def eventually(self, condition: Condition, what: str) -> Any:
        """The first true answer, while the service runs."""
        return eventually(lambda: self.is_running() and condition(), what)

    def is_running(self) -> bool:
        assert self.process.poll() is None, "the service has ended"
        return True

    def ready(self) -> "Service":
        self.eventually(lambda: status_of(f"{self.url}{self.sign}") == 200, "it is ready")
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def eventually(condition: Condition, what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.05)
    return found


def channels(mails: Mails, **more: str) -> Mapping[str, str]:
    mail = f"mail=smtp://127.0.0.1:{mails.port}?from=shop@example.com&starttls=false"
    return {"ONBEAT_CHANNELS": " ".join([mail, *(f"{name}={url}" for name, url in more.items())])}


@contextmanager
def running(
    world: World,
    mails: Mails,
    *options: str,
    number: int = 1,
    variables: Mapping[str, str] = NONE,
) -> Iterator[list[Service]]:
    """So many processes with the jobs and the API."""
    given = ("--worker-lease", "2s", "--no-worker-sidecar", "--log-level", "warning", *options)
    own = {**channels(mails), **variables}
    services = [Service(world, "up", *given, **own) for _ in range(number)]
    try:
        for service in services:
            service.ready()
        yield services
    finally:
        for service in services:
            service.kill()


@contextmanager
def web(world: World) -> Iterator[Service]:
    service = Service(world, "web")
    try:
        yield service.ready()
    finally:
        service.kill()


def publish(service: Service, type: str, id: str, **data: Any) -> None:
    """As the shop does, through the API."""
    with Onbeat(service.url) as remote:
        remote.events.publish(type, data, id=id, source="/shop")


def states(service: Service) -> list[str]:
    """Of the jobs of notices."""
    with Onbeat(service.url) as remote:
        return [job.state for job in remote.jobs.list(queue="notices", limit=1_000)]
