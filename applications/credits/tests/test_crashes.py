"""A process that is killed between any two statements changes nothing in the end."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import victim
from credits.config import Config
from credits.topup import PORTION
from service import PATIENCE, running
from world import World, mariadb, stamp

DAY = "2025/11/18"


class Victims:
    """Processes that do one step each."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, victim.__file__],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def killed(self, world: World, step: str, at: int) -> bool:
        """Whether the process was killed before statement `at`; else it has done all."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = f"{step} {world.config.database} {world.config.uploads} {at}\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in {0, -signal.SIGKILL}
        return code != 0

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    result = Victims()
    yield result
    result.close()


def test_a_top_up_is_whole_or_not_there(world: World, victims: Victims) -> None:
    world.user("a", 3)
    world.user("b", 5)
    at = 1
    while victims.killed(world, "top_up", at):
        assert (world.free(), world.audits()) == ({"a": 3, "b": 5}, [])
        at += 1
    assert at > 6
    assert victims.killed(world, "top_up", 100) is False
    assert world.free() == {"a": 10, "b": 10}
    assert [credits for _, credits, _ in world.audits()] == [7, 5]


def test_a_payment_is_booked_whole_or_not_at_all(world: World, victims: Victims) -> None:
    world.user("a", 3)
    at = 1
    while victims.killed(world, "book", at):
        assert (world.audits(), world.rows("SELECT * FROM credit_purchases")) == ([], [])
        at += 1
    assert at > 5
    assert victims.killed(world, "book", 100) is False
    assert world.rows("SELECT paid_credits FROM users") == [(50,)]
    assert world.audits() == [("a", 50, "Purchase: 50 credits")]


def old_file(world: World, name: str) -> Path:
    file = world.config.uploads / DAY / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("picture")
    os.utime(file, (0, 0))
    return file


def test_s5_d21_a_sweep_that_is_killed_leaks_no_file_and_no_record(
    world: World, victims: Victims
) -> None:
    """At each point: whatever is wanted is there, and the next sweep removes the rest."""
    wanted, owned = old_file(world, "wanted.png"), old_file(world, "owned.png")
    url = f"/static/uploads/{DAY}/"
    world.run("INSERT INTO blocks (id, data) VALUES ('b', ?)", f'{{"url": "{url}wanted.png"}}')
    insert = "INSERT INTO uploads (id, original_url, timestamp, block_id) VALUES (?, ?, ?, ?)"
    old = stamp(victim.AT.replace(month=11))
    world.run(insert, "owned", f"{url}owned.png", old, None)
    at = 1
    while True:
        old_file(world, "orphan.png")
        old_file(world, "loose.png")
        world.run("DELETE FROM uploads WHERE id = 'orphan'")
        world.run("DELETE FROM upload_removals")
        world.run(insert, "orphan", f"{url}orphan.png", old, "gone")
        if not victims.killed(world, "sweep", at):
            break
        assert wanted.exists()
        assert owned.exists()
        victims.killed(world, "sweep", 1_000)
        assert sorted(file.name for file in wanted.parent.iterdir()) == ["owned.png", "wanted.png"]
        assert world.rows("SELECT id FROM uploads") == [("owned",)]
        assert world.rows("SELECT path FROM upload_removals") == []
        at += 2
    assert at > 15


@pytest.fixture
def game(config: Config) -> Iterator[World]:
    """On MariaDB, with a schema for itself, which is also the store of its jobs."""
    with mariadb() as url:
        yield World(replace(config, database=url))


@contextmanager
def held(world: World, user: str) -> Iterator[None]:
    """Another transaction has the row of this user."""
    let_go, is_held = threading.Event(), threading.Event()

    async def hold() -> None:
        async with world.database.session() as session, session.transaction():
            await session.rows("SELECT id FROM users WHERE id = ? {lock}", user)
            is_held.set()
            await asyncio.get_running_loop().run_in_executor(None, let_go.wait)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(asyncio.run, hold())
        try:
            assert is_held.wait(PATIENCE), "the row is not held"
            yield
        finally:
            let_go.set()
            done.result()


def test_a_service_that_is_killed_in_the_month_gives_each_user_once(game: World) -> None:
    """`kill -9` of the real service while a portion runs; the next one takes it over."""
    number = 3 * PORTION
    game.many(
        "INSERT INTO users (id, email, free_credits, monthly_credit_limit) VALUES (?, ?, 3, 10)",
        [(f"u{n:06}", f"u{n}@example.com") for n in range(number)],
    )
    with running(game) as service, held(game, f"u{number // 2:06}"):
        service.trigger()
        # The portion in the middle waits for our row.
        service.wait(lambda status: status.month.users == number - PORTION)
        service.eventually(lambda: service.states("credits.top_up_portion").count("running") == 1)
        service.kill()
    assert game.rows("SELECT count(*) FROM credit_adjustments") == [(number - PORTION,)]
    with running(game) as service:
        service.wait(lambda status: status.month.done and status.month.users == number)
    assert game.rows("SELECT DISTINCT free_credits FROM users") == [(10,)]
    assert game.rows(
        "SELECT count(*), count(DISTINCT user_id), min(credits), max(credits) FROM credit_adjustments"
    ) == [(number, number, 7, 7)]
