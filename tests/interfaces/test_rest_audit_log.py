"""What the service's log says of the changes that callers make."""

import logging
from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from operations.harness import OperationsHarness

NIGHTLY = {"name": "nightly", "every": "5m", "target": {"task": "t"}}


@pytest.fixture
def rest() -> Any:
    return RestClient(build_api(OperationsHarness().context))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """What was said since it was asked last: events with their fields."""
    caplog.set_level(logging.INFO, logger="onbeat.api")

    def lines(by: str = "anonymous") -> Any:
        result = [(record.msg.event, dict(record.msg.fields)) for record in caplog.records]
        assert {fields.pop("by") for _, fields in result} <= {by}
        caplog.clear()
        return result

    return lines


async def test_each_change_of_a_schedule_is_one_line_that_names_it(
    rest: RestClient, told: Any
) -> None:
    id = (await rest.post("/api/schedules", NIGHTLY)).json["id"]
    assert told() == [("schedule.created", {"name": "nightly", "schedule": id})]
    await rest.put(f"/api/schedules/{id}", {"name": "daily"})
    assert told() == [("schedule.updated", {"schedule": id, "name": "daily"})]
    await rest.post(f"/api/schedules/{id}/pause")
    await rest.post(f"/api/schedules/{id}/resume")
    assert told() == [("schedule.paused", {"schedule": id}), ("schedule.resumed", {"schedule": id})]
    job = (await rest.post(f"/api/schedules/{id}/trigger")).json["job_id"]
    assert told() == [("schedule.triggered", {"schedule": id, "job": job})]
    await rest.delete(f"/api/schedules/{id}")
    assert told() == [("schedule.deleted", {"schedule": id})]


async def test_a_schedule_that_was_as_described_already_is_not_spoken_of(
    rest: RestClient, told: Any
) -> None:
    id = (await rest.put("/api/schedules-by-key/k", NIGHTLY)).json["id"]
    assert told() == [("schedule.created", {"key": "k", "name": "nightly", "schedule": id})]
    await rest.put("/api/schedules-by-key/k", NIGHTLY)
    assert told() == []
    await rest.put("/api/schedules-by-key/k", NIGHTLY | {"every": "6m"})
    assert told() == [("schedule.updated", {"key": "k", "name": "nightly", "schedule": id})]


async def test_queues_are_told_by_name(rest: RestClient, told: Any) -> None:
    await rest.post("/api/queues/mail/pause")
    await rest.post("/api/queues/mail/resume")
    assert told() == [("queue.paused", {"queue": "mail"}), ("queue.resumed", {"queue": "mail"})]


async def test_neither_jobs_nor_questions_nor_refusals_are_told(
    rest: RestClient, told: Any
) -> None:
    await rest.post("/api/jobs", {"task": "t"})
    await rest.get("/api/schedules")
    await rest.post("/api/schedules", {"name": "nightly"})
    await rest.delete("/api/schedules/01900000-0000-7000-8000-00000000ffff")
    assert told() == []


async def test_a_line_names_the_key_that_changed_it(told: Any) -> None:
    key = "a-long-key-of-an-operator"
    rest = RestClient(
        build_api(OperationsHarness().context, ApiOptions(keys=(f"ops:admin={key}",)))
    )
    await rest.post("/api/queues/mail/pause", x_api_key=key)
    made = await rest.post("/api/keys", {"name": "new", "scopes": ["read"]}, x_api_key=key)
    call = {"jsonrpc": "2.0", "method": "queue.resume", "params": {"name": "mail"}, "id": 1}
    await rest.post("/rpc", call, x_api_key=key)
    assert told(by="ops") == [
        ("queue.paused", {"queue": "mail"}),
        ("key.created", {"key": "new"}),
        ("queue.resumed", {"queue": "mail"}),
    ]
    assert made.json["name"] == "new"
