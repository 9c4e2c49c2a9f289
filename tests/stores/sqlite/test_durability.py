"""A store flushes each commit, unless it is told otherwise."""

from pathlib import Path

import pytest

from onbeat.stores.sqlite.store import SqliteStore, Synchronous

LEVELS = {1: "NORMAL", 2: "FULL"}


async def level_of(store: SqliteStore) -> tuple[str, str, bool]:
    """The level of the connection that writes, and what `doctor` says of it."""
    await store.open()
    try:
        db = store._writer._db
        assert db is not None
        (said,) = [one for one in await store.doctor() if one.name == "synchronous"]
        return LEVELS[int(str(db.pragma("synchronous")))], said.value, said.ok
    finally:
        await store.close()


async def test_by_default_each_commit_is_flushed(tmp_path: Path) -> None:
    assert await level_of(SqliteStore(str(tmp_path / "onbeat.db"))) == ("FULL", "FULL", True)


@pytest.mark.parametrize(("level", "is_ok"), [("FULL", True), ("NORMAL", False)])
async def test_another_level_is_used_and_told(
    tmp_path: Path, level: Synchronous, is_ok: bool
) -> None:
    store = SqliteStore(str(tmp_path / "onbeat.db"), synchronous=level)
    assert await level_of(store) == (level, level, is_ok)
