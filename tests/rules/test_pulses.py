from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.attempt import OutcomeName
from onbeat.model.limits import COUNTED_MAX, COUNTED_QUEUES_MAX, SERIES_BYTES_MAX, SERIES_MAX
from onbeat.model.pulse import (
    NOTHING,
    OUTCOMES,
    Depth,
    EndedCounts,
    Gauges,
    Pulse,
    SeriesTotals,
    Totals,
)
from onbeat.rules.history import (
    SPANS,
    axis_maximum,
    axis_maximum_of_seconds,
    depth_of,
    measured_until,
    points_of,
    starts_by_queue,
)
from onbeat.rules.history_parts import KnownPart, part_of, starts_of, unknown_spans
from onbeat.rules.pulses import (
    ENDED_SECONDS_MIN,
    FINEST,
    OTHER,
    RETENTIONS,
    bounded,
    counted,
    deepest,
    difference,
    folded,
    folded_gauges,
    must_count_ended,
    pause_after_sample,
    pulse_between,
    sampled_ended,
    sampled_live,
    slot,
    together,
)

NOW = datetime(2026, 11, 23, 3, 12, 7, 500_000, tzinfo=UTC)
START = slot(NOW, 60)
SECOND = timedelta(seconds=1)

counts = st.lists(st.integers(0, 9), max_size=15).map(counted)
totals = st.builds(Totals, st.integers(0, 99), counts, counts, counts)
states = st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), totals)


def a_pulse(seconds: float = 0, starts: int = 1, source: str = "p", queue: str = "q") -> Pulse:
    one = Totals(starts, (starts,))
    series = (SeriesTotals(queue, "t", one),)
    at = START + seconds * SECOND
    return Pulse(resolution=FINEST, at=at, source=source, totals=one, series=series)


# Counters


@given(states, states)
def test_a_difference_and_the_state_before_are_the_state_after(before, more) -> None:
    after = {
        key: together([before.get(key, NOTHING), more.get(key, NOTHING)])
        for key in before.keys() | more.keys()
    }
    pulse = pulse_between(before, after, START, "p")
    moved = {key: totals for key, totals in more.items() if totals != NOTHING}
    if pulse is None:
        assert moved == {}
    else:
        assert {(one.queue, one.task): one.totals for one in pulse.series} == moved
        assert pulse.totals == together(moved.values())
        assert (pulse.resolution, pulse.at, pulse.source) == (FINEST, START, "p")


@given(totals, totals, totals)
def test_sums_do_not_depend_on_the_order(one, two, three) -> None:
    assert together([one, together([two, three])]) == together([three, two, one])
    assert difference(one, together([one, two])) == two
    assert together([]) == NOTHING


def test_an_outcome_that_has_not_been_seen_is_zero() -> None:
    seen = Totals(3, (2, 1))
    assert [seen.ended(name) for name in OUTCOMES[:3]] == [2, 1, 0]
    assert OUTCOMES[0] is OutcomeName.SUCCEEDED


# Bounds


def test_a_row_has_a_bounded_number_of_series() -> None:
    series = {("q", f"t{n:04}"): Totals(n) for n in range(1, SERIES_MAX + 51)}
    kept = bounded(series)
    assert len(kept) == SERIES_MAX
    assert kept[0].totals.starts == SERIES_MAX + 50
    assert kept[-1].queue == kept[-1].task == OTHER
    assert sum(one.totals.starts for one in kept) == sum(one.starts for one in series.values())


def test_a_row_with_exactly_as_many_loses_none() -> None:
    series = {("q", f"t{n}"): Totals(5) for n in range(SERIES_MAX - 1)}
    assert {one.task for one in bounded(series)} == {task for _, task in series}


@given(st.integers(0, 260), st.integers(1, 200), st.booleans())
def test_a_row_has_a_bounded_size(number: int, length: int, has_other: bool) -> None:
    many = tuple([10**9] * 15)
    series = {
        (f"{n:0{length}}", "t" * length): Totals(n + 1, many, many, many) for n in range(number)
    }
    if has_other:
        series[OTHER, OTHER] = Totals(10**6)
    kept = bounded(series)
    assert len(msgspec.json.encode(kept)) <= SERIES_BYTES_MAX
    assert len({(one.queue, one.task) for one in kept}) == len(kept)
    assert together(one.totals for one in kept) == together(series.values())


def test_the_rows_of_all_resolutions_are_bounded() -> None:
    rows = [retention.keep / timedelta(seconds=retention.resolution) for retention in RETENTIONS]
    assert sum(rows) < 6_000, "for one process"
    assert rows[0] * 10 + sum(rows[1:]) < 10_000, "for ten"
    assert [retention.into for retention in RETENTIONS] == [60, 600, 3_600, None]


def test_each_span_finds_rows_that_are_fine_enough() -> None:
    for span in SPANS.values():
        fine = [one for one in RETENTIONS if one.resolution <= span.step]
        assert max(one.keep for one in fine) >= span.length + timedelta(seconds=2 * FINEST)
        assert all(span.step % one.resolution == 0 for one in fine)
        assert span.points <= 360


