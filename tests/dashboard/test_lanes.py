"""Drawings of timelines and heat maps: where things are, and what they say."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.dashboard.drawing import day_axis, heat, lanes
from onbeat.dashboard.drawing.day_axis import Scale, label, ticks
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.timeline import MarkKind, TimelineSpan
from onbeat.wire.forecasts import HourAnswer
from onbeat.wire.timeline import BucketAnswer, ClockChangeAnswer, LaneAnswer, MarkAnswer

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)
DAY = datetime(2026, 3, 2, tzinfo=UTC)
NOON = DAY + 12 * HOUR
PAYLOAD = "<script>alert(1)</script>\"'"


def a_scale(**fields: Any) -> Scale:
    given: dict[str, Any] = {
        "first": DAY,
        "last": DAY + 24 * HOUR,
        "now": NOON,
        "zone": ZoneInfo("UTC"),
        "span": TimelineSpan.DAY,
    }
    return Scale(**{**given, **fields})


def spring() -> Scale:
    first = datetime(2026, 3, 28, 23, tzinfo=UTC)
    change = ClockChangeAnswer(at=first + 2 * HOUR, kind="gap", first="02:00", last="03:00")
    return a_scale(first=first, last=first + 23 * HOUR, zone=BERLIN, changes=(change,))


def autumn() -> Scale:
    first = datetime(2026, 10, 24, 22, tzinfo=UTC)
    change = ClockChangeAnswer(at=first + 3 * HOUR, kind="fold", first="02:00", last="03:00")
    return a_scale(first=first, last=first + 25 * HOUR, zone=BERLIN, changes=(change,))


def a_lane(*marks: MarkAnswer, **fields: Any) -> LaneAnswer:
    given: dict[str, Any] = {
        "id": "one",
        "name": "Nightly",
        "key": None,
        "status": ScheduleStatus.ACTIVE,
        "queue": "default",
        "timezone": "UTC",
        "marks": marks,
        "buckets": (),
        "runs": 0,
        "planned": 0,
        "clock_changes": (),
    }
    return LaneAnswer(**{**given, **fields})


def a_mark(kind: str, at: datetime = DAY, end: datetime | None = None, **more: Any) -> MarkAnswer:
    given = {"planned_at": at, **more}
    return MarkAnswer(kind=MarkKind(kind), first=at, last=end or at, **given)


def tell(at: datetime) -> str:
    return f"{at:%H:%M}"


def texts(drawn: str, name: str = "text") -> list[str]:
    return re.findall(rf"<{name}[^>]*>([^<]*)", drawn)


def test_day_of_23_and_25_hours_is_drawn_in_instants() -> None:
    assert spring().share(datetime(2026, 3, 29, 1, tzinfo=UTC)) == pytest.approx(2 / 23)
    assert autumn().share(datetime(2026, 10, 25, 1, tzinfo=UTC)) == pytest.approx(3 / 25)
    for scale, second in ((spring(), 2), (autumn(), 4)):
        hours = [(at - scale.first) / HOUR for at in ticks(scale)]
        assert hours[:3] == [0, second, second + 3]
        assert [label(scale, at) for at in ticks(scale)][:3] == ["00:00", "03:00", "06:00"]


def test_gap_and_fold_are_named() -> None:
    assert "02:00 to 03:00 does not exist" in texts(day_axis.head(spring()))
    assert "02:00 to 03:00 comes twice" in texts(day_axis.head(autumn()))
    assert day_axis.ground(spring()).count('class="turn"') == 2
    assert '<rect class="twice" x="12%" y="0" width="4%"' in day_axis.ground(autumn())


def test_an_hour_that_comes_twice_has_letters() -> None:
    first = datetime(2026, 10, 24, 23, tzinfo=UTC)
    scale = a_scale(first=first, last=first + 6 * HOUR, zone=BERLIN, span=TimelineSpan.HOURS)
    labels = [label(scale, at) for at in ticks(scale)]
    assert labels == ["01:00", "02:00 A", "02:00 B", "03:00", "04:00", "05:00"]


def test_labels_are_at_full_hours_of_any_zone() -> None:
    zone = ZoneInfo("Asia/Kolkata")
    first = datetime(2026, 3, 1, 18, 30, tzinfo=UTC)
    scale = a_scale(first=first, last=first + 24 * HOUR, zone=zone)
    assert [label(scale, at) for at in ticks(scale)] == [f"{h:02}:00" for h in range(0, 24, 3)]
    later = a_scale(first=first + timedelta(minutes=10), last=first + 4 * HOUR, zone=zone)
    assert [label(later, at) for at in ticks(later)] == ["03:00"]


def test_a_week_has_its_days() -> None:
    scale = a_scale(last=DAY + 168 * HOUR, span=TimelineSpan.WEEK)
    labels = [label(scale, at) for at in ticks(scale)]
    assert labels == ["Mon 2", "Tue 3", "Wed 4", "Thu 5", "Fri 6", "Sat 7", "Sun 8"]


def test_now_is_a_line_with_its_time_where_it_is_on_the_axis() -> None:
    assert "12:00 now" in texts(day_axis.head(a_scale()))
    assert "12:00" not in texts(day_axis.head(a_scale()))
    assert '<line class="now" x1="50%" x2="50%"' in day_axis.ground(a_scale())
    assert '<rect class="future" x="50%" y="0" width="50%"' in day_axis.ground(a_scale())
    past = a_scale(now=DAY + 30 * HOUR)
    assert 'class="now"' not in day_axis.head(past) + day_axis.ground(past)
    assert 'class="future"' not in day_axis.ground(past)
    ahead = a_scale(now=DAY - HOUR)
    assert '<rect class="future" x="0%" y="0" width="100%"' in day_axis.ground(ahead)


def test_each_mark_is_a_link_and_says_what_it_is() -> None:
    failed = a_mark("failed", DAY, DAY + HOUR, job_id="abc", attempt=3)
    drawn = lanes.marks(a_scale(), a_lane(failed, a_mark("planned", NOON + HOUR)), tell)
    assert re.findall(r'href="([^"]*)"', drawn) == ["/jobs/abc", "/schedules/one"]
    assert texts(drawn, "title") == ["failed 00:00, 1 h, attempt 3", "planned 13:00"]
    assert 'class="cross"' in drawn
    assert 'class="again"' in drawn


def test_skip_shows_its_reason() -> None:
    reason = "overlap: job 1 ran until 02:41"
    drawn = lanes.marks(a_scale(), a_lane(a_mark("skipped", reason=reason)), tell)
    assert texts(drawn, "title") == [f"skipped 00:00, {reason}"]
    assert 'class="box skipped"' in drawn
    wide = lanes.marks(a_scale(), a_lane(a_mark("skipped", DAY, NOON, reason=reason)), tell)
    assert 'width="50%"' in wide


def test_misfire_joins_its_late_run() -> None:
    mark = a_mark("succeeded", DAY + 6 * HOUR, DAY + 7 * HOUR, planned_at=DAY, misfired=True)
    drawn = lanes.marks(a_scale(), a_lane(mark), tell)
    assert '<line class="hair" x1="0%" x2="25%"' in drawn
    assert 'class="box skipped"' in drawn
    assert texts(drawn, "title") == ["succeeded 06:00, 1 h, misfired: it was due 00:00"]


def test_states_differ_in_form() -> None:
    kinds = {
        kind: re.sub(r"<title>.*?</title>", "", lanes.marks(a_scale(), a_lane(mark), tell))
        for kind in MarkKind
        if (mark := a_mark(kind.value, DAY, DAY + HOUR))
    }
    shapes = [re.sub(r'class="mark \w+"', "", drawn) for drawn in kinds.values()]
    # Waiting, running and succeeded are told apart by fill and by the arrow.
    assert len(set(shapes)) >= 5
    cancelled = lanes.marks(a_scale(), a_lane(a_mark("cancelled")), tell)
    assert 'class="strike"' in cancelled
    assert 'd="M0 5l8 9-8 9z"' in kinds[MarkKind.RUNNING]


def test_a_bucket_tells_its_bounds_exactly_and_its_first_failure() -> None:
    now = NOON + timedelta(microseconds=7)
    one = BucketAnswer(first=NOON, last=now, failed=2, first_failure=NOON)
    drawn = lanes.buckets(a_scale(now=now), a_lane(marks=None, buckets=(one,)), tell)
    words = f"2 failed · the first that failed was due {tell(NOON)}"
    assert f'data-buckets="43200,43200.000007,{words}"' in drawn


def test_numbers_stand_where_there_is_room_and_end_at_now() -> None:
    times = (NOON - 2 * HOUR, NOON - HOUR, NOON)
    found = tuple(BucketAnswer(first=at, last=at + HOUR / 6, planned=1500) for at in times)
    drawn = lanes.buckets(a_scale(), a_lane(marks=None, buckets=found), tell)
    wide, narrow = re.findall(r'<svg class="(n|few)">(.*?)</svg>', drawn)
    assert wide == ("n", "".join(f'<text x="{x}%">1.5k</text>' for x in ("43.8", "47.9", "52.1")))
    assert narrow == (
        "few",
        '<text x="44%">3.0k</text><text x="56%">1.5k</text>',
    )


def test_buckets_are_one_path_for_each_kind_and_one_link() -> None:
    found = tuple(
        BucketAnswer(
            first=DAY + number * HOUR,
            last=DAY + (number + 1) * HOUR,
            succeeded=number,
            failed=number % 2,
        )
        for number in range(1, 10)
    )
    drawn = lanes.buckets(a_scale(), a_lane(marks=None, buckets=found), tell)
    assert drawn.count("<path") == 3
    assert re.findall(r'href="([^"]*)"', drawn) == ["/jobs?schedule_id=one"]
    assert "3600,7200,1 failed · 1 succeeded;" in drawn
    assert 'aria-label="Nightly: 50 ran, 5 failed"' in drawn


def test_estimates_are_said_to_be_such() -> None:
    bucket = BucketAnswer(first=NOON, last=NOON + HOUR, planned=3_600, about=True)
    drawn = lanes.buckets(a_scale(), a_lane(marks=None, buckets=(bucket,)), tell)
    assert "about 3600 planned" in drawn
    assert "none ran, about 3,600 to come" in drawn


def test_a_pause_and_a_clock_are_told() -> None:
    lane = a_lane(paused_from=NOON, clock_changes=(DAY + HOUR,), timezone="Africa/Cairo")
    drawn = lanes.marks(a_scale(), lane, tell)
    assert texts(drawn, "title") == [
        "paused since 12:00",
        "the clock of Africa/Cairo is turned at 01:00",
    ]
    own = lanes.marks(spring(), a_lane(clock_changes=(spring().changes[0].at,)), tell)
    assert "<circle" not in own


def test_names_and_reasons_are_text() -> None:
    mark = a_mark("skipped", reason=PAYLOAD)
    lane = a_lane(mark, name=PAYLOAD, timezone=PAYLOAD, clock_changes=(NOON,))
    for drawing in (lanes.marks, lanes.buckets):
        assert "<script" not in drawing(a_scale(), lane, tell)


@given(st.timedeltas(-50 * HOUR, 80 * HOUR), st.timedeltas(0 * HOUR, 90 * HOUR))
def test_nothing_is_drawn_beside_the_axis(begin: timedelta, length: timedelta) -> None:
    scale = a_scale()
    at = DAY + begin
    clipped = [min(max(one, scale.first), scale.last) for one in (at, at + length)]
    for kind in MarkKind:
        lane = a_lane(a_mark(kind.value, *clipped))
        drawn = lanes.marks(scale, lane, tell)
        for x in re.findall(r' x="([\d.]+)%"', drawn):
            assert 0 <= float(x) <= 100


def hours(first: datetime, count: int, fires: int = 1) -> list[HourAnswer]:
    return [HourAnswer(first + number * HOUR, fires) for number in range(count)]


def test_a_row_of_heat_is_a_day_and_a_cell_an_hour() -> None:
    rows = heat.rows(hours(NOON, 36), ZoneInfo("UTC"))
    assert [(row.day.isoformat(), row.fires) for row in rows] == [
        ("2026-03-02", 12),
        ("2026-03-03", 24),
    ]
    assert [cell.is_known for cell in rows[0].cells] == [False] * 12 + [True] * 12
    assert not any(cell.is_gap for row in rows for cell in row.cells)
    assert heat.rows([], ZoneInfo("UTC")) == []


def test_a_missing_hour_is_a_gap_and_an_hour_that_comes_twice_has_two_parts() -> None:
    (day,) = heat.rows(hours(spring().first, 23), BERLIN)
    assert [cell.hour for cell in day.cells if cell.is_gap] == [2]
    (day,) = heat.rows(hours(autumn().first, 25), BERLIN)
    assert [cell.hour for cell in day.cells if len(cell.parts) == 2] == [2]
    assert day.fires == 25


def test_the_steps_of_heat_are_round() -> None:
    assert heat.bounds(0) == heat.bounds(1) == (1,)
    assert heat.bounds(7) == (1, 2, 5)
    assert heat.bounds(2_310) == (100, 200, 500, 1_000, 2_000)
    steps = heat.bounds(2_310)
    assert [heat.level(n, steps) for n in (0, 3, 100, 199, 200, 2_000, 9_999)] == [
        *(0, 1, 1, 1, 2, 5, 5)
    ]
