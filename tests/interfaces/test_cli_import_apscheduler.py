"""`onbeat import apscheduler`: add_job and scheduled_job of a module that is not run."""

from datetime import UTC, datetime
from typing import Any

import pytest

from interfaces.imported import (
    AUTUMN,
    SPRING,
    bodies,
    differing,
    imported,
    lost,
    onbeat_fires,
    source_fires,
)

NEW_YEAR = datetime(2026, 12, 31, 12, tzinfo=UTC)


def job(arguments: str) -> Any:
    text = f'scheduler = BlockingScheduler(timezone="Europe/Berlin")\ns.add_job(f, {arguments}, id="x")\n'
    return imported("apscheduler", text)


def test_a_job_has_its_function_arguments_and_policies() -> None:
    text = (
        's.add_job("shop.books:poll", "interval", minutes=5, args=["bank"], kwargs={"n": 1},\n'
        '    id="poll", name="Poll", jitter=5, misfire_grace_time=3600, max_instances=1)\n'
    )
    assert bodies(imported("apscheduler", text)) == {
        "poll": {
            "name": "Poll",
            "every": "300s",
            "jitter": "5s",
            "target": {"task": "shop.books.poll", "args": ["bank"], "kwargs": {"n": 1}},
            "overlap": "skip",
            "grace": "3600s",
            "catch_up": "none",
        }
    }


def test_a_decorator_names_its_function() -> None:
    text = '@s.scheduled_job("cron", hour=3, coalesce=False)\nasync def close(): ...\n'
    body = bodies(imported("apscheduler", text))["close"]
    assert (body["cron"], body["target"]) == ("0 3 * * *", {"task": "close"})
    assert body["catch_up"] == "all"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ('"cron", hour=3', "0 3 * * *"),
        ('"cron", minute="*/20"', "*/20 * * * *"),
        ('"cron", second="*/10"', "*/10 * * * * *"),
        ('"cron", month=2', "0 0 1 2 *"),
        ('"cron", year="2027-2028", hour=1', "0 0 1 * * * 2027-2028"),
        ('"cron", day_of_week=0, hour=3', "0 3 * * MON"),
        ('"cron", day_of_week="mon-fri", hour=3', "0 3 * * MON,TUE,WED,THU,FRI"),
        ('"cron", day="last", hour=3', "0 3 L * *"),
        ('CronTrigger(day="2nd fri, last sun", hour=3)', "0 3 * * SUNL,FRI#2"),
        ('CronTrigger(day="1,2nd fri", hour=3)', "0 3 1 * FRI#2"),
        ('CronTrigger.from_crontab("0 3 * * 0")', "0 3 * * MON"),
    ],
)
def test_cron_as_apscheduler_reads_it(arguments: str, rule: str) -> None:
    result = job(arguments)
    cron = bodies(result)["x"]["cron"]
    assert cron == rule
    assert onbeat_fires(result, "x", NEW_YEAR, 5) == source_fires(result, "x", NEW_YEAR, 5)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    # From APScheduler 3.11, CronTrigger.get_next_fire_time, in UTC.
    [
        ('"cron", day="1-7", day_of_week="mon", hour=3', ["01-04 02:00", "02-01 02:00"]),
        ('"cron", day_of_week="*/2", hour=3', ["01-01 02:00", "01-03 02:00", "01-04 02:00"]),
        ('"cron", day="1,2nd fri", hour=3', ["01-01 02:00", "01-08 02:00", "02-01 02:00"]),
        ('"cron", day="last", hour=3', ["12-31 02:00", "01-31 02:00", "02-28 02:00"]),
        ('"cron", week=53, hour=3', ["01-01 02:00", "01-02 02:00", "01-03 02:00", "12-27 02:00"]),
        (
            '"calendarinterval", months=1, hour=2, minute=30, start_date="2027-01-31"',
            ["01-31 01:30", "03-31 00:30", "05-31 00:30", "07-31 00:30", "08-31 00:30"],
        ),
    ],
)
def test_days_are_those_of_apscheduler(arguments: str, expected: list[str]) -> None:
    result = job(arguments)
    start = NEW_YEAR.replace(hour=1) if expected[0] == "12-31 02:00" else NEW_YEAR
    assert source_fires(result, "x", start, len(expected)) == expected
    assert onbeat_fires(result, "x", start, len(expected)) == expected


