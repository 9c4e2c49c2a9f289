"""A disk that is full, for real."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from disks import DISK_MIB, MIB, small_disk, taken
from onbeat import Onbeat
from onbeat.app.handle import Job
from onbeat.app.task import Task
from onbeat.model.errors import Unavailable
from onbeat.model.job import JobState
from onbeat.stores.sqlite import ballast
from onbeat.stores.sqlite.ballast import BALLAST_BYTES_MIN, Ballast
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import DAY, NOW, a_job
from onbeat.testing.store_contract.acts import SUCCESS, a_request, end, running
from onbeat.wire.problems import told
from waiting import eventually


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as place:
        yield place


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ballast, "LOOK_SECONDS", 0.0)


async def pruned(store: SqliteStore) -> int:
    later = NOW + 30 * DAY
    return await store.prune(finished_before=later, failed_before=later, limit=1_000)


async def fill(store: SqliteStore, disk: Path) -> Path:
    """Enqueue until the store says that the disk is full; somebody else has taken most of it."""
    other = taken(disk, left=2 * MIB)
    with pytest.raises(Unavailable, match="the disk is full; free some space"):
        await enqueue_without_end(store)
    return other


async def enqueue_without_end(store: SqliteStore) -> None:
    while True:
        await store.enqueue([a_job(labels={"filler": "x" * 500}) for _ in range(100)])


def held(disk: Path) -> os.stat_result:
    return Path(f"{disk}/onbeat.db-ballast").stat()


async def test_a_full_disk_is_got_out_of(disk: Path) -> None:
    store = SqliteStore(str(disk / "onbeat.db"))
    await store.open()
    for _ in range(50):
        await end(store, await running(store, a_job()), SUCCESS, NOW)
    run = await running(store, a_job())
    assert await pruned(store) == 50
    assert held(disk).st_size >= BALLAST_BYTES_MIN
    assert held(disk).st_mode & 0o777 == 0o600
    assert held(disk).st_blocks * 512 >= BALLAST_BYTES_MIN, "its space is taken"

    other = await fill(store, disk)
    assert held(disk).st_size < 20, "it is cut down"

    # New work is refused, in words and with a status that say why.
    with pytest.raises(
        Unavailable, match=r"the disk is full; free some space.*wait for space"
    ) as e:
        await store.enqueue([a_job()])
    assert told(e.value).status == 503
    with pytest.raises(Unavailable, match="the disk is full"):
        await store.ping()
    # Reading, ending what runs and making room go on.
    assert await store.job(run.id) == run
    ended = await end(store, run, SUCCESS, NOW)
    assert ended.state is JobState.SUCCEEDED
    assert await pruned(store) == 1
    assert await store.job(run.id) is None

    other.unlink()
    await store.enqueue([job := a_job()])
    assert await store.job(job.id) == job
    assert held(disk).st_size >= BALLAST_BYTES_MIN, "it is there again"
    await store.close()


async def test_every_process_on_the_file_sees_that_it_is_cut_down(disk: Path) -> None:
    one, two = (SqliteStore(str(disk / "onbeat.db")) for _ in range(2))
    await one.open()
    await two.open()
    await pruned(one)
    other = await fill(one, disk)
    with pytest.raises(Unavailable, match="wait for space"):
        await two.claim(a_request())
    await one.close()
    await two.close()
    again = SqliteStore(str(disk / "onbeat.db"))
    await again.open()
    with pytest.raises(Unavailable, match="wait for space"):
        await again.enqueue([a_job()])
    other.unlink()
    await again.enqueue([a_job()])
    await again.close()


async def test_a_program_ends_what_runs_and_goes_on_by_itself_once_there_is_space(
    disk: Path,
) -> None:
    beat = Onbeat(f"sqlite:///{disk}/onbeat.db")
    began, leave = asyncio.Event(), asyncio.Event()

    @beat.task("long")
    async def long() -> str:
        began.set()
        await leave.wait()
        return "done"

    @beat.task("short")
    async def short() -> None: ...

    async with beat:
        await eventually(Path(f"{disk}/onbeat.db-ballast").exists, "the supervisor made it")
        first = await beat.asend(long.call())
        await began.wait()
        other = await fill(cast("SqliteStore", beat.store), disk)
        with pytest.raises(Unavailable, match="the disk is full; free some space"):
            await beat.asend(short.call())
        assert (await beat.jobs.aget(first.id)).state == "running"
        leave.set()
        assert await first.aresult(timeout=10) == "done"
        assert shutil.disk_usage(disk).free < 2 * MIB, "it is still full"
        other.unlink()
        second = await eventually(lambda: sent(beat, short), "sending works again")
        await second.aresult(timeout=10)


async def sent(beat: Onbeat, task: Task[[], Any, None]) -> Job[None] | None:
    try:
        return await beat.asend(task.call())
    except Unavailable:
        return None


def test_it_grows_with_the_store_and_takes_a_quarter_of_what_is_free_at_most(
    disk: Path,
) -> None:
    store = disk / "onbeat.db"
    one = Ballast(str(store))
    store.write_bytes(bytes(2 * MIB))
    one.keep()
    assert held(disk).st_size == 2 * MIB
    store.write_bytes(bytes(12 * MIB))
    free = shutil.disk_usage(disk).free
    one.keep()
    assert held(disk).st_size == free // 4
    one.keep()
    assert held(disk).st_size == free // 4, "and never less than it has"


def test_there_is_none_where_little_is_free(disk: Path) -> None:
    store = disk / "onbeat.db"
    store.write_bytes(bytes((DISK_MIB - 3) * MIB))
    one = Ballast(str(store))
    one.keep()
    assert not Path(f"{store}-ballast").exists()
    assert not one.drop()
    assert not one.holds_back()
