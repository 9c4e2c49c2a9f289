"""What the service's log says of the changes that callers make."""

import logging

import pytest

from onbeat.api import build_api
from operations.office import Office
from surfaces.rest_client import RestClient

NIGHTLY = {"name": "nightly", "every": "5m", "target": {"task": "t"}}


@pytest.fixture
def rest():
    return RestClient(build_api(Office().operator))


@pytest.fixture
def told(caplog):
    """What was said since it was asked last: events with their fields."""
    caplog.set_level(logging.INFO, logger="onbeat.api")

    def lines():
        found = [(record.msg.event, record.msg.fields) for record in caplog.records]
        caplog.clear()
        return found

    return lines


async def test_each_change_of_a_schedule_is_one_line_that_names_it(rest, told):
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


async def test_a_schedule_that_was_as_described_already_is_not_spoken_of(rest, told):
    id = (await rest.put("/api/schedules/by-key/k", NIGHTLY)).json["id"]
    assert told() == [("schedule.created", {"key": "k", "name": "nightly", "schedule": id})]
    await rest.put("/api/schedules/by-key/k", NIGHTLY)
    assert told() == []
    await rest.put("/api/schedules/by-key/k", NIGHTLY | {"every": "6m"})
    assert told() == [("schedule.updated", {"key": "k", "name": "nightly", "schedule": id})]


async def test_queues_are_told_by_name(rest, told):
    await rest.post("/api/queues/mail/pause")
    await rest.post("/api/queues/mail/resume")
    assert told() == [("queue.paused", {"queue": "mail"}), ("queue.resumed", {"queue": "mail"})]


async def test_neither_jobs_nor_questions_nor_refusals_are_told(rest, told):
    await rest.post("/api/jobs", {"task": "t"})
    await rest.get("/api/schedules")
    await rest.post("/api/schedules", {"name": "nightly"})
    await rest.delete("/api/schedules/01900000-0000-7000-8000-00000000ffff")
    assert told() == []
