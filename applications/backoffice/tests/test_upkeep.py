"""Users and logs that go, in portions."""

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from backoffice.database import Database
from backoffice.upkeep import (
    CleanedUp,
    Upkeep,
    add_upkeep,
    clean_up_users,
    remove_logs,
)
from onbeat import Onbeat
from world import World

AT = datetime(2026, 10, 20, 3, tzinfo=UTC)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@asynccontextmanager
async def upkeep(world: World) -> AsyncIterator[Upkeep]:
    database = Database(world.url)
    beat = Onbeat("memory://")
    try:
        tasks = add_upkeep(beat, database, "UTC")
        async with beat:
            yield tasks
    finally:
        await database.close()


def log_line(world: World, at: datetime) -> int:
    return world.add("debugger_logs", message="line", created_at=at)


def without_password(world: World, since: datetime, **columns: object) -> int:
    given = {"needs_password_set": 1, "needs_set_password_date": since, **columns}
    return world.user(f"{since:%d%H%M%S}@example.com", **given)


async def test_s1_a14_only_the_log_row_of_eight_days_goes(world: World) -> None:
    """S1-49, S1-D31."""
    six = log_line(world, AT - 6 * DAY)
    log_line(world, AT - 8 * DAY)
    async with upkeep(world) as tasks:
        job = await tasks.remove_logs.asend(AT)
        assert await job.aresult(timeout=30) == 1
        assert await (await tasks.remove_logs.asend(AT)).aresult(timeout=30) == 0
    assert world.rows("SELECT id FROM debugger_logs") == [(six,)]


async def test_s1_49_the_edge_of_logs_is_seven_days(world: World) -> None:
    kept = log_line(world, AT - 7 * DAY)
    log_line(world, AT - 7 * DAY - timedelta(microseconds=1))
    async with upkeep(world) as tasks:
        assert await (await tasks.remove_logs.asend(AT)).aresult(timeout=30) == 1
    assert world.rows("SELECT id FROM debugger_logs") == [(kept,)]


async def test_s1_48_users_without_a_password_go_after_seven_days(world: World) -> None:
    gone = without_password(world, AT - 7 * DAY)
    world.add("workspaces_users", workspace_id=9, user_id=gone)
    late = without_password(world, AT - 7 * DAY + SECOND)
    done = without_password(world, AT - 9 * DAY, needs_password_set=0)
    undated = world.user("undated@example.com", needs_password_set=1)
    async with upkeep(world) as tasks:
        job = await tasks.clean_up_users.asend(AT)
        assert await job.aresult(timeout=30) == CleanedUp(deleted=1)
    assert world.rows("SELECT id FROM users ORDER BY id") == [(late,), (done,), (undated,)]
    assert world.rows("SELECT * FROM workspaces_users") == []


async def test_the_owner_of_a_workspace_stays(world: World) -> None:
    """Invoices and cards name the owner; who is only a member goes."""
    owner = without_password(world, AT - 30 * DAY)
    world.workspace(owner)
    without_password(world, AT - 29 * DAY)
    async with upkeep(world) as tasks:
        for deleted in (1, 0):
            job = await tasks.clean_up_users.asend(AT)
            assert await job.aresult(timeout=30) == CleanedUp(deleted=deleted, owners=1)
    assert world.rows("SELECT id FROM users") == [(owner,)]


async def test_a_user_whom_other_rows_need_stops_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    users = [without_password(world, AT - number * DAY) for number in (10, 9, 8)]
    world.run(
        "CREATE TABLE notes (user_id BIGINT NOT NULL, FOREIGN KEY (user_id) REFERENCES users (id))"
    )
    world.add("notes", user_id=users[1])
    try:
        async with upkeep(world) as tasks:
            job = await tasks.clean_up_users.asend(AT)
            assert await job.aresult(timeout=30) == CleanedUp(deleted=2, refused=1)
    finally:
        world.run("DROP TABLE notes")
    assert world.rows("SELECT id FROM users") == [(users[1],)]
    assert f"user {users[1]} stays, as other rows need it" in caplog.text


async def test_s1_d35_users_go_in_portions_on_one_session(world: World) -> None:
    """Owners lie among them, and some have one date on both sides of a portion's end."""
    for number in range(25):
        user = without_password(world, AT - (30 + number // 7) * DAY)
        if number % 4 == 0:
            world.workspace(user)
    database, seen = Database(world.url, pool_max=1), list[float]()
    try:
        async with database.session() as session:
            result = await clean_up_users(session, AT, seen.append, portion=3)
    finally:
        await database.close()
    assert result == CleanedUp(deleted=18, owners=7)
    assert seen == [3, 6, 9, 12, 15, 18, 21, 24, 25]
    assert len(world.rows("SELECT id FROM users")) == 7


async def test_s1_d40_a_hundred_thousand_log_rows_go_in_bounded_memory(world: World) -> None:
    rows, portion = 100_000, 1_000
    world.run(
        "INSERT INTO debugger_logs (message, created_at)"
        " SELECT repeat('x', 200), ? - INTERVAL seq SECOND FROM seq_1_to_100000",
        AT - 8 * DAY,
    )
    kept = log_line(world, AT - 6 * DAY)
    database, seen = Database(world.url, pool_max=1), list[float]()
    try:
        async with database.session() as session:
            tracemalloc.start()
            try:
                removed = await remove_logs(session, AT - 7 * DAY, seen.append, portion)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    finally:
        await database.close()
    assert removed == rows
    assert seen == [float(each) for each in range(portion, rows + 1, portion)]
    assert peak < 1_000_000
    assert world.rows("SELECT id FROM debugger_logs") == [(kept,)]


class StoppedError(Exception):
    """The process ends here."""


async def test_a_removal_that_was_stopped_goes_on_where_it_was(world: World) -> None:
    """Each portion is a transaction of its own."""
    for number in range(10):
        log_line(world, AT - (8 + number) * DAY)

    def stop_at_six(done: float) -> None:
        if done == 6:
            raise StoppedError

    database = Database(world.url)
    try:
        with pytest.raises(StoppedError):
            async with database.session() as session:
                await remove_logs(session, AT, stop_at_six, portion=3)
        assert len(world.rows("SELECT id FROM debugger_logs")) == 4
        async with database.session() as session:
            assert await remove_logs(session, AT, lambda _: None, portion=3) == 4
    finally:
        await database.close()
