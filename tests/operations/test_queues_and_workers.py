"""Limits of queues, why they hold a job back, and what workers run."""

from typing import Any

import pytest

from onbeat.model.errors import Invalid, Malformed
from onbeat.model.ids import WorkerId
from onbeat.model.worker import carrier_id
from onbeat.operations.tables.fleet import QUEUE_LIMIT, QUEUE_LIST, QUEUE_PAUSE, WORKER_LIST
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW, JOB_WHY
from onbeat.operations.tables.remote_work import JOB_CLAIM
from operations.harness import WORKER, OperationsHarness

NOTHING = {"waiting": 0, "due": 0, "running": 0, "oldest_due_at": None, "paused": False}


class QueueHarness(OperationsHarness):
    async def limit(self, name: str = "mail", **limits: Any) -> dict[str, Any]:
        return await self.ask(QUEUE_LIMIT, limits, name=name)

    async def enqueue(self, **body: Any) -> str:
        return (await self.ask(JOB_ENQUEUE, {"task": "t", "queue": "mail", **body}))["id"]

    async def why(self, id: str) -> dict[str, Any]:
        return await self.ask(JOB_WHY, id=id)


@pytest.fixture
async def line() -> QueueHarness:
    office = QueueHarness()
    await office.hire("t", concurrency=100)
    return office


async def test_limits_are_set_in_part_and_shown(line: QueueHarness) -> None:
    answer = await line.limit(concurrency=10, rate="100/1s")
    assert answer == {"name": "mail", **NOTHING, "limits": {"concurrency": 10, "rate": "100/s"}}
    answer = await line.limit(rate=None, group_concurrency=1, group_rate="5/m")
    limits = {"concurrency": 10, "group_concurrency": 1, "group_rate": "5/m"}
    assert answer["limits"] == limits
    (queue,) = (await line.ask(QUEUE_LIST))["queues"]
    assert queue["limits"] == limits


async def test_turns_are_set_and_shown(line: QueueHarness) -> None:
    assert (await line.limit(fair=True))["limits"] == {"fair": True}
    assert (await line.limit(concurrency=3))["limits"] == {"concurrency": 3, "fair": True}
    assert (await line.limit(fair=False))["limits"] == {"concurrency": 3}


async def test_without_limits_and_jobs_a_queue_is_forgotten(line: QueueHarness) -> None:
    await line.limit(concurrency=10)
    assert await line.limit(concurrency=None) == {"name": "mail", **NOTHING, "limits": {}}
    assert (await line.ask(QUEUE_LIST))["queues"] == []


async def test_a_pause_stays_as_it_is(line: QueueHarness) -> None:
    await line.ask(QUEUE_PAUSE, name="mail")
    assert (await line.limit(concurrency=1))["paused"] is True


@pytest.mark.parametrize(
    ("limits", "kind", "field"),
    [
        ({"concurrency": 0}, Invalid, "concurrency"),
        ({"concurrency": 1.5}, Malformed, "concurrency"),
        ({"group_concurrency": 10**7}, Invalid, "group_concurrency"),
        ({"rate": "fast"}, Invalid, "rate"),
        ({"rate": 5}, Malformed, "rate"),
        ({"speed": 5}, Invalid, "speed"),
        ({"fair": "a little"}, Malformed, "fair"),
    ],
)
async def test_limits_that_cannot_be_name_their_field(
    line: QueueHarness, limits: dict[str, Any], kind: type[Any], field: str
) -> None:
    with pytest.raises(kind) as caught:
        await line.limit(**limits)
    assert caught.value.field == field


async def test_a_limit_holds_from_the_next_claim_on(line: QueueHarness) -> None:
    await line.limit(concurrency=2)
    for _ in range(5):
        await line.enqueue()
    assert len(await line.claim("t")) == 2
    await line.limit(concurrency=3)
    assert len(await line.claim("t")) == 1


async def test_a_job_has_a_group(line: QueueHarness) -> None:
    id = await line.enqueue(group="tenant:7")
    assert (await line.ask(JOB_SHOW, id=id))["group"] == "tenant:7"
    assert (await line.ask(JOB_SHOW, id=await line.enqueue()))["group"] is None
    assert (await line.ask(JOB_SHOW, id=await line.enqueue(group=None)))["group"] is None


