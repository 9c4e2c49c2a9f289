"""A PostgreSQL server for tests: one that runs, a private one, or one installed on the spot."""

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg

from free_ports import free_port

RUNNING = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql:///postgres?host=/var/run/postgresql&user=postgres",
)
BINARIES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")


@cache
def base_url() -> str:
    """Of a database on which others can be created."""
    request = os.environ.get("TEST_POSTGRES")
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
        self.environment: dict[str, str] = {}

    def init(self) -> None:
        run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\n"
                f"unix_socket_directories = '{self.folder}'\nmax_connections = 150\n"
                "shared_buffers = 32MB\nmax_wal_size = 64MB\nmin_wal_size = 32MB\n"
            )

    def start(self) -> None:
        log = str(self.folder / "log")
        run("pg_ctl", "-D", str(self.data), "-w", "-s", "-l", log, "start", env=self.environment)

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

    def kill(self) -> None:
        """All its processes at once, as the system does that needs their memory."""
        master = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        os.kill(master, signal.SIGSTOP)  # it must not fork one more that nobody knows
        pids = [master, *children_of(master)]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while any(is_up(pid) for pid in pids):
            assert time.monotonic() < deadline, "a killed server ends"
            time.sleep(0.01)
        # Where nobody has taken note of its end, its pid still looks like one that runs.
        (self.data / "postmaster.pid").unlink()
        for lock in self.folder.glob(".s.PGSQL.*.lock"):
            lock.unlink()

    @property
    def is_up(self) -> bool:
        """A server that could not write ends by itself."""
        try:
            master = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return False
        return is_up(master)


def children_of(parent: int) -> list[int]:
    result = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                result.append(int(stat.parent.name))
    return result


def is_up(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def private_server(within: Path | None = None) -> Iterator[Server]:
    """In a folder of its own, which is made in `within`."""
    folder = Path(tempfile.mkdtemp(prefix="onbeat-postgres-", dir=within))
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
            if server.is_up:
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(program: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
    """PostgreSQL refuses to run as root. `env` adds to this process's environment."""
    command = [str(binaries() / program), *arguments]
    user = unprivileged() if os.geteuid() == 0 else None
    done = subprocess.run(
        command, user=user, cwd="/", env={**os.environ, **(env or {})}, check=False, text=True,
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
    assert result is not None, "install PostgreSQL, or name a server in TEST_POSTGRES"
    return result


def installed() -> Path | None:
    places = [dsn for form in BINARIES for dsn in Path("/").glob(form.removeprefix("/"))]
    on_path = shutil.which("initdb")
    if on_path:
        places.append(Path(on_path).resolve().parent)
    return max((dsn for dsn in places if (dsn / "initdb").exists()), default=None)


@contextlib.contextmanager
def database(name: str, url: str | None = None) -> Iterator[str]:
    """A database of our own on a server, dropped at the end; answers with its URL."""
    parts = urlsplit(url or base_url())
    execute(urlunsplit(parts), f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    execute(urlunsplit(parts), f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    try:
        yield urlunsplit(parts._replace(path=f"/{name}"))
    finally:
        close_emptier(urlunsplit(parts._replace(path=f"/{name}")))
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
    WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p') AND NOT relispartition
      AND relname <> 'migrations'
"""


EMPTY_BYTES_MAX = 1 << 20


async def empty(url: str, schema: str) -> None:
    """Take out all rows, by a connection that stays: each new one reads the catalog anew.

    Many dead rows go too, which the next test would claim behind marks for.
    """
    db = emptier(url)
    used = db.execute(used_tables(db, schema)).fetchall()
    if used:
        db.execute("; ".join(f"DELETE FROM {table}" for (table,) in used))
    jobs = f"{schema}.jobs"
    size = db.execute("SELECT coalesce(pg_relation_size(to_regclass(%s)), 0)::text", (jobs,))
    (found,) = size.fetchone() or ("0",)
    if int(found) > EMPTY_BYTES_MAX:
        db.execute(f"VACUUM {jobs}")


EMPTIERS: dict[str, psycopg.Connection[tuple[str]]] = {}


def emptier(url: str) -> psycopg.Connection[tuple[str]]:
    known = EMPTIERS.get(url)
    if known is None or known.closed:
        known = psycopg.connect(url, autocommit=True, options="-c lock_timeout=20s")
        EMPTIERS[url] = known
    return known


def close_emptier(url: str) -> None:
    """Before the database is dropped: it may be made again, by the same name."""
    if (known := EMPTIERS.pop(url, None)) is not None:
        known.close()


def used_tables(db: psycopg.Connection[tuple[str]], schema: str) -> str:
    """A query for those that have rows: a delete from each of all would be planned each time."""
    tables = db.execute(TABLES, (schema,)).fetchall()
    looks = [
        f"SELECT '{schema}.{table}' WHERE EXISTS (SELECT FROM {schema}.{table})"
        for (table,) in tables
    ]
    return " UNION ALL ".join(looks) or "SELECT '' WHERE false"
