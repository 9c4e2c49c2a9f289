"""The stores under attack, and what can be done to each."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncmy
import asyncmy.errors
import asyncpg

from chaos.clocks import Clock, library
from conditions import eventually
from crash.servers import Server, private_server
from disks import small_disk, taken

DISK_MIB = 400
MARGIN = 4 << 20  # left on the disk of SQLite, for the ends of jobs
SESSIONS_ENDED_A_SECOND = 4
STEPS = (7.0, -7.0)  # seconds by which a clock is wrong, one after the other


class Ground(Protocol):
    """A store. `faults` are the names of its methods that attack it for so many seconds.

    A server has an address, between which and others the network may be cut, and a clock of its own
    where one can be made.
    """

    @property
    def url(self) -> str: ...

    @property
    def faults(self) -> tuple[str, ...]: ...

    @property
    def address(self) -> tuple[str, int] | None: ...

    @property
    def clock(self) -> Clock | None: ...


class Sqlite:
    address = None

    def __init__(self, folder: Path, disk: Path | None, clock: Clock | None) -> None:
        self.file = (disk or folder) / "onbeat.db"
        self.disk = disk
        self.clock = clock
        self.url = f"sqlite:///{self.file}"

    @property
    def faults(self) -> tuple[str, ...]:
        fill = ("fill_disk",) if self.disk is not None else ()
        clock = ("set_clock",) if self.clock is not None else ()
        return ("lock_writes", *fill, *clock)

    async def lock_writes(self, seconds: float) -> None:
        """Another program holds a transaction that writes."""
        await asyncio.to_thread(self.hold, seconds)

    def hold(self, seconds: float) -> None:
        db = apsw.Connection(str(self.file))
        try:
            db.set_busy_timeout(10_000)
            db.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            db.execute("ROLLBACK")
        finally:
            db.close()

    async def fill_disk(self, seconds: float) -> None:
        """Somebody else takes all that is left."""
        assert self.disk is not None, "there is a disk of its own"
        await fill(self.disk, seconds, left=MARGIN)

    async def set_clock(self, seconds: float) -> None:
        """Of all its programs, as they are on one machine."""
        assert self.clock is not None, "there is a clock"
        await step(self.clock, seconds)


class ServerGround:
    """What can be done to any server."""

    def __init__(self, server: Server, disk: Path | None, clock: Clock | None) -> None:
        self.server = server
        self.disk = disk
        self.clock = clock
        self.url = server.url
        self.address = address_of(server.url)

    @property
    def faults(self) -> tuple[str, ...]:
        fill = ("fill_disk",) if self.disk is not None else ()
        clock = ("set_clock",) if self.clock is not None else ()
        return ("lock_writes", "restart", "kill", "end_sessions", *fill, *clock)

    async def restart(self, seconds: float) -> None:
        """The power goes, and comes back."""
        await self.down(self.server.crash, seconds)

    async def kill(self, seconds: float) -> None:
        await self.down(self.server.kill, seconds)

    async def down(self, end: Callable[[], None], seconds: float) -> None:
        await asyncio.to_thread(end)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.server.start)

    async def fill_disk(self, seconds: float) -> None:
        """Somebody else takes all that is left; a server that ended for it is started again."""
        assert self.disk is not None, "there is a disk of its own"
        await fill(self.disk, seconds, left=0)
        await asyncio.sleep(1.0)  # one that is about to end has ended then
        if not self.server.is_up:
            await asyncio.to_thread(self.server.start)

    async def set_clock(self, seconds: float) -> None:
        """Forward or back, and right again."""
        assert self.clock is not None, "it has a clock of its own"
        await step(self.clock, seconds)


class Postgres(ServerGround):
    @property
    def faults(self) -> tuple[str, ...]:
        return (*super().faults, "lose_standby")

    async def lock_writes(self, seconds: float) -> None:
        """As on a server that has become a standby: it can be read."""
        await self.set("default_transaction_read_only = on", seconds)

    async def lose_standby(self, seconds: float) -> None:
        """As after the loss of one that must confirm: commits are done and are not answered."""
        await self.set("synchronous_standby_names = 'standby'", seconds)

    async def set(self, setting: str, seconds: float) -> None:
        await self.execute(f"ALTER SYSTEM SET {setting}", "SELECT pg_reload_conf()")
        await asyncio.sleep(seconds)
        await self.execute(
            "SET default_transaction_read_only = off",
            "ALTER SYSTEM RESET ALL",
            "SELECT pg_reload_conf()",
        )

    async def end_sessions(self, seconds: float) -> None:
        """As an operator does, or a pool that is full: again and again."""
        for _ in range(round(seconds * SESSIONS_ENDED_A_SECOND)):
            await self.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            await asyncio.sleep(1 / SESSIONS_ENDED_A_SECOND)

    async def execute(self, *statements: str) -> None:
        db = await eventually(self.connected, "the server takes another connection")
        try:
            for statement in statements:
                await db.execute(statement)
        finally:
            await db.close()

    async def connected(self) -> "asyncpg.Connection[Any] | None":
        """None while it is full, or not back yet."""
        try:
            return await asyncpg.connect(self.url)
        except (OSError, asyncpg.PostgresError):
            return None


class Mysql(ServerGround):
    def __init__(self, server: Server, disk: Path | None, clock: Clock | None) -> None:
        super().__init__(server, disk, clock)
        host, port = self.address
        self.url = f"mysql://onbeat@{host}:{port}/onbeat"  # not a user whom `read_only` spares

    @property
    def faults(self) -> tuple[str, ...]:
        return (*super().faults, "read_only")

    async def grant(self) -> None:
        await self.execute(
            "CREATE USER onbeat",
            "GRANT ALL ON onbeat.* TO onbeat",
        )

    async def lock_writes(self, seconds: float) -> None:
        """As a backup does."""
        async with self.session() as execute:
            await execute("FLUSH TABLES WITH READ LOCK")
            await asyncio.sleep(seconds)

    async def read_only(self, seconds: float) -> None:
        """As on a server that has become a replica."""
        await self.execute("SET GLOBAL read_only = 1")
        await asyncio.sleep(seconds)
        await self.execute("SET GLOBAL read_only = 0")

    async def end_sessions(self, seconds: float) -> None:
        for _ in range(round(seconds * SESSIONS_ENDED_A_SECOND)):
            async with self.session() as execute:
                for (id,) in await execute(
                    "SELECT id FROM information_schema.processlist WHERE user = 'onbeat'"
                ):
                    with contextlib.suppress(asyncmy.errors.MySQLError):
                        await execute(f"KILL {id}")
            await asyncio.sleep(1 / SESSIONS_ENDED_A_SECOND)

    async def execute(self, *statements: str) -> None:
        async with self.session() as execute:
            for statement in statements:
                await execute(statement)

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Callable[[str], Awaitable[list[tuple[Any, ...]]]]]:
        host, port = self.address
        db = await asyncmy.connect(host=host, port=port, user="root")

        async def execute(statement: str) -> list[tuple[Any, ...]]:
            cursor = db.cursor()
            await cursor.execute(statement)
            return list(await cursor.fetchall() or ())

        try:
            yield execute
        finally:
            db.close()


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("@")[2].partition("/")[0].partition(":")
    return host, int(port)


async def fill(disk: Path, seconds: float, *, left: int) -> None:
    """Take all but so much of a disk, and what is given back meanwhile; then give it back."""
    other = taken(disk, left=left)
    try:
        with other.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            # The store takes some of it meanwhile, so how much is left is not known.
            while file.write(bytes(4096)):
                pass
        await asyncio.sleep(seconds)
    finally:
        other.unlink()


async def step(clock: Clock, seconds: float) -> None:
    for ahead in STEPS:
        clock.set(ahead)
        await asyncio.sleep(seconds / len(STEPS))
    clock.set(0.0)


@contextlib.contextmanager
def ground(kind: str) -> Iterator[tuple[Path, Ground]]:
    """A folder for the fleet, and its store; both are gone after it."""
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="onbeat-chaos-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        result = made(kind, folder, stack)
        (folder / "store").write_text(result.url)
        yield folder, result


def made(kind: str, folder: Path, stack: contextlib.ExitStack) -> Ground:
    disk = disk_of_its_own(folder, stack)
    shim = library(folder)
    clock = Clock(shim, folder / "clock") if shim is not None else None
    folder.chmod(0o755)  # the server is another user
    if kind == "sqlite":
        return Sqlite(folder, disk, clock)
    server = stack.enter_context(private_server(kind, disk))
    if clock is not None:
        server.environment.update(clock.environment)
        server.crash()
        server.start()
    if kind == "postgres":
        return Postgres(server, disk, clock)
    result = Mysql(server, disk, clock)
    run_here(result.grant())
    return result


def run_here(work: Coroutine[Any, Any, None]) -> None:
    """In a thread, as the caller may have a loop that runs."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def disk_of_its_own(folder: Path, stack: contextlib.ExitStack) -> Path | None:
    """None where mounting is not allowed; the disk is not filled then."""
    if os.environ.get("CHAOS_DISK") == "no":
        return None
    try:
        return stack.enter_context(small_disk(folder / "disk", DISK_MIB))
    except (OSError, subprocess.CalledProcessError):
        return None
