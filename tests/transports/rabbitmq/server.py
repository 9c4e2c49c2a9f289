"""A RabbitMQ broker for tests.

The one that `TEST_RABBITMQ` names, else one that runs here, else one of its own from an
installed program, which on Debian is installed first where that is allowed. No test is skipped for
want of it.
"""

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import aiormq

from free_ports import free_port
from transports.servers import START_SECONDS, installed, listens, wait_until

HERE = "amqp://guest:guest@127.0.0.1:5672/"


@cache
def server() -> str:
    """The URL of a broker."""
    if named := os.environ.get("TEST_RABBITMQ"):
        return named
    if answers(HERE):
        return HERE
    private = Private()
    private.start()
    atexit.register(private.stop)
    return private.url


def answers(url: str) -> bool:
    parts = urlsplit(url)
    if not listens(parts.hostname or "", parts.port or 5672):
        return False
    try:
        # In a thread, as the caller may have a loop that runs.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(connected(url))).result()
    except (aiormq.AMQPError, OSError, TimeoutError):
        return False
    return True


async def connected(url: str) -> None:
    async with asyncio.timeout(5):
        connection = await aiormq.connect(url)
    await connection.close()


def through(address: str, url: str, options: str) -> str:
    """The same broker at another address, as a test's own connection to it."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0] or "guest:guest"
    return urlunsplit(parts._replace(netloc=f"{user}@{address}", query=options))


async def delete(url: str, queues: Iterable[str], exchange: str) -> None:
    connection = await aiormq.connect(url)
    channel = await connection.channel()
    for queue in queues:
        await channel.queue_delete(queue)
    await channel.exchange_delete(exchange)
    await connection.close()


class Private:
    """A node of our own, on free ports, which may be killed and started again with what it keeps."""

    def __init__(self) -> None:
        self.program = installed("rabbitmq-server", "rabbitmq-server", "TEST_RABBITMQ")
        self.folder = Path(tempfile.mkdtemp(prefix="onbeat_rabbitmq_"))
        self.port = free_port()
        self.distribution = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def environment(self) -> dict[str, str]:
        """All that it writes lies in its folder, its cookie too."""
        return {
            **os.environ,
            "HOME": str(self.folder),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "no.conf"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "no"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_NODENAME": f"onbeat{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
        }

    def start(self) -> None:
        """Returns once it answers."""
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [self.program], env=self.environment, stdout=quiet, stderr=quiet, start_new_session=True
        )
        wait_until(lambda: answers(self.url), self.process, "RabbitMQ")

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(START_SECONDS)
        self.process = None  # its pid may soon be that of another

    def control(self, *arguments: str) -> None:
        """Run `rabbitmqctl`."""
        tool = str(Path(self.program).with_name("rabbitmqctl"))
        command = [tool, "--node", self.environment["RABBITMQ_NODENAME"], *arguments]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def stop(self) -> None:
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
