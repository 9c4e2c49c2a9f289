"""EXRULEs that leave out a whole rule are known without a search, and only those."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.model.limits import EXRULES_MAX
from onbeat.recurrence import Budget, Recurrence, cron, once, parse_recurrence, rrule, union
from onbeat.recurrence.compile import parse_block
from onbeat.recurrence.cover import covered, plainer
from onbeat.recurrence.start import start_at
from onbeat.recurrence.zoned_rule import DstRule
from onbeat.recurrence.zones import zone_named
from recurrence.strategies import long_rules, short_rules

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
START = "DTSTART:20260105T090000Z\n"

SIXTY = ",".join(map(str, range(60)))

COVERED = [
    ("FREQ=SECONDLY", ["FREQ=SECONDLY"]),
    ("FREQ=DAILY;BYHOUR=9,10", ["FREQ=DAILY;BYHOUR=8,9,10"]),
    ("FREQ=DAILY;INTERVAL=4", ["FREQ=DAILY;INTERVAL=2"]),
    ("FREQ=DAILY;COUNT=5", ["FREQ=DAILY;COUNT=6"]),
    ("FREQ=DAILY;UNTIL=20270101T000000Z", ["FREQ=DAILY;UNTIL=20270101T000000Z"]),
    ("FREQ=DAILY;COUNT=5", ["FREQ=DAILY"]),
    ("FREQ=WEEKLY;BYDAY=MO", ["FREQ=DAILY"]),
    ("FREQ=MONTHLY;BYDAY=1MO", ["FREQ=WEEKLY;BYDAY=MO,TU"]),
    ("FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1", ["FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1,-1"]),
    ("FREQ=YEARLY;BYWEEKNO=20", ["FREQ=YEARLY;BYWEEKNO=20,21"]),
    ("FREQ=YEARLY;BYEASTER=1", ["FREQ=YEARLY;BYEASTER=0,1"]),
    ("FREQ=YEARLY;BYEASTER=0", ["FREQ=WEEKLY;BYDAY=SU,MO"]),
    ("FREQ=DAILY", ["FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "FREQ=WEEKLY;BYDAY=SA,SU"]),
    ("FREQ=HOURLY;INTERVAL=6", ["FREQ=MINUTELY;INTERVAL=30"]),
    ("FREQ=HOURLY;BYMINUTE=0;BYHOUR=9", ["FREQ=HOURLY;BYMINUTE=0,30"]),
    ("FREQ=MINUTELY;BYDAY=MO", ["FREQ=SECONDLY;BYDAY=MO,TU"]),
    ("FREQ=DAILY", ["FREQ=HOURLY"]),
    ("FREQ=SECONDLY;BYDAY=MO", [f"FREQ=SECONDLY;BYDAY=MO;BYSECOND={SIXTY};BYMINUTE={SIXTY}"]),
    ("FREQ=SECONDLY;BYDAY=MO", [f"FREQ=MINUTELY;BYDAY=MO;BYSECOND={SIXTY}"]),
    ("FREQ=SECONDLY;BYMINUTE=1;BYDAY=MO", [f"FREQ=MINUTELY;BYDAY=MO;BYSECOND={SIXTY}"]),
    ("FREQ=MINUTELY;BYDAY=MO;BYSECOND=3", [f"FREQ=HOURLY;BYDAY=MO;BYMINUTE={SIXTY};BYSECOND=2,3"]),
]  # fmt: skip

LEFT = [
    ("FREQ=DAILY;COUNT=7", ["FREQ=DAILY;COUNT=6"]),
    ("FREQ=DAILY", ["FREQ=DAILY;COUNT=6"]),
    ("FREQ=DAILY;COUNT=2", ["FREQ=DAILY;INTERVAL=2;COUNT=9"]),
    ("FREQ=DAILY;UNTIL=20270101T090000Z", ["FREQ=DAILY;UNTIL=20270101T085959Z"]),
    ("FREQ=DAILY;INTERVAL=3", ["FREQ=DAILY;INTERVAL=2"]),
    ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", ["FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=SU"]),
    ("FREQ=DAILY;BYHOUR=9,10", ["FREQ=DAILY;BYHOUR=10"]),
    ("FREQ=DAILY;BYHOUR=9", ["FREQ=DAILY;BYHOUR=9;BYMINUTE=1"]),
    ("FREQ=MONTHLY;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=FORWARD", ["FREQ=MONTHLY;BYMONTHDAY=31"]),
    ("FREQ=YEARLY;BYYEARDAY=366;RSCALE=GREGORIAN;SKIP=FORWARD", ["FREQ=YEARLY;BYYEARDAY=-1"]),
    ("FREQ=YEARLY;BYMONTHDAY=29;BYMONTH=2", ["FREQ=YEARLY;BYYEARDAY=59"]),
    ("FREQ=MONTHLY;BYDAY=MO,TU", ["FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1,2,3,4"]),
    ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", ["FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1"]),
    ("FREQ=HOURLY", ["FREQ=MINUTELY;INTERVAL=7"]),
    ("FREQ=HOURLY", ["FREQ=HOURLY;BYHOUR=1,2"]),
    ("FREQ=SECONDLY", [f"FREQ=MINUTELY;INTERVAL=2;BYSECOND={SIXTY}"]),
    ("FREQ=SECONDLY", [f"FREQ=HOURLY;BYMINUTE={SIXTY}"]),
    ("FREQ=SECONDLY", [f"FREQ=MINUTELY;BYSECOND={SIXTY.removesuffix(',59')}"]),
    ("FREQ=SECONDLY", [f"FREQ=MINUTELY;BYSECOND={SIXTY};BYSETPOS=1"]),
    ("FREQ=WEEKLY;BYDAY=MO", ["FREQ=YEARLY;BYWEEKNO=1,2,3"]),
    ("FREQ=YEARLY;BYDAY=SU", ["FREQ=YEARLY;BYEASTER=0"]),
]  # fmt: skip


def lines(rule: str, excluded: list[str]) -> str:
    return f"RRULE:{rule}\n" + "\n".join(f"EXRULE:{other}" for other in excluded)


@pytest.mark.parametrize(("rule", "excluded"), COVERED)
def test_a_rule_that_is_left_out_as_a_whole_is_refused_at_once(
    rule: str, excluded: list[str]
) -> None:
    budget = Budget(700)
    with pytest.raises(BadRecurrence, match="can never fire") as caught:
        parse_recurrence(rrule=START + lines(rule, excluded), budget=budget)
    assert not isinstance(caught.value, TooCostly)


@pytest.mark.parametrize(("rule", "excluded"), COVERED)
def test_dates_beside_such_a_rule_still_fire(rule: str, excluded: list[str]) -> None:
    if excluded == ["FREQ=SECONDLY"]:
        return  # the dates are left out too
    text = f"{START}{lines(rule, excluded)}\nRDATE:20260301T091730Z,20270101T091730Z"
    value = rrule(text).within(Budget(100))
    wanted = [
        datetime(year, month, 1, 9, 17, 30, tzinfo=UTC) for year, month in ((2026, 3), (2027, 1))
    ]
    assert value.take(5, LONG_AGO) == wanted
    assert value.before(datetime(2030, 1, 1, tzinfo=UTC)) == wanted[-1]


def test_a_date_that_an_exrule_names_is_left_out_too() -> None:
    text = f"{START}{lines('FREQ=DAILY', ['FREQ=DAILY'])}\nRDATE:20260301T090000Z,20260302T100000Z"
    assert rrule(text).take(5, LONG_AGO) == [datetime(2026, 3, 2, 10, tzinfo=UTC)]


@pytest.mark.parametrize(("rule", "excluded"), LEFT)
def test_a_rule_of_which_something_is_left_fires(rule: str, excluded: list[str]) -> None:
    value = rrule(START + lines(rule, excluded))
    wanted = without(
        rrule(f"{START}RRULE:{rule}"), [rrule(f"{START}RRULE:{one}") for one in excluded]
    )
    assert wanted
    assert value.take(len(wanted), LONG_AGO) == wanted


def without(value: Recurrence, others: list[Recurrence]) -> list[datetime]:
    return [at for at in value.take(400, LONG_AGO) if not any(fires(one, at) for one in others)]


def fires(value: Recurrence, at: datetime) -> bool:
    return value.after(at - timedelta(microseconds=1)) == at


@st.composite
def pairs(draw: Callable[..., Any]) -> tuple[str, list[str]]:
    """A rule, and rules like it: with a part less, or of another kind."""
    rules = draw(st.sampled_from([long_rules(), short_rules()]))
    rule = draw(rules)
    parts = rule.split(";")
    shorter = [";".join(p for p in parts if p != gone) for gone in parts[1:]] or [rule]
    return rule, draw(st.lists(st.sampled_from([*shorter, rule]) | rules, min_size=1, max_size=3))


@settings(max_examples=200)
@given(pairs(), st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]))
def test_what_is_called_covered_is_excluded_time_by_time(
    pair: tuple[str, list[str]], zone: str
) -> None:
    start = f"DTSTART;TZID={zone}:20250130T090000\n"
    try:
        block = parse_block(start + lines(*pair))
        value = rrule(f"{start}RRULE:{pair[0]}")
    except BadRecurrence:
        return
    assert block.start is not None
    begin = start_at(block.start, zone_named(zone), DstRule())
    if not covered(block.rules[0], block.excluded_rules, begin, Budget(10**6)):
        return
    others = []
    for one in pair[1]:
        with contextlib.suppress(BadRecurrence):
            others.append(rrule(f"{start}RRULE:{one}"))
    assert all(
        any(fires(one, at) for one in others)
        for at in value.take(100, LONG_AGO) + value.take(50, datetime(2040, 1, 1, tzinfo=UTC))
    )


def test_comparing_costs_the_same_for_each_rule() -> None:
    def steps(rules: int) -> int:
        text = "\n".join(f"RRULE:FREQ=DAILY;BYHOUR=9;BYMONTHDAY={n + 1}" for n in range(rules))
        others = [f"EXRULE:FREQ=DAILY;BYHOUR=9;BYMONTHDAY={n},31" for n in range(20, 25)]
        budget = Budget(100_000)
        parse_recurrence(rrule=START + "\n".join([text, *others]), budget=budget)
        return budget.steps - budget.left

    assert len(range(20, 25)) == EXRULES_MAX
    assert steps(20) <= 2.2 * steps(10)


def test_a_recurrence_without_itself_is_refused_at_once() -> None:
    noon = cron("0 12 * * *")
    with pytest.raises(BadRecurrence, match="all of it is excluded"):
        noon.excluding(noon)
    left = union(noon, once("2026-03-01T09:00:00Z")).excluding(noon)
    assert left.take(5, LONG_AGO) == [datetime(2026, 3, 1, 9, tzinfo=UTC)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Monrovia", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "rule",
    [
        f"FREQ=MINUTELY;BYSECOND={SIXTY}",
        f"FREQ=MINUTELY;BYSECOND={SIXTY};BYHOUR=2;BYDAY=SU",
        f"FREQ=HOURLY;BYMINUTE={SIXTY};BYSECOND=7,8",
        f"FREQ=HOURLY;BYMINUTE={SIXTY};BYSECOND={SIXTY};BYHOUR=1,2,3",
        f"FREQ=SECONDLY;INTERVAL=7;BYMINUTE={SIXTY};BYSECOND={SIXTY}",
    ],
)
def test_a_rule_without_its_idle_limits_fires_as_before(rule: str, zone: str) -> None:
    """Also over changes of the offset, of which Monrovia had one by 44 minutes and 30 seconds."""
    (parts,) = parse_block(f"RRULE:{rule}").rules
    bare = plainer(parts)
    assert bare != parts
    listed = {"BYHOUR": bare.by_hour, "BYMINUTE": bare.by_minute, "BYSECOND": bare.by_second}
    short = ";".join(
        [f"FREQ={bare.freq}", f"INTERVAL={bare.interval}"]
        + [f"{name}={','.join(map(str, values))}" for name, values in listed.items() if values]
        + ["BYDAY=SU"] * bool(bare.by_day)
    )
    for change in ("19720107T0044", "20260329T0100", "20261025T0100"):
        start = datetime.strptime(change, "%Y%m%dT%H%M").replace(tzinfo=UTC, second=30)
        for after in (start - timedelta(seconds=1), start + timedelta(minutes=50)):
            one, other = (rrule(text, tz=zone, start=start) for text in (rule, short))
            assert one.take(400, after) == other.take(400, after), (change, after)