def test_changed_clocks_are_those_of_apscheduler() -> None:
    result = job('"cron", hour=2, minute=30')
    assert source_fires(result, "x", SPRING, 2) == ["03-28 01:30", "03-29 00:30"]
    assert source_fires(result, "x", AUTUMN, 3) == ["10-31 00:30", "10-31 01:30", "11-01 01:30"]
    assert onbeat_fires(result, "x", AUTUMN, 3) == source_fires(result, "x", AUTUMN, 3)
    assert "changed clocks" in differing(result)


def test_bounds_and_intervals_with_a_start() -> None:
    result = job(
        '"interval", hours=2, start_date="2027-03-01 09:00", end_date=datetime(2027, 3, 2)'
    )
    body = bodies(result)["x"]
    assert body["every"] == "R/2027-03-01T08:00:00Z/PT7200S"
    assert body["ends_at"] == "2027-03-01T23:00:00Z"
    start = SPRING.replace(day=1, hour=20)
    assert source_fires(result, "x", start, 5) == ["03-01 22:00"]
    assert onbeat_fires(result, "x", start, 5) == ["03-01 22:00"]


def test_a_trigger_object_has_the_zone_of_the_machine_not_that_of_the_scheduler() -> None:
    text = (
        's = BlockingScheduler(timezone="Asia/Tokyo")\ns.add_job(f, CronTrigger(hour=3), id="x")\n'
    )
    result = imported("apscheduler", text)
    assert source_fires(result, "x", SPRING, 1) == ["03-28 03:00"]
    assert "timezone" in differing(result)
    there = imported("apscheduler", text, zone="America/New_York")
    assert source_fires(there, "x", SPRING, 1) == ["03-28 07:00"]
    assert onbeat_fires(there, "x", SPRING, 1) == ["03-28 07:00"]
    own = imported("apscheduler", text.replace("hour=3", 'hour=3, timezone="Asia/Tokyo"'))
    assert source_fires(own, "x", SPRING, 1) == ["03-27 18:00"]
    assert "timezone" not in differing(own)


def test_a_date_is_once() -> None:
    result = job('DateTrigger("2027-06-01 09:00", timezone="Europe/Berlin")')
    assert bodies(result)["x"]["at"] == "2027-06-01T07:00:00Z"
    assert source_fires(result, "x", SPRING) == ["06-01 07:00"]


@pytest.mark.parametrize(
    "arguments",
    [
        "AndTrigger([a, b])", '"cron", hour=at()', '"cron"', '"cron", hour="L"', '"date"',
        '"interval", hours=True', '"cron", day="2nd fri", day_of_week=1', '"weekly", hour=1',
        '"calendarinterval", months=1, days=1, start_date="2027-01-01"', "**options",
        '"calendarinterval", months=1', '"cron", week=1, year=2027', '"cron", colour=1',
        '"cron", hour=3, timezone="Mars/Olympus"', '"date", run_date="soon"',
        '"calendarinterval", days=1, hour=25, start_date="2027-01-01"',
    ],
)  # fmt: skip
def test_what_has_no_rule_is_named_with_its_line(arguments: str) -> None:
    result = job(arguments)
    assert result.schedules == []
    assert [line for line, _ in lost(result)] == [2]


def test_what_a_schedule_lacks_is_named() -> None:
    text = (
        'BackgroundScheduler(job_defaults={"coalesce": False}, timezone=zone())\n'
        's.add_job(f, "interval", hours=1, max_instances=3, next_run_time=None,'
        " args=[date(2027, 1, 1)])\n"
        's.add_job(lambda: 1, "interval", hours=1)\n'
    )
    result = imported("apscheduler", text)
    assert [name for _, name in lost(result)] == [
        "job_defaults", "timezone", "args", "next_run_time", "max_instances", "add_job",
    ]  # fmt: skip
    assert "overlap" not in bodies(result)["f"]
