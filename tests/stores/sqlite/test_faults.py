"""What the store says when something is wrong with its file, and that it goes on afterwards."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.stores.sqlite import connection
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.acts import a_request


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
    with pytest.raises(Unavailable, match="cannot be opened"):
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


async def test_another_programs_database_is_refused(path: str) -> None:
    with raw(path) as db:
        db.execute("CREATE TABLE recipes (name)")
    with pytest.raises(Misconfigured, match="belongs to another program"):
        await SqliteStore(path).open()


async def test_a_newer_schema_is_refused(path: str) -> None:
    await (await opened(path)).close()
    with raw(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(Misconfigured, match="has schema 99, and this program knows up to 2"):
        await SqliteStore(path).open()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("DROP INDEX jobs_due", "`jobs_due` was removed"),
        ("ALTER TABLE jobs ADD COLUMN colour TEXT", "`jobs` was altered"),
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


def damage(path: str) -> None:
    """Everything but the roots of tables and the schema is noise."""
    with raw(path) as db:
        last_root = db.execute("SELECT max(rootpage) FROM sqlite_schema").get
    with Path(path).open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(last_root * 4_096)
        file.write(b"\xa5" * (size - file.tell()))


async def test_a_full_disk_refuses_and_then_goes_on(store: SqliteStore) -> None:
    await store.enqueue([first := a_job()])
    writer = store._writer._db
    assert writer is not None
    limit_pages(writer, 1)  # SQLite makes that the present size
    with pytest.raises(Unavailable, match="the disk is full; free some space"):
        await store.enqueue([a_job() for _ in range(2_000)])
    assert await store.job(first.id) == first
    assert len((await store.claim(a_request(limit=1_000))).jobs) == 1
    limit_pages(writer, 1_000_000)
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


async def test_a_long_lock_by_another_program_is_told(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.05)
    store = await opened(path)
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="another process held it locked"):
            await store.enqueue([a_job()])
        with pytest.raises(Unavailable, match="another process held it locked"):
            await store.ping()
        assert await store.stats(NOW)
        other.execute("ROLLBACK")
    await store.enqueue([a_job()])
    await store.close()


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

    def xOpen(self, name, flags):  # noqa: N802  SQLite's name
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
    found = {finding.name: finding for finding in await store.doctor()}
    assert found["journal mode"].value == "wal"
    assert found["synchronous"].value == "FULL"
    assert found["integrity"].ok
    assert all(finding.ok or finding.remedy for finding in found.values())


async def test_doctor_warns_of_work_that_could_be_lost(path: str) -> None:
    store = SqliteStore(path, synchronous="NORMAL")
    await store.open()
    found = {finding.name: finding for finding in await store.doctor()}
    assert not found["synchronous"].ok
    await store.close()
