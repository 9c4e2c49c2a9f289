"""Our zone tables say what zoneinfo says, over 130 years, in gaps and folds too."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import (
    RecurrenceSpec,
    compile_spec,
    cron,
    daily,
    guess,
    parse_recurrence,
    rrule,
    tzdata_version,
    zones,
)
from onbeat.recurrence.tzif import DAY, read_footer
from onbeat.recurrence.zones import END, chosen_zone, known_zones, load_zone, zone_data, zone_named
from recurrence.strategies import ZONES

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_2100 = 130 * 365 * DAY


def offset_by_zoneinfo(zone: ZoneInfo, second: int) -> int:
    return int((EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset().total_seconds())


@pytest.mark.parametrize("name", ZONES)
def test_every_change_until_2100_is_where_zoneinfo_has_it(name: str) -> None:
    ours, theirs = zone_named(name), ZoneInfo(name)
    for change in ours.starts[1:]:
        if 0 <= change < YEAR_2100:
            for second in (change - 1, change):
                assert ours.offset(second) == offset_by_zoneinfo(theirs, second)
    # And no change is missing: half days tell, as no offset lasts for less.
    for second in range(0, YEAR_2100, DAY // 2 * 29):
        assert ours.offset(second) == offset_by_zoneinfo(theirs, second)


@pytest.mark.parametrize("name", ZONES)
def test_walls_around_every_change_stand_for_the_instants_of_zoneinfo(name: str) -> None:
    ours, theirs = load_zone(name), ZoneInfo(name)
    changes = [start for start in ours.starts[1:] if -(10**9) < start < YEAR_2100 - DAY]
    for change in changes[:: max(1, len(changes) // 60)]:
        for by in range(-DAY - 1800, DAY + 1801, 1800):
            wall = change + ours.offset(change) + by
            naive = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=None)
            both = {int(naive.replace(tzinfo=theirs, fold=fold).timestamp()) for fold in (0, 1)}
            first = int(naive.replace(tzinfo=theirs).timestamp())
            assert ours.instants(wall, "shift", "first") == (first,)
            if len(both) == 2 and min(both) == first:
                assert ours.instants(wall, "skip", "both") == tuple(sorted(both))


@given(st.sampled_from(ZONES), st.integers(-(10**9), 250_000_000_000))
def test_offsets_of_any_time_are_those_of_zoneinfo(name: str, second: int) -> None:
    assert load_zone(name).offset(second) == offset_by_zoneinfo(ZoneInfo(name), second)


DOUBTS = {
    "right/Europe/Berlin": "counts leap seconds, so its times are seconds late; use Europe/Berlin",
    "posix/Europe/Berlin": "is not known to every machine; use Europe/Berlin, which is the same",
    "localtime": "is another zone on another machine; use an IANA name such as Europe/Berlin",
    "posixrules": "is no place; use an IANA name such as Europe/Berlin",
    "Factory": "is no place; use an IANA name such as Europe/Berlin",
}


@pytest.fixture
def all_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has data for every name; not all of them have these."""

    def data_of(name: str) -> bytes | None:
        return zone_data("Factory") if name in DOUBTS else zone_data(name)

    load_zone.cache_clear()
    monkeypatch.setattr(zones, "zone_data", data_of)
    yield
    load_zone.cache_clear()


@pytest.mark.usefixtures("all_zones")
@pytest.mark.parametrize(
    "make",
    [
        lambda name: cron("0 9 * * *", tz=name),
        lambda name: cron(f"TZ={name} 0 9 * * *"),
        lambda name: daily("09:00", tz=name),
        lambda name: guess("every 2 months", tz=name),
        lambda name: rrule("FREQ=DAILY", tz=name),
        lambda name: rrule(f"DTSTART;TZID={name}:20260101T090000\nRRULE:FREQ=DAILY"),
        lambda name: rrule(
            f"DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY\nEXDATE;TZID={name}:20260102T090000"
        ),
        lambda name: parse_recurrence(every="5m", timezone=name),
        lambda name: parse_recurrence(at="2026-01-01T09:00:00Z", timezone=name),
    ],
)
@pytest.mark.parametrize("name", DOUBTS)
def test_a_zone_in_doubt_is_refused_with_what_to_use(
    make: Callable[[str], object], name: str
) -> None:
    with pytest.raises(BadRecurrence) as caught:
        make(name)
    assert str(caught.value) == f"{name!r} {DOUBTS[name]}"


@pytest.mark.usefixtures("all_zones")
@pytest.mark.parametrize("name", DOUBTS)
def test_a_rule_stored_with_a_zone_in_doubt_is_read_and_noted(name: str) -> None:
    rule = compile_spec(RecurrenceSpec("cron", "0 9 * * *", tz=name))
    assert rule.after(EPOCH) is not None
    assert [note.text for note in rule.notes(EPOCH) if note.kind == "zone"] == [
        f"{name!r} {DOUBTS[name]}"
    ]


