"""The stores under attack, and what can be done to each."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import apsw
import asyncmy
import asyncpg

from crash.servers import Server, private_server
from disks import small_disk, taken

DISK_MIB = 200
MARGIN = 4 << 20


class Ground(Protocol):
    """A store. `faults` are the names of its methods that attack it for so many seconds.

    A server has an address, between which and others the network may be cut.
    """

    @property
    def url(self) -> str: ...

    @property
    def faults(self) -> tuple[str, ...]: ...

    @property
    def address(self) -> tuple[str, int] | None: ...


class Sqlite:
    faults: tuple[str, ...] = ("lock_writes",)
    address = None

    def __init__(self, folder: Path, disk: Path | None) -> None:
        self.file = (disk or folder) / "onbeat.db"
        self.disk = disk
        self.url = f"sqlite:///{self.file}"
        if disk is not None:
            self.faults = ("lock_writes", "fill_disk")

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
        other = taken(self.disk, left=MARGIN)
        try:
            with other.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                # The store takes some of it meanwhile, so how much is left is not known.
                while file.write(bytes(4096)):
                    pass
            await asyncio.sleep(seconds)
        finally:
            other.unlink()


class Postgres:
    faults = ("lock_writes", "restart")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url
        self.address = address_of(server.url)

    async def lock_writes(self, seconds: float) -> None:
        """As on a server that has become a standby: it can be read."""
        await self.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await self.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(seconds)
        await self.execute("SET default_transaction_read_only = off", "ALTER SYSTEM RESET ALL")
        await self.execute("SELECT pg_reload_conf()")

    async def execute(self, *statements: str) -> None:
        db = await asyncpg.connect(self.url)
        try:
            for statement in statements:
                await db.execute(statement)
        finally:
            await db.close()

    async def restart(self, seconds: float) -> None:
        await restart(self.server, seconds)


class Mysql:
    faults = ("lock_writes", "restart")

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.url
        self.address = address_of(server.url)

    async def lock_writes(self, seconds: float) -> None:
        """As a backup does."""
        host, port = self.address
        db = await asyncmy.connect(host=host, port=port, user="root")
        try:
            await db.cursor().execute("FLUSH TABLES WITH READ LOCK")
            await asyncio.sleep(seconds)
        finally:
            db.close()

    async def restart(self, seconds: float) -> None:
        await restart(self.server, seconds)


def address_of(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("@")[2].partition("/")[0].partition(":")
    return host, int(port)


async def restart(server: Server, seconds: float) -> None:
    """The power goes, and comes back."""
    await asyncio.to_thread(server.crash)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(server.start)


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
    match kind:
        case "sqlite":
            return Sqlite(folder, disk_of_its_own(folder, stack))
        case "postgres":
            return Postgres(stack.enter_context(private_server(kind)))
        case _:
            return Mysql(stack.enter_context(private_server(kind)))


def disk_of_its_own(folder: Path, stack: contextlib.ExitStack) -> Path | None:
    """None where mounting is not allowed; the disk is not filled then."""
    if os.environ.get("ONBEAT_CHAOS_DISK") == "no":
        return None
    try:
        return stack.enter_context(small_disk(folder / "disk", DISK_MIB))
    except (OSError, subprocess.CalledProcessError):
        return None
