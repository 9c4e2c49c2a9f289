"""The answer to a new job or schedule names the tasks that no live worker knows."""

import asyncio
from typing import Any

import pytest

from onbeat.model.errors import Unavailable
from onbeat.operations import unknown_tasks as operation
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_PUT
from onbeat.operations.unknown_tasks import KNOWN_FOR, LOOK_AGAIN, REST_AFTER_FAILURE
from operations.harness import OperationsHarness


@pytest.fixture
async def office() -> OperationsHarness:
    result = OperationsHarness()
    await result.hire("mail", "report")
    return result


async def unknown(office: OperationsHarness, *tasks: str) -> Any:
    answer = await office.ask(JOB_ENQUEUE, {"jobs": [{"task": task} for task in tasks]})
    assert len(answer["ids"]) == len(tasks), "the jobs are made all the same"
    return answer.get("unknown_tasks")


def schedule(task: str) -> dict[str, Any]:
    return {"name": task, "every": "5m", "target": {"task": task}}


async def test_tasks_that_no_live_worker_knows_are_named(office: OperationsHarness) -> None:
    assert await unknown(office, "mail", "mial", "reprot", "mial", "report") == ["mial", "reprot"]
    assert await unknown(office, "mail", "report") is None
    assert (await office.ask(JOB_ENQUEUE, {"task": "mial"}))["unknown_tasks"] == ["mial"]
    call = {"target": {"http": {"url": "http://192.0.2.1/"}}}
    assert "unknown_tasks" not in await office.ask(JOB_ENQUEUE, call)


async def test_schedules_name_them_too(office: OperationsHarness) -> None:
    assert "unknown_tasks" not in await office.ask(SCHEDULE_CREATE, schedule("mail"))
    assert (await office.ask(SCHEDULE_CREATE, schedule("mial")))["unknown_tasks"] == ["mial"]
    put = await office.ask(SCHEDULE_PUT, schedule("mial"), key="k")
    assert put["unknown_tasks"] == ["mial"]
    again = await office.ask(SCHEDULE_PUT, schedule("mail"), key="k")
    assert "unknown_tasks" not in again
    assert again["created"] is False


async def test_nothing_is_said_while_no_worker_is_alive(office: OperationsHarness) -> None:
    assert await unknown(OperationsHarness(), "mial") is None
    office.move(minutes=10)
    assert await unknown(office, "mial") is None


async def test_a_worker_that_starts_is_seen_within_a_second(office: OperationsHarness) -> None:
    assert await unknown(office, "late") == ["late"]
    await office.hire("mail", "report", "late")
    office.move(seconds=LOOK_AGAIN.total_seconds())
    assert await unknown(office, "late") is None


async def test_workers_are_read_seldom(
    office: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    workers = office.store.workers

    async def counted() -> Any:
        nonlocal reads
        reads += 1
        return await workers()

    monkeypatch.setattr(office.store, "workers", counted)
    for _ in range(5):
        await unknown(office, "mail")
        await unknown(office, "mial")
    assert reads == 1
    office.move(seconds=LOOK_AGAIN.total_seconds())
    await unknown(office, "mail")
    assert reads == 1, "a known task stays known"
    await unknown(office, "mial")
    assert reads == 2
    office.move(seconds=KNOWN_FOR.total_seconds())
    await unknown(office, "mail")
    assert reads == 3


@pytest.mark.parametrize("is_silent", [True, False])
async def test_after_a_failure_workers_are_not_read_again_for_a_while(
    office: OperationsHarness, monkeypatch: pytest.MonkeyPatch, *, is_silent: bool
) -> None:
    monkeypatch.setattr(operation, "LOOK_SECONDS_MAX", 0.01)
    reads = 0

    async def failing() -> Any:
        nonlocal reads
        reads += 1
        if is_silent:
            await asyncio.Event().wait()
        raise Unavailable("no answer")

    with monkeypatch.context() as while_away:
        while_away.setattr(office.store, "workers", failing)
        async with asyncio.timeout(60):
            for _ in range(3):
                assert await unknown(office, "mial") is None
            assert reads == 1
            office.move(seconds=REST_AFTER_FAILURE.total_seconds() - 0.001)
            assert await unknown(office, "mial") is None
            assert reads == 1
            office.move(seconds=0.001)
            assert await unknown(office, "mial") is None
    assert reads == 2
    office.move(seconds=REST_AFTER_FAILURE.total_seconds())
    await office.hire("mail", "report")  # the first ones have no heartbeat
    assert await unknown(office, "mial") == ["mial"]
