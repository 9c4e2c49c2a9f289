"""What a starting service says of what is to come."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat.model.remote_task import RemoteTask
from onbeat.operations import coming_work
from onbeat.operations.coming_work import coming_work_of
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_PAUSE
from operations.harness import NOON, OperationsHarness


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness(remote_tasks={"far": RemoteTask(name="far")})


async def scheduled(office: OperationsHarness, name: str, **body: Any) -> str:
    sent = {"name": name, "target": {"task": f"task.{name}"}, **body}
    answer = await office.ask(SCHEDULE_CREATE, sent)
    return answer["id"]


async def test_the_soonest_fires_come_first(office: OperationsHarness) -> None:
    for name, every in (("c", "3h"), ("a", "1h"), ("b", "2h")):
        await scheduled(office, name, every=every)
    await office.ask(SCHEDULE_PAUSE, id=await scheduled(office, "paused", every="1m"))

    found = await coming_work_of(office.context, 2)

    assert found.fires is not None
    assert [(fire.at, fire.schedule) for fire in found.fires] == [
        (NOON + timedelta(hours=1), "a"),
        (NOON + timedelta(hours=2), "b"),
    ]
    assert found.schedules == 3


async def test_a_schedule_on_an_event_has_no_next_fire(office: OperationsHarness) -> None:
    await scheduled(office, "react", on={"type": "shop.sold"})
    found = await coming_work_of(office.context, 3)
    assert (found.fires, found.unknown) == ([], ["task.react"])


async def test_too_many_schedules_are_not_searched(
    office: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming_work, "COMING_SCHEDULES_MAX", 1)
    await scheduled(office, "a", every="1h")
    await scheduled(office, "b", every="1h")
    found = await coming_work_of(office.context, 3)
    assert (found.fires, found.schedules) == (None, 2)


async def test_tasks_that_nobody_knows_are_of_schedules_and_of_jobs(
    office: OperationsHarness,
) -> None:
    await office.hire("task.known", "sent.known", lease_seconds=30)
    for name in ("known", "lost"):
        await scheduled(office, name, every="1h")
    for task in ("sent.known", "sent.lost", "far"):
        await office.ask(JOB_ENQUEUE, {"target": {"task": task}})
    assert (await coming_work_of(office.context, 3)).unknown == ["sent.lost", "task.lost"]
    office.move(hours=1)
    assert "task.known" in (await coming_work_of(office.context, 3)).unknown, "its worker is gone"
