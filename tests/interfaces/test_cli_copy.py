"""`onbeat copy`: what it prints, what it refuses, and how it is interrupted."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from conditions import eventually_here
from interfaces.test_cli_process import on_terminal
from onbeat.app.stores import open_store
from onbeat.cli.main import root
from onbeat.model.job import Job, JobState
from onbeat.ports.store import JobExport
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import a_job, a_schedule, a_worker
from onbeat.testing.store_contract.steps import add_planned

SOURCE, TARGET = "sqlite:///source.db", "sqlite:///target.db"
NOBODY = "postgresql://onbeat:secret@127.0.0.1:1/onbeat"


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs `onbeat …` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> Result:
        result = CliRunner().invoke(root, [str(arg) for arg in args])
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def copied(onbeat: Callable[..., Any]) -> Callable[..., Any]:
    """Runs `onbeat copy` from the one store into the other."""
    return lambda *args, **more: onbeat("copy", "--from", SOURCE, "--to", TARGET, *args, **more)


@pytest.fixture
def told(copied: Callable[..., Any]) -> Callable[..., Any]:
    """The same with `--json`, read."""
    return lambda *args, **more: json.loads(copied("--json", *args, **more).stdout)


def within(url: str, act: Callable[..., Any]) -> Any:
    """What the coroutine function answers that is given the open store."""

    async def opened() -> Any:
        store = open_store(url)
        await store.open()
        try:
            return await act(store)
        finally:
            await store.close()

    return asyncio.run(opened())


@pytest.fixture
def jobs(onbeat: Callable[..., Any]) -> list[Job]:
    """Three in the source."""
    jobs = [a_job() for _ in range(3)]
    within(SOURCE, lambda store: store.enqueue(jobs))
    return jobs


def rows_of(output: str) -> dict[str, Any]:
    lines = [line.rsplit(maxsplit=3) for line in output.splitlines()]
    return {words[0]: words[1:] for words in lines if len(words) == 4}


def test_a_copy_tells_what_was_read_changed_and_left(
    copied: Callable[..., Any], jobs: list[Job]
) -> None:
    first = copied()
    assert rows_of(first.stdout)["jobs"] == ["3", "3", "0"]
    assert first.stderr == ""
    assert rows_of(copied().stdout)["jobs"] == ["3", "0", "0"]
    result = within(TARGET, lambda store: store.export_jobs(None, 9))
    assert list(result) == [JobExport(job=job) for job in jobs]


def test_a_copy_is_told_to_programs(
    told: Callable[..., Any], tmp_path: Path, jobs: list[Job]
) -> None:
    answer = told()
    nothing = {"read": 0, "changed": 0, "left": 0, "named": []}
    kinds = (
        *("queues", "schedules", "dispositions", "events", "event_keys", "event_waits"),
        *("held_keys", "idempotency_keys", "dead_letters", "log_lines"),
    )
    assert answer == {
        "from": f"sqlite:///{tmp_path}/source.db",
        "to": f"sqlite:///{tmp_path}/target.db",
        "dry_run": False,
        "live_workers": {"from": 0, "to": 0},
        "copied": dict.fromkeys(kinds, nothing) | {"jobs": nothing | {"read": 3, "changed": 3}},
        "only_in_target": {"schedules": 0, "named": []},
        "differences": [],
        "whole": True,
    }


def test_a_dry_run_counts_and_makes_nothing(
    copied: Callable[..., Any], told: Callable[..., Any], tmp_path: Path, jobs: list[Job]
) -> None:
    assert ["jobs", "3"] in [line.split() for line in copied("--dry-run").stdout.splitlines()]
    answer = told("--dry-run")
    assert (answer["dry_run"], answer["to_copy"]["jobs"]) == (True, 3)
    assert not (tmp_path / "target.db").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--from", SOURCE, "--to", SOURCE], "--from and --to are the same store"),
        (["--from", SOURCE, "--to", "sqlite:///./source.db"], "are the same store"),
        (["--from", SOURCE, "--to", "sqlite:///link.db"], "are the same store"),
        (["--from", SOURCE, "--to", "nosql://u:secret@h/d"], "onbeat: --to: store 'nosql' is"),
        (["--from", "postgresql://", "--to", TARGET], "onbeat: --from: a PostgreSQL store is"),
        (["--from", "memory://", "--to", TARGET], "onbeat: --from: memory:// lives inside one"),
        (["--from", SOURCE, "--to", "memory://"], "onbeat: --to: memory:// lives inside one"),
        (["--from", SOURCE], "Missing option '--to'"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    onbeat: Callable[..., Any], tmp_path: Path, jobs: list[Job], args: list[str], said: str
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "source.db")
    refused = onbeat("copy", *args, code=2)
    assert said in refused.stderr
    assert "secret" not in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("args", [["--from", SOURCE, "--to", NOBODY], ["--from", NOBODY]])
def test_a_store_that_does_not_answer_ends_with_3(
    onbeat: Callable[..., Any], jobs: list[Job], args: list[str]
) -> None:
    refused = onbeat("copy", "--to", TARGET, *args, code=3)
    assert "127.0.0.1:1" in refused.stderr
    assert "secret" not in refused.stderr


def test_a_source_that_is_not_there_is_not_made(onbeat: Callable[..., Any], tmp_path: Path) -> None:
    refused = onbeat("copy", "--from", "sqlite:///lost.db", "--to", TARGET, code=3)
    assert refused.stderr == "onbeat: --from: there is no file lost.db\n"
    assert list(tmp_path.iterdir()) == []


def test_living_workers_are_warned_of(
    copied: Callable[..., Any], told: Callable[..., Any], jobs: list[Job]
) -> None:
    def alive(count: int) -> Callable[..., Any]:
        workers = [a_worker(beat_at=datetime.now(UTC)) for _ in range(count)]

        async def act(store: SqliteStore) -> None:
            for worker in workers:
                await store.heartbeat(worker)

        return act

    within(SOURCE, alive(2))
    warned = copied()
    assert "2 live workers of sqlite:///" in warned.stderr
    assert "another run" in warned.stderr
    within(TARGET, alive(1))
    assert "1 live worker of sqlite:///" in copied().stderr
    assert told()["live_workers"] == {"from": 2, "to": 1}


def test_what_is_left_ends_with_1_and_is_named(
    copied: Callable[..., Any], told: Callable[..., Any]
) -> None:
    kept, left = a_job(unique="key"), a_job(unique="key")
    within(TARGET, lambda store: store.enqueue([kept]))
    within(SOURCE, lambda store: store.enqueue([left]))
    shown = copied(code=1)
    assert rows_of(shown.stdout)["jobs"] == ["1", "0", "1"]
    assert left.id in shown.stdout
    answer = told(code=1)
    assert (answer["whole"], answer["copied"]["jobs"]["named"]) == (False, [left.id])


def test_what_only_the_target_has_is_told(
    copied: Callable[..., Any], told: Callable[..., Any], jobs: list[Job]
) -> None:
    schedule = a_schedule()
    within(TARGET, lambda store: add_planned(store, schedule))
    within(TARGET, lambda store: store.enqueue([a_job()]))
    shown = copied().stdout
    assert f"delete ID`: {schedule.id}" in shown
    assert "waiting jobs: 3 in the source, 4 in the target" in shown
    assert told()["only_in_target"] == {"schedules": 1, "named": [schedule.id]}
    assert told()["differences"] == [
        {"what": "active schedules", "from": 0, "to": 1},
        {"what": "waiting jobs", "from": 3, "to": 4},
    ]


def test_schedules_that_were_edited_paused_and_deleted_since_are_so_in_the_target(
    onbeat: Callable[..., Any], told: Callable[..., Any]
) -> None:
    ids = [added(onbeat, name) for name in ("edited", "paused", "deleted", "kept")]
    told()
    onbeat("schedule", "update", ids[0], "--every", "20m", "--priority", 3, "--store", SOURCE)
    onbeat("schedule", "pause", ids[1], "--store", SOURCE)
    onbeat("schedule", "delete", ids[2], "--store", SOURCE)
    answer = told()
    assert (answer["whole"], answer["differences"]) == (True, [])
    assert (answer["copied"]["schedules"]["changed"], answer["only_in_target"]["schedules"]) == (
        3,
        0,
    )
    source, target = (within(url, contents) for url in (SOURCE, TARGET))
    assert target == source
    waiting = [one.job for one in target["jobs"] if one.job.state is JobState.WAITING]
    assert sorted((job.schedule_id, job.priority) for job in waiting) == [(ids[0], 3), (ids[3], 0)]
    assert {kind["changed"] for kind in told()["copied"].values()} == {0}


def added(onbeat: Callable[..., Any], name: str) -> str:
    rule = ("--every", "15m", "--task", "work")
    return json.loads(onbeat("schedule", "add", name, *rule, "--store", SOURCE, "--json").stdout)[
        "id"
    ]


async def contents(store: SqliteStore) -> dict[str, Any]:
    return {
        "schedules": await store.export_schedules(None, 100),
        "dispositions": await store.export_dispositions(None, 100),
        "jobs": await store.export_jobs(None, 100),
    }


def test_a_taken_key_of_a_schedule_is_one_line(copied: Callable[..., Any]) -> None:
    for url in (SOURCE, TARGET):
        within(url, lambda store: add_planned(store, a_schedule(key="nightly")))
    refused = copied(code=1)
    assert "'nightly'" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_progress_is_shown_on_a_terminal_only(
    onbeat: Callable[..., Any], copied: Callable[..., Any], tmp_path: Path, jobs: list[Job]
) -> None:
    code, text = on_terminal(tmp_path, "copy", "--from", SOURCE, "--to", "sqlite:///other.db")
    assert (code, "3/3" in text, "jobs" in text) == (0, True, True)
    assert "\x1b" not in copied().output


MANY = 40_000
SLOW = """
    CREATE TRIGGER slow AFTER INSERT ON onbeat_jobs BEGIN
      SELECT count(*) FROM (
        WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 5000)
        SELECT i FROM numbers);
    END
