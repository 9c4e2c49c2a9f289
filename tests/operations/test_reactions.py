"""Schedules with `on`, as they are saved, changed and shown."""

from typing import Any

import pytest

from onbeat.expressions.cel import CelExpressions
from onbeat.model.errors import Invalid
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import EVENT_NAME_CHARS_MAX, GATHER_MAX, PATTERNS_MAX
from onbeat.operations.tables.jobs import JOB_WHY
from onbeat.operations.tables.schedules import (
    SCHEDULE_BACKFILL,
    SCHEDULE_CREATE,
    SCHEDULE_FORECAST,
    SCHEDULE_LIST,
    SCHEDULE_PAUSE,
    SCHEDULE_PENDING,
    SCHEDULE_PUT,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
    SCHEDULE_UPDATE,
)
from operations.harness import OperationsHarness

OTP: dict[str, Any] = {
    "name": "OTP",
    "key": "otp",
    "target": {"task": "otp"},
    "expires_after": "2m",
    "on": {
        "type": "payment.initiated",
        "source": "/shop/*",
        "if": "event.data.amount > 0",
        "by": "event.data.payment",
    },
    "delay": "5s",
    "cancel_on": {
        "type": "payment.*",
        "if": "event.type in ['payment.done', 'payment.void']",
    },
}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness(expressions=CelExpressions())


async def make(office: OperationsHarness, **fields: Any) -> str:
    body = {name: value for name, value in (OTP | fields).items() if value is not None}
    return (await office.ask(SCHEDULE_CREATE, body))["id"]


async def refused(office: OperationsHarness, **fields: Any) -> tuple[str, str]:
    with pytest.raises(Invalid) as error:
        await make(office, **fields)
    return error.value.field, str(error.value)


async def test_it_is_shown_as_it_was_given(office: OperationsHarness) -> None:
    shown = await office.ask(SCHEDULE_SHOW, id=await make(office))
    assert {name: shown[name] for name in OTP if name != "target"} == {
        name: value for name, value in OTP.items() if name != "target"
    }
    assert (shown["recurrence"], shown["next_at"]) == ("On event payment.initiated", None)
    assert shown["status"] == "active"


async def test_several_patterns_are_a_list(office: OperationsHarness) -> None:
    patterns = [{"type": "a"}, {"type": "b.*", "source": "/x"}]
    shown = await office.ask(
        SCHEDULE_SHOW, id=await make(office, on=patterns, cancel_on=None, delay=None)
    )
    assert shown["on"] == patterns
    assert shown["recurrence"] == "On event a or b.*"
    assert "delay" not in shown


@pytest.mark.parametrize(
    "gather",
    [
        {"for": "1h"},
        {"for": "1h", "most": 10, "by": "event.source"},
        {"until": {"cron": "0 8 * * MON-FRI", "timezone": "Europe/Berlin"}},
        {"until": {"every": "1h"}},
        {"until": {"at": "2026-03-03T12:00:00Z"}},
        {"quiet": "5m", "for": "30m", "keep": "last"},
        {"for": "1h", "keep": "first"},
    ],
)
async def test_each_form_of_gather_is_kept_and_may_be_sent_back(
    office: OperationsHarness, gather: dict[str, Any]
) -> None:
    id = await make(office, gather=gather)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["gather"] == gather
    office.move(minutes=1)
    before = await office.store.schedule(ScheduleId(id))
    await office.ask(SCHEDULE_UPDATE, shown, id=id)
    after = await office.store.schedule(ScheduleId(id))
    assert before is not None
    assert after is not None
    assert after.gather == before.gather


@pytest.mark.parametrize(
    "gather",
    [
        {"quiet": "5m", "for": "30m", "keep": "last"},
        {"quiet": "5m", "for": "30m", "keep": "first"},
        {"for": "1h", "keep": "last"},
        {"for": "1h", "keep": "first"},
        {"until": {"every": "1h"}, "keep": "first"},
    ],
)
async def test_no_gather_needs_a_key(office: OperationsHarness, gather: dict[str, Any]) -> None:
    id = await make(office, on={"type": "a"}, cancel_on={"type": "b"}, gather=gather)
    assert (await office.ask(SCHEDULE_SHOW, id=id))["gather"] == gather


