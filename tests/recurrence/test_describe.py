"""The sentence of each form of a rule."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from onbeat.recurrence import (
    Recurrence,
    anchor,
    business_days,
    compile_spec,
    cron,
    daily,
    every,
    function,
    once,
    rrule,
    union,
)

START = "DTSTART:20250115T090000Z\nRRULE:"
FROM = "from 15 January 2025 at 09:00 UTC"
DATES = ",".join(f"202502{day:02}T000000Z" for day in range(1, 10))

RULES = {
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;WKST=SU":
        "Every 2 weeks on Monday and Wednesday, weeks starting on Sunday",
    "FREQ=MONTHLY;BYMONTHDAY=1,15,-1": "Every month on the last day, the 1st and the 15th of the month",
    "FREQ=MONTHLY;BYMONTHDAY=11,12,22,23": "Every month on the 11th, the 12th, the 22nd and the 23rd of the month",
    "FREQ=YEARLY;BYYEARDAY=1,-1": "Every year on the last and 1st day of the year",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO": "Every year on Monday in the 1st and 53rd week",
    "FREQ=YEARLY;BYDAY=1MO": "Every year on the 1st Monday of the year",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE;BYSETPOS=-1":
        "Every month on Monday, Tuesday and Wednesday, of these only the last in each month",
    "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13": "Every month on Friday if it is the 13th of the month",
    "FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=BACKWARD;BYMONTHDAY=31":
        "Every month on the 31st of the month (or the day before, where a month has no such day)",
    "FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=FORWARD;BYMONTHDAY=31":
        "Every month on the 31st of the month (or the day after, where a month has no such day)",
    "FREQ=HOURLY;BYHOUR=9,10,11,12;BYMINUTE=0": "Every hour in hour 9 to 12 in minute 0",
    "FREQ=MINUTELY;INTERVAL=5": "Every 5 minutes",
    "FREQ=SECONDLY;BYMINUTE=0,30": "Every second in minute 0 and 30",
    "FREQ=DAILY;BYHOUR=9;BYMINUTE=0,30;BYSECOND=5": "Every day at 09:00:05 and 09:30:05",
    "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,30":
        "Every day in hour 8 to 12 at minute 0 and 30, second of its start",
    "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,30;BYSECOND=5,7":
        "Every day in hour 8 to 12 at minute 0 and 30 at second 5 and 7",
    "FREQ=YEARLY;BYEASTER=0": "Every year on Easter Sunday",
    "FREQ=MONTHLY;BYDAY=MO;BYEASTER=-2,1":
        "Every month on Monday if it is 2 days before Easter Sunday and 1 day after Easter Sunday",
    "RSCALE=GREGORIAN;FREQ=YEARLY;BYYEARDAY=366;SKIP=FORWARD":
        "Every year on the 366th day of the year (or the day after, where a year has no such day)",
    "DTSTART:20250115T090905Z\nRRULE:FREQ=DAILY;BYHOUR=3":
        "Every day at 03:09:05, minute and second of its start, from 15 January 2025 at 09:09:05 UTC",
    "FREQ=DAILY;BYHOUR=3": "Every day in hour 3, minute and second of its start",
    "FREQ=DAILY;COUNT=1": "Every day, 1 time",
    "FREQ=DAILY;UNTIL=20250301T000000Z": "Every day, until 1 March 2025 at 00:00 UTC",
    START + "FREQ=WEEKLY": f"Every week on Wednesday at 09:00, {FROM}",
    START + "FREQ=MONTHLY": f"Every month on the 15th of the month at 09:00, {FROM}",
    START + "FREQ=YEARLY": f"Every year on 15 January at 09:00, {FROM}",
    START + "FREQ=YEARLY;BYMONTH=6": f"Every year on the 15th in June at 09:00, {FROM}",
    "DTSTART;VALUE=DATE:20250115\nRRULE:FREQ=YEARLY": "Every year on 15 January, from 15 January 2025",
    "DTSTART:20250115T090000Z\nRDATE:20250116T110005Z":
        "On 15 January 2025 at 09:00 UTC; and on 16 January 2025 at 11:00:05 UTC",
    START + "FREQ=DAILY\nEXRULE:FREQ=WEEKLY;BYDAY=SU\nEXDATE:20250116T090000Z":
        f"Every day at 09:00, {FROM}; but not every week on Sunday at 09:00, {FROM};"
        " but not on 16 January 2025 at 09:00 UTC",
    START + f"FREQ=DAILY\nRDATE:{DATES}": f"Every day at 09:00, {FROM}; and on 9 dates",
}  # fmt: skip

CRONS = {
    "* * * * *": "Every minute",
    "* * * * * *": "Every second",
    "* * * * MON-FRI": "Every minute on Monday, Tuesday, Wednesday, Thursday and Friday",
    "*/5 * * * * *": "Every 5 seconds",
    "*/7 * * * * *": "Every minute at second 0 to 56 in steps of 7",
    "30 * * * * *": "Every minute at second 30",
    "*/5 * * * *": "Every 5 minutes",
    "*/30 * * * *": "Every 30 minutes",
    "5-59/10 * * * *": "Every 10 minutes from minute 5",
    "15,45 * * * *": "Every hour at minute 15 and 45",
    "*/7 * * * *": "Every hour at minute 0 to 56 in steps of 7",
    "0-30/5 * * * *": "Every hour at minute 0 to 30 in steps of 5",
    "10-55/5 * * * *": "Every hour at minute 10 to 55 in steps of 5",
    "30 */5 * * * *": "Every 5 minutes at second 30",
    "*/5 * * * SAT": "Every 5 minutes on Saturday",
    "*/5 9-17 * * *": "Every 5 minutes in hour 9 to 17 every day",
    "*/15 9 * * *": "At 09:00, 09:15, 09:30 and 09:45 every day",
    "*/10 */2 * * *": "Every 10 minutes in hour 0 to 22 in steps of 2 every day",
    "0 * * * *": "Every hour at minute 0",
    "0 */2 * * *": "Every 2 hours, on the hour",
    "0 */2 * * SUN": "Every 2 hours, on the hour, on Sunday",
    "0 */2 * JAN *": "Every 2 hours, on the hour, in January",
    "15 */2 * * *": "Every 2 hours from 00:15",
    "0 1-23/2 * * *": "Every 2 hours from 01:00",
    "15 30 */2 * * *": "Every 2 hours from 00:30:15",
    "0 0-20/2 * * *": "In hour 0 to 20 in steps of 2 at minute 0 every day",
    "0 */6 * * *": "At 00:00, 06:00, 12:00 and 18:00 every day",
    "0 */5 * * *": "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day",
    "0,30 */2 * * *": "Every 30 minutes in hour 0 to 22 in steps of 2 every day",
    "* 9,17 * * *": "Every minute in hour 9 and 17 every day",
    "15 30 9 * * *": "At 09:30:15 every day",
    "0 9-17 * * MON,FRI": "In hour 9 to 17 at minute 0 on Monday and Friday",
    "5,10 0 1,15 * *": "At 00:05 and 00:10 on the 1st and the 15th of the month",
    "0 0 L * *": "At 00:00 on the last day of the month",
    "0 0 L-3 * *": "At 00:00 on the 4th last day of the month",
    "0 0 LW * *": "At 00:00 on the last weekday of the month",
    "0 0 15W * *": "At 00:00 on the weekday nearest to the 15th of the month",
    "0 0 * * MON#2": "At 00:00 on the 2nd Monday",
    "0 0 13 * FRI": "At 00:00 on the 13th of the month or on Friday",
    "0 0 1 JAN,JUL *": "At 00:00 on the 1st of the month in January and July",
    "0 0 0 1 1 ? 2030-2033": "At 00:00 on the 1st of the month in January in 2030 to 2033",
}

ANCHORED = {
    "FREQ=DAILY": "Every day at 03:09:05, the time of its start",
    "FREQ=DAILY;BYHOUR=3": "Every day at 03:09:05, minute and second of its start",
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30": "Every day at 02:30:05, second of its start",
    "FREQ=DAILY;BYMINUTE=30;BYSECOND=0": "Every day at 03:30, hour of its start",
    "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0": "Every day at 02:30",
    "FREQ=WEEKLY;BYHOUR=9;BYMINUTE=0;BYSECOND=0": "Every week on Wednesday at 09:00",
    "FREQ=HOURLY": "Every hour at minute 9 and second 5 of its start",
    "FREQ=HOURLY;BYMINUTE=0": "Every hour in minute 0 at second 5 of its start",
    "FREQ=MINUTELY;INTERVAL=5": "Every 5 minutes at second 5 of its start",
    "FREQ=SECONDLY": "Every second",
}
"""In Berlin, from 1 July 2026 at 03:09:05 there."""

SPANS = {
    "P1M": "Every month",
    "P2M": "Every 2 months",
    "500ms": "Every 0.5 seconds",
    "1s": "Every second",
    "1d2h3m4.5s": "Every 1 day, 2 hours, 3 minutes and 4.5 seconds",
}

NOT_OPEN = "Every day at 09:00 (UTC); an occurrence that is not on a business day is"

OTHERS: dict[str, Recurrence] = {
    "Every hour, from 1 January 2025 at 00:00:00.25 UTC":
        every("1h", start="2025-01-01T00:00:00.250Z"),
    "At 09:00 every day (UTC); and Once, at 1 January 2025 at 12:00 UTC":
        union(cron("0 9 * * *"), once("2025-01-01T12:00:00Z")),
    "At 09:00 every day (UTC); but not: At 09:00 on Saturday (UTC)":
        cron("0 9 * * *").excluding(cron("0 9 * * SAT")),
    f"{NOT_OPEN} left out": daily("09:00").on(business_days(), "skip"),
    f"{NOT_OPEN} moved to the next one": daily("09:00").on(business_days(), "following"),
    f"{NOT_OPEN} moved to the one before": daily("09:00").on(business_days(), "preceding"),
    f"{NOT_OPEN} moved to the next one, or back if that is in another month":
        daily("09:00").on(business_days(), "modified"),
}  # fmt: skip


@pytest.mark.parametrize("text", RULES)
def test_a_rule(text: str) -> None:
    assert rrule(text).describe() == f"{RULES[text]} (UTC)"


@pytest.mark.parametrize("text", ANCHORED)
def test_what_a_rule_takes_from_its_start_is_named(text: str) -> None:
    at = datetime(2026, 7, 1, 1, 9, 5, tzinfo=UTC)
    value = compile_spec(anchor(rrule(text, tz="Europe/Berlin").spec(), at))
    assert value.describe() == f"{ANCHORED[text]} (Europe/Berlin)"


@pytest.mark.parametrize("text", CRONS)
def test_a_cron_expression(text: str) -> None:
    assert cron(text).describe() == f"{CRONS[text]} (UTC)"


PACE = re.compile(r"Every (\d+) (hour|minute|second)s(, on the hour| from .*)? \(UTC\)")
SIZES = {"second": (60, "{} * * * * *"), "minute": (60, "{} * * * *"), "hour": (24, "0 {} * * *")}
UNITS = {"second": 1, "minute": 60, "hour": 3600}


@given(st.sampled_from([*SIZES]), st.integers(0, 30), st.integers(1, 40), st.integers(0, 59))
@example("minute", 5, 10, 59)
def test_a_pace_is_named_only_where_it_never_breaks(
    unit: str, first: int, step: int, last: int
) -> None:
    size, text = SIZES[unit]
    assume(first <= last < size)
    value = cron(text.format(f"{first}-{last}/{step}"))
    pace = PACE.fullmatch(value.describe())
    if pace is not None:
        span = timedelta(seconds=int(pace[1]) * UNITS[pace[2]])
        instants = value.take(2 * size, after=datetime(2025, 1, 1, tzinfo=UTC))
        assert {after - before for before, after in pairwise(instants)} == {span}


@pytest.mark.parametrize("text", SPANS)
def test_an_interval(text: str) -> None:
    assert every(text).describe() == SPANS[text]


@pytest.mark.parametrize("sentence", OTHERS)
def test_what_is_made_of_others(sentence: str) -> None:
    assert OTHERS[sentence].describe() == sentence


def test_a_function_is_named() -> None:
    assert function(OTHERS.get).describe().startswith("Whenever ")  # type: ignore[arg-type]
