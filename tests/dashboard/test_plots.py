"""Where the numbers of a plot land, and what is said of them."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.dashboard.drawing.axis import TICKS_MAX, TimeAxis
from onbeat.dashboard.drawing.plot import (
    HEIGHT,
    WIDTH,
    Plot,
    PlotLine,
    PlotMark,
    Values,
    plot,
    strip,
)
from onbeat.dashboard.pages.plots import STARTS_MARKED, rates_of, starts_of, table_of
from onbeat.operations.alerts import failed_by_minute
from onbeat.wire.pulses import PointAnswer

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BERLIN, UTC_ZONE = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")


def axis(hours: float = 1, first: datetime = NOON, zone: ZoneInfo = UTC_ZONE) -> TimeAxis:
    return TimeAxis(first, first + timedelta(hours=hours), zone)


def drawn(values: Values, shape: str = "line", measured: Values | None = None) -> Plot:
    line = PlotLine("failed", values, "fail", "area" if shape == "area" else "line")
    times = [f"12:{place:02}" for place in range(len(values))]
    return plot("Ended", axis(), [line], times, measured or values, write="{:g}/s".format)


# The axis


def test_instants_land_at_their_share_of_the_width() -> None:
    places = [axis().x(NOON + minutes * MINUTE) for minutes in (0, 15, 59.99, 60)]
    assert places == [0, 25, 99.98, 100]


@pytest.mark.parametrize(
    ("hours", "texts"),
    [
        (1, ["12:10", "12:20", "12:30", "12:40", "12:50"]),
        (24, ["15:00", "18:00", "21:00", "00:00", "03:00", "06:00", "09:00"]),
        (168, ["Tue 3", "Wed 4", "Thu 5", "Fri 6", "Sat 7", "Sun 8", "Mon 9"]),
    ],
)
def test_ticks_are_round_times(hours: float, texts: list[str]) -> None:
    ticks = axis(hours).ticks()
    assert [tick.text for tick in ticks] == texts
    assert [tick.is_minor for tick in ticks][:3] == [False, True, False]


def test_a_day_of_23_hours_is_drawn_in_instants() -> None:
    first = datetime(2026, 3, 28, 23, tzinfo=UTC)
    ticks = axis(23, first, BERLIN).ticks()
    assert [tick.text for tick in ticks] == [f"{hour:02}:00" for hour in range(3, 24, 3)]
    assert ticks[0].x == pytest.approx(100 * 2 / 23, abs=0.01), "an hour is missing before it"


@given(st.floats(0.1, 2_000), st.sampled_from([BERLIN, UTC_ZONE, ZoneInfo("Asia/Kathmandu")]))
def test_ticks_are_few_and_in_order(hours: float, zone: ZoneInfo) -> None:
    places = [tick.x for tick in axis(hours, zone=zone).ticks()]
    assert len(places) <= TICKS_MAX + 2
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)


# Paths


def test_numbers_land_where_they_must() -> None:
    made = drawn([0, 5, 10, 10])
    assert [one.path for one in made.strokes] == ["M0 120H360V60H720V0H1440"]
    assert [(line.y, line.text) for line in made.grid] == [(0, "10/s"), (60, "5/s")]


def test_an_area_stands_on_the_axis() -> None:
    assert drawn([5, 10], "area").strokes[0].path == "M0 120H0V60H720V0H1440V120Z"


def test_plots_show_gaps_not_zeros() -> None:
    made = drawn([None, 10, None, 0, None, None])
    assert made.strokes[0].path == "M240 0H480M720 120H960"
    assert made.gaps == ("M0 0H240V120H0ZM480 0H720V120H480ZM960 0H1440V120H960Z"), (
        "each gap is a box of its own"
    )
    assert drawn([1, 2]).gaps == ""
    assert "nothing was measured" in made.texts[0]


def test_a_plot_of_nothing_has_no_line() -> None:
    made = drawn([None, None])
    assert made.strokes[0].path == ""
    assert made.sentence == "Ended. Nothing was measured."


def test_a_value_that_is_no_number_of_its_kind_is_no_gap_of_the_plot() -> None:
    made = drawn([None, 1], measured=[1.0, 1.0])
    assert (made.gaps, made.strokes[0].path) == ("", "M720 0H1440")


def test_a_strip_has_its_own_scale_and_gaps() -> None:
    assert strip([0, None, 4, 2], 20) == ("M0 20H0V20H360V20ZM720 20H720V0H1080V10H1440V20Z")
    assert strip([0, 0], 20) == "M0 20H0V20H1440V20Z"


def test_words_say_what_the_plot_shows() -> None:
    made = drawn([1, 7, None, 2])
    assert made.sentence == (
        "Ended. Failed: 2/s at last, at most 7/s at 12:01. In 1 of 4 steps there is no value."
    )
    assert made.texts == [
        "12:00: 1/s failed",
        "12:01: 7/s failed",
        "12:02: nothing was measured",
        "12:03: 2/s failed",
    ]


@given(st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=60), st.booleans())
def test_every_path_stays_within_the_drawing(values: list[float | None], closed: bool) -> None:
    path = drawn(values, "area" if closed else "line").strokes[0].path
    assert re.fullmatch(r"(M[\d.]+ [\d.]+(H[\d.]+(V[\d.]+)?)+Z?)*", path)
    assert all(0 <= float(x) <= WIDTH for x in re.findall(r"[MH]([\d.]+)", path))
    assert all(0 <= float(y) <= HEIGHT for y in re.findall(r"(?:V| )([\d.]+)", path))


# Numbers of a page


def points(*counts: int | None) -> list[PointAnswer]:
    return [
        PointAnswer(
            at=NOON + 10 * place * timedelta(seconds=1),
            seconds=10.0,
            started=count,
            succeeded=count,
            failed=None if count is None else count // 10,
            lateness_p95=None if count is None else count / 100,
        )
        for place, count in enumerate(counts)
    ]


def test_rates_are_those_of_the_last_minute_against_the_hour() -> None:
    rates = rates_of(points(*[None] * 6, *[10] * 6, *[20] * 6))
    assert (rates.started, rates.failed, rates.change) == (2.0, 0.2, 33)


def test_without_measurements_there_is_no_rate() -> None:
    rates = rates_of(points(*[10] * 6, *[None] * 6))
    assert (rates.started, rates.failed, rates.change) == (None, None, None)
    assert rates_of(points(*[0] * 6)).change is None


def test_failures_are_counted_by_minutes_back_from_the_end() -> None:
    assert failed_by_minute(points(99, *[None] * 6, *[10] * 3, *[None] * 3, *[50] * 6)) == [
        None,
        3,
        30,
    ]


def test_the_table_has_a_dozen_rows_the_newest_first() -> None:
    rows = table_of(points(*[None] * 30, *[10] * 330))
    assert len(rows) == 12
    assert rows[-1].started is rows[-1].lateness is None
    newest = rows[0]
    assert (newest.started, newest.succeeded, newest.failed) == (300, 300, 30)
    assert newest.lateness == 0.1
    assert newest.at == NOON + 55 * MINUTE


# Starts of processes


def test_starts_side_by_side_are_one_mark_and_old_ones_are_left_out() -> None:
    found = [NOON + 51 * MINUTE, NOON + 10 * MINUTE, NOON + 51.2 * MINUTE, NOON - MINUTE]
    events = starts_of(axis(), found, NOON + 60 * MINUTE)
    assert [(event.x, event.words) for event in events] == [
        (16.67, "A new process started at 12:10."),
        (85.0, "2 new processes started from 12:51 on."),
    ]
    many = [NOON + number * MINUTE for number in range(STARTS_MARKED + 5)]
    events = starts_of(axis(), many, NOON + timedelta(days=1))
    assert len(events) == STARTS_MARKED
    assert events[-1].words == "A new process started at 12:14 on 2 Mar."


def test_a_start_is_told_to_who_points_at_its_step() -> None:
    event = PlotMark(60.0, "A new process started at 12:02.")
    line = PlotLine("due", [1, 2, 3, 4], "run")
    times = [f"12:{place:02}" for place in range(4)]
    made = plot("Jobs", axis(), [line], times, line.values, write="{:g}".format, events=[event])
    assert made.texts[1:3] == ["12:01: 2 due", f"12:02: 3 due. {event.words}"]
    assert made.sentence.endswith(event.words)
