"""What the store says when something is wrong with its file, and that it goes on afterwards."""

import asyncio
import math
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from conditions import eventually
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.sqlite import writer
from onbeat.stores.sqlite.doctor import fsync_time
from onbeat.stores.sqlite.errors import BUSY_AGAIN_SECONDS, BUSY_SECONDS
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import a_request


def raw(path: str) -> closing[apsw.Connection]:
    """The file as another program sees it."""
    return closing(apsw.Connection(path))


async def opened(path: str) -> SqliteStore:
    store = SqliteStore(path)
    await store.open()
    return store


async def test_a_new_file_is_its_owners_alone(store: SqliteStore, path: str) -> None:
    await store.enqueue([a_job()])
    modes = {file.name: file.stat().st_mode & 0o777 for file in Path(path).parent.iterdir()}
    assert modes == {"onbeat.db": 0o600, "onbeat.db-wal": 0o600, "onbeat.db-shm": 0o600}


async def test_jobs_are_there_after_a_restart(path: str) -> None:
    job = a_job()
    store = await opened(path)
    await store.enqueue([job])
    await store.close()
    store = await opened(path)
    assert await store.job(job.id) == job
    await store.close()


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be created: No such file or directory"):
        await SqliteStore(str(tmp_path / "nowhere" / "onbeat.db")).open()


async def test_a_directory_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="cannot be opened"):
        await SqliteStore(str(tmp_path)).open()


async def test_a_file_of_another_kind_is_refused(path: str) -> None:
    write(path, b"Dear diary, " * 1_000)
    with pytest.raises(Misconfigured, match="not a SQLite database; name another file"):
        await SqliteStore(path).open()
    assert read(path) == b"Dear diary, " * 1_000


def write(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


def read(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_a_newer_schema_is_refused(path: str) -> None:
    await (await opened(path)).close()
    with raw(path) as db:
        db.execute("UPDATE onbeat_schema SET version = 99")
    with pytest.raises(Misconfigured, match=r"has schema 99, and this program knows up to \d+"):
        await SqliteStore(path).open()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DROP INDEX onbeat_jobs_due", "`onbeat_jobs_due` was removed"),
        ("ALTER TABLE onbeat_jobs ADD COLUMN colour TEXT", "`onbeat_jobs` was altered"),
    ],
)
async def test_an_altered_schema_is_refused(path: str, change: str, complaint: str) -> None:
    await (await opened(path)).close()
    with raw(path) as db:
        db.execute(change)
    with pytest.raises(Misconfigured, match=complaint):
        await SqliteStore(path).open()


async def test_a_table_of_somebody_else_is_no_harm(path: str) -> None:
    await (await opened(path)).close()
    with raw(path) as db:
        db.execute("CREATE TABLE notes (text)")
    await (await opened(path)).close()


async def test_a_damaged_file_is_found_after_an_unclean_stop(path: str) -> None:
    store = await opened(path)
    await store.enqueue([a_job() for _ in range(500)])
    await store.close()
    damage(path)
    write(f"{path}-wal", b"")
    with pytest.raises(Unavailable, match="the file is damaged; stop all processes"):
        await SqliteStore(path).open()


async def test_a_damaged_file_is_told_of_when_it_is_read(path: str) -> None:
    store = await opened(path)
    await store.enqueue([a_job() for _ in range(500)])
    await store.close()
    damage(path)
    store = await opened(path)
    with pytest.raises(Unavailable, match="the file is damaged"):
        await store.claim(a_request())
    with pytest.raises(Unavailable, match="the file is damaged"):
        await store.enqueue([a_job() for _ in range(500)])
    await store.close()


KEPT = """
    SELECT max((SELECT max(rootpage) FROM sqlite_schema),
               (SELECT max(pageno) FROM dbstat WHERE name = 'sqlite_schema'))
"""


def damage(path: str) -> None:
    """Everything but the roots of tables and the schema is noise."""
    with raw(path) as db:
        last_root = db.execute(KEPT).get
    with Path(path).open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(last_root * 4_096)
        file.write(b"\xa5" * (size - file.tell()))