# Folds


def test_rows_of_all_processes_become_one() -> None:
    pulses = [
        a_pulse(0, 1, "a"),
        a_pulse(50, 2, "b", "r"),
        a_pulse(50, 4, "a"),
        a_pulse(60, 8, "a"),
    ]
    first, second = folded(pulses, 60)
    assert (first.at, first.resolution, first.source) == (START, 60, "")
    assert first.totals == Totals(7, (7,))
    assert {one.queue: one.totals.starts for one in first.series} == {"q": 5, "r": 2}
    assert (second.at, second.totals.starts) == (START + 60 * SECOND, 8)


def test_of_samples_the_peak_stays() -> None:
    samples = [
        Gauges(at=START + seconds * SECOND, total=Depth(due=due))
        for seconds, due in ((0, 1), (10, 7), (20, 3), (60, 0))
    ]
    assert [one.total.due for one in folded_gauges(samples, 60)] == [7, 0]


# Points and gaps


def starts(points) -> list[int | None]:
    return [None if point.totals is None else point.totals.starts for point in points]


def test_where_nothing_was_measured_is_a_gap_and_not_zero() -> None:
    end = measured_until(NOW)
    sample = Gauges(at=end - 29 * SECOND, total=Depth(due=2))
    pulses = [replace(a_pulse(), at=end - 60 * SECOND), replace(a_pulse(), at=end - 20 * SECOND)]
    points = points_of(SPANS["hour"], NOW, pulses, [sample])
    assert len(points) == 360
    assert [point.at for point in points[-2:]] == [end - 20 * SECOND, end - 10 * SECOND]
    assert starts(points)[-7:] == [None, 1, None, None, 0, 1, 0]
    assert set(starts(points)[:-7]) == {None}
    assert [point.gauges for point in points[-4:]] == [None, sample, sample, sample]


def test_a_sample_that_took_long_holds_for_longer() -> None:
    end = measured_until(NOW)
    sample = Gauges(at=end - 100 * SECOND, took=1.0)
    points = points_of(SPANS["hour"], NOW, [], [sample])
    measured = [point.at for point in points if point.totals is not None]
    assert (measured[0], measured[-1]) == (end - 100 * SECOND, end - 40 * SECOND)


def test_longer_spans_add_up_and_their_last_step_is_not_over() -> None:
    end = measured_until(NOW)
    pulses = [replace(a_pulse(), at=end - n * 10 * SECOND) for n in range(1, 61)]
    points = points_of(SPANS["day"], NOW, pulses, [])
    assert len(points) == 288
    last = points[-1]
    assert last.at == slot(end, 300)
    assert last.seconds == (end - last.at).total_seconds() == 110
    assert starts(points)[-3:] == [60 - 30 - 11, 30, 11]
    assert [point.seconds for point in points[:-1]] == [300.0] * 287


@pytest.mark.parametrize(("seconds", "last"), [(0.0, 10), (9.99, 10), (10.0, 20)])
def test_the_last_point_is_one_that_all_have_written(seconds: float, last: int) -> None:
    now = START + (20 + seconds) * SECOND
    assert measured_until(now) == START + last * SECOND


def test_one_queue_or_task_is_cut_out() -> None:
    series = (
        SeriesTotals("q", "t", Totals(1)),
        SeriesTotals("q", "u", Totals(2)),
        SeriesTotals("r", "t", Totals(4)),
    )
    pulse = Pulse(resolution=FINEST, at=START, totals=Totals(7), series=series)
    rows = [pulse, replace(pulse, source="two", series=series[:1])]
    asked = [("q", None), (None, "t"), ("q", "t"), ("gone", None)]
    assert [part_of(rows, *one).totals.starts for one in asked] == [4, 6, 2, 0]
    starts = starts_of(rows)
    assert [(one.queue, one.totals.starts) for one in starts.series] == [("q", 4), ("r", 4)]
    assert (starts.at, starts.totals.starts) == (START, 14)
    many = [replace(one, queue=f"q{number}") for number in range(SERIES_MAX + 1) for one in series]
    assert len(starts_of([replace(pulse, series=tuple(many))]).series) == SERIES_MAX


def test_only_what_is_not_known_is_read_in_spans_of_bounded_length() -> None:
    ats = [START + number * SECOND for number in range(6)]
    sources = dict.fromkeys(ats, frozenset({"a", "b"}))
    part = Pulse(resolution=FINEST, at=START)
    known = {
        ats[2]: KnownPart(frozenset({"a", "b"}), part),
        ats[4]: KnownPart(frozenset("a"), part),
    }
    assert list(unknown_spans(sources, {}, 100)) == [(ats[0], ats[5])]
    assert list(unknown_spans(sources, known, 100)) == [(ats[0], ats[1]), (ats[3], ats[5])]
    assert list(unknown_spans(sources, {}, 4)) == [(ats[n], ats[n + 1]) for n in (0, 2, 4)]
    assert list(unknown_spans(sources, {}, 1)) == [(at, at) for at in ats]
    assert not list(unknown_spans({}, known, 100))