@pytest.mark.parametrize("group", ["x" * 201, "a\nb", " "])
async def test_a_group_that_cannot_be_names_its_field(line: QueueHarness, group: str) -> None:
    with pytest.raises(Invalid) as caught:
        await line.enqueue(group=group)
    assert caught.value.field == "group"


# Why


async def test_a_full_queue_is_told(line: QueueHarness) -> None:
    await line.limit(concurrency=1)
    await line.enqueue()
    id = await line.enqueue()
    await line.claim("t")
    result = await line.why(id)
    assert (result["code"], result["explanation"]) == ("queue_full", "Queue mail runs 1 of 1 jobs.")


async def test_a_full_group_is_told(line: QueueHarness) -> None:
    await line.limit(group_concurrency=1)
    await line.enqueue(group="tenant:7")
    await line.enqueue(group="tenant:8")
    id = await line.enqueue(group="tenant:7")
    await line.claim("t")
    result = await line.why(id)
    assert result["code"] == "group_full"
    assert result["explanation"] == "Group tenant:7 of queue mail runs 1 of 1 jobs."
    assert (await line.why(await line.enqueue()))["code"] == "ready"


async def test_a_slow_queue_and_a_slow_group_are_told(line: QueueHarness) -> None:
    await line.limit(rate="1/m", group_rate="5/h")
    await line.enqueue()
    id = await line.enqueue(group="g")
    await line.claim("t")
    result = await line.why(id)
    assert result["code"] == "queue_rate"
    assert "Queue mail starts 1/m at most" in result["explanation"]
    assert "Group g of queue mail starts 5/h at most" in result["explanation"]


async def test_that_others_may_be_first_by_turns_is_told(line: QueueHarness) -> None:
    await line.limit(fair=True)
    id = await line.enqueue(group="g")
    assert (await line.why(id))["code"] == "ready"
    later = await line.enqueue(group="h", delay="1h")
    await line.enqueue()
    result = await line.why(id)
    assert result["code"] == "turn"
    assert result["explanation"] == "The groups of queue mail take turns, and others may go first."
    assert (await line.why(later))["code"] == "later"


async def test_a_job_that_is_not_due_waits_for_no_limit(line: QueueHarness) -> None:
    await line.limit(concurrency=1)
    await line.enqueue()
    await line.claim("t")
    assert (await line.why(await line.enqueue(delay="1h")))["code"] == "later"


# Workers


async def test_workers_show_what_they_run_and_since_when(line: QueueHarness) -> None:
    ids = [await line.enqueue() for _ in range(3)]
    await line.claim("t", limit=1)
    line.move(seconds=5)
    await line.claim("t")
    (worker,) = (await line.ask(WORKER_LIST))["workers"]
    assert (worker["id"], worker["running"]) == (WORKER, 3)
    assert worker["jobs"] == [
        {"id": id, "task": "t", "attempt": 1, "started_at": f"2026-03-02T12:00:{second}Z"}
        for id, second in zip(ids, ["00", "05", "05"], strict=True)
    ]


async def test_as_many_are_shown_as_are_asked_for(line: QueueHarness) -> None:
    for _ in range(20):
        await line.enqueue()
    await line.claim("t", limit=20)
    for request, shown in ((None, 10), ("0", 0), ("20", 20)):
        named = {} if request is None else {"jobs": request}
        (worker,) = (await line.ask(WORKER_LIST, **named))["workers"]
        assert (len(worker["jobs"]), worker["running"]) == (shown, 20)


async def test_each_worker_shows_its_own(line: QueueHarness) -> None:
    await line.hire("t", id=WorkerId("w2"))
    await line.enqueue()
    await line.claim("t")
    shown = {each["id"]: each["jobs"] for each in (await line.ask(WORKER_LIST))["workers"]}
    assert [len(shown[id]) for id in ("w1", "w2")] == [1, 0]


async def test_workers_elsewhere_are_shown_while_they_run_something(line: QueueHarness) -> None:
    id = await line.enqueue()
    await line.ask(JOB_CLAIM, {"worker": "exporter-1", "tasks": ["t"]})
    (worker,) = (await line.ask(WORKER_LIST))["remote"]
    assert (worker["name"], worker["running"]) == ("exporter-1", 1)
    assert [job["id"] for job in worker["jobs"]] == [id]


async def test_carriers_are_no_workers(line: QueueHarness) -> None:
    await line.hire(id=carrier_id("w1"))
    assert [each["id"] for each in (await line.ask(WORKER_LIST))["workers"]] == [WORKER]
