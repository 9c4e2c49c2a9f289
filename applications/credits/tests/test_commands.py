"""`credits` at a prompt."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from credits.__main__ import main
from credits.schema import migrate
from service import command, environment, running
from world import World


def paid(world: World) -> Sequence[tuple[str, int]]:
    return [(id, number) for id, number in world.rows("SELECT id, paid_credits FROM users")]


def test_add_gives_paid_credits_with_one_audit_row(world: World) -> None:
    world.user("a", 3, paid=5)
    ran = command(world, "add", "a@example.com", "20", "lost a bet", "--prefix", "Gift")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert command(world, "add", "a@example.com", "1").returncode == 0
    assert paid(world) == [("a", 26)]
    assert world.free() == {"a": 3}
    assert sorted(world.audits()) == [("a", 1, "Admin"), ("a", 20, "Gift: lost a bet")]


def test_a_user_may_have_so_many_credits_and_no_more(world: World) -> None:
    world.user("a", 3, paid=7)
    assert command(world, "add", "a@example.com", "2147483640").returncode == 0
    ran = command(world, "add", "a@example.com", "1")
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "the user would have more than 2147483647 credits" in ran.stderr
    assert paid(world) == [("a", 2147483647)]
    assert world.audits() == [("a", 2147483640, "Admin")]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("add", "b@example.com", "5"), 1, "no user has the e-mail address b@example.com"),
        (("add", "a@example.com", "0"), 1, "must be above 0"),
        (("add", "a@example.com", "2147483648"), 1, "at most 2147483647"),
        (("add", "a@example.com", "9223372036854775807"), 1, "at most 2147483647"),
        (("add", "a@example.com", "99999999999999999999"), 1, "at most 2147483647"),
        (("add", "a@example.com", "5", 256 * "x"), 1, "255 characters"),
        (("add", "a@example.com", "many"), 2, "invalid int value"),
        (("add", "a@example.com", "5", "--prefix", "Purchase"), 2, "invalid choice"),
        (("status", "--now"), 2, "unrecognized arguments: --now"),
        ((), 2, "the following arguments are required"),
    ],
)
def test_what_is_refused_changes_nothing(
    here: World,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    why: str,
) -> None:
    here.user("a", 3)
    assert exit_code(arguments) == code
    assert why in capsys.readouterr().err
    assert (paid(here), here.audits()) == ([("a", 0)], [])


def exit_code(arguments: Sequence[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code


@pytest.fixture
def here(sqlite: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A game that this process has the environment of."""
    for name, value in environment(sqlite).items():
        monkeypatch.setenv(name, value)
    return sqlite


def test_a_wrong_variable_is_one_line(
    here: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_TYPE", "oracle")
    assert main(["status"]) == 2
    assert capsys.readouterr().err == "credits: DB_TYPE is sqlite3 or mysql, not 'oracle'\n"
    assert here.audits() == []


@pytest.mark.usefixtures("here")
def test_tier_prints_the_limit_of_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tier", "x@a.com"]) == 0
    assert capsys.readouterr().out == "50\n"


def test_add_waits_for_a_database_that_is_locked(sqlite: World) -> None:
    """The old command gave up after 600 ms."""
    sqlite.user("a", 3)
    path = sqlite.config.database.removeprefix("sqlite:///")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert command(sqlite, "add", "a@example.com", "5").returncode == 0
    assert paid(sqlite) == [("a", 5)]


HOLD = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(0.8)
db.execute("COMMIT")
"""


def test_the_tables_of_a_game_that_is_there_are_left_as_they_are(tmp_path: Path) -> None:
    """One with other columns too, and with rows."""
    path = tmp_path / "game.db"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE users (id TEXT PRIMARY KEY, email TEXT, name TEXT, free_credits INT,"
            " paid_credits INT, monthly_credit_limit INT)"
        )
        db.execute("INSERT INTO users VALUES ('a', 'a@example.com', 'Ann', 3, 0, 10)")
    db.close()
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "DB_TYPE": "sqlite3",
        "DB_CONNECTION": str(path),
    }
    subprocess.run([sys.executable, "-m", "credits", "migrate"], env=env, check=True)
    db = sqlite3.connect(path)
    assert db.execute("SELECT * FROM users").fetchall() == [("a", "a@example.com", "Ann", 3, 0, 10)]
    assert db.execute("SELECT count(*) FROM credit_topups").fetchall() == [(0,)]
    db.close()


def test_s5_41_migrate_may_be_run_again(world: World) -> None:
    world.finish(migrate(world.database))


def test_s5_d30_status_shows_schedules_runs_and_the_month(world: World) -> None:
    """Of a real service, with a run by hand through the command line of Onbeat."""
    world.user("a", 3)
    with running(world) as service:
        service.trigger()
        service.wait(lambda status: status.month.done)
        ran = command(world, "status")
    status = json.loads(ran.stdout)
    assert [job["key"] for job in status["jobs"]] == [
        "credits.monthly_top_up",
        "credits.clean_up_purchases",
        "credits.sweep_uploads",
    ]
    assert all(job["next_at"] for job in status["jobs"])
    assert (status["month"]["users"], status["month"]["credits"]) == (1, 7)
    assert status["failed"] == []
    assert world.free() == {"a": 10}
