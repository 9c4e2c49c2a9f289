"""Why a job that gathers events waits, and what events that joined it show."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from engine.harness import FixedRandomness, RecordingTelemetry
from onbeat.engine.router import Router
from onbeat.expressions.cel import CelExpressions
from onbeat.model.ids import ScheduleId
from onbeat.model.reaction import Gather
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.operations.tables.events import EVENT_PUBLISH, EVENT_SHOW
from onbeat.operations.tables.jobs import JOB_WHY
from onbeat.operations.tables.schedules import SCHEDULE_CREATE
from onbeat.recurrence import compile_spec
from operations.harness import OperationsHarness

SCHEDULE = {"name": "n", "target": {"task": "t"}}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness(expressions=CelExpressions())


async def published(office: OperationsHarness, id: str, key: str = "k") -> dict[str, Any]:
    """The event as the router has decided about it."""
    body = {"type": "paid", "id": id, "source": "/shop", "data": {"key": key}}
    await office.ask(EVENT_PUBLISH, body)
    router = Router(
        office.store,
        office.clock,
        FixedRandomness(),
        RecordingTelemetry(),
        CelExpressions(),
        compile_spec,
    )
    await router.step()
    return await office.ask(EVENT_SHOW, id=id)


async def test_it_says_what_it_gathers_and_until_when(office: OperationsHarness) -> None:
    on = {"type": "paid", "by": "event.data.key"}
    await office.ask(SCHEDULE_CREATE, SCHEDULE | {"on": on, "gather": {"for": "1h", "most": 3}})
    (job,) = (await published(office, "1"))["jobs"]
    assert (await published(office, "2"))["jobs"] == [job]
    (other,) = (await published(office, "3", "other"))["jobs"]

    why = await office.ask(JOB_WHY, id=job)
    assert (why["code"], why["may_run_at"]) == ("gathering", "2026-03-02T13:00:00Z")
    assert why["explanation"].startswith(
        "It gathers events of key 'k' until 2026-03-02T13:00:00Z, and has 2 events;"
    )
    assert "has 1 event;" in (await office.ask(JOB_WHY, id=other))["explanation"]

    await published(office, "4")
    assert (await office.ask(JOB_WHY, id=job))["code"] == "later"
    office.clock.at += timedelta(hours=1)
    assert (await office.ask(JOB_WHY, id=other))["code"] != "gathering"


async def test_after_the_gathering_comes_the_delay(office: OperationsHarness) -> None:
    body = SCHEDULE | {"on": {"type": "paid"}, "gather": {"for": "1h"}, "delay": "10m"}
    await office.ask(SCHEDULE_CREATE, body)
    (job,) = (await published(office, "1"))["jobs"]
    assert (await office.ask(JOB_WHY, id=job))["explanation"].startswith(
        "It gathers events until 2026-03-02T13:00:00Z, and has 1 event;"
        " it is due at 2026-03-02T13:10:00Z."
    )
    office.clock.at += timedelta(hours=1)
    assert (await office.ask(JOB_WHY, id=job))["code"] == "later"


async def test_a_closed_window_does_not_prolong_the_gathering(office: OperationsHarness) -> None:
    window = {"from": "18:00", "to": "19:00", "timezone": "UTC"}
    body = SCHEDULE | {"on": {"type": "paid"}, "gather": {"for": "1h"}, "window": window}
    await office.ask(SCHEDULE_CREATE, body)
    (job,) = (await published(office, "1"))["jobs"]
    why = await office.ask(JOB_WHY, id=job)
    assert why["explanation"].startswith(
        "It gathers events until 2026-03-02T13:00:00Z, and has 1 event;"
        " it is due at 2026-03-02T18:00:00Z. Its window opens at 2026-03-02T18:00:00Z."
    )
    office.clock.at += timedelta(hours=1)
    assert (await office.ask(JOB_WHY, id=job))["code"] == "later"


async def test_a_gathering_whose_rule_has_ended_takes_no_event(office: OperationsHarness) -> None:
    window = {"from": "18:00", "to": "19:00", "timezone": "UTC"}
    until = {"until": {"at": "2026-03-02T13:00:00Z"}}
    body = SCHEDULE | {"on": {"type": "paid"}, "gather": until, "window": window}
    id = (await office.ask(SCHEDULE_CREATE, body))["id"]
    office.clock.at += timedelta(minutes=30)
    (job,) = (await published(office, "1"))["jobs"]
    assert (await office.ask(JOB_WHY, id=job))["code"] == "gathering"
    stored = await office.store.schedule(ScheduleId(id))
    assert stored is not None
    ended = replace(
        stored,
        gather=Gather(until=RecurrenceSpec("once", "2020-01-01T00:00:00Z")),
        version=stored.version + 1,
    )
    assert await office.store.update_schedule(ended, None, office.clock.now())
    assert (await office.ask(JOB_WHY, id=job))["code"] == "later"


async def test_a_job_of_one_event_gathers_none(office: OperationsHarness) -> None:
    await office.ask(SCHEDULE_CREATE, SCHEDULE | {"on": {"type": "paid"}, "delay": "10m"})
    (job,) = (await published(office, "1"))["jobs"]
    assert (await office.ask(JOB_WHY, id=job))["code"] == "later"


@pytest.mark.parametrize("key", [{}, {"by": "event.data.key"}])
async def test_an_event_that_a_throttle_counts_names_the_job(
    office: OperationsHarness, key: dict[str, str]
) -> None:
    gather = {"for": "1h", "keep": "first", **key}
    await office.ask(SCHEDULE_CREATE, SCHEDULE | {"on": {"type": "paid"}, "gather": gather})
    (job,) = (await published(office, "1"))["jobs"]
    assert (await office.ask(JOB_WHY, id=job))["code"] != "gathering"
    (verdict,) = (await published(office, "2"))["verdicts"]
    assert verdict["job_id"] == job
    assert verdict["reason"] == "counted: the job of an earlier event stands for it"