async def test_it_makes_no_occurrences_and_never_finishes(office: OperationsHarness) -> None:
    id = await make(office)
    assert (await office.ask(SCHEDULE_PENDING, id=id))["events"] == []
    for operation in (SCHEDULE_PAUSE, SCHEDULE_RESUME):
        await office.ask(operation, id=id)
    await office.ask(SCHEDULE_UPDATE, {"on": {"type": "x"}, "cancel_on": None}, id=id)
    stored = await office.store.schedule(ScheduleId(id))
    assert stored is not None
    assert (stored.status, stored.plan_at) == ("active", None)
    assert [pattern.type for pattern in stored.on] == ["x"]
    span = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
    assert (await office.ask(SCHEDULE_BACKFILL, span, id=id))["jobs"] == 0
    forecast = await office.ask(SCHEDULE_FORECAST)
    assert (forecast["fires"], forecast["cut"]) == (0, [])
    assert [one["next_at"] for one in (await office.ask(SCHEDULE_LIST))["schedules"]] == [None]


async def test_it_may_be_triggered_by_hand(office: OperationsHarness) -> None:
    id = await make(office)
    job = (await office.ask(SCHEDULE_TRIGGER, id=id))["job_id"]
    assert (await office.ask(JOB_WHY, id=job))["code"] == "no_worker"


