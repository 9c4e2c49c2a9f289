"""Jobs that are sent in a transaction of the caller's exist if and only if it commits."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from msgspec import structs

from app.connections import ASYNC, PLAIN, of_apsw, of_sqlite3
from conditions import eventually
from onbeat import Invalid, Misconfigured, NotFound, Onbeat, http, on_failure
from onbeat.model.job import JobState
from onbeat.stores.postgres.store import PostgresStore
from stores.postgres import server

PATIENCE = 60
SCHEMA = "queue"


# The program


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with server.database(f"onbeat_within_{os.getpid()}") as url:
        yield url


class Shop:
    """A program that sends, and what its jobs did."""

    def __init__(self, beat: Onbeat, place: Any) -> None:
        self.beat = beat
        self.place = place
        self.greeted: list[int] = []

        @beat.task("mail.welcome", queue="mail", priority=3)
        def welcome(user: int) -> int:
            self.greeted.append(user)
            return user

        self.welcome = welcome

    def work(self, job: Any) -> Any:
        with self.beat.started():
            return job.result(PATIENCE)

    def is_known(self, job: Any) -> Any:
        try:
            job.info()
        except NotFound:
            return False
        return True

    def close(self) -> None:
        self.beat.backend.wait_for(self.beat.aclose())
        self.beat.backend.portal.close()


def shop_on(kind: Any, tmp_path: Any, database: Any, name: str = "onbeat.db") -> Any:
    if kind == "sqlite":
        place = str(tmp_path / name)
        beat = Onbeat(f"sqlite:///{place}")
    else:
        place = database
        asyncio.run(server.empty(database, SCHEMA))
        beat = Onbeat(store=PostgresStore(server.with_schema(database, SCHEMA)))
    beat.backend.wait_for(beat.backend.open())
    beat.backend.wait_for(beat.aclose())
    return Shop(beat, place)


@pytest.fixture(params=list(PLAIN))
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    kind, connect = PLAIN[request.param]
    database = request.getfixturevalue("database") if kind == "postgresql" else None
    one = shop_on(kind, tmp_path, database)
    one.connect = lambda: connect(one.place)
    yield one
    one.close()


@pytest.fixture(params=list(ASYNC))
def async_shop(request: pytest.FixtureRequest, database: Any, tmp_path: Path) -> Iterator[Any]:
    one = shop_on("postgresql", tmp_path, database)
    one.connect = lambda: ASYNC[request.param](one.place)
    yield one
    one.close()


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Any]:
    one = shop_on("sqlite", tmp_path, None)
    yield one
    one.close()


# Commit and rollback


def test_a_commit_brings_the_job_and_it_runs(shop: Any) -> None:
    with shop.connect() as (db, commit, _):
        job = shop.welcome.in_transaction(db).send(7)
        commit()
    assert job.created
    assert shop.work(job) == 7
    assert shop.greeted == [7]


def test_after_a_rollback_there_is_no_job(shop: Any) -> None:
    with shop.connect() as (db, _, rollback):
        job = shop.welcome.in_transaction(db).send(7)
        rollback()
    assert not shop.is_known(job)


def test_nobody_else_sees_the_job_before_the_commit(shop: Any) -> None:
    with shop.connect() as (db, commit, _):
        job = shop.welcome.in_transaction(db).send(7)
        assert job.id not in seen(shop)
        commit()
    assert job.id in seen(shop)


def seen(shop: Any) -> Any:
    """What another process sees."""
    if shop.place.startswith("postgresql:"):
        return asyncio.run(rows_of(shop.place))
    code = """
import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT id FROM onbeat_jobs"))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, shop.place], capture_output=True, text=True, check=True
    )
    return done.stdout


async def rows_of(place: Any) -> Any:
    db = await asyncpg.connect(place)
    try:
        return [str(row[0]) for row in await db.fetch(f"SELECT id FROM {SCHEMA}.jobs")]
    finally:
        await db.close()