"""


def test_an_interrupted_copy_is_gone_on_with(
    onbeat: Callable[..., Any], copied: Callable[..., Any], tmp_path: Path
) -> None:
    within(SOURCE, lambda store: store.enqueue([a_job() for _ in range(MANY)]))
    within(TARGET, lambda store: store.ping())
    with closing(sqlite3.connect(tmp_path / "target.db", isolation_level=None)) as db:
        db.execute(SLOW)  # so that it cannot end before the signal
    process = subprocess.Popen(
        [sys.executable, "-m", "onbeat", "copy", "--from", SOURCE, "--to", TARGET],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        # A shell that runs the tests in the background has SIGINT ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    with closing(sqlite3.connect(tmp_path / "target.db", isolation_level=None)) as db:
        eventually_here(lambda: count(db) > 0, "some jobs have arrived")
        process.send_signal(signal.SIGINT)
    printed, fields = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "")
    assert fields == "onbeat: interrupted; run it again, and it goes on from here\n"
    with closing(sqlite3.connect(tmp_path / "target.db")) as db:
        brought = count(db)
        db.execute("DROP TRIGGER slow")
    assert 0 < brought < MANY
    assert rows_of(copied().stdout)["jobs"] == [f"{MANY:,}", f"{MANY - brought:,}", "0"]


def count(db: sqlite3.Connection) -> int:
    return db.execute("SELECT count(*) FROM onbeat_jobs").fetchone()[0]
