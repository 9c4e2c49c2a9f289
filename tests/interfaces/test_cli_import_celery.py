"""`onbeat import celery`: beat_schedule of a module that is not run, and Django's fixtures."""

import json
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
from onbeat.cli.imports import UnreadableSource

HEAD = "from celery.schedules import crontab, schedule, solar\n"


def beat(entries: str, more: str = "") -> str:
    return f"{HEAD}{more}\napp.conf.beat_schedule = {{{entries}}}\n"


def rule(text: str, **options: Any) -> Any:
    return imported("celery", beat(f'"x": {{"task": "t", "schedule": {text}}}'), **options)


def test_an_entry_has_its_task_arguments_and_options() -> None:
    entry = (
        '"poll": {"task": "bank.poll", "schedule": 5 * MINUTE, "args": ("main",),'
        ' "kwargs": {"full": True}, "options": {"queue": "bank", "expires": 60}}'
    )
    assert bodies(imported("celery", beat(entry, "MINUTE = 60.0"))) == {
        "poll": {
            "every": "5m",
            "target": {"task": "bank.poll", "args": ["main"], "kwargs": {"full": True}},
            "queue": "bank",
            "expires_after": "1m",
        }
    }


@pytest.mark.parametrize(
    "text",
    [
        'beat_schedule = {"x": {"task": "t", "schedule": 30}}',
        'CELERY_BEAT_SCHEDULE: dict = {"x": dict(task="t", schedule=timedelta(seconds=30))}',
        'app.conf.update(beat_schedule={"x": {"task": "t", "schedule": schedule(run_every=30)}})',
        'app.conf.beat_schedule["x"] = {"task": "t", "schedule": schedule(30.0)}',
    ],
)
def test_wherever_a_schedule_is_written(text: str) -> None:
    assert bodies(imported("celery", text)) == {"x": {"every": "30s", "target": {"task": "t"}}}


@pytest.mark.parametrize(
    ("fields", "cron"),
    [
        ("", "* * * * *"),
        ("minute=0", "0 * * * *"),
        ("0, 7, 'mon'", "0 7 * * 1"),
        ("minute=[0, 30], hour='*/6'", "0,30 */6 * * *"),
        ("0, 0, day_of_week='fri-mon'", "0 0 * * 0-1,5-6"),
        ("0, '22-2'", "0 0-2,22-23 * * *"),
        ("0, 0, day_of_month='1-31/7', month_of_year='jan,jul'", "0 0 */7 1,7 *"),
    ],
)
def test_crontab_as_celery_reads_it(fields: str, cron: str) -> None:
    assert bodies(rule(f"crontab({fields})"))["x"]["cron"] == cron


def test_both_days_have_to_match() -> None:
    text = "crontab(minute=0, hour=3, day_of_month='*/10', day_of_week='sun-tue')"
    result = rule(text)
    assert bodies(result)["x"]["rrule"] == (
        "FREQ=MONTHLY;BYMONTHDAY=1,11,21,31;BYDAY=SU,MO,TU;BYHOUR=3;BYMINUTE=0;BYSECOND=0"
    )
    # From Celery 5.7, crontab.remaining_estimate.
    expected = ["01-11 03:00", "01-31 03:00", "02-01 03:00", "02-21 03:00", "03-01 03:00"]
    start = SPRING.replace(month=1, day=1, hour=4)
    assert source_fires(result, "x", start, 5) == expected
    assert onbeat_fires(result, "x", start, 5) == expected


def test_changed_clocks_are_those_of_celery() -> None:
    zone = 'app.conf.timezone = "Europe/Berlin"'
    entries = (
        '"fixed": {"task": "t", "schedule": crontab(hour=2, minute=30)},'
        '"wild": {"task": "t", "schedule": crontab(minute=0, hour="*/2")}'
    )
    result = imported("celery", beat(entries, zone))
    # From Celery 5.7: 02:30 in the gap is 03:30, and a time in the fold is the first.
    assert source_fires(result, "fixed", SPRING, 2) == ["03-28 01:30", "03-29 00:30"]
    assert source_fires(result, "fixed", AUTUMN, 2) == ["10-31 00:30", "11-01 01:30"]
    night = SPRING.replace(hour=21)
    assert source_fires(result, "wild", night, 4) == [
        "03-27 23:00", "03-28 01:00", "03-28 02:00", "03-28 04:00",
    ]  # fmt: skip
    assert "changed clocks" in differing(result)
    assert onbeat_fires(result, "fixed", SPRING, 1) == ["03-28 01:00"]