def test_several_jobs_in_one_transaction(shop: Any) -> None:
    with shop.connect() as (db, _, rollback):
        gone = shop.beat.in_transaction(db).send([shop.welcome.call(n) for n in range(3)])
        rollback()
    with shop.connect() as (db, commit, _):
        calls = [shop.welcome.call(n) for n in range(300)]
        kept = shop.beat.in_transaction(db).send([*calls, http("GET", "http://127.0.0.1/")])
        last = shop.welcome.options(priority=9).in_transaction(db).send(300)
        commit()
    assert not any(map(shop.is_known, gone))
    assert all(map(shop.is_known, [kept[0], kept[299], kept[300], last]))
    assert shop.work(last) == 300
    assert sorted(shop.greeted) == [*range(301)]


def test_what_is_stored_is_what_the_store_itself_stores(shop: Any) -> None:
    options = shop.welcome.options(
        unique="one", delay="1h", expires_in="2h", timeout=5, labels={"tenant": "acme %s"}
    )
    with shop.connect() as (db, commit, _):
        inside = options.in_transaction(db).send(7)
        commit()
    outside = options.options(unique="two").send(7)
    one, other = (
        shop.beat.backend.wait_for(shop.beat.backend.store.job(job.id)) for job in (inside, outside)
    )
    assert one.expires_at - one.due_at == other.expires_at - other.due_at
    assert one.due_at - one.created_at == other.due_at - other.created_at
    own = ("id", "unique", "created_at", "due_at", "expires_at", "start_by")
    assert structs.replace(one, **{name: getattr(other, name) for name in own}) == other


def test_the_holder_of_a_unique_key_is_named(shop: Any) -> None:
    once = shop.welcome.options(unique="welcome:7")
    with shop.connect() as (db, commit, _):
        first = once.in_transaction(db).send(7)
        again = once.in_transaction(db).send(7)
        both = shop.beat.in_transaction(db).send([once.call(7), shop.welcome.call(8)])
        commit()
    assert first.created
    assert (again.id, again.created) == (first.id, False)
    assert [job.created for job in both] == [False, True]
    assert shop.work(first) == 7


def test_a_key_that_was_rolled_back_is_free(shop: Any) -> None:
    once = shop.welcome.options(unique="welcome:7")
    with shop.connect() as (db, _, rollback):
        once.in_transaction(db).send(7)
        rollback()
    assert once.send(7).created


def test_no_calls_are_no_jobs(shop: Any) -> None:
    with shop.connect() as (db, _, rollback):
        assert shop.beat.in_transaction(db).send([]) == []
        rollback()


def test_waiting_for_others_is_refused(shop: Any) -> None:
    first = shop.welcome.send(1)
    shop.beat.backend.wait_for(shop.beat.aclose())
    with shop.connect() as (db, _, rollback):
        with pytest.raises(Invalid, match="after the commit"):
            shop.welcome.options(after=(first.id,)).in_transaction(db).send(2)
        rollback()


def test_a_flow_exists_once_the_transaction_commits(shop: Any) -> None:
    first = shop.welcome.call(1)
    second = shop.welcome.options(after=first).call(2)
    third = shop.welcome.options(after=on_failure(first)).call(3)
    with shop.connect() as (db, _, rollback):
        gone = shop.beat.in_transaction(db).send([third, second, first])
        rollback()
    with shop.connect() as (db, commit, _):
        jobs = shop.beat.in_transaction(db).send([third, second, first])
        commit()
    assert not any(map(shop.is_known, gone))
    assert shop.work(jobs[1]) == 2
    assert [job.info().state for job in jobs] == ["cancelled", "succeeded", "succeeded"]


def test_another_connection_takes_the_place_of_the_first(shop: Any) -> None:
    with shop.connect() as (db, _, rollback), shop.connect() as (other, commit, _):
        job = shop.welcome.in_transaction(db).in_transaction(other).send(7)
        commit()
        rollback()
    assert shop.is_known(job)


# From coroutines


