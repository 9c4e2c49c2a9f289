from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import Invalid, Malformed
from onbeat.model.limits import SPAN_MAX
from onbeat.wire.values import job_id, read_instant, read_labels, read_name, read_span, span_text

UUID = "01900000-0000-7000-8000-0000000000af"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1d", 86_400),
        ("2w", 1_209_600),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("PT15M", 900),
        ("P1DT1H", 90_000),
        ("P1W", 604_800),
        ("PT0.5S", 0.5),
        ("60", 60),
        (" 5m ", 300),
        (60, 60),
        (2.5, 2.5),
        (0, 0),
        ("0s", 0),
        ("PT0S", 0),
    ],
)
def test_a_span_has_many_spellings(value: float | str, seconds: float) -> None:
    assert read_span(value, "delay") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "soon",
        "1x",
        "-5m",
        "5m-",
        "m5",
        "30m1h",
        "P",
        "PT",
        "P1M",
        "P1Y",
        "1e3s",
        "９０s",
        "1_0s",
        "5m" * 100,
        -1,
        -0.001,
        1e300,
        float("inf"),
        float("nan"),
        "99999999999d",
    ],
)
def test_what_is_no_span_names_its_field(value: float | str) -> None:
    with pytest.raises(Invalid) as caught:
        read_span(value, "retry.delay")
    assert caught.value.field == "retry.delay"
    assert "retry.delay" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("-5m", "delay must be from 0s to 3660d"),
        ("99999999999d", "delay must be from 0s to 3660d"),
        ("P1M", "delay must be without months and years"),
        ("5m" * 100, "delay must have at most 60 characters"),
        ("soon", "delay must be a span such as 90s"),
    ],
)
def test_a_span_that_is_refused_says_what_is_wrong(value: str, wanted: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_span(value, "delay")
    assert str(caught.value).startswith(wanted)


def test_a_span_has_bounds() -> None:
    assert read_span(SPAN_MAX.total_seconds(), "delay") == SPAN_MAX
    with pytest.raises(Invalid, match="from 0s to 3660d"):
        read_span(SPAN_MAX.total_seconds() + 1, "delay")
    with pytest.raises(Invalid, match="timeout must be from"):
        read_span(0, "timeout", least=timedelta(microseconds=1))


@given(st.timedeltas(min_value=timedelta(), max_value=SPAN_MAX))
def test_a_span_is_read_as_it_was_shown(span: timedelta) -> None:
    assert abs(read_span(span_text(span), "x") - span) < timedelta(microseconds=1)


def test_an_instant_comes_out_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    assert read_instant(datetime(2026, 1, 1, tzinfo=berlin), "x") == datetime(
        2025, 12, 31, 23, tzinfo=UTC
    )


def test_an_instant_beyond_all_years_is_refused() -> None:
    west = timezone(timedelta(hours=-23))
    with pytest.raises(Invalid) as caught:
        read_instant(datetime(9999, 12, 31, 23, tzinfo=west), "ends_at")
    assert caught.value.field == "ends_at"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (UUID, UUID),
        (UUID.upper(), UUID),
        (UUID.replace("-", ""), UUID),
        ("64B76C5986b6c9f24f1c0952", "64b76c5986b6c9f24f1c0952"),
    ],
)
def test_an_id_has_one_form(given: str, kept: str) -> None:
    assert job_id(given) == kept


@pytest.mark.parametrize(
    "text", ["", "1", "x" * 24, UUID[:-1], UUID + "0", UUID + "\n", "{" + UUID + "}", "０" * 24]
)
def test_a_bad_id_is_malformed(text: str) -> None:
    with pytest.raises(Malformed, match="Invalid job ID format"):
        job_id(text)


@pytest.mark.parametrize("text", ["", "  ", "x" * 201, "a\nb", "a\x7f", "\x00"])
def test_a_bad_name_names_its_field(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_name(text, "queue")
    assert caught.value.field == "queue"


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({str(number): "" for number in range(51)}, "labels"),
        ({"": "x"}, "labels"),
        ({"a": "x" * 201}, "labels.a"),
        ({"a": "x\n"}, "labels.a"),
    ],
)
def test_bad_labels_name_their_field(labels: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_labels(labels, "labels")
    assert caught.value.field == field
