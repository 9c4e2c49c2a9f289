"""Where rules begin to count, in programs, on a service, and after they are declared again."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from onbeat import Invalid, Onbeat, cron, every, http, rrule
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_SHOW, SCHEDULE_UPDATE
from onbeat.recurrence import Recurrence, business_days, phrase, union

CALL = http("POST", "https://example.com/close")
START = datetime(2026, 1, 1, 3, 7, tzinfo=UTC)
DAILY = every("1d", start=START)
# In Berlin this time comes twice, and only the second one is this instant.
SECOND_PASS = rrule(
    "FREQ=DAILY", tz="Europe/Berlin", start=datetime(2025, 10, 26, 1, 30, tzinfo=UTC)
)
EVERY_DAY = business_days(weekend="")


@pytest.fixture(params=["store", "service"])
async def beat(request: pytest.FixtureRequest, service: str) -> Any:
    one = Onbeat("memory://") if request.param == "store" else Onbeat(service)
    yield one
    await one.aclose()
    one.backend.portal.close()


async def answer_of(beat: Onbeat, id: str) -> dict[str, Any]:
    answer = await beat.backend.ask(SCHEDULE_SHOW, {"id": id})
    plain: dict[str, Any] = json.loads(msgspec.json.encode(answer))
    return plain


async def change(beat: Onbeat, id: str, fields: dict[str, Any]) -> None:
    await beat.backend.ask(SCHEDULE_UPDATE, {"id": id}, json.dumps(fields).encode())


async def create(beat: Onbeat, fields: dict[str, Any]) -> str:
    body = {"name": "n", "callback_url": "https://example.com"} | fields
    answer = await beat.backend.ask(SCHEDULE_CREATE, {}, json.dumps(body).encode())
    return str(answer.id)


async def next_of(beat: Onbeat, key: str) -> datetime:
    at = (await beat.schedules.aget(key)).next_at
    assert at is not None
    return at


@pytest.mark.parametrize("rule", [DAILY, every("P1M", start=START), SECOND_PASS])
async def test_a_start_is_kept_on_every_way(beat: Onbeat, rule: Recurrence) -> None:
    await beat.schedules.aput("put", rule, CALL)
    expected = await next_of(beat, "put")
    assert expected == rule.after(expected - timedelta(seconds=1))
    created = await beat.schedules.acreate(rule, CALL, name="created")
    assert await next_of(beat, created) == expected
    await beat.schedules.aput("updated", every("5h"), CALL)
    await beat.schedules.aupdate("updated", rule)
    assert await next_of(beat, "updated") == expected
    preview = await beat.schedules.apreview_rule(rule, count=1)
    assert preview.occurrences == (expected,)
    diff = await beat.schedules.aput_diff("put", rule, CALL)
    assert (diff.changes, diff.next_after) == ((), diff.next_before)


@pytest.mark.parametrize("rule", [DAILY, SECOND_PASS, every("90m"), rrule("FREQ=WEEKLY")])
async def test_an_answer_that_is_sent_back_changes_nothing(beat: Onbeat, rule: Recurrence) -> None:
    await beat.schedules.aput("one", rule, CALL)
    before = await answer_of(beat, (await beat.schedules.aget("one")).id)
    await change(beat, before["id"], before)
    after = await answer_of(beat, before["id"])
    assert after | {"updated_at": ""} == before | {"updated_at": ""}


async def test_the_answer_of_a_rule_without_a_text_may_be_sent_back() -> None:
    async with Onbeat("memory://") as beat:
        for rule in (union(DAILY, every("1h")), DAILY.on(EVERY_DAY), DAILY.excluding(every("2d"))):
            await beat.schedules.aput("one", rule, CALL)
            before = await answer_of(beat, (await beat.schedules.aget("one")).id)
            await change(beat, before["id"], before | {"queue": "slow"})
            assert (await answer_of(beat, before["id"]))["next_at"] == before["next_at"]
            for field, value in (("timezone", "Asia/Tokyo"), ("start", str(START))):
                with pytest.raises(Invalid, match="made by a program") as refused:
                    await change(beat, before["id"], {field: value})
                assert refused.value.field == field


async def test_a_start_is_given_changed_and_taken_back(beat: Onbeat) -> None:
    id = await create(beat, {"every": "1d", "start": str(START)})
    shown = await answer_of(beat, id)
    assert (shown["start"], shown["anchor"]) == ("2026-01-01T03:07:00Z", "2026-01-01T03:07:00Z")
    await change(beat, id, {"start": "2026-01-01T05:09:00Z"})
    assert (await next_of(beat, id)).hour == 5
    await change(beat, id, {"dst_gap": "skip", "timezone": "Asia/Tokyo"})
    assert (await answer_of(beat, id))["start"] == "2026-01-01T05:09:00Z"
    await change(beat, id, {"start": None})
    shown = await answer_of(beat, id)
    assert "start" not in shown
    assert shown["anchor"] > "2026-01-01T05:09:00Z"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "0 3 * * *"}, "start"),
        ({"at": "2030-01-01T00:00:00Z"}, "start"),
        ({"on": {"type": "order.placed"}}, "start"),
        ({"every": "R/2026-01-01T09:00:00Z/P1D"}, "every"),
        ({"rrule": "DTSTART:20260101T030000Z\nRRULE:FREQ=DAILY"}, "detail"),
    ],
)
async def test_a_start_beside_another_one_is_refused(
    beat: Onbeat, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await create(beat, {"start": str(START), **fields})
    if field == "detail":
        assert "DTSTART is in the text already" in str(refused.value.detail)
    else:
        assert refused.value.field == field


async def test_a_start_that_a_program_adds_counts(beat: Onbeat) -> None:
    await beat.schedules.aput("one", every("1d"), CALL)
    await beat.schedules.aput("one", DAILY, CALL)
    assert (await next_of(beat, "one")).time() == START.time()
    await beat.schedules.aput("one", every("1d"), CALL)
    assert (await next_of(beat, "one")).time() == START.time()


@pytest.mark.parametrize(
    "rule",
    [
        union(every("1h"), every("1d", start=START)),
        every("1h").on(EVERY_DAY),
        every("1h").excluding(every("1d", start=START)),
        union(every("1h").on(EVERY_DAY), rrule("FREQ=HOURLY;COUNT=3").on(EVERY_DAY)),
    ],
)
def test_a_combined_rule_that_is_declared_again_goes_on(rule: Recurrence) -> None:
    beat = Onbeat("memory://")

    @beat.task
    def note() -> None: ...

    with beat.testing(at="2026-12-01T09:00:00Z") as trial:
        for _ in range(10):
            beat.schedules.put("one", rule, note.call())
            trial.advance("45m")
        began = {ran.job.occurrence for ran in trial.ran}
    assert {at.hour for at in began if at is not None and at.minute == 0} == set(range(10, 17))


async def test_the_key_of_a_schedule_spreads_its_cron(beat: Onbeat) -> None:
    plain, own = cron("H H * * *"), cron("H H * * *", key="spread")
    await beat.schedules.aput("spread", plain, CALL)
    at = await next_of(beat, "spread")
    assert at == own.after(at - timedelta(seconds=1))
    assert (await beat.schedules.aput_diff("spread", own, CALL)).changes == ()
    await beat.schedules.aput("spread", every("5h"), CALL)
    await beat.schedules.aupdate("spread", plain)
    assert await next_of(beat, "spread") == at
    with pytest.raises(Invalid, match="key 'spread' of a cron"):
        await beat.schedules.acreate(own, CALL, name="other")


async def test_months_are_those_of_the_zone(beat: Onbeat) -> None:
    begin = datetime(2026, 2, 28, 20, tzinfo=UTC)  # the 1st of March in Tokyo
    id = await create(beat, {"every": "P1M", "timezone": "Asia/Tokyo", "start": str(begin)})
    at = await next_of(beat, id)
    assert ((at + timedelta(hours=9)).day, at.hour) == (1, 20)
    monthly = phrase("every month", tz="Asia/Tokyo")
    assert monthly.after(begin) == datetime(2026, 3, 31, 20, tzinfo=UTC)
    assert every("P1M").after(begin) == datetime(2026, 3, 28, 20, tzinfo=UTC)
