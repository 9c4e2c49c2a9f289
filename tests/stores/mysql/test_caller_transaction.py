"""Jobs that are sent and finished in a transaction of the caller's, on MariaDB and MySQL."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import asyncmy
import asyncmy.cursors
import pytest
from msgspec.structs import replace

from onbeat import Invalid, LeaseLost, Onbeat
from onbeat.app.call import Call, options
from onbeat.app.transaction.sender import finish_in_transaction
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.target import HandlerTarget
from onbeat.ports.events import EventFilter
from onbeat.ports.store import Enqueued
from onbeat.stores.mysql.caller_transaction import TABLES
from onbeat.stores.mysql.migrate import migrations
from onbeat.stores.mysql.store import MysqlStore
from onbeat.testing.build import DAY, NOW, a_job
from onbeat.testing.store_contract.events import an_event
from onbeat.testing.store_contract.steps import (
    FAILURE,
    a_settlement,
    run_and_end,
    run_job,
    stored_job,
)

CREATED = re.compile(r"^CREATE TABLE IF NOT EXISTS (\w+)", re.MULTILINE)
Begun = tuple[Any, Callable[[], Coroutine[Any, Any, None]], Callable[[], Coroutine[Any, Any, None]]]


def parts_of(dsn: str) -> dict[str, Any]:
    url = urlsplit(dsn)
    socket = dict(parse_qsl(url.query)).get("unix_socket")
    return {
        "user": url.username or "root",
        "password": url.password or "",
        "host": url.hostname or "localhost",
        "port": url.port or 3306,
        "unix_socket": socket,
    }


@contextlib.asynccontextmanager
async def of_asyncmy(dsn: str) -> AsyncIterator[Begun]:
    """In another database of the server, and with rows as dictionaries."""
    db = await asyncmy.connect(
        **parts_of(dsn), database="information_schema", cursor_cls=asyncmy.cursors.DictCursor
    )
    try:
        await db.begin()
        yield db, db.commit, db.rollback
    finally:
        db.close()


def alchemy_url(dsn: str) -> str:
    url = urlsplit(dsn)
    return url._replace(scheme="mysql+asyncmy").geturl()


@contextlib.asynccontextmanager
async def of_alchemy_connection(dsn: str) -> AsyncIterator[Begun]:
    engine = import_module("sqlalchemy.ext.asyncio").create_async_engine(alchemy_url(dsn))
    try:
        async with engine.connect() as db:
            yield db, db.commit, db.rollback
    finally:
        await engine.dispose()


@contextlib.asynccontextmanager
async def of_alchemy_session(dsn: str) -> AsyncIterator[Begun]:
    module = import_module("sqlalchemy.ext.asyncio")
    engine = module.create_async_engine(alchemy_url(dsn))
    try:
        async with module.AsyncSession(engine) as session:
            yield session, session.commit, session.rollback
    finally:
        await engine.dispose()


KINDS = {
    "asyncmy": of_asyncmy,
    "connection": of_alchemy_connection,
    "session": of_alchemy_session,
}


async def begin_again(db: Any) -> None:
    """SQLAlchemy begins by itself."""
    if isinstance(db, asyncmy.connection.Connection):
        await db.begin()


@pytest.fixture(params=[*KINDS])
async def begun(
    request: pytest.FixtureRequest, store: MysqlStore, dsn: str
) -> AsyncIterator[Begun]:
    """A connection in a transaction, with its commit and rollback."""
    async with KINDS[request.param](dsn) as begun:
        yield begun


@pytest.fixture
async def beat(store: MysqlStore) -> AsyncIterator[Onbeat]:
    beat = Onbeat(store=store)
    yield beat
    beat.backend.portal.close()


def call_of(**given: Any) -> Call[int]:
    return Call(HandlerTarget("work"), options(**given))


def sending(beat: Onbeat, connection: Any, **given: Any) -> Any:
    return beat.in_transaction(connection).asend(call_of(**given))


async def test_jobs_exist_if_and_only_if_the_transaction_commits(
    beat: Onbeat, store: MysqlStore, begun: Begun
) -> None:
    db, commit, rollback = begun
    gone = await sending(beat, db)
    await rollback()
    assert await store.job(gone.id) is None
    await begin_again(db)
    kept = await sending(beat, db, unique="key", priority=3)
    assert await store.job(kept.id) is None
    await commit()
    job = await store.job(kept.id)
    assert job is not None
    assert (job.state, job.unique, job.priority) == (JobState.WAITING, "key", 3)


async def test_events_are_published_if_and_only_if_the_transaction_commits(
    beat: Onbeat, store: MysqlStore, begun: Begun
) -> None:
    db, commit, rollback = begun
    await beat.in_transaction(db).apublish("order.paid", {"order": 1}, id="1", source="/shop")
    await rollback()
    assert list(await store.events(EventFilter(limit=9))) == []
    await begin_again(db)
    await sending(beat, db)  # the snapshot begins
    await store.publish([an_event(id="2", source="/shop")], NOW)
    created = [
        (await beat.in_transaction(db).apublish("order.paid", id=id, source="/shop")).created
        for id in "1112"
    ]
    assert created == [True, False, False, False]
    assert len(await store.events(EventFilter(limit=9))) == 1
    await commit()
    assert {one.event.id for one in await store.events(EventFilter(limit=9))} == {"1", "2"}


@contextlib.contextmanager
def of_pymysql(dsn: str) -> Iterator[Any]:
    """With rows as dictionaries."""
    pymysql = import_module("pymysql")
    given = {name: value for name, value in parts_of(dsn).items() if value is not None}
    db = pymysql.connect(**given, cursorclass=pymysql.cursors.DictCursor)
    try:
        yield db
    finally:
        db.close()


@contextlib.contextmanager
def of_alchemy(dsn: str, kind: str) -> Iterator[Any]:
    url = urlsplit(dsn)._replace(scheme="mysql+pymysql").geturl()
    engine = import_module("sqlalchemy").create_engine(url)
    try:
        with (
            import_module("sqlalchemy.orm").Session(engine)
            if kind == "session"
            else engine.connect()
        ) as db:
            yield db
    finally:
        engine.dispose()


SYNCHRONOUS: dict[str, Callable[[str], contextlib.AbstractContextManager[Any]]] = {
    "pymysql": of_pymysql,
    "connection": partial(of_alchemy, kind="connection"),
    "session": partial(of_alchemy, kind="session"),
}


@pytest.mark.parametrize("kind", SYNCHRONOUS)
@pytest.mark.parametrize("commits", [True, False])
async def test_a_synchronous_connection_sends_publishes_and_finishes(
    store: MysqlStore, dsn: str, kind: str, commits: bool
) -> None:
    job = await run_job(store, a_job())

    def work() -> tuple[str, list[bool]]:
        with Onbeat(dsn) as beat, SYNCHRONOUS[kind](dsn) as db:
            inside = beat.in_transaction(db)
            sent = inside.send(call_of(unique="key"))
            created = [inside.publish("paid", id="1", source="/shop").created for _ in range(2)]
            finish_in_transaction(store, db, a_settlement(job))
            (db.commit if commits else db.rollback)()
            return sent.id, created

    sent, created = await asyncio.to_thread(work)
    assert created == [True, False]
    assert (await store.job(JobId(sent)) is not None) is commits
    assert len(await store.events(EventFilter(limit=9))) == (1 if commits else 0)
    ended = JobState.SUCCEEDED if commits else JobState.RUNNING
    assert (await stored_job(store, job)).state is ended


async def test_a_unique_key_is_found_though_the_snapshot_is_older(
    beat: Onbeat, store: MysqlStore, begun: Begun
) -> None:
    db, commit, _ = begun
    await sending(beat, db)  # the snapshot begins
    live, held = a_job(unique="live"), a_job(unique="held", unique_for=DAY * 30_000)
    await store.enqueue([live])
    await run_and_end(store, held)
    for holder in (live, held):
        answer = await sending(beat, db, unique=holder.unique)
        assert (answer.id, answer.created) == (holder.id, False)
    await commit()


async def test_many_jobs_are_one_statement_and_answered_in_order(
    beat: Onbeat, store: MysqlStore, begun: Begun
) -> None:
    db, commit, _ = begun
    calls = [call_of(unique=f"{n % 5}") for n in range(10)]
    sent = await beat.in_transaction(db).asend(calls)
    await commit()
    assert [one.created for one in sent] == [True] * 5 + [False] * 5
    assert [one.id for one in sent[:5]] == [one.id for one in sent[5:]]


async def test_a_job_succeeds_if_and_only_if_the_transaction_commits(
    store: MysqlStore, begun: Begun
) -> None:
    db, commit, rollback = begun
    job = await run_job(store, a_job())
    dependent = a_job(after=(job.id,))
    await store.enqueue([dependent])
    await finish_in_transaction(store, db, a_settlement(job))
    await rollback()
    assert (await stored_job(store, job)).state is JobState.RUNNING
    await begin_again(db)
    await finish_in_transaction(store, db, a_settlement(job))
    await commit()
    assert (await stored_job(store, job)).state is JobState.SUCCEEDED
    assert (await stored_job(store, dependent)).blocked_by == 0


async def test_a_dependent_that_came_after_the_snapshot_is_freed(
    beat: Onbeat, store: MysqlStore, begun: Begun
) -> None:
    db, commit, _ = begun
    job = await run_job(store, a_job())
    await sending(beat, db)  # the snapshot begins
    dependent = a_job(after=(job.id,))
    await store.enqueue([dependent])
    await finish_in_transaction(store, db, a_settlement(job))
    await commit()
    assert (await stored_job(store, dependent)).blocked_by == 0


async def test_a_lost_lease_is_told_and_writes_nothing(store: MysqlStore, begun: Begun) -> None:
    db, commit, _ = begun
    job = await run_job(store, a_job())
    stale = a_settlement(replace(job, token=job.token + 1), FAILURE)
    with pytest.raises(LeaseLost):
        await finish_in_transaction(store, db, stale)
    await commit()
    assert (await stored_job(store, job)).state is JobState.RUNNING


async def test_a_connection_without_a_transaction_cannot_finish(
    store: MysqlStore, dsn: str
) -> None:
    job = await run_job(store, a_job())
    db = await asyncmy.connect(**parts_of(dsn), autocommit=True)
    try:
        with pytest.raises(Invalid, match="no open transaction"):
            await finish_in_transaction(store, db, a_settlement(job))
    finally:
        db.close()
    assert (await stored_job(store, job)).state is JobState.RUNNING


async def test_a_held_key_is_written_by_the_transaction_that_finishes(
    store: MysqlStore, begun: Begun
) -> None:
    db, commit, _ = begun
    job = await run_job(store, a_job(unique="key", unique_for=DAY))
    await finish_in_transaction(store, db, a_settlement(job))
    assert await store.held_key("key", NOW) is None
    await commit()
    rival = a_job(unique="key")
    assert list(await store.enqueue([rival])) == [Enqueued(job.id, created=False)]


def test_every_table_is_qualified() -> None:
    """But for those that no job needs."""
    created = CREATED.findall("\n".join(migrations()))
    assert set(created) - {"meta", "workers", "marks", "changes"} == {*TABLES.split("|")}
