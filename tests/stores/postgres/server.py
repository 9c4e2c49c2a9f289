"""A PostgreSQL server for tests: one that runs, a private one, or one installed on the spot."""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

RUNNING = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql:///postgres?host=/var/run/postgresql&user=postgres",
)
BINARIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")


@cache
def base_url() -> str:
    """Of a database on which others can be created."""
    request = os.environ.get("ONBEAT_TEST_POSTGRES")
    if request:
        return request
    result = next((url for url in RUNNING if answers(url)), None)
    return result or shared_private()


def answers(url: str) -> bool:
    async def ask() -> bool:
        try:
            db = await asyncpg.connect(url, timeout=5)
        except (OSError, TimeoutError, asyncpg.PostgresError):
            return False
        try:
            return bool(
                await db.fetchval(
                    "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
                )
            )
        finally:
            await db.close()

    return asyncio.run(ask())


def shared_private() -> str:
    """A private server until the end of the process."""
    dsn = contextlib.ExitStack()
    import atexit  # noqa: PLC0415  only where a server is started

    atexit.register(dsn.close)
    return dsn.enter_context(private_server()).url


class Server:
    """A server of our own, which can be stopped in the ways that servers stop."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.folder = folder
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def init(self) -> None:
        run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\n"
                f"unix_socket_directories = '{self.folder}'\nmax_connections = 60\n"
                "shared_buffers = 32MB\n"
            )

    def start(self) -> None:
        run("pg_ctl", "-D", str(self.data), "-w", "-s", "-l", str(self.folder / "log"), "start")

    def stay_in_recovery(self) -> None:
        """Start as one that replays its log, and lets nobody in, until it is stopped."""
        self.write_conf("hot_standby = off", "restore_command = 'false'")
        (self.data / "standby.signal").touch()
        self.start()

    def write_conf(self, *lines: str) -> None:
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write("\n".join(["", *lines, ""]))

    def stop(self, mode: str = "immediate") -> None:
        run("pg_ctl", "-D", str(self.data), "-w", "-s", "-m", mode, "stop")


@contextlib.contextmanager
def private_server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="onbeat-postgres-"))
    if os.geteuid() == 0:
        user = pwd.getpwnam(unprivileged())
        os.chown(folder, user.pw_uid, user.pw_gid)
    server = Server(folder)
    try:
        server.init()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(program: str, *arguments: str) -> None:
    """PostgreSQL refuses to run as root."""
    command = [str(binaries() / program), *arguments]
    user = unprivileged() if os.geteuid() == 0 else None
    done = subprocess.run(
        command, user=user, cwd="/", check=False, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == 0, f"{program}: {done.stderr}"


@cache
def unprivileged() -> str:
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@cache
def binaries() -> Path:
    result = installed()
    if result is None and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (("update", "-qq"), ("install", "-qq", "-y", "postgresql")):
            subprocess.run(["apt-get", *words], check=True, env=environment)
        result = installed()
    assert result is not None, "install PostgreSQL, or name a server in ONBEAT_TEST_POSTGRES"
    return result


def installed() -> Path | None:
    places = [dsn for form in BINARIES for dsn in Path("/").glob(form.removeprefix("/"))]
    on_path = shutil.which("initdb")
    if on_path:
        places.append(Path(on_path).resolve().parent)
    return max((dsn for dsn in places if (dsn / "initdb").exists()), default=None)


def free_port() -> int:
    """Below the range from which the system gives out ports by itself."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


@contextlib.contextmanager
def database(name: str, url: str | None = None) -> Iterator[str]:
    """A database of our own on a server, dropped at the end; answers with its URL."""
    parts = urlsplit(url or base_url())
    execute(urlunsplit(parts), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    execute(urlunsplit(parts), f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        execute(urlunsplit(parts), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def execute(url: str, *statements: str) -> None:
    async def work() -> None:
        db = await asyncpg.connect(url)
        try:
            for statement in statements:
                await db.execute(statement)
        finally:
            await db.close()

    asyncio.run(work())


def with_schema(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


# All but those that describe the schema; a partition is emptied with its table.
TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = to_regnamespace($1) AND relkind IN ('r', 'p') AND NOT relispartition
      AND relname <> 'migrations'
"""


async def empty(url: str, schema: str) -> None:
    """Faster than a new schema for each test."""
    db = await asyncpg.connect(url)
    try:
        tables = [name for (name,) in await db.fetch(TABLES, schema)]
        if tables:
            await db.execute(";".join(f"DELETE FROM {schema}.{table}" for table in tables))
    finally:
        await db.close()
