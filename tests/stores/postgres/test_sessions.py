"""What the server tells of processes that are connected to it, and of those that have ended."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from conditions import eventually
from onbeat.model.errors import Unavailable
from onbeat.model.session_look import SessionLook
from onbeat.rules.server_sessions import UNSEEN, SessionWatch, after_look
from onbeat.stores.postgres import sessions
from onbeat.stores.postgres.store import PostgresStore
from transports.proxy import Proxy

PROGRAM = """
import asyncio, sys
from onbeat.stores.postgres.store import PostgresStore

async def main():
    store = PostgresStore(sys.argv[1])
    await store.open()
    await store.ping()
    print(store.sessions.name, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()

asyncio.run(main())
"""


@contextmanager
def process(database: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Another process on the store, with the name of its sessions."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, database],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip(), child
    finally:
        child.kill()
        child.communicate()


class Watcher:
    """One series of looks, as the engine has it."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.watch: SessionWatch = UNSEEN

    async def look(self) -> SessionLook:
        look = await self.store.sessions.look()
        self.watch = after_look(self.watch, look, asyncio.get_running_loop().time())
        return look

    async def until(self, holds: Callable[[SessionLook], bool], name: str) -> None:
        async def held() -> bool:
            return holds(await self.look())

        await eventually(held, name)


@pytest.fixture
def watcher(store: PostgresStore) -> Iterator[Watcher]:
    yield Watcher(store)
    store.sessions.close()


async def test_a_killed_process_has_ended(watcher: Watcher, database: str) -> None:
    with process(database) as (name, child):
        await watcher.until(lambda look: name in look.names, "it is seen")
        child.kill()
        await watcher.until(lambda _: name in watcher.watch.ended, "it has ended")


async def test_a_process_that_closes_its_store_is_not_lost(watcher: Watcher, database: str) -> None:
    with process(database) as (name, child):
        await watcher.until(lambda look: name in look.names, "it is seen")
        before = await watcher.look()
        child.communicate()
        await watcher.until(lambda look: name not in look.names, "it is gone")
        assert (await watcher.look()).lost == before.lost
        assert name not in watcher.watch.missing


async def test_sessions_that_the_server_ends_are_counted_before_they_leave_the_list(
    watcher: Watcher, other: PostgresStore, database: str
) -> None:
    await other.ping()
    name = other.sessions.name
    before = await watcher.look()
    assert name in before.names
    db = await asyncpg.connect(database)
    await db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1",
        f"%{name}%",
    )
    await db.close()
    await watcher.until(lambda look: name not in look.names, "they are gone")
    assert watcher.watch.look is not None
    assert watcher.watch.look.ended > before.ended
    assert watcher.watch.missing == {}


async def test_all_of_a_stores_connections_bear_its_name_and_watchers_are_counted(
    watcher: Watcher, other: PostgresStore
) -> None:
    own, others = watcher.store.sessions.name, other.sessions.name
    await other.ping()
    assert own != others
    first = await watcher.look()
    assert {own, others} <= first.names
    await watcher.until(lambda look: look.watchers == 1, "watchers of earlier tests have left")
    await other.sessions.look()
    await watcher.until(lambda look: look.watchers == 2, "both watch")
    other.sessions.close()
    await watcher.until(lambda look: look.watchers == 1, "one watches")


async def test_a_watcher_that_lost_its_connection_says_so_once(
    watcher: Watcher, database: str
) -> None:
    await watcher.look()
    db = await asyncpg.connect(database)
    await db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1",
        f"% {watcher.store.sessions.name} watcher",
    )
    await db.close()
    with pytest.raises(Unavailable):
        await watcher.look()
    assert watcher.store.sessions.name in (await watcher.look()).names


async def test_a_process_behind_a_proxy_has_no_name(store: PostgresStore, database: str) -> None:
    assert store.sessions.name
    parts = urlsplit(database)
    async with Proxy(parts.hostname or "localhost", parts.port or 5432) as proxy:
        place = parts.netloc.rpartition("@")[0] + f"@{proxy.address}"
        behind = PostgresStore(urlunsplit(parts._replace(netloc=place)))
        await behind.open()
        assert behind.sessions.name == ""
        await behind.close()


async def test_a_process_on_an_older_server_has_no_name(
    store: PostgresStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "VERSION_MIN", 1_000_000)
    older = PostgresStore(database)
    await older.open()
    assert older.sessions.name == ""
    await older.close()


async def test_a_process_whose_pooler_answers_for_another_session_has_no_name(
    database: str,
) -> None:
    """A pooler gives each client a process number of its own."""

    class Pooled:
        def __init__(self, db: Any) -> None:
            self.fetch = db.fetch
            self._transport = db._transport

        def get_server_pid(self) -> int:
            return 1

    db: Any = await asyncpg.connect(database)
    store = PostgresStore(database)
    pooled: Any = Pooled(db)
    await store.sessions.check_route(pooled)
    assert store.sessions.name == ""
    await store.sessions.check_route(db)
    assert store.sessions.name
    await db.close()
