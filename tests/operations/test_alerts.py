"""What is wrong now, as operations see it, and silences."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat.engine.alerts import AlertWatch
from onbeat.model.errors import Conflict, Invalid, Malformed, NotFound, Unavailable
from onbeat.model.outcome import Failed
from onbeat.operations.alerts import SILENCES_MAX, concerns_now
from onbeat.operations.tables.alerts import ALERT_LIST, ALERT_SILENCE, ALERT_UNSILENCE
from onbeat.operations.tables.fleet import QUEUE_PAUSE
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from operations.harness import NOON, OperationsHarness


class Office(OperationsHarness):
    async def watch(self) -> list[str]:
        """One look of the watcher; the keys of the open alerts."""
        await AlertWatch(self.store, self.clock, lambda: concerns_now(self.context)).step()
        return [one["key"] for one in (await self.ask(ALERT_LIST))["alerts"]]

    async def send(self, **body: Any) -> None:
        await self.ask(JOB_ENQUEUE, {"task": "t", "queue": "mail", **body})


@pytest.fixture
def office() -> Office:
    return Office()


async def test_jobs_that_nobody_runs_are_an_alert_that_ends(office: Office) -> None:
    assert await office.watch() == []
    await office.send()
    assert await office.watch() == ["no-worker"]
    await office.hire("t", concurrency=1)
    office.move(seconds=59)
    await office.hire("t", concurrency=1, beat_at=office.clock.at)
    assert await office.watch() == ["no-worker"]
    office.move(seconds=2)
    assert await office.watch() == ["late:mail"]
    (over,) = (await office.ask(ALERT_LIST, state="ended"))["alerts"]
    assert (over["key"], over["since"], over["ended_at"]) == (
        "no-worker",
        "2026-03-02T12:00:00Z",
        "2026-03-02T12:01:01Z",
    )


async def test_a_queue_that_the_workers_leave_out_is_an_alert(office: Office) -> None:
    await office.hire("t", queues=("bulk", "reports"))
    await office.send()
    await office.send(queue="bulk")
    assert await office.watch() == ["no-worker:mail"]
    (alert,) = (await office.ask(ALERT_LIST))["alerts"]
    assert alert == {
        "key": "no-worker:mail",
        "level": "fail",
        "text": "No worker serves queue mail",
        "detail": "1 job is due, and the workers that live take others only.",
        "since": "2026-03-02T12:00:00Z",
        "ended_at": None,
        "announced": False,
        "silenced": False,
        "times": 1,
        "queue": "mail",
        "job_id": None,
        "fault": None,
    }


async def test_a_paused_queue_is_none(office: Office) -> None:
    await office.hire("t")
    await office.send()
    await office.ask(QUEUE_PAUSE, name="mail")
    office.move(minutes=10)
    await office.hire("t", beat_at=office.clock.at)
    assert await office.watch() == []


async def test_failed_jobs_are_one_alert_for_each_fault(office: Office) -> None:
    await office.hire("t", "@http")
    retry = {"attempts_max": 1}
    for number in range(3):
        await office.send(retry=retry)
        await office.run(Failed(f"Traceback\nTimeout: no answer {number}"), "t")
    hook = {"http": {"url": "https://example.com/hook?key=secret", "method": "POST"}}
    await office.ask(JOB_ENQUEUE, {"target": hook, "retry": retry})
    await office.run(Failed("ConnectionError"))
    alerts = [key.rpartition(":") for key in await office.watch()]
    assert sorted(name for name, _, _ in alerts) == ["failing:@http", "failing:t"]
    assert all(int(fault) for _, _, fault in alerts)


async def test_a_full_disk_is_an_alert() -> None:
    async def full() -> None:
        raise Unavailable("only 2 % of the store's disk is free")

    office = Office(check_capacity=full)
    assert await office.watch() == ["disk"]


async def test_a_silence_is_made_listed_and_ended(office: Office) -> None:
    await office.send()
    body = {"match": "no-worker", "for": "2h", "note": "migration"}
    made = await office.ask(ALERT_SILENCE, body)
    assert made == {
        "id": made["id"],
        "match": "no-worker",
        "starts_at": None,
        "until": "2026-03-02T14:00:00Z",
        "note": "migration",
        "made_by": "local",
        "made_at": "2026-03-02T12:00:00Z",
    }
    office.move(seconds=1)
    await office.watch()
    office.move(seconds=30)
    await office.watch()
    (alert,) = (await office.ask(ALERT_LIST))["alerts"]
    assert (alert["silenced"], alert["announced"]) == (True, False)
    assert (await office.ask(ALERT_LIST))["silences"] == [made]
    assert await office.ask(ALERT_UNSILENCE, id=made["id"]) == {"message": "Silence ended."}
    await office.watch()
    answer = await office.ask(ALERT_LIST)
    assert [(one["silenced"], one["announced"]) for one in answer["alerts"]] == [(False, True)]
    assert answer["silences"] == []
    with pytest.raises(NotFound):
        await office.ask(ALERT_UNSILENCE, id=made["id"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"match": "*"}, "for"),
        ({"match": "*", "for": "1h", "until": "2026-03-02T13:00:00Z"}, "for"),
        ({"match": "*", "for": "0.5s"}, "for"),
        ({"match": "*", "for": "3661d"}, "for"),
        ({"match": "*", "until": "2026-03-02T12:00:00Z"}, "until"),
        ({"match": "*", "until": "2037-03-02T12:00:00Z"}, "until"),
        ({"match": "*", "from": "2037-03-02T12:00:00Z", "for": "1h"}, "from"),
        ({"match": "*", "from": "2026-03-02T13:00:00Z", "until": "2026-03-02T13:00:00Z"}, "until"),
    ],
)
async def test_a_silence_without_an_end_that_can_be_is_refused(
    office: Office, body: Any, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await office.ask(ALERT_SILENCE, body)
    assert refused.value.field == field
    assert await office.store.silences(NOON) == []


async def test_a_maintenance_window_is_quiet_from_its_begin_to_its_end(office: Office) -> None:
    await office.send()
    window = {"match": "*", "from": "2026-03-02T13:00:00Z", "for": "2h", "note": "move"}
    made = await office.ask(ALERT_SILENCE, window)
    assert (made["starts_at"], made["until"]) == ("2026-03-02T13:00:00Z", "2026-03-02T15:00:00Z")
    await office.watch()
    for hours, expected in ((0, False), (1, True), (3, False)):
        office.clock.at = NOON + timedelta(hours=hours)
        (alert,) = (await office.ask(ALERT_LIST))["alerts"]
        assert alert["silenced"] is expected
    past = {"match": "*", "from": "2026-03-02T12:00:00Z", "until": "2026-03-02T16:00:00Z"}
    assert (await office.ask(ALERT_SILENCE, past))["starts_at"] is None


@pytest.mark.parametrize(
    "body", [{"for": "1h"}, {"match": "", "for": "1h"}, {"match": "a", "for": "1h", "why": "x"}]
)
async def test_a_malformed_silence_is_refused(office: Office, body: Any) -> None:
    with pytest.raises((Invalid, Malformed)):
        await office.ask(ALERT_SILENCE, body)


async def test_silences_are_bounded(office: Office) -> None:
    for _ in range(SILENCES_MAX):
        await office.ask(ALERT_SILENCE, {"match": "*", "for": "1h"})
    with pytest.raises(Conflict, match="end one first"):
        await office.ask(ALERT_SILENCE, {"match": "*", "for": "1h"})
    office.clock.at += timedelta(hours=1)
    await office.ask(ALERT_SILENCE, {"match": "*", "for": "1h"})
