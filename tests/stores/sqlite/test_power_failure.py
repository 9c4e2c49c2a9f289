"""Power cuts: what was acknowledged is on the disk, and the file is whole."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat.model.job import Job
from onbeat.stores.sqlite import ballast, writer
from onbeat.stores.sqlite.store import SqliteStore, Synchronous
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.steps import a_request, a_settlement
from stores.sqlite.power_failure import Disk

CUTS = 24


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


async def kept_after_cuts(disk: Disk, tmp_path: Path, synchronous: Synchronous) -> tuple[int, int]:
    """How many jobs were acknowledged and how many of these were there after a cut, over all."""
    path = str(tmp_path / "onbeat.db")
    store = SqliteStore(path, synchronous=synchronous)
    await store.open()
    chance = random.Random(7)
    answer: list[Job] = []
    expected = result = 0
    for number in range(CUTS):
        await asyncio.gather(*(told_of(store, answer) for _ in range(chance.randrange(1, 30))))
        # The cut falls while a commit is on its way.
        before = tuple(answer)
        folder = tmp_path / str(number)
        folder.mkdir()
        underway = store.enqueue([a_job() for _ in range(40)])
        await asyncio.gather(underway, asyncio.to_thread(disk.cut, path, folder, chance))
        expected += len(before)
        result += await count_kept(str(folder / "onbeat.db"), before)
    await store.close()
    return expected, result


async def told_of(store: SqliteStore, told: list[Job]) -> None:
    job = a_job()
    await store.enqueue([job])
    told.append(job)
    for claimed in (await store.claim(a_request(limit=2))).jobs:
        await store.settle([a_settlement(claimed)])


async def count_kept(path: str, jobs: tuple[Job, ...]) -> int:
    store = SqliteStore(path)
    await store.open()
    findings = {finding.name: finding for finding in await store.doctor()}
    assert findings["integrity"].ok
    kept = [await store.job(job.id) for job in jobs]
    await store.close()
    return sum(job is not None for job in kept)


async def test_a_power_cut_loses_nothing_acknowledged(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Often enough that cuts fall before, amid and after checkpoints.
    monkeypatch.setattr(ballast, "LOG_BYTES_MAX", 40 * 4_096)
    monkeypatch.setattr(writer, "LOG_BYTES_STEP", 4_096)
    expected, result = await kept_after_cuts(disk, tmp_path, "FULL")
    assert result == expected > CUTS


async def test_the_power_cut_is_real(disk: Disk, tmp_path: Path) -> None:
    expected, result = await kept_after_cuts(disk, tmp_path, "NORMAL")
    assert result < expected
