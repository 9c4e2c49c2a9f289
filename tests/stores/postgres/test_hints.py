"""What other processes hear, also after their connection was lost."""

import asyncio
import time

import asyncpg
import pytest

from conditions import eventually
from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.postgres.connection import parse_dsn
from onbeat.stores.postgres.hints import NOTICE_SECONDS_MAX, Hints
from onbeat.stores.postgres.store import PostgresStore
from onbeat.testing.build import a_job


class Ear:
    def __init__(self, store: PostgresStore) -> None:
        self.heard: list[Hint] = []
        self.stop = store.listen(self.heard.append)

    async def hears(self, hint: Hint) -> None:
        await eventually(lambda: hint in self.heard, f"{hint} is heard")


async def listening(database: str) -> bool:
    db = await asyncpg.connect(database)
    try:
        sql = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE 'LISTEN%'
        """
        return bool(await db.fetchval(sql))
    finally:
        await db.close()


async def subscribed(store: PostgresStore, database: str) -> Ear:
    ear = Ear(store)
    await ear.hears(Hint.ENDED)  # which is told with all others once it listens
    await eventually(lambda: listening(database), "it listens")
    ear.heard.clear()
    return ear


async def test_changes_by_another_store_are_heard(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    ear = await subscribed(store, database)
    await other.enqueue([a_job()])
    await ear.hears(Hint.JOBS)
    assert set(ear.heard) == {Hint.JOBS}
    ear.stop()


async def test_many_changes_are_few_notifications(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    ear = await subscribed(store, database)
    await asyncio.gather(*(other.enqueue([a_job()]) for _ in range(500)))
    await ear.hears(Hint.JOBS)
    await other.pause_queue("slow", paused=True)
    assert len(ear.heard) < 100
    ear.stop()


async def test_hints_come_at_once_while_somebody_listens(
    store: PostgresStore, database: str
) -> None:
    assert not store.hints_at_once
    ear = await subscribed(store, database)
    await eventually(lambda: store.hints_at_once, "it listens")
    ear.stop()


async def test_our_own_changes_are_heard_once(store: PostgresStore, database: str) -> None:
    ear = await subscribed(store, database)
    await store.enqueue([a_job()])
    assert ear.heard == [Hint.JOBS]
    ear.stop()


async def test_after_a_lost_connection_everything_is_told_once(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    ear = await subscribed(store, database)
    db = await asyncpg.connect(database)
    await db.execute(
        """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%'
        """
    )
    await db.close()
    for hint in Hint:
        await ear.hears(hint)
    await eventually(lambda: store.hints_at_once, "it listens again")
    ear.heard.clear()
    await other.enqueue([a_job()])
    await ear.hears(Hint.JOBS)
    ear.stop()


async def test_one_job_after_a_quiet_moment_is_told_of_by_its_own_commit(
    store: PostgresStore, other: PostgresStore, database: str
) -> None:
    ear = await subscribed(store, database)
    await eventually(lambda: quiet(other), "nothing was told for a moment")
    await other._hints.stop()  # who sends notifications by themselves
    await other.enqueue([a_job()])
    await ear.hears(Hint.JOBS)
    ear.stop()


ONE = JobId("one")


async def quiet(store: PostgresStore) -> bool:
    return time.monotonic() >= store._hints._next_notice_at


def test_no_process_holds_the_lock_of_notifications_for_more_than_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: at)
    hints = Hints(parse_dsn("postgresql://nobody@nowhere/nothing"))
    notice = hints.notice(ONE)
    assert notice is not None
    assert notice[0] == "onbeat_hints"
    assert hints.notice(ONE) is None, "while it is not told of"
    at += 0.002
    hints.notify({Hint.JOBS}, {Hint.JOBS}, ONE)
    at += 0.017
    assert hints.notice(ONE) is None
    at += 0.002
    assert hints.notice(ONE) is not None


def test_a_notice_that_failed_holds_up_the_next_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: at)
    hints = Hints(parse_dsn("postgresql://nobody@nowhere/nothing"))
    hints.notice(ONE)
    at += NOTICE_SECONDS_MAX - 0.1
    assert hints.notice(ONE) is None
    at += 0.2
    assert hints.notice(ONE) is not None