def test_coroutines_commit_and_roll_back(async_shop: Any) -> None:
    async def buy() -> None:
        async with async_shop.connect() as (db, _, rollback):
            gone = await async_shop.welcome.in_transaction(db).asend(6)
            await rollback()
        async with async_shop.connect() as (db, commit, _):
            once = async_shop.welcome.options(unique="welcome:7").in_transaction(db)
            kept = await once.asend(7)
            again = await once.asend(7)
            await async_shop.beat.in_transaction(db).asend(
                [async_shop.welcome.call(n) for n in (8, 9)]
            )
            assert await async_shop.beat.in_transaction(db).asend([]) == []
            await commit()
        assert (kept.created, again.created, again.id) == (True, False, kept.id)
        async with async_shop.beat:
            assert await kept.aresult(PATIENCE) == 7
            with pytest.raises(NotFound):
                await gone.ainfo()
            await eventually(lambda: len(async_shop.greeted) == 3, "all have run")
        assert sorted(async_shop.greeted) == [7, 8, 9]

    asyncio.run(buy())


def test_a_plain_send_on_an_asynchronous_connection_says_what_to_do(async_shop: Any) -> None:
    async def buy() -> None:
        async with async_shop.connect() as (db, _, rollback):
            with pytest.raises(TypeError, match="use asend"):
                async_shop.welcome.in_transaction(db).send(7)
            await rollback()

    asyncio.run(buy())


async def test_coroutines_may_use_a_plain_connection(lite: Any) -> None:
    with of_sqlite3(lite.place) as (db, commit, _):
        job = await lite.welcome.in_transaction(db).asend(7)
        commit()
    assert (await job.ainfo()).state is JobState.WAITING


def test_a_connection_that_commits_by_itself_is_its_own_transaction(lite: Any) -> None:
    with contextlib.closing(sqlite3.connect(lite.place, isolation_level=None)) as db:
        job = lite.welcome.in_transaction(db).send(7)
    assert lite.is_known(job)


# Refusals


def test_another_file_is_refused(lite: Any, tmp_path: Path) -> None:
    for place in (str(tmp_path / "other.db"), ":memory:"):
        with (
            contextlib.closing(sqlite3.connect(place)) as db,
            pytest.raises(Invalid, match="one transaction needs one file") as refused,
        ):
            lite.welcome.in_transaction(db).send(7)
        assert refused.value.field == "connection"


def test_another_name_of_the_same_file_will_do(lite: Any, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(lite.place)
    with contextlib.closing(sqlite3.connect(tmp_path / "link.db")) as db:
        assert lite.welcome.in_transaction(db).send(7).created


def test_the_file_of_an_application_takes_its_rows_and_its_jobs_in_one_transaction(
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "app.db")
    with contextlib.closing(sqlite3.connect(place)) as db:
        db.execute("CREATE TABLE jobs (title TEXT)")
        db.execute("PRAGMA user_version = 7")
    shop = shop_on("sqlite", tmp_path, None, name="app.db")
    with of_sqlite3(place) as (db, commit, _):
        db.execute("INSERT INTO jobs VALUES ('baker')")
        job = shop.welcome.in_transaction(db).send(7)
        commit()
    assert shop.work(job) == 7
    with contextlib.closing(sqlite3.connect(place)) as db:
        assert db.execute("SELECT title FROM jobs").fetchall() == [("baker",)]
        assert db.execute("PRAGMA user_version").fetchall() == [(7,)]
    shop.close()


def test_a_file_without_the_tables_is_refused(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/new.db")
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "new.db")) as db,
        pytest.raises(Misconfigured, match="onbeat migrate"),
    ):
        beat.in_transaction(db).send(http("GET", "http://127.0.0.1/"))


def test_a_second_copy_of_sqlite_beside_an_open_store_is_refused(lite: Any) -> None:
    """They would not see each other's locks, and lose what the other has committed."""
    assert apsw.using_amalgamation, "the test is for an apsw that brings its own SQLite"
    with (
        lite.beat.started(),
        of_sqlite3(lite.place) as (db, _, _),
        pytest.raises(Invalid, match=r"apsw\.Connection"),
    ):
        lite.welcome.in_transaction(db).send(7)


def test_an_apsw_connection_may_be_used_beside_an_open_store(lite: Any) -> None:
    with lite.beat.started(), of_apsw(lite.place) as (db, commit, _):
        job = lite.welcome.in_transaction(db).send(7)
        commit()
        assert job.result(PATIENCE) == 7


