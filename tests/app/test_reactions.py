"""Schedules that react to events, as programs declare them."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from onbeat import Invalid, Onbeat, cron, every
from onbeat.model.event import Event
from onbeat.model.reaction import EventPattern, Gather, Keep


@pytest.fixture
def beat() -> Onbeat:
    return Onbeat("memory://")


def work() -> None: ...


async def shown(beat: Onbeat, **policies: Any) -> dict[str, Any]:
    """The answer for a schedule with these keywords."""
    async with beat:
        await beat.schedules.aput("key", None, beat.task(work).call(), **policies)
        return msgspec.json.decode(msgspec.json.encode(await beat.schedules.aget("key")))


@pytest.mark.parametrize(
    ("on", "answer"),
    [
        ("paid", {"type": "paid"}),
        ({"type": "paid", "if": "event.data.ok"}, {"type": "paid", "if": "event.data.ok"}),
        (EventPattern("paid", source="/x", by="event.id"), None),
        (["paid", {"type": "done"}], [{"type": "paid"}, {"type": "done"}]),
    ],
)
async def test_patterns_are_types_mappings_or_records(beat: Onbeat, on: Any, answer: Any) -> None:
    found = (await shown(beat, on=on))["on"]
    assert found == (answer or {"type": "paid", "source": "/x", "by": "event.id"})


@pytest.mark.parametrize(
    ("gather", "answer"),
    [
        ({"for": "1h"}, {"for": "1h"}),
        ({"for": timedelta(hours=1), "most": 5}, {"for": "1h", "most": 5}),
        ({"for": "1h", "keep": "first"}, {"for": "1h", "keep": "first"}),
        ({"until": {"every": "8h"}}, {"until": {"every": "8h"}}),
        (
            {"until": cron("0 8 * * *", tz="Europe/Berlin")},
            {"until": {"cron": "0 8 * * *", "timezone": "Europe/Berlin"}},
        ),
        (
            Gather(span=timedelta(minutes=5), quiet=timedelta(seconds=30)),
            {"for": "5m", "quiet": "30s"},
        ),
        (Gather(until=every("1h").spec(), keep=Keep.ALL), {"until": {"every": "1h"}}),
    ],
)
async def test_a_gathering_is_a_mapping_or_a_record(beat: Onbeat, gather: Any, answer: Any) -> None:
    assert (await shown(beat, on="paid", gather=gather))["gather"] == answer


@pytest.mark.parametrize(
    ("policies", "field"),
    [
        ({"on": []}, "on"),
        ({"on": 5}, "on"),
        ({"on": [5]}, "on[0]"),
        ({"on": {"type": "a", "sauce": "b"}}, "on.sauce"),
        ({"on": {"source": "b"}}, "on.type"),
        ({"on": "a*b"}, "on.type"),
        ({"on": {"type": "a", "if": "no.such"}}, "on.if"),
        ({"on": "a", "gather": {"for": "soon"}}, "gather.for"),
        ({"on": "a", "gather": {"long": 5}}, "gather.long"),
        ({"on": "a", "gather": 5}, "gather"),
        ({"on": "a", "gather": {"until": every("1h"), "for": "1h"}}, "gather.until"),
        ({"on": "a", "delay": "soon"}, "delay"),
        ({"on": "a", "cancel_on": {"type": ""}}, "cancel_on.type"),
    ],
)
async def test_what_is_wrong_is_refused_by_its_field(
    beat: Onbeat, policies: Any, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await shown(beat, **policies)
    assert error.value.field == field


async def test_a_rule_of_time_and_on_exclude_each_other(beat: Onbeat) -> None:
    call: Any = beat.task(work).call()
    async with beat:
        with pytest.raises(Invalid, match="not both"):
            await beat.schedules.aput("key", every("1h"), call, on="paid")
        with pytest.raises(TypeError, match="on="):
            await beat.schedules.aput("key", None, call)
        with pytest.raises(Invalid, match="cancel_on needs on"):
            await beat.schedules.aput("key", every("1h"), call, cancel_on="paid")


async def test_a_declared_reaction_runs_on_its_events(beat: Onbeat) -> None:
    @beat.schedule(
        on={"type": "placed", "by": "event.data.order"}, cancel_on="paid", delay="10m", key="unpaid"
    )
    def remind() -> None: ...

    @beat.schedule(on=["placed", "paid"], gather={"for": "1h"})
    def digest() -> None: ...

    def event(type: str, order: str) -> Event:
        data = msgspec.Raw(msgspec.json.encode({"order": order}))
        return Event(id=f"{type}-{order}", source="/shop", type=type, time=trial.now, data=data)

    async with beat.testing(at="2027-01-01T00:00:00Z") as trial:
        await trial.adrain()
        await beat.backend.store.publish([event("placed", "a"), event("placed", "b")], trial.now)
        await trial.aadvance("9m")
        await beat.backend.store.publish([event("paid", "a")], trial.now)
        await trial.aadvance("2h")
        trial.assert_ran(remind, times=1)
        trial.assert_ran(digest, times=1)
        assert f"{trial.ran_of(remind)[0].at:%H:%M}" == "00:10"
        assert f"{trial.ran_of(digest)[0].at:%H:%M}" == "01:00"
