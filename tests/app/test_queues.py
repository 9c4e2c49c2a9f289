"""`beat.queues`: limits from Python."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat import Onbeat
from onbeat.model.errors import Invalid
from onbeat.wire.limits import LimitsAnswer


@pytest.fixture(params=["local", "service"])
def beat(request: Any) -> Onbeat:
    url = "memory://" if request.param == "local" else request.getfixturevalue("service")
    return Onbeat(url)


async def test_limits_are_set_read_and_removed(beat: Onbeat) -> None:
    await beat.queues.alimit("mail", concurrency=10, rate="100/s", late_after=timedelta(minutes=5))
    await beat.queues.alimit("mail", rate=None, fair=True, late_after="90s")
    read = await beat.queues.alimit("mail")
    assert read.limits == LimitsAnswer(concurrency=10, fair=True, late_after="1m30s")
    (listed,) = await beat.queues.alist()
    assert listed == read
    gone = await beat.queues.alimit("mail", concurrency=None, fair=False, late_after=None)
    assert gone.limits == LimitsAnswer()
    await beat.aclose()


def test_the_plain_form_blocks() -> None:
    with Onbeat("memory://") as beat:
        assert beat.queues.limit("mail", late_after=60).limits == LimitsAnswer(late_after="1m")


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "ten"}, "concurrency"),
        ({"rate": "fast"}, "rate"),
        ({"late_after": "soon"}, "late_after"),
        ({"late_after": timedelta(days=32)}, "late_after"),
    ],
)
async def test_a_limit_that_cannot_be_names_its_field(
    beat: Onbeat, limits: Any, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await beat.queues.alimit("mail", **limits)
    assert refused.value.field == field
    await beat.aclose()


async def test_a_limit_that_is_none_is_a_type_error() -> None:
    unknown: Any = {"speed": 1}
    with pytest.raises(TypeError, match="speed"):
        await Onbeat("memory://").queues.alimit("mail", **unknown)