async def test_a_full_disk_refuses_and_then_goes_on(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FILE_LOOK_SECONDS", math.inf)  # its own bound stays out of this
    await store.enqueue([first := a_job()])
    db = store._writer._db
    assert db is not None
    limit_pages(db, 1)  # SQLite makes that the present size
    with pytest.raises(Unavailable, match="the disk is full; free some space"):
        await store.enqueue([a_job() for _ in range(2_000)])
    assert await store.job(first.id) == first
    assert len((await store.claim(a_request(limit=1_000))).jobs) == 1
    limit_pages(db, 1_000_000)
    await store.enqueue([a_job() for _ in range(2_000)])
    assert len((await store.claim(a_request(limit=3_000))).jobs) == 2_000


def limit_pages(db: apsw.Connection, pages: int) -> None:
    db.execute(f"PRAGMA max_page_count = {pages}")


async def test_a_store_that_cannot_write_opens_its_file_anew(store: SqliteStore) -> None:
    before = store._writer._db
    assert before is not None
    before.execute("PRAGMA query_only = 1")
    with pytest.raises(Unavailable, match="check the rights of the file"):
        await store.enqueue([a_job()])
    await store.enqueue([a_job()])
    assert store._writer._db is not before


CALLERS_WAIT = 3.0
"""What a caller may wait for the word that the file is locked, by the promise."""


async def test_callers_hear_within_three_seconds_that_another_program_holds_the_lock(
    store: SqliteStore, path: str
) -> None:
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        first = asyncio.ensure_future(store.enqueue([a_job()]))
        await eventually(lambda: store._writer.lock_wait._began, "the writer waits for it")
        # They come while the first one waits, and hear of it right after that.
        others = [asyncio.ensure_future(store.enqueue([a_job()])) for _ in range(20)]
        pings = [asyncio.ensure_future(store.ping()) for _ in range(20)]
        for waiting in (first, *others, *pings):
            with pytest.raises(Unavailable, match="another process held it locked"):
                await waiting
        assert BUSY_SECONDS + BUSY_AGAIN_SECONDS < CALLERS_WAIT
        assert store._writer.lock_wait.seconds == BUSY_AGAIN_SECONDS
        assert await store.stats(NOW), "reading goes on"
        other.execute("ROLLBACK")
    await store.enqueue([a_job()])
    assert store._writer.lock_wait.seconds == BUSY_SECONDS


async def test_readers_that_are_kept_out_hear_of_it_as_soon(store: SqliteStore, path: str) -> None:
    await store.enqueue([job := a_job()])
    reader = store._reader
    assert await store.job(job.id) == job
    # Nobody else may hold the file open where the log is done away with.
    await store.close()
    reader.start()
    with raw(path) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        other.execute("BEGIN IMMEDIATE; DELETE FROM onbeat_queues")
        requests = [asyncio.ensure_future(store.job(job.id)) for _ in range(10)]
        for waiting in requests:
            with pytest.raises(Unavailable, match="another process held it locked"):
                await waiting
        assert reader.lock_wait.seconds == BUSY_AGAIN_SECONDS
    assert await store.job(job.id) == job
    assert reader.lock_wait.seconds == BUSY_SECONDS
    reader.stop()


async def test_a_lock_that_is_let_go_in_time_costs_nobody_an_error(
    store: SqliteStore, path: str
) -> None:
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.enqueue([job := a_job()]))
        await eventually(lambda: store._writer.lock_wait._began, "the writer waits for it")
        other.execute("ROLLBACK")
    await waiting
    assert await store.job(job.id) == job


async def test_a_closed_store_refuses(store: SqliteStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="the store is not open"):
        await store.enqueue([a_job()])
    with pytest.raises(Unavailable, match="the store is not open"):
        await store.stats(NOW)


async def test_a_store_can_be_opened_again(store: SqliteStore) -> None:
    await store.close()
    await store.open()
    await store.enqueue([a_job()])


async def test_text_that_is_not_unicode_is_refused_alone(store: SqliteStore) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        await store.enqueue([a_job(queue="\ud800")])
    await store.enqueue([a_job()])


class BrokenFile(apsw.VFSFile):
    """Its next flush fails once when told so."""

    fails_next = False

    def xSync(self, flags: int) -> None:  # noqa: N802  SQLite's name
        if BrokenFile.fails_next:
            BrokenFile.fails_next = False
            raise apsw.IOError
        super().xSync(flags)


class BrokenDisk(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("broken", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: Any) -> Any:  # noqa: N802  SQLite's name
        return BrokenFile("unix", name, flags)


@pytest.fixture
def broken_disk() -> Iterator[None]:
    disk = BrokenDisk()
    yield
    disk.unregister()


@pytest.mark.usefixtures("broken_disk")
async def test_after_a_failed_flush_the_file_is_opened_anew(path: str) -> None:
    store = await opened(path)
    await store.enqueue([a_job()])
    before = store._writer._db
    BrokenFile.fails_next = True
    with pytest.raises(Unavailable, match="the disk failed to read or write"):
        await store.enqueue([a_job()])
    await store.enqueue([job := a_job()])
    assert await store.job(job.id) == job
    assert store._writer._db is not before
    await store.close()


async def test_doctor_says_what_it_found(store: SqliteStore) -> None:
    result = {finding.name: finding for finding in await store.doctor()}
    assert result["journal mode"].value == "wal"
    assert result["synchronous"].value == "FULL"
    assert result["integrity"].ok
    assert all(finding.ok or finding.remedy for finding in result.values())


async def test_doctor_warns_of_work_that_could_be_lost(path: str) -> None:
    store = SqliteStore(path, synchronous="NORMAL")
    await store.open()
    result = {finding.name: finding for finding in await store.doctor()}
    assert not result["synchronous"].ok
    await store.close()


def test_a_disk_that_takes_no_probe_is_a_finding(tmp_path: Path) -> None:
    assert fsync_time(str(tmp_path / "onbeat.db")).ok
    finding = fsync_time(str(tmp_path / "gone" / "onbeat.db"))
    assert (finding.ok, finding.value) == (False, "failed: No such file or directory")
    assert finding.remedy is not None
