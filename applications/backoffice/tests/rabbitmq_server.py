"""A RabbitMQ of our own, which may be killed and started again with what it keeps."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aio_pika

from processes import eventually, free_port

# Debian's program of this name in the usual places wants to be another user.
PATH: Final = os.pathsep.join(("/usr/lib/rabbitmq/bin", os.environ.get("PATH", ""), "/usr/sbin"))


class RabbitServer:
    def __init__(self, folder: Path) -> None:
        program = shutil.which("rabbitmq-server", path=PATH)
        assert program, "this test needs rabbitmq-server; install it"
        self.program = program
        self.folder = folder
        self.port = free_port()
        self.distribution = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it answers."""
        self.process = subprocess.Popen(
            [self.program],
            env={
                **os.environ,
                "HOME": str(self.folder),  # of its cookie
                "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none.conf"),
                "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
                "RABBITMQ_NODENAME": f"backoffice{self.port}@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": self.port,
                "RABBITMQ_DIST_PORT": self.distribution,
                "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
                "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        eventually(self.answers, "an answer of RabbitMQ")

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "RabbitMQ ended at its start"

        async def connect() -> None:
            await (await aio_pika.connect(self.url, timeout=5)).close()

        try:
            asyncio.run(connect())
        except (aio_pika.exceptions.AMQPError, OSError, TimeoutError):
            return False
        return True

    def kill(self) -> None:
        """As a power cut would end it."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def rabbitmq() -> Iterator[RabbitServer]:
    folder = Path(tempfile.mkdtemp(prefix="backoffice_rabbitmq_"))
    server = RabbitServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
