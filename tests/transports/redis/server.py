"""A Redis server for tests.

The one that `TEST_REDIS` names, else one that runs here, else one of its own from an
installed program, which on Debian is installed first where that is allowed. No test is skipped for
want of it.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis

from free_ports import free_port
from transports.servers import START_SECONDS, installed, wait_until

HERE = "redis://127.0.0.1:6379/0"


@cache
def server() -> str:
    """The URL of a server."""
    if named := os.environ.get("TEST_REDIS"):
        return named
    if answers(HERE):
        return HERE
    private = Private()
    private.start()
    atexit.register(private.stop)
    return private.url


def answers(url: str) -> bool:
    try:
        with client(url) as one:
            return bool(one.ping())
    except (redis.RedisError, OSError):
        return False


def client(url: str) -> Any:
    """Of the driver, for what a test asks by itself."""
    make: Any = redis.Redis
    return make.from_url(url, socket_timeout=10)


def delete(url: str, prefix: str) -> None:
    with client(url) as one:
        for key in one.scan_iter(match=f"{prefix}*", count=1000):
            one.delete(key)


def through(address: str, url: str, options: str) -> str:
    """The same server at another address."""
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user}{at}{address}", query=options))


class Private:
    """A server of our own, on a free port, that keeps what it was told when it is killed."""

    def __init__(self, *options: str) -> None:
        self.program = installed("redis-server", "redis-server", "TEST_REDIS")
        self.folder = Path(tempfile.mkdtemp(prefix="onbeat_redis_"))
        self.port = free_port()
        self.socket = self.folder / "socket"
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns once it answers."""
        command = [
            self.program,
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)),
            *("--unixsocket", str(self.socket), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always"),
            *self.options,
        ]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        wait_until(self.socket.exists, self.process, "Redis")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(START_SECONDS)
        self.socket.unlink(missing_ok=True)

    def stop(self) -> None:
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
