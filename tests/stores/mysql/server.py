"""A MySQL or MariaDB server for tests, and databases of their own on it.

The one that `ONBEAT_TEST_MYSQL` names, else one that runs here, else one of its own from installed
programs, which on Debian are installed first where that is allowed. No test is skipped for want of it.
"""

import asyncio
import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit
from uuid import uuid4

import asyncmy
import asyncmy.errors

SYSTEM_SOCKET = Path("/run/mysqld/mysqld.sock")
START_SECONDS = 30.0


@cache
def server() -> str:
    """The URL of a server, with an empty path."""
    if named := os.environ.get("ONBEAT_TEST_MYSQL"):
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
    """A server on a free port, stopped when the tests end."""
    folder = Path(tempfile.mkdtemp(prefix="onbeat_mysql_"))
    port = free_port()
    program = installed("mariadbd", "mysqld")
    make = shutil.which("mariadb-install-db")
    user = ["--user=root"] if os.geteuid() == 0 else []
    data = f"--datadir={folder}/data"
    if make:
        subprocess.run(
            [make, data, "--auth-root-authentication-method=normal", *user],
            check=True,
            capture_output=True,
        )
    else:
        subprocess.run(
            [program, "--initialize-insecure", data, *user], check=True, capture_output=True
        )
    process = subprocess.Popen(
        [
            program,
            "--no-defaults",
            data,
            f"--socket={folder}/s",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            *user,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(stop, process, folder)
    url = f"mysql://root@127.0.0.1:{port}"
    wait_for(url, process)
    return url


def installed(*names: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"))
    for _ in range(2):
        for name in names:
            if found := shutil.which(name, path=path):
                return found
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            break
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "--yes", "--no-install-recommends", "mariadb-server"]
        subprocess.run(command, check=True, capture_output=True, env=quiet)
    raise AssertionError("these tests need MariaDB or MySQL; install one, or set ONBEAT_TEST_MYSQL")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        assert process.poll() is None, "the server ended at its start"
        assert time.monotonic() < deadline, "the server does not answer"
        time.sleep(0.05)


def stop(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    process.terminate()
    process.wait(START_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database() -> Iterator[str]:
    """The URL of a new, empty database, dropped at the end."""
    name = f"onbeat_test_{os.getpid()}_{uuid4().hex[:8]}"
    execute(server(), f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(server())._replace(path=f"/{name}"))
    finally:
        execute(server(), f"DROP DATABASE {name}")


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run them on a connection of their own; answers with the rows of the last.

    In a thread, as the caller may have a loop that runs.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run(url, statements)).result()


async def run(url: str, statements: Sequence[str]) -> list[tuple[Any, ...]]:
    parts = urlsplit(url)
    db = await asyncmy.connect(
        user=parts.username or "root",
        password=parts.password or "",
        host=parts.hostname,
        port=parts.port or 3306,
        unix_socket=dict(parse_qsl(parts.query)).get("unix_socket"),
        database=parts.path.removeprefix("/") or None,
        autocommit=True,
    )
    try:
        cursor = db.cursor()
        for statement in statements:
            await cursor.execute(statement)
        return list(await cursor.fetchall() or ())
    finally:
        await db.ensure_closed()


def empty(url: str) -> None:
    """Take all rows out of a database whose tables stay, which is faster than a new one."""
    tables = execute(url, "SHOW TABLES")
    execute(
        url,
        *(f"DELETE FROM {table}" for (table,) in tables if table not in ("onbeat_schema", "marks")),
    )