@pytest.mark.parametrize(
    "text",
    [
        'solar("sunset", 52, 13)', "crontab(minute=next_minute())", "crontab(minute='5/15')",
        "crontab(hour=24)", "crontab(day_of_week=7)", "datetime(2026, 1, 1, tzinfo=[1])", "crontab(*fields)", "EVERY", "-5", "True",
        "crontab(minutes=5)", "1 / 0", "10 ** 9", "timedelta(fortnights=1)", "None",
    ],
)  # fmt: skip
def test_what_only_running_would_tell_is_named_with_its_line(text: str) -> None:
    result = rule(text)
    assert result.schedules == []
    assert lost(result) == [(3, "entry")]


def test_entries_that_are_not_literals_are_named() -> None:
    text = (
        "app.conf.beat_schedule = load()\n"
        'app.conf.beat_schedule = {**more, "a": {"schedule": 5}, "b": entry}\n'
        "app.add_periodic_task(10, t.s())\n"
        "app.conf.timezone = zone()\n"
    )
    result = imported("celery", text)
    assert result.schedules == []
    assert sorted(lost(result), key=str) == [
        (1, "beat_schedule"), (2, "**"), (2, "entry"), (2, "entry"), (3, "add_periodic_task"),
        (4, "timezone"),
    ]  # fmt: skip


def test_options_that_a_schedule_lacks_are_named() -> None:
    entry = (
        '"x": {"task": "t", "schedule": 30, "relative": True, "kwargs": {"at": date(2027, 1, 1)},'
        ' "options": {"priority": 3}, "colour": "red"}'
    )
    result = imported("celery", beat(entry))
    assert [name for _, name in lost(result)] == ["args", "relative", "colour", "option priority"]
    assert bodies(result)["x"]["target"] == {"task": "t"}


@pytest.mark.parametrize("text", ["def (", "x = " + "(" * 500, "a\0b"])
def test_what_is_not_python_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSource, match="not Python"):
        imported("celery", text)


def test_a_long_sum_is_no_literal() -> None:
    assert lost(rule("+".join(["1"] * 100))) == [(3, "entry")]


def record(model: str, pk: int, **fields: Any) -> dict[str, Any]:
    return {"model": f"django_celery_beat.{model}", "pk": pk, "fields": fields}


def test_a_dump_of_django_celery_beat() -> None:
    records = [
        record("intervalschedule", 1, every=10, period="minutes"),
        record("crontabschedule", 1, minute="30", hour="7", day_of_week="1", day_of_month="1-7",
               month_of_year="*", timezone="Europe/Berlin"),
        record("clockedschedule", 1, clocked_time="2027-06-01T12:00:00Z"),
        record("solarschedule", 1, event="sunset", latitude="52", longitude="13"),
        record("periodictasks", 1, last_update="2027-01-01T00:00:00Z"),
        record("periodictask", 1, name="Poll", task="bank.poll", interval=1, args='["main"]',
               kwargs="{}", queue="bank", expire_seconds=60, enabled=True),
        record("periodictask", 2, name="Report", task="report", crontab=1, enabled=False,
               headers='{"a": 1}', args="[]", priority=5),
        record("periodictask", 3, name="Once", task="once", clocked=1, one_off=True),
        record("periodictask", 4, name="Sun", task="lamp", solar=1),
        record("periodictask", 5, name="None", task="lamp"),
        record("periodictask", 6, name="Broken", task="x", interval=1, args="{"),
        record("periodictask", 7, name="Elsewhere", task="x", interval=9),
        record("periodictask", 8, name="celery.backend_cleanup", task="c", crontab=1),
    ]  # fmt: skip
    result = imported("celery", "[\n" + ",\n".join(map(json.dumps, records)) + "\n]")
    found = bodies(result)
    assert found["poll"] == {
        "name": "Poll", "every": "10m", "queue": "bank", "expires_after": "1m",
        "target": {"task": "bank.poll", "args": ["main"]},
    }  # fmt: skip
    assert found["report"]["status"] == "paused"
    assert found["report"]["timezone"] == "Europe/Berlin"
    assert found["once"]["at"] == "2027-06-01T12:00:00Z"
    assert lost(result) == [
        (8, "option priority"), (8, "headers"), (10, "rule"), (11, "rule"), (12, "rule"),
        (13, "rule"),
    ]  # fmt: skip
