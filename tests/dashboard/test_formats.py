from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from onbeat.dashboard.formats import (
    CUT_CHARS_MAX,
    distance,
    duration,
    full_moment,
    in_zone,
    moment,
    number,
    rate,
    short_id,
    short_number,
    shown,
    size,
)
from onbeat.dashboard.links import api_path, link, safe_next

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 23, 3, 12, 44, tzinfo=UTC)


def test_instants_in_a_text_are_told_on_the_clock_of_the_zone() -> None:
    text = "It is due at 2026-11-23T03:00:00Z, or 2026-11-24T03:00:00.5Z; ref 2026-11-23."
    said = "It is due at 04:00:00 Europe/Berlin, or 24 Nov 04:00 Europe/Berlin; ref 2026-11-23."
    assert in_zone(text, BERLIN, NOW) == said


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1_204, "1,204"), (0.3, "0.3"), (2.0, "2"), (1e6, "1,000,000")]
)
def test_numbers_have_groups(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1.0k"),
        (1_249, "1.2k"),
        (9_960, "10k"),
        (999_499, "999k"),
        (2_000_000, "2.0M"),
    ],
)
def test_short_numbers_have_at_most_four_characters(value: int, text: str) -> None:
    assert short_number(value) == text
    assert len(text) <= 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0 ms"),
        (0.812, "812 ms"),
        (30, "30.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (7_920, "2 h 12 min"),
        (86_400 * 2 + 59, "2 d"),
        (-5, "-5.0 s"),
    ],
)
def test_spans_have_at_most_two_units(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_an_instant_says_as_much_of_its_day_as_is_needed() -> None:
    assert moment(NOW, BERLIN, NOW) == "04:12:44"
    assert moment(NOW - timedelta(hours=5), BERLIN, NOW) == "22 Nov 23:12"
    assert moment(NOW - timedelta(days=400), BERLIN, NOW) == "19 Oct 2025 05:12"
    assert full_moment(NOW, BERLIN) == (
        "2026-11-23 04:12:44.000+01:00 Europe/Berlin · 2026-11-23T03:12:44.000Z"
    )


def test_a_distance_has_one_unit() -> None:
    assert distance(NOW + timedelta(seconds=130), NOW) == "in 2 min"
    assert distance(NOW - timedelta(seconds=40), NOW) == "40 s ago"
    assert distance(NOW, NOW) == "0 s ago"


def test_ids_are_cut_in_the_middle() -> None:
    assert short_id("0199a3f2-7c41-7000-8000-00000000e91b") == "0199a3f2…e91b"
    assert short_id("short") == "short"


def test_texts_are_bounded_and_control_characters_are_escapes() -> None:
    assert shown("a\x1b[31mb\u202ec\n") == "a\\u001b[31mb\\u202ec\n"
    assert shown("x" * CUT_CHARS_MAX) == "x" * CUT_CHARS_MAX
    assert shown("x" * (CUT_CHARS_MAX + 1_000)).endswith("x… and 1,000 more characters")


def test_values_are_escaped_in_addresses() -> None:
    assert link("jobs", "a/b?c") == "/jobs/a%2Fb%3Fc"
    assert link("jobs", task="a&b", queue=None) == "/jobs?task=a%26b"
    assert link("now") == "/"
    assert api_path("/api/queues/{}/pause", "a/b") == "/api/queues/a%2Fb/pause"


@pytest.mark.parametrize("path", ["//evil", "https://evil", "/\\evil", "", "jobs", "/a\nb"])
def test_a_log_in_leads_to_paths_of_this_service_only(path: str) -> None:
    assert safe_next(path) == "/"


def test_a_log_in_leads_back() -> None:
    assert safe_next("/jobs?state=failed") == "/jobs?state=failed"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0/s"),
        (0.1667, "0.17/s"),
        (1, "1/s"),
        (19.44, "19.4/s"),
        (286.4, "286/s"),
        (12_480, "12,480/s"),
    ],
)
def test_rates_have_as_many_digits_as_tell_something(value: float, text: str) -> None:
    assert rate(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (84_300_000, "84 MB"), (12e9, "12 GB")],
)
def test_a_size_has_the_largest_unit_that_leaves_a_whole_number(count: int, text: str) -> None:
    assert size(count) == text
