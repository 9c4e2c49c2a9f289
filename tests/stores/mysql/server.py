"""A MySQL or MariaDB server for tests, and databases of their own on it.

The one that `TEST_MYSQL` names, else one that runs here, else one of its own from installed
programs, which on Debian are installed first where that is allowed. No test is skipped for want of it.
"""

import asyncio
import atexit
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from uuid import uuid4

import asyncmy
import asyncmy.errors

from free_ports import free_port

SYSTEM_SOCKET = Path("/run/mysqld/mysqld.sock")
START_SECONDS = 60.0


@cache
def server() -> str:
    """The URL of a server, with an empty path."""
    if named := os.environ.get("TEST_MYSQL"):
        return urlunsplit(urlsplit(named)._replace(path=""))
    if answers("mysql://root@127.0.0.1:3306"):
        return "mysql://root@127.0.0.1:3306"
    if SYSTEM_SOCKET.exists() and answers(f"mysql://root@localhost?unix_socket={SYSTEM_SOCKET}"):
        return f"mysql://root@localhost?unix_socket={SYSTEM_SOCKET}"
    return start_private()


def answers(url: str) -> bool:
    try:
        execute(url, "SELECT 1")
    except (asyncmy.errors.MySQLError, OSError):
        return False
    return True


def start_private() -> str:
    """The URL of a server that is stopped when the tests end."""
    private = Private()
    private.start()
    atexit.register(private.stop)
    return private.url


class Private:
    """A server of our own, on a free port, which may be killed and started again."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="onbeat_mysql_"))
        self._port = free_port()
        self._program = installed("mariadbd", "mysqld")
        self._user = ["--user=root"] if os.geteuid() == 0 else []
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"mysql://root@127.0.0.1:{self._port}"
        self._make()

    def _make(self) -> None:
        data = f"--datadir={self._folder}/data"
        make = shutil.which("mariadb-install-db")
        command = [self._program, "--no-defaults", "--initialize-insecure", data]
        if make:
            command = [make, "--no-defaults", data, "--auth-root-authentication-method=normal"]
        subprocess.run([*command, *self._user], check=True, capture_output=True)

    def start(self) -> None:
        """Returns once it answers."""
        command = [
            self._program,
            "--no-defaults",
            f"--datadir={self._folder}/data",
            f"--socket={self._folder}/socket",
            f"--pid-file={self._folder}/pid",
            f"--port={self._port}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=32M",
            f"--tmpdir={self._folder}",  # at its start a server clears temporary tables away
            *self._user,
        ]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        wait_for(self.url, self._process)

    def place_database(self, name: str, folder: Path) -> str:
        """The URL of a new database whose tables lie in this folder, of which it is the only one."""
        folder.mkdir()
        (self._folder / "data" / name).symlink_to(folder)
        return f"{self.url}/{name}"

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(START_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def installed(*names: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"))
    for _ in range(2):
        for name in names:
            if result := shutil.which(name, path=path):
                return result
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            break
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "mariadb-server"]
        subprocess.run(command, check=True, capture_output=True, env=quiet)
    raise AssertionError("these tests need MariaDB or MySQL; install one, or set TEST_MYSQL")


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        assert process.poll() is None, "the server ended at its start"
        assert time.monotonic() < deadline, "the server does not answer"
        time.sleep(0.05)


@contextmanager
def database(on: str | None = None) -> Iterator[str]:
    """The URL of a new, empty database, dropped at the end."""
    name = f"onbeat_test_{os.getpid()}_{uuid4().hex[:8]}"
    dsn = on or server()
    execute(dsn, f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))
    finally:
        execute(dsn, f"DROP DATABASE {name}")


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run them on a connection of their own; answers with the rows of the last.

    In a thread, as the caller may have a loop that runs.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run(url, statements)).result()


async def run(url: str, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    db = await connected(url)
    try:
        cursor = db.cursor()
        for statement in statements:
            await cursor.execute(statement)
        return list(await cursor.fetchall() or ())
    finally:
        await db.ensure_closed()


async def connected(url: str) -> Any:
    parts = urlsplit(url)
    return await asyncmy.connect(
        user=parts.username or "root",
        password=parts.password or "",
        host=parts.hostname,
        port=parts.port or 3306,
        unix_socket=dict(parse_qsl(parts.query)).get("unix_socket"),
        database=parts.path.removeprefix("/") or None,
        autocommit=True,
    )


@contextmanager
def session(url: str) -> Iterator[Callable[[str], None]]:
    """Runs statements on one connection, which is closed at the end with all that it holds."""
    parts = urlsplit(url)
    with asyncio.Runner() as runner:
        db = runner.run(
            asyncmy.connect(user="root", host=parts.hostname, port=parts.port, autocommit=True)
        )

        def run(statement: str) -> None:
            runner.run(db.cursor().execute(statement))

        try:
            yield run
        finally:
            db.close()


def empty(url: str) -> None:
    """Take all rows out of a database whose tables stay, which is faster than a new one."""
    tables = execute(url, "SHOW TABLES")
    execute(
        url,
        *(f"DELETE FROM {table}" for (table,) in tables if table not in ("onbeat_schema", "marks")),
    )
