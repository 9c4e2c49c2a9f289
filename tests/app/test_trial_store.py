"""`beat.testing(at, store=URL)`: a trial on a database, as the program will have it."""

import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apsw import Connection

from onbeat import Context, Fail, Misconfigured, Onbeat, Retry, daily
from stores.mysql import server as mysql
from stores.postgres import server as postgres

AT = "2026-03-28T23:00+01:00"
BEGIN = datetime(2026, 3, 28, 22, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite", "postgres", "mysql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "memory":
            yield "memory://"
        case "sqlite":
            yield f"sqlite:///{tmp_path}/trial.db"
        case "postgres":
            with postgres.database(f"onbeat_trial_{os.getpid()}") as url:
                yield url
        case _:
            with mysql.database() as url:
                yield url


def program(url: str = "memory://") -> tuple[Onbeat, list[datetime]]:
    """A program with a nightly schedule; the list gets the times at which it runs."""
    beat, ran = Onbeat(url), list[datetime]()

    @beat.schedule(daily("02:30", tz="Europe/Berlin"), key="books")
    @beat.task("books", retry=Retry(3, delay="1m", jitter=False))
    def books(context: Context) -> None:
        ran.append(context.now)
        if context.attempt < 2:
            raise Fail("not yet")

    return beat, ran


def test_time_goes_as_on_a_memory_store(store: str) -> None:
    beat, ran = program()
    with beat.testing(at=AT, store=store) as trial:
        trial.advance("2d")
        assert [at - BEGIN for at in ran] == [
            timedelta(hours=hours, minutes=minutes)
            for hours, minutes in ((3, 30), (3, 31), (26, 30), (26, 31))
        ]
        trial.assert_ran("books", 4)
        trial.advance_to(datetime(2026, 6, 1, tzinfo=UTC))
        trial.assert_ran("books", 2 * 64)
        jobs = beat.jobs.list(state="succeeded", limit=1000)
        assert [job.finished_at - BEGIN for job in jobs if job.finished_at][-1] == timedelta(
            hours=3, minutes=31
        )


def test_what_the_trial_stored_stays_there_and_the_own_store_is_not_touched(
    tmp_path: Path,
) -> None:
    beat, _ = program(f"sqlite:///{tmp_path}/own.db")
    url = f"sqlite:///{tmp_path}/trial.db"
    with beat.testing(at=AT, store=url) as trial:
        trial.advance("1d")
    assert not (tmp_path / "own.db").exists()
    with Onbeat(url) as later:
        assert [job.state for job in later.jobs.list(task="books", state="succeeded")] == [
            "succeeded"
        ]
    with beat.testing(at="2026-03-30T00:00Z", store=url) as trial:
        trial.advance("1h")
        trial.assert_ran("books", 2)


def test_a_trial_can_have_the_store_of_the_program(tmp_path: Path) -> None:
    """So a handler's own transaction and its jobs are in one database, as they will be."""
    path = tmp_path / "shop.db"
    beat: Any = Onbeat(f"sqlite:///{path}")
    sent: list[int] = []

    @beat.task("mail")
    def mail(order: int) -> None:
        sent.append(order)

    @beat.task("order")
    def place(order: int, *, fail: bool) -> None:
        with open_shop(path) as connection, connection:
            connection.execute("INSERT INTO orders VALUES (?)", (order,))
            mail.in_transaction(connection).send(order)
            if fail:
                raise Fail("rolled back", retryable=False)

    with open_shop(path) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    with beat.testing(at=AT, store=f"sqlite:///{path}") as trial:
        place.send(1, fail=False)
        place.send(2, fail=True)
        trial.drain()
        trial.assert_ran(place, 2)
    assert sent == [1]
    with open_shop(path) as connection:
        assert list(connection.execute("SELECT id FROM orders")) == [(1,)]


def open_shop(path: Path) -> closing[Connection]:
    """A connection that waits for the trial's own writes, as the guide asks for."""
    connection = Connection(str(path))
    connection.set_busy_timeout(10_000)
    return closing(connection)


def test_an_unknown_store_is_refused_and_changes_nothing() -> None:
    beat, _ = program()
    before = beat.backend.store
    with pytest.raises(Misconfigured, match="store 'pigeon' is not one"):
        beat.testing(at=AT, store="pigeon://x")
    assert beat.backend.store is before