def test_a_queue_that_is_not_among_the_deepest_has_no_depth() -> None:
    sample = Gauges(at=NOW, total=Depth(due=3), queues={"q": Depth(due=1)})
    assert depth_of(sample, None) == Depth(due=3)
    assert depth_of(sample, "q") == Depth(due=1)
    assert depth_of(sample, "r") == Depth()
    assert depth_of(replace(sample, queues_more=1), "r") is None


def test_starts_are_counted_by_queue_and_minute() -> None:
    end = measured_until(NOW)
    ago = {10: "q", 60: "q", 61: "r", 70: "q", 3_600: "q", 3_610: "gone"}
    pulses = [
        replace(a_pulse(queue=queue), at=slot(end - seconds * SECOND, FINEST))
        for seconds, queue in ago.items()
    ]
    found = starts_by_queue(NOW, pulses, [])
    assert found.keys() == {"q", "r"}
    assert found["q"] == (1, *[None] * 57, 1, 2)
    assert found["r"] == (0, *[None] * 57, 1, 0)


# Samples


def test_a_sample_takes_a_fiftieth_of_the_time_at_most() -> None:
    assert [pause_after_sample(took) for took in (0.0, 0.2, 0.21)] == [10.0, 10.0, 10.5]


def test_ended_jobs_are_counted_seldom() -> None:
    sample = Gauges(at=NOW)
    assert must_count_ended(None, NOW)
    assert must_count_ended(sample, NOW)
    for took, pause in ((0.1, ENDED_SECONDS_MIN), (4.0, 200)):
        counted = replace(sample, ended=EndedCounts(at=NOW, took=took, jobs={}))
        assert not must_count_ended(counted, NOW + (pause - 1) * SECOND)
        assert must_count_ended(counted, NOW + pause * SECOND)


@pytest.mark.parametrize(("jobs", "is_sampled"), [(COUNTED_MAX - 1, False), (COUNTED_MAX, True)])
def test_only_many_ended_jobs_are_taken_from_the_sample(jobs: int, *, is_sampled: bool) -> None:
    ended = EndedCounts(at=NOW, took=0.1, jobs={"succeeded": jobs - 1, "failed": 1})
    sample = Gauges(at=NOW, ended=ended)
    assert sampled_ended(sample, NOW) == (ended if is_sampled else None)
    assert sampled_ended(sample, NOW + 120 * SECOND) == (ended if is_sampled else None)
    assert sampled_ended(sample, NOW + 121 * SECOND) is None, "nobody counts any more"
    assert sampled_ended(None, NOW) is None
    assert sampled_ended(Gauges(at=NOW), NOW) is None


# Axes


@given(st.floats(0, 1e12, allow_nan=False))
def test_an_axis_ends_at_a_round_number_above_the_value(value: float) -> None:
    top = axis_maximum(value)
    assert top >= value
    assert top <= max(value * 2.5 * (1 + 1e-9), 1.0)


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.3, 0.5), (1, 1), (1.1, 2), (3, 5), (51, 100), (100, 100)]
)
def test_the_end_of_an_axis(value: float, top: float) -> None:
    assert axis_maximum(value) == pytest.approx(top)


@given(st.floats(0, 1e9, allow_nan=False))
def test_an_axis_of_time_ends_above_the_value(value: float) -> None:
    top = axis_maximum_of_seconds(value)
    assert value <= top <= max(value * 2.5 * (1 + 1e-9), 1.0)


@pytest.mark.parametrize(
    ("seconds", "top"),
    [(0.3, 0.5), (30, 50), (31, 60), (61, 120), (2_460, 3_600), (3_601, 7_200), (90_000, 172_800)],
)
def test_an_axis_of_time_ends_at_a_span_that_people_count_in(seconds: float, top: float) -> None:
    assert axis_maximum_of_seconds(seconds) == pytest.approx(top)


def test_a_sample_stands_for_a_count_while_it_is_young_and_whole() -> None:
    depth = Depth(waiting=COUNTED_MAX - 1, running=1)
    whole = Gauges(at=NOW, took=1.0, total=depth)
    last = NOW + timedelta(seconds=2 * pause_after_sample(1.0))
    assert sampled_live(whole, last) is whole
    assert sampled_live(whole, last + timedelta(microseconds=1)) is None
    few = msgspec.structs.replace(whole, total=Depth(waiting=COUNTED_MAX - 1))
    assert sampled_live(few, NOW) is None
    assert sampled_live(None, NOW) is None


@pytest.mark.parametrize(("queues", "stands"), [(0, True), (1, False)])
def test_a_sample_with_too_many_queues_stands_for_no_count(queues: int, *, stands: bool) -> None:
    names = [f"q{number:04}" for number in range(COUNTED_QUEUES_MAX + queues)]
    depths = {name: Depth(waiting=100, due=place) for place, name in enumerate(names)}
    sample = Gauges(at=NOW, total=Depth(waiting=COUNTED_MAX), queues=depths)
    kept = deepest(sample, COUNTED_QUEUES_MAX)
    assert list(kept.queues) == names[queues:]
    assert (sampled_live(kept, NOW) is not None) is stands