@pytest.mark.parametrize("thing", [None, "sqlite:///onbeat.db", object(), datetime.now(UTC)])
def test_an_unknown_type_is_refused_with_what_is_accepted(lite: Any, thing: Any) -> None:
    for take in (lite.welcome.in_transaction, lite.beat.in_transaction):
        with pytest.raises(TypeError, match=r"sqlite3, apsw, .* asyncmy or PyMySQL.*SQLAlchemy"):
            take(thing)


def test_a_connection_to_another_kind_of_database_is_refused(lite: Any, database: Any) -> None:
    async def ask() -> None:
        db = await asyncpg.connect(database)
        try:
            with pytest.raises(Invalid, match="to PostgreSQL, and the store is SQLite"):
                await lite.welcome.in_transaction(db).asend(7)
        finally:
            await db.close()

    asyncio.run(ask())


def test_a_store_in_memory_has_no_transactions_to_share(tmp_path: Path) -> None:
    beat = Onbeat("memory://")
    with (
        contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as db,
        pytest.raises(
            Misconfigured, match="SQLite, PostgreSQL, MariaDB and MySQL, not on memory://"
        ),
    ):
        beat.in_transaction(db).send(http("GET", "http://127.0.0.1/"))


def test_a_service_elsewhere_keeps_its_own_transactions() -> None:
    beat = Onbeat("http://127.0.0.1:1")
    with contextlib.closing(sqlite3.connect(":memory:")) as db, pytest.raises(Misconfigured):
        beat.in_transaction(db).send(http("GET", "http://127.0.0.1/"))


def test_no_driver_is_imported() -> None:
    code = "import sys, onbeat; onbeat.Onbeat('memory://').in_transaction"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*sys.modules)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {"sqlite3", "asyncpg", "psycopg", "sqlalchemy"}.isdisjoint(done.stdout.split())


# Events


def published(shop: Any) -> list[tuple[str, str, Any]]:
    return [(one.id, one.source, one.data) for one in shop.beat.events.list()]


def test_a_commit_brings_the_event(shop: Any) -> None:
    with shop.connect() as (db, commit, _):
        event = shop.beat.in_transaction(db).publish("order.paid", {"order": 7}, source="/shop")
        commit()
    assert event.created
    assert published(shop) == [(event.id, "/shop", {"order": 7})]


def test_after_a_rollback_there_is_no_event(shop: Any) -> None:
    with shop.connect() as (db, _, rollback):
        shop.beat.in_transaction(db).publish("order.paid", {"order": 7})
        rollback()
    assert published(shop) == []


def test_an_event_in_a_transaction_is_stored_once(shop: Any) -> None:
    shop.beat.events.publish("order.paid", 1, id="7")
    shop.beat.close()
    with shop.connect() as (db, commit, _):
        sender = shop.beat.in_transaction(db)
        assert not sender.publish("order.paid", 2, id="7").created
        assert sender.publish("order.paid", 3, id="8").created
        assert not sender.publish("order.paid", 4, id="8").created
        commit()
    assert published(shop) == [("8", "default", 3), ("7", "default", 1)]


def test_a_wrong_event_in_a_transaction_is_refused(lite: Any) -> None:
    with of_apsw(lite.place) as (db, _, rollback):
        with pytest.raises(Invalid, match="type must not begin with onbeat"):
            lite.beat.in_transaction(db).publish("onbeat.job.failed")
        with pytest.raises(TypeError, match="kind"):
            lite.beat.in_transaction(db).publish("a", kind="b")
        rollback()


async def test_an_event_on_an_asynchronous_connection(async_shop: Any) -> None:
    async with async_shop.connect() as (db, commit, _):
        sender = async_shop.beat.in_transaction(db)
        with pytest.raises(TypeError, match="apublish"):
            sender.publish("order.paid")
        event = await sender.apublish("order.paid", {"order": 7})
        await commit()
    assert [one.id for one in await async_shop.beat.events.alist()] == [event.id]
    await async_shop.beat.aclose()
