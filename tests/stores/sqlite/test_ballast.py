"""A disk that is full, for real."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from conditions import eventually
from disks import DISK_MIB, MIB, small_disk, taken
from onbeat import Onbeat
from onbeat.app.handle import JobHandle
from onbeat.app.task import Task
from onbeat.model.errors import Unavailable
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter
from onbeat.stores.sqlite import ballast
from onbeat.stores.sqlite.ballast import BALLAST_BYTES_MIN, Ballast, Hold, space
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.stores.sqlite.transaction import Transaction
from onbeat.testing.build import DAY, NOW, a_job
from onbeat.testing.store_contract.steps import SUCCESS, a_request, a_settlement, end, run_job
from onbeat.wire.errors import status_of


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


def grown(other: Path, disk: Path) -> None:
    """Let somebody else's file take most of what is left."""
    with other.open("ab") as file:
        free = shutil.disk_usage(disk).free - BALLAST_BYTES_MIN
        os.posix_fallocate(file.fileno(), other.stat().st_size, free)


async def enqueue_without_end(store: SqliteStore) -> None:
    while True:
        await store.enqueue([a_job(labels={"filler": "x" * 500}) for _ in range(100)])


def held(disk: Path) -> os.stat_result:
    return Path(f"{disk}/onbeat.db-ballast").stat()


async def test_a_full_disk_is_got_out_of(disk: Path) -> None:
    store = SqliteStore(str(disk / "onbeat.db"))
    await store.open()
    for _ in range(50):
        await end(store, await run_job(store, a_job()), SUCCESS, NOW)
    run = await run_job(store, a_job())
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
    assert status_of(e.value).status == 503
    # What was accepted goes on as long as the log's own space lasts, and then waits too.
    await store.ping()
    grown(other, disk)
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
        await two.enqueue([a_job()])
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
        other = await fill(cast("SqliteStore", beat.backend.store), disk)
        with pytest.raises(Unavailable, match="the disk is full; free some space"):
            await beat.asend(short.call())
        assert (await beat.jobs.aget(first.id)).state == "running"
        leave.set()
        assert await first.aresult(timeout=60) == "done"
        assert shutil.disk_usage(disk).free < 3 * MIB, "it is still full"
        other.unlink()
        second = await eventually(lambda: sent(beat, short), "sending works again")
        await second.aresult(timeout=60)


async def sent(beat: Onbeat, task: Task[[], Any, None]) -> JobHandle[None] | None:
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
    assert one.hold(lambda: pytest.fail("nothing is looked at")) is Hold.NOTHING


# A disk that the store has filled by itself


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 40) as place:
        yield place


BULKY = {"filler": "x" * 150, "more": "x" * 150, "most": "x" * 150}


class Load:
    """Jobs that are sent and worked off, as far as the store takes them, with none forgotten."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.accepted: set[str] = set()
        self.ended: set[str] = set()

    async def send(self, count: int = 200) -> None:
        jobs = [a_job(labels=BULKY) for _ in range(count)]
        await self.store.enqueue(jobs)
        self.accepted |= {job.id for job in jobs}

    async def work(self, limit: int = 100) -> int:
        jobs = (await self.store.claim(a_request(limit=limit))).jobs
        answers = await self.store.settle([a_settlement(job) for job in jobs])
        assert all(answers)
        self.ended |= {job.id for job in jobs}
        return len(jobs)

    async def fill(self) -> None:
        """Send twice as much as is worked off, with the pruner's rounds, until it is refused."""
        with pytest.raises(Unavailable, match="the disk is full; free some space"):
            await self.send_and_work()

    async def send_and_work(self) -> None:
        while True:
            await self.send()
            await self.work()
            await self.store.prune(finished_before=NOW, failed_before=NOW, limit=1_000)

    async def send_without_end(self) -> None:
        while True:
            await self.send()

    async def work_off(self) -> None:
        """As workers and pruner do: what is refused is tried again."""
        vain = 0
        while self.ended != self.accepted:
            with contextlib.suppress(Unavailable):
                await pruned(self.store)
            try:
                await self.work(1_000)
                vain = 0
            except Unavailable:
                vain += 1
                assert vain < 100, "claims go on once the pruner has emptied some pages"
                await self.recover()
        while await pruned(self.store):
            pass

    async def recover(self) -> None:
        """As the rescuer does for jobs whose claim or result was refused."""
        held = (await self.store.jobs(JobFilter(state=JobState.RUNNING, limit=1_000))).items
        with contextlib.suppress(Unavailable):
            if held and all(await self.store.settle([a_settlement(job) for job in held])):
                self.ended |= {job.id for job in held}


async def test_a_disk_that_the_store_filled_comes_back_again_and_again(larger_disk: Path) -> None:
    store = SqliteStore(str(larger_disk / "onbeat.db"))
    await store.open()
    load = Load(store)
    for _ in range(3):
        await load.fill()
        await load.work_off()
        await load.send()
        await store.ping()
        assert held(larger_disk).st_size >= BALLAST_BYTES_MIN, "there is ballast for the next time"
    await load.work_off()
    await store.close()


async def test_a_long_log_is_copied_back_on_a_disk_that_somebody_else_filled(
    larger_disk: Path,
) -> None:
    store = SqliteStore(str(larger_disk / "onbeat.db"))
    await store.open()
    load = Load(store)
    await load.send()
    await load.work()
    assert await pruned(store) == 100
    other = taken(larger_disk, left=20 * MIB)
    with pytest.raises(Unavailable, match="the disk is full"):
        await load.send_without_end()
    await load.work_off()
    other.unlink()
    await load.send()
    await store.close()


def test_pages_that_a_reader_keeps_in_the_log_still_need_their_place_in_the_file(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "onbeat.db")
    db = apsw.Connection(path)
    db.execute("PRAGMA journal_mode = wal")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE t (x)")
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    for rows, least in ((1, MIB), (3, 4 * MIB)):
        db.execute("INSERT INTO t SELECT zeroblob(?) FROM json_each(?)", (MIB, str([1] * rows)))
        found = space(Transaction(db), path)
        assert found.log > found.owed >= least
        assert found.room == found.free + found.empty - found.owed
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert space(Transaction(db), path).owed == 0
    db.close()
