"""Rates as text."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.queue import Limits, Rate
from onbeat.wire.limits import (
    RATE_COUNT_MAX,
    RATE_SPAN_MAX,
    LimitBody,
    changed_limits,
    limits_answer,
    rate_text,
    read_rate,
)


@pytest.mark.parametrize(
    ("text", "count", "seconds", "shown"),
    [
        ("100/s", 100, 1, "100/s"),
        ("5/m", 5, 60, "5/m"),
        ("1000/1h", 1_000, 3_600, "1000/h"),
        ("10/30s", 10, 30, "10/30s"),
        ("1/d", 1, 86_400, "1/d"),
        (" 7 / 1h30m ", 7, 5_400, "7/1h30m"),
        ("3/PT2M", 3, 120, "3/2m"),
        ("2/ms", 2, 0.001, "2/0.001s"),
        ("2/0.5s", 2, 0.5, "2/0.5s"),
        ("1000000/31d", 1_000_000, 31 * 86_400, "1000000/31d"),
    ],
)
def test_a_rate_is_a_count_and_a_span(text: str, count: int, seconds: float, shown: str) -> None:
    rate = read_rate(text, "rate")
    assert rate == Rate(count, timedelta(seconds=seconds))
    assert rate_text(rate) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "100",
        "/s",
        "100/",
        "0/s",
        "-1/s",
        "1.5/s",
        "1000001/s",
        "5/week",
        "5/0s",
        "5/32d",
        "5/P1M",
        "5/0.0001s",
        "٣/s",
        "5//s",
    ],
)
def test_a_rate_that_cannot_be_names_its_field(text: str) -> None:
    with pytest.raises(Invalid, match=r"^group_rate must be") as caught:
        read_rate(text, "group_rate")
    assert caught.value.field == "group_rate"


RATES = st.builds(
    Rate,
    st.integers(1, RATE_COUNT_MAX),
    st.timedeltas(timedelta(milliseconds=1), RATE_SPAN_MAX),
)


@given(RATES)
def test_a_rate_that_is_shown_can_be_read(rate: Rate) -> None:
    assert read_rate(rate_text(rate), "rate") == rate


def test_what_is_left_out_stays_and_null_goes() -> None:
    before = Limits(concurrency=5, rate=Rate(1, timedelta(seconds=1)), group_concurrency=2)
    after = changed_limits(before, LimitBody(concurrency=None, group_rate="5/m"))
    assert after == Limits(
        rate=Rate(1, timedelta(seconds=1)),
        group_concurrency=2,
        group_rate=Rate(5, timedelta(minutes=1)),
    )
    after = changed_limits(after, LimitBody(fair=True))
    assert after.fair
    assert changed_limits(after, LimitBody(rate="1/m")).fair
    assert not changed_limits(after, LimitBody(fair=False)).fair
    after = changed_limits(after, LimitBody(late_after="1h30m"))
    assert after.late_after == timedelta(minutes=90)
    assert changed_limits(after, LimitBody(rate="1/m")).late_after == timedelta(minutes=90)
    everything = LimitBody(
        concurrency=None,
        rate=None,
        group_concurrency=None,
        group_rate=None,
        fair=None,
        late_after=None,
    )
    assert changed_limits(after, everything) == Limits()


@pytest.mark.parametrize("span", ["1s", "31d", 90, 1.5, "PT5M"])
def test_a_span_until_a_queue_is_late_is_shown_as_it_can_be_given(span: str | float) -> None:
    limits = changed_limits(Limits(), LimitBody(late_after=span))
    shown = limits_answer(limits).late_after
    assert changed_limits(Limits(), LimitBody(late_after=shown)) == limits


@pytest.mark.parametrize("span", ["0.999s", "31d1s", "P1M", "soon", "", 0, -5, 1e300])
def test_a_span_that_makes_no_queue_late_is_refused(span: str | float) -> None:
    with pytest.raises(Invalid, match=r"^late_after must be") as caught:
        changed_limits(Limits(), LimitBody(late_after=span))
    assert caught.value.field == "late_after"
