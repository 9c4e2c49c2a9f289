"""Older names: some stay, the others are taken once more, with a warning that names the new one."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import apsw
import click
import pytest
from click.testing import CliRunner

from onbeat import Context, Job, Onbeat
from onbeat.cli.main import root


@pytest.fixture
def beat(tmp_path: Path) -> Iterator[Onbeat]:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    yield beat
    beat.close()


async def test_the_state_of_a_job_is_its_info() -> None:
    beat = Onbeat("memory://")

    @beat.task
    def work() -> None: ...

    job: Job[None] = await work.asend()
    with pytest.warns(FutureWarning, match=r"job\.astate\(\) is called job\.ainfo\(\) now"):
        assert (await job.astate()).id == job.id
    await beat.aclose()


def test_the_state_of_a_job_is_its_info_in_plain_code(beat: Onbeat) -> None:
    @beat.task
    def work() -> None: ...

    job: Job[None] = work.send()
    with pytest.warns(FutureWarning, match=r"job\.state\(\) is called job\.info\(\) now"):
        assert job.state() == job.info()


def test_within_is_in_transaction(beat: Onbeat, tmp_path: Path) -> None:
    @beat.task
    def work(number: int) -> None: ...

    beat.backend.wait_for(beat.backend.open())
    beat.backend.wait_for(beat.aclose())
    with sqlite3.connect(tmp_path / "onbeat.db") as db:
        first: Job[None] = work.within(db).send(1)
        second: Job[None] = beat.within(db).send(work.call(2))
    db.close()
    assert (first.info().id, second.info().id) == (first.id, second.id)


def test_finish_within_is_finish_in_transaction(beat: Onbeat, tmp_path: Path) -> None:
    @beat.task
    def work(context: Context) -> None:
        db = apsw.Connection(f"{tmp_path}/onbeat.db")
        db.set_busy_timeout(20_000)
        db.execute("BEGIN IMMEDIATE")
        context.finish_within(db)
        db.execute("COMMIT")
        db.close()

    with beat.started():
        job: Job[None] = work.send()
        job.result(20)
    assert job.info().state == "succeeded"


def test_the_command_dead_is_dead_letter() -> None:
    with pytest.warns(FutureWarning, match="`onbeat dead` is called `onbeat dead-letter` now"):
        command = root.get_command(click.Context(root), "dead")
    assert command is root.get_command(click.Context(root), "dead-letter")
    assert "\n  dead " not in CliRunner().invoke(root, ["--help"]).stdout