@pytest.mark.parametrize("name", ["UTC", "Etc/GMT+5", "EST5EDT", "US/Eastern", "Singapore"])
def test_other_names_of_the_database_are_zones(name: str) -> None:
    assert chosen_zone(name).name == name


def test_no_zone_in_doubt_is_proposed() -> None:
    assert not DOUBTS.keys() & set(known_zones())


def test_a_table_is_in_order_and_closed() -> None:
    for name in ZONES:
        zone = zone_named(name)
        assert all(one < two for one, two in pairwise(zone.starts))
        assert zone.starts[-1] == END
        assert len(zone.starts) == len(zone.offsets) == len(zone.calm_from)


@pytest.mark.parametrize(
    ("footer", "year", "changes"),
    [
        ("EST5EDT,M3.2.0,M11.1.0", 2025, ["2025-03-09T07:00", "2025-11-02T06:00"]),
        ("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", 2025, ["2025-03-30T01:00", "2025-10-26T01:00"]),
        ("IST-1GMT0,M10.5.0,M3.5.0/1", 2025, ["2025-03-30T01:00", "2025-10-26T01:00"]),
        ("XXX-2YYY,J60/0,J300", 2024, ["2024-02-29T22:00", "2024-10-26T23:00"]),
        ("XXX0YYY,59/0,300/26:30", 2025, ["2025-03-01T00:00", "2025-10-29T01:30"]),
    ],
)
def test_a_footer_says_when_clocks_change(footer: str, year: int, changes: list[str]) -> None:
    rule = read_footer(footer)
    candidates = [EPOCH + timedelta(seconds=at) for at, _ in rule.changes(range(year, year + 1))]
    assert [f"{at:%Y-%m-%dT%H:%M}" for at in candidates] == changes


def test_a_far_future_change_is_worked_out_when_asked_for() -> None:
    value = rrule("DTSTART;TZID=Europe/Berlin:22000101T120000\nRRULE:FREQ=MONTHLY")
    candidates = value.take(8, after=datetime(2200, 1, 1, tzinfo=UTC))
    assert [at.hour for at in candidates] == [11, 11, 11, 10, 10, 10, 10, 10]
    wanted = [
        at.replace(hour=12, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC) for at in candidates
    ]
    assert candidates == wanted


@pytest.mark.parametrize(
    "name", ["Nowhere/Land", "../etc/passwd", "/etc/passwd", "tzdata.zi", "", "a" * 200, "Europe"]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(BadRecurrence, match="unknown time zone"):
        rrule("FREQ=DAILY", tz=name)


def test_the_version_of_the_data_is_known() -> None:
    assert tzdata_version()[:2] == "20"


@pytest.mark.parametrize(
    ("zone", "night", "instant"),
    [
        ("America/Santiago", "2024-09-08", "2024-09-08T04:00"),
        ("America/Havana", "2024-03-10", "2024-03-10T05:00"),
        ("Asia/Beirut", "2024-03-31", "2024-03-30T22:00"),
        ("Africa/Cairo", "2024-04-26", "2024-04-25T22:00"),
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00"),
    ],
)
@pytest.mark.parametrize("at", ["00:00", "00:30"])
def test_a_night_without_midnight_has_its_daily_run_once(
    zone: str, night: str, instant: str, at: str
) -> None:
    day = datetime.fromisoformat(night).replace(tzinfo=UTC)
    candidates = daily(at, tz=zone).between(day - timedelta(2), day + timedelta(2))
    local_days = [at.astimezone(ZoneInfo(zone)).date() for at in candidates]
    assert len(local_days) == len(set(local_days)) >= 3
    assert datetime.fromisoformat(instant).replace(tzinfo=UTC) in candidates


@pytest.mark.parametrize(
    ("gap", "first"),
    [("shift", "2027-03-28T01:30Z"), ("end", "2027-03-28T01:00Z"), ("skip", "2027-03-29T00:30Z")],
)
def test_a_start_in_a_gap_is_an_occurrence_as_the_rule_for_gaps_has_it(
    gap: Literal["shift", "end", "skip"], first: str
) -> None:
    text = "DTSTART;TZID=Europe/Berlin:20270328T023000\nRRULE:FREQ=DAILY;COUNT=3"

    candidate = rrule(text, dst_gap=gap).take(3, after=datetime(2026, 11, 20, tzinfo=UTC))

    assert candidate[0] == datetime.fromisoformat(first)
    assert len(candidate) == (2 if gap == "skip" else 3)
