"""Eight weeks of a schedule, a cell a day."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from onbeat.dashboard.calendar import DAYS, WEEKS, calendar_days, first_day, start_of
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.wire.outcomes import OccurrenceAnswer

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 4, 8, 12, tzinfo=UTC)  # a Wednesday
HOUR = timedelta(hours=1)


def one(at: datetime, outcome: str, until: datetime | None = None) -> OccurrenceAnswer:
    disposition = OccurrenceOutcome(outcome)
    if until is None:
        return OccurrenceAnswer(at=at, disposition=disposition)
    return OccurrenceAnswer(at=at, until=until, disposition=disposition)


def test_the_weeks_begin_on_monday_and_end_with_this_one() -> None:
    days = calendar_days([], NOW, BERLIN)
    assert len(days) == DAYS == 7 * WEEKS
    assert (days[0].day, days[-1].day) == (date(2026, 2, 16), date(2026, 4, 12))
    assert [one.day for one in days if one.is_today] == [date(2026, 4, 8)]
    assert {one.words.partition(";")[0] for one in days} == {"none"}


def test_the_worst_of_a_day_stands_for_it() -> None:
    at = datetime(2026, 4, 7, 12, tzinfo=UTC)
    found = [one(at, "ran"), one(at + HOUR, "failed"), one(at + 2 * HOUR, "ran")]
    (day,) = [day for day in calendar_days(found, NOW, BERLIN) if day.outcome]
    assert (day.day, day.outcome, day.words) == (date(2026, 4, 7), "failed", "1 failed, 2 ran")


def test_days_are_those_of_the_zone() -> None:
    late = one(datetime(2026, 4, 7, 22, 30, tzinfo=UTC), "ran")
    assert [day.day.day for day in calendar_days([late], NOW, BERLIN) if day.outcome] == [8]
    assert [day.day.day for day in calendar_days([late], NOW, ZoneInfo("UTC")) if day.outcome] == [
        7
    ]


def test_a_run_of_skips_is_in_each_of_its_days() -> None:
    run = one(datetime(2026, 1, 1, tzinfo=UTC), "skipped", datetime(2026, 2, 18, 12, tzinfo=UTC))
    days = [day.day for day in calendar_days([run], NOW, BERLIN) if day.outcome]
    assert days == [date(2026, 2, 16), date(2026, 2, 17), date(2026, 2, 18)]


def test_a_day_of_another_length_is_marked() -> None:
    odd = [day for day in calendar_days([], NOW, BERLIN) if day.is_odd]
    assert [(day.day, day.hours) for day in odd] == [(date(2026, 3, 29), 23)]
    assert odd[0].words == "none; a day of 23 hours"
    autumn = datetime(2026, 11, 4, tzinfo=UTC)
    assert [day.hours for day in calendar_days([], autumn, BERLIN) if day.is_odd] == [25]


def test_what_was_not_looked_at_is_said() -> None:
    read_from = start_of(date(2026, 4, 6), BERLIN) + HOUR
    days = {day.day: day for day in calendar_days([], NOW, BERLIN, read_from)}
    assert days[date(2026, 4, 6)].words == "not looked at"
    assert days[date(2026, 4, 7)].words == "none"
    assert first_day(NOW, BERLIN) in days