async def test_a_rule_of_time_takes_its_place_and_back(office: OperationsHarness) -> None:
    id = await make(office)
    with pytest.raises(Invalid, match="cancel_on needs on"):
        await office.ask(SCHEDULE_UPDATE, {"every": "5m"}, id=id)
    await office.ask(SCHEDULE_UPDATE, {"every": "5m", "cancel_on": None, "delay": None}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert "on" not in shown
    assert len((await office.ask(SCHEDULE_PENDING, id=id))["events"]) == 3
    await office.ask(SCHEDULE_UPDATE, {"on": {"type": "x"}}, id=id)
    assert (await office.ask(SCHEDULE_SHOW, id=id))["on"] == {"type": "x"}
    assert (await office.ask(SCHEDULE_PENDING, id=id))["events"] == []


async def test_null_resets_what_goes_with_on(office: OperationsHarness) -> None:
    id = await make(office, gather={"for": "1h"})
    changes = {"cancel_on": None, "gather": None, "delay": None}
    await office.ask(SCHEDULE_UPDATE, changes, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert not {"cancel_on", "gather", "delay"} & set(shown)
    with pytest.raises(Invalid, match="needs one of rrule, cron, every, at and on"):
        await office.ask(SCHEDULE_UPDATE, {"on": None}, id=id)


async def test_put_again_changes_nothing(office: OperationsHarness) -> None:
    body = OTP | {"gather": {"until": {"every": "1h"}}}
    await office.ask(SCHEDULE_PUT, body, key="otp")
    office.move(minutes=1)
    again = await office.ask(SCHEDULE_PUT, body, key="otp")
    assert (again["created"], again["changed"]) == (False, False)


PLAIN: dict[str, Any] = {"cancel_on": None, "delay": None}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"every": "5m"}, "every", "every does not go with on"),
        ({"timezone": "Europe/Berlin"}, "timezone", "timezone does not go with on"),
        ({"dst_gap": "skip"}, "dst_gap", "dst_gap does not go with on"),
        ({"on": []}, "on", "on needs at least one pattern"),
        ({"on": {"type": ""}}, "on.type", "on.type cannot be empty"),
        ({"on": {"type": "a*b"}}, "on.type", "only at its end"),
        ({"on": {"type": "a", "source": "*/x"}}, "on.source", "only at its end"),
        ({"on": {"type": "a", "if": " "}}, "on.if", "on.if cannot be empty"),
        ({"on": {"type": "a", "if": "event.data ="}}, "on.if", "on.if: line 1, column 12"),
        ({"on": {"type": "a", "if": "job.id == ''"}}, "on.if", "undeclared reference to 'job.id'"),
        ({"on": {"type": "a", "if": "'text'"}}, "on.if", "must give true or false"),
        ({"on": {"type": "a", "by": "[1]"}}, "on.by", "must give a text"),
        ({"on": [{"type": "a"}, {"type": "b", "if": "1 +"}]}, "on[1].if", r"on[1].if"),
        ({"on": [{"type": "a", "by": "'x'"}, {"type": "b"}]}, "on[1].by", "on[1].by is missing"),
        ({"on": [{"type": "a"}] * (PATTERNS_MAX + 1)}, "on", "at most 20 patterns"),
        ({"on": {"type": "a"}, "cancel_on": {"type": "b", "by": "'x'"}}, "cancel_on.by", "needs"),
        ({"cancel_on": {"type": "b", "if": "no.such"}}, "cancel_on.if", "cancel_on.if"),
        ({"gather": {}}, "gather.for", "gather needs for or until"),
        ({"gather": {"quiet": "5m"}}, "gather.for", "might never be due"),
        ({"gather": {"for": "0s"}}, "gather.for", "gather.for must be from"),
        ({"gather": {"for": "5m", "until": {"every": "1h"}}}, "gather.until", "not both"),
        ({"gather": {"until": {"cron": "x"}}}, "gather.until.cron", "gather.until: cron"),
        ({"gather": {"until": {}}}, "gather.until", "gather.until"),
        ({"gather": {"until": {"at": "2020-01-01T00:00:00Z"}}}, "gather.until", "no instant"),
        ({"gather": {"for": "1h", "most": GATHER_MAX + 1}}, "gather.most", "at most 1000"),
        ({"gather": {"for": "1h", "most": 0}}, "gather.most", "at least 1"),
        ({"gather": {"for": "1h", "most": 5, "keep": "first"}}, "gather.most", "only counted"),
        ({"gather": {"for": "1h", "by": "nope"}}, "gather.by", "undeclared reference"),
        ({"catch_up": "all"}, "catch_up", "catch_up does not go with on"),
        ({"grace": "5m"}, "grace", "use expires_after"),
        ({"on": None, "every": "5m", "cancel_on": None}, "delay", "delay needs on"),
        ({"on": None, "every": "5m", "delay": None}, "cancel_on", "cancel_on needs on"),
        (
            {"on": None, "every": "5m", "gather": {"for": "1h"}, **PLAIN},
            "gather",
            "gather needs on",
        ),
    ],
)
async def test_what_does_not_go_together_is_refused_by_its_field(
    office: OperationsHarness, fields: dict[str, Any], field: str, words: str
) -> None:
    named, said = await refused(office, **fields)
    assert (named, words in said) == (field, True), said


@pytest.mark.parametrize("name", ["type", "source"])
async def test_a_pattern_is_as_long_as_what_it_is_for(office: OperationsHarness, name: str) -> None:
    longest = {"type": "t", name: "x" * EVENT_NAME_CHARS_MAX}
    await make(office, on=longest, **PLAIN)
    named, said = await refused(office, on=longest | {name: longest[name] + "x"}, **PLAIN)
    assert (named, "255 characters" in said) == (f"on.{name}", True), said


async def test_limits_may_be_reached(office: OperationsHarness) -> None:
    patterns = [{"type": f"t{n}"} for n in range(PATTERNS_MAX)]
    await make(office, on=patterns, **PLAIN, gather={"for": "1h", "most": GATHER_MAX})


async def test_without_the_extra_only_expressions_are_refused() -> None:
    office = OperationsHarness()
    field, words = await refused(office)
    assert (field, "onbeat[cel]" in words) == ("on.if", True)
    await make(office, on={"type": "a"}, cancel_on={"type": "b"})
