"""Programs over two cells in files: a client, a front that is killed, and the cells' own programs."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from onbeat import Onbeat, every
from onbeat.app.cells import fence
from onbeat.app.copy.store_copy import copy
from onbeat.app.stores import open_store
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.rules.cells import SCHEDULE, slot_of_id, slot_of_key
from onbeat.stores.cells import CellStore
from onbeat.stores.cells.fleet import LOOK_SECONDS
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.idempotency import a_keyed_request
from stores.cells import send_and_hang
from stores.cells.front import a_group_in, a_key_in, held_by, stores_of

MAP = """
version = 1
[cells.a]
url = "sqlite:///{folder}/a.db"
slots = "0-511"
[cells.b]
url = "sqlite:///{folder}/b.db"
slots = "512-1023"
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "cells.toml"
    path.write_text(MAP.format(folder=tmp_path))
    return f"cells:///{path}"


def a_program(url: str, owner: str = "shop") -> Onbeat:
    beat = Onbeat(url, owner=owner)

    @beat.schedule(every("1h"), key="hourly")
    def tidy() -> None: ...

    return beat


async def test_a_client_sends_looks_and_cancels(url: str) -> None:
    beat = Onbeat(url)

    @beat.task
    def add(number: int) -> int:
        return number + 1

    calls = [add.options(unique=f"k{number}").call(number) for number in range(8)]
    handles = await beat.asend(calls)
    again = [await beat.asend(call) for call in calls]
    assert [one.id for one in again] == [one.id for one in handles]
    assert {slot_of_id(one.id) < 512 for one in handles} == {True, False}
    listed = await beat.jobs.alist(limit=20)
    assert {job.id for job in listed} == {one.id for one in handles}
    for handle in handles:
        await beat.jobs.acancel(handle.id)
    assert (await beat.astats()).jobs["cancelled"] == 8
    await beat.aclose()


async def test_loops_over_cells_are_refused(url: str) -> None:
    beat = a_program(url)
    with pytest.raises(Misconfigured, match="run the other roles in a service of each cell"):
        await beat.start()
    await beat.aclose()


async def test_declared_schedules_are_in_one_cell(url: str, tmp_path: Path) -> None:
    front = a_program(url)
    await front.backend.open()
    await front.backend.put_declared()
    for name in ("a", "b"):
        cell = a_program(f"sqlite:///{tmp_path}/{name}.db")
        await cell.backend.open()
        await cell.backend.put_declared()
        await cell.aclose()
    page = await front.backend.store.schedules(ScheduleFilter())
    assert [schedule.key for schedule in page.items] == ["hourly"]
    await front.aclose()


async def test_cells_that_started_before_their_front_keep_one_of_each_schedule(
    url: str, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        other_owner = "shop" if name == "a" else "shop on another machine"
        cell = a_program(f"sqlite:///{tmp_path}/{name}.db", other_owner)
        await cell.backend.open()
        await cell.backend.put_declared()
        await cell.aclose()
    for _ in range(2):
        front = a_program(url)
        await front.backend.open()
        await front.backend.put_declared()
        store = cast("CellStore", front.backend.store)
        (schedule,) = (await store.schedules(ScheduleFilter())).items
        assert schedule.key == "hourly"
        home = store.fleet.of_slot(slot_of_key(SCHEDULE, "hourly"))
        assert await home.store.schedule(schedule.id) is not None
        jobs = (await store.jobs(JobFilter(state=JobState.WAITING))).items
        assert {job.schedule_id for job in jobs} == {schedule.id}
        await front.aclose()


def send_and_be_killed(url: str, *groups: str) -> None:
    """Returns once the first cell has its part and the process is gone."""
    killed = subprocess.Popen(
        [sys.executable, send_and_hang.__file__, url, *groups],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert killed.stdout is not None
    with killed.stdout:
        assert killed.stdout.readline() == b"stored\n"
    killed.send_signal(signal.SIGKILL)
    killed.wait()


async def test_a_front_that_was_killed_between_two_cells_is_completed_by_the_repeat(
    url: str,
) -> None:
    front = cast("CellStore", Onbeat(url).backend.store)
    groups = [a_group_in(front, place) for place in range(2)]
    await asyncio.to_thread(send_and_be_killed, url, *groups)
    await front.open()
    first = await held_by(stores_of(front)[0])
    assert [len(first), len(await held_by(stores_of(front)[1]))] == [1, 0]
    for _ in range(2):
        jobs = [a_job(group=group) for group in groups]
        keyed = a_keyed_request("one", *jobs)
        if await front.keyed_answer(keyed.digest) is None:
            ids = [one.id for one in await front.enqueue(jobs, keyed)]
            assert ids[0] == first[0].id
    assert [len(await held_by(store)) for store in stores_of(front)] == [1, 1]
    assert len((await front.jobs(JobFilter())).items) == 2
    await front.close()


async def test_a_transaction_of_the_caller_is_of_one_cell(url: str) -> None:
    beat = Onbeat(url)

    @beat.task
    def add(number: int) -> int:
        return number + 1

    with sqlite3.connect(":memory:") as connection:
        connection.execute("BEGIN")
        with pytest.raises(Misconfigured, match=r"can be shared on SQLite.*, not on cells:///"):
            beat.in_transaction(connection).send(add.call(1))


async def test_a_cell_moves_as_the_guide_says_and_an_old_front_writes_nothing_more(
    url: str, tmp_path: Path
) -> None:
    old = cast("CellStore", open_store(url))
    await old.open()
    jobs = [a_job(unique=f"k{number}") for number in range(8)]
    ids = {one.id for one in await old.enqueue(jobs)}
    moved, target = f"sqlite:///{tmp_path}/b.db", f"sqlite:///{tmp_path}/moved.db"
    await copied(moved, target)
    (late,) = await old.enqueue([a_job(unique=a_key_in(old, 1))])
    newer = tmp_path / "newer.toml"
    newer.write_text(
        MAP.format(folder=tmp_path)
        .replace("version = 1", "version = 2")
        .replace("b.db", "moved.db")
    )
    assert await fence(moved, 2) == 2
    for cell in old.fleet.cells:
        cell.looked_at -= LOOK_SECONDS
    with pytest.raises(Unavailable, match="cell b: it knows version 2 of the map"):
        await old.enqueue([a_job(unique=a_key_in(old, 1))])
    await old.enqueue([a_job(unique=a_key_in(old, 0), labels={"still": "sent"})])
    await copied(moved, target)
    front = cast("CellStore", open_store(f"cells:///{newer}"))
    await front.open()
    listed = {job.id for job in (await front.jobs(JobFilter(limit=100))).items}
    assert listed >= {*ids, late.id}
    again = await front.enqueue([a_job(unique=job.unique) for job in jobs])
    assert [one.created for one in again] == [False] * 8
    assert await front.job(late.id) is not None
    await old.close()
    with pytest.raises(Misconfigured, match="used with version 2 already"):
        await old.open()
    await front.close()


async def copied(source: str, target: str) -> None:
    stores = open_store(source), open_store(target)
    for store in stores:
        await store.open()
    assert (await copy(*stores, NOW, lambda _kind, _rows: None)).is_whole
    for store in stores:
        await store.close()
