"""Searching for occurrences is counted in steps, and ends when they are used up."""

import threading
from datetime import UTC, datetime

import pytest

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.model.limits import EXRULES_MAX
from onbeat.recurrence import (
    Budget,
    anchor,
    compile_spec,
    cron,
    daily,
    parse_recurrence,
    rrule,
    value_of,
)
from onbeat.recurrence.budget import FIRST_STEPS_MAX
from onbeat.recurrence.recurrence import Recurrence
from onbeat.recurrence.rrule_text import ZONES_MAX

FEBRUARY = datetime(2026, 2, 1, tzinfo=UTC)
START = "DTSTART:20260101T000000Z\n"


def listed(*numbers: int) -> str:
    return ",".join(map(str, numbers))


ONCE_A_DAY = "\n".join(
    [
        "DTSTART:20260101T000000Z",
        "RRULE:FREQ=SECONDLY",
        f"EXRULE:FREQ=SECONDLY;BYHOUR={listed(*range(1, 24))}",
        f"EXRULE:FREQ=SECONDLY;BYMINUTE={listed(*range(1, 60))}",
        f"EXRULE:FREQ=SECONDLY;BYSECOND={listed(*range(1, 60))}",
    ]
)
"""What it keeps is quickly said, and takes half a million searches to find."""


def test_a_count_of_every_second_of_some_hours_is_reached_by_days() -> None:
    text = f"DTSTART;TZID=Europe/Berlin:20260101T000000\nRRULE:FREQ=SECONDLY;BYHOUR=3;COUNT={10**9}"
    spec = parse_recurrence(rrule=text, budget=(budget := Budget(60_000)))
    assert budget.left > 0
    assert compile_spec(spec).before(datetime(9999, 1, 1, tzinfo=UTC)).year == 2786


def test_a_rule_whose_first_occurrence_lies_behind_too_many_excluded_ones_is_refused() -> None:
    text = f"RRULE:FREQ=SECONDLY\nEXRULE:FREQ=SECONDLY;BYHOUR={listed(*range(23))}"
    with pytest.raises(TooCostly, match=f"more than {FIRST_STEPS_MAX:,} steps"):
        rrule(START + text)


def test_a_search_without_a_budget_is_bounded_by_itself() -> None:
    with pytest.raises(TooCostly, match="200,000 steps"):
        rrule(ONCE_A_DAY).after(FEBRUARY)
    with pytest.raises(TooCostly):
        rrule(ONCE_A_DAY).before(FEBRUARY)


@pytest.mark.parametrize(
    "rule",
    [
        daily("03:00"),
        cron("*/5 * * * *", tz="Europe/Berlin"),
        rrule(f"{START}RRULE:FREQ=HOURLY;INTERVAL=5;BYHOUR=9,10"),
        rrule(f"{START}RRULE:FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1"),
        rrule(f"{START}RRULE:FREQ=DAILY\nRRULE:FREQ=HOURLY\nEXRULE:FREQ=HOURLY;BYHOUR=1,2"),
        rrule(f"{START}RRULE:FREQ=YEARLY;BYDAY=MO;BYMONTHDAY=29;BYMONTH=2"),
        cron("0 9 * * *").excluding(cron("0 9 * * SAT,SUN")),
    ],
    ids=repr,
)
def test_a_budget_is_enough_to_its_last_step_and_no_further(rule: Recurrence) -> None:
    def asked(budget: Budget) -> None:
        metered = rule.within(budget)
        metered.take(20, FEBRUARY)
        metered.before(FEBRUARY)
        metered.notes(FEBRUARY)

    asked(enough := Budget(1_000_000))
    steps = enough.steps - enough.left
    assert steps >= 20 + 1 + 11
    asked(Budget(steps))
    with pytest.raises(TooCostly):
        asked(Budget(steps - 1))


def test_every_member_of_a_set_is_counted_at_every_step() -> None:
    rules = "\n".join(["RRULE:FREQ=HOURLY"] * 40)
    excluded = "\n".join(["EXRULE:FREQ=HOURLY;BYHOUR=1"] * EXRULES_MAX)
    spec = parse_recurrence(rrule=f"{START}{rules}\n{excluded}")
    value_of(spec).within(budget := Budget(10_000)).take(10, FEBRUARY)
    assert budget.steps - budget.left >= 10 * (40 + EXRULES_MAX)


def test_what_a_budget_within_another_spends_the_other_spends() -> None:
    whole = Budget(30)
    daily("03:00").within(Budget(100, whole)).take(20, FEBRUARY)
    with pytest.raises(TooCostly, match="more than 30 steps"):
        daily("03:00").within(Budget(100, whole)).take(20, FEBRUARY)


def test_reading_and_anchoring_spend_of_the_budget() -> None:
    text = f"{START}RDATE:" + ",".join(["20260101T000000Z"] * 1_000)
    with pytest.raises(TooCostly):
        parse_recurrence(rrule=text, budget=Budget(len(text) // 10))
    spec = parse_recurrence(rrule="FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1;COUNT=2000")
    with pytest.raises(TooCostly):
        anchor(spec, FEBRUARY, Budget(1_000))


def test_a_search_that_is_cancelled_from_another_thread_ends() -> None:
    budget = Budget(10**12)
    ended = threading.Event()

    def search() -> None:
        with pytest.raises(TooCostly):
            rrule(f"{START}RRULE:FREQ=SECONDLY").within(budget).take(10**9, FEBRUARY)
        ended.set()

    searching = threading.Thread(target=search, daemon=True)
    searching.start()
    budget.cancel()
    assert ended.wait(10)


@pytest.mark.parametrize(
    ("line", "most"),
    [("EXRULE:FREQ=DAILY;BYHOUR=1", EXRULES_MAX), ("RRULE:FREQ=DAILY", 49)],
    ids=["EXRULE", "RRULE"],
)
def test_the_lines_of_a_set_are_bounded(line: str, most: int) -> None:
    text = f"{START}RRULE:FREQ=DAILY\n" + "\n".join([line] * most)
    rrule(text)
    with pytest.raises(BadRecurrence, match=r"more than .* lines") as caught:
        rrule(f"{text}\n{line}")
    assert caught.value.position == len(text) + 1


def test_the_zones_of_a_set_are_bounded() -> None:
    names = [f"Etc/GMT{sign}{n}" for sign in "+-" for n in range(1, 12)]
    lines = [f"RDATE;TZID={name}:20260101T000000" for name in names]
    rrule("\n".join([START.strip(), *lines[:ZONES_MAX]]))
    with pytest.raises(BadRecurrence, match=f"more than {ZONES_MAX} time zones"):
        rrule("\n".join([START.strip(), *lines[: ZONES_MAX + 1]]))


def test_the_occurrences_of_folded_lines_are_those_of_whole_ones() -> None:
    whole = "DTSTART:20260101T000000Z\nRRULE:FREQ=DAILY;BYHOUR=1,2,3"
    folded = "DTSTART:20260\r\n 101T00\n\t0000Z\nRRULE:FREQ=D\n AILY;BYHOUR=1,\n 2,3  "
    assert rrule(folded) == rrule(whole)
    with pytest.raises(BadRecurrence) as caught:
        rrule("RRULE:FREQ=DAILY;BYHO\n UR=1,\n 99")
    assert caught.value.position == len("RRULE:FREQ=DAILY;BYHO\n UR=1,\n ")
