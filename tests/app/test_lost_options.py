"""A schedule refuses what it cannot keep: misspelt policies, and options of a single job."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from onbeat import Onbeat, every
from onbeat.model.errors import Invalid

LOST: Mapping[str, Any] = {
    "run_at": datetime(2999, 1, 1, tzinfo=UTC),
    "delay": "5m",
    "after": "01900000-0000-7000-8000-00000000ffff",
    "unique": "u",
    "name": "a",
    "group": "other",
    "unique_for": "3d",
}


def declare(beat: Onbeat) -> Any:
    @beat.task("work", group="acme", unique_for="2d")
    def work() -> None: ...

    return work


async def test_options_of_the_task_for_its_other_jobs_are_no_fault(beat: Onbeat) -> None:
    assert await beat.schedules.aput("k", every("1h"), declare(beat).call())


@pytest.mark.parametrize("name", LOST)
async def test_an_option_that_a_schedule_would_lose_is_refused(beat: Onbeat, name: str) -> None:
    work = declare(beat)
    call = work.options(**{name: LOST[name]}).call()
    for change in (beat.schedules.aupdate, beat.schedules.adiff):
        with pytest.raises(Invalid, match=f"cannot keep the option {name} of its call"):
            await change("k", call=call)
    for verb in (beat.schedules.aput, beat.schedules.aput_diff):
        with pytest.raises(Invalid, match=f"cannot keep the option {name} of its call") as caught:
            await verb("k", every("1h"), call)
        assert caught.value.field == name
    with pytest.raises(Invalid, match=name):
        await beat.schedules.acreate(every("1h"), call, name="k")
    with pytest.raises(Invalid, match=name):
        beat.schedule(every("1h"))(work.options(**{name: LOST[name]}))


async def test_an_unknown_policy_is_refused(beat: Onbeat) -> None:
    work = declare(beat)
    call = work.call()
    misspelt: dict[str, Any] = {"catchup": "all"}
    schedules: Any = beat.schedules
    schedule: Any = beat.schedule
    for name, asked in {
        "put": schedules.aput("k", every("1h"), call, **misspelt),
        "put_diff": schedules.aput_diff("k", every("1h"), call, **misspelt),
        "create": schedules.acreate(every("1h"), call, name="k", **misspelt),
    }.items():
        with pytest.raises(TypeError, match=rf"schedules\.{name}\(\) got an unexpected .*catchup"):
            await asked
    with pytest.raises(TypeError, match=r"schedule\(\) got an unexpected keyword .*'over_lap'"):
        schedule(every("1h"), over_lap="skip")(work)
    assert await beat.schedules.alist() == ()


@pytest.mark.parametrize("name", ["timeout", "expires_after"])
async def test_a_span_of_no_length_is_refused_as_by_rest(beat: Onbeat, name: str) -> None:
    work = declare(beat)
    given: dict[str, Any] = {name: 0}
    for asked in (
        beat.schedules.aput("k", every("1h"), work.call(), **given),
        beat.schedules.aupdate("k", **given),
    ):
        with pytest.raises(Invalid, match=f"{name} must be from 0.000001s") as caught:
            await asked
        assert caught.value.field == name


def test_a_timeout_of_no_length_is_refused_for_a_call(beat: Onbeat) -> None:
    with pytest.raises(Invalid, match=r"timeout must be from 0\.000001s"):
        declare(beat).options(timeout=0)
