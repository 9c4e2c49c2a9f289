from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import cron

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def next_days(text: str, count: int = 4, after: datetime = NEW_YEAR, **options: Any) -> list[str]:
    return [f"{at:%m-%d}" for at in cron(text, **options).take(count, after=after)]


def local(text: str, zone: str, after: datetime, count: int, **options: Any) -> list[str]:
    value = cron(text, tz=zone, **options)
    return [f"{at.astimezone(ZoneInfo(zone)):%m-%d %H:%M}" for at in value.take(count, after=after)]


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 9 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 9 L-2 * *", ["01-29", "02-26", "03-29", "04-28"]),
        ("0 9 LW * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 9 LW 5,8 *", ["05-30", "08-29", "05-29", "08-31"]),
        ("0 9 15W * *", ["01-15", "02-14", "03-14", "04-15"]),
        ("0 9 1W * *", ["01-01", "02-03", "03-03", "04-01"]),
        ("0 9 * * 5L", ["01-31", "02-28", "03-28", "04-25"]),
        ("0 9 * * FRI#2", ["01-10", "02-14", "03-14", "04-11"]),
        ("0 9 * * 1#5", ["03-31", "06-30", "09-29", "12-29"]),
        ("0 9 13 * FRI", ["01-03", "01-10", "01-13", "01-17"]),
        ("0 9 */2 * MON", ["01-13", "01-27", "02-03", "02-17"]),
        ("0 9 ? * MON", ["01-06", "01-13", "01-20", "01-27"]),
        ("0 9 1 JAN-MAR ?", ["01-01", "02-01", "03-01", "01-01"]),
        ("0 9 * * SAT-SUN", ["01-04", "01-05", "01-11", "01-12"]),
        ("0 9 * * 7", ["01-05", "01-12", "01-19", "01-26"]),
        ("0 0 9 29 2 ? 2028", ["02-29"]),
        ("@monthly", ["02-01", "03-01", "04-01", "05-01"]),
    ],
)
def test_an_expression_selects_its_days(text: str, days: list[str]) -> None:
    assert next_days(text) == days


def test_six_fields_begin_with_seconds() -> None:
    candidates = cron("*/20 30 9 * * *").take(4, after=NEW_YEAR)
    assert [f"{at:%H:%M:%S}" for at in candidates] == [
        "09:30:00",
        "09:30:20",
        "09:30:40",
        "09:30:00",
    ]


def test_a_fixed_time_in_the_gap_runs_once_at_its_end() -> None:
    after = datetime(2025, 3, 8, 12, tzinfo=UTC)
    expected = ["03-09 03:00", "03-10 02:15", "03-10 02:45"]
    assert local("15,45 2 * * *", "America/New_York", after, 3) == expected
    assert local("15,45 2 * * *", "America/New_York", after, 1, dst_gap="skip") == ["03-10 02:15"]


def test_a_fixed_time_in_the_fold_runs_as_often_as_asked() -> None:
    after = datetime(2025, 11, 1, 12, tzinfo=UTC)
    value = cron("30 1 * * *", tz="America/New_York")
    assert [at.hour for at in value.take(2, after=after)] == [5, 6]
    value = cron("30 1 * * *", tz="America/New_York", dst_fold="both")
    assert [at.hour for at in value.take(3, after=after)] == [5, 6, 6]


def test_a_starred_hour_runs_in_real_time() -> None:
    after = datetime(2025, 11, 2, 4, 30, tzinfo=UTC)
    candidates = cron("0 * * * *", tz="America/New_York").take(4, after=after)
    assert [at.hour for at in candidates] == [5, 6, 7, 8]


def test_a_lost_day_is_a_corrected_clock() -> None:
    after = datetime(2011, 12, 29, 20, tzinfo=UTC)
    assert local("0 9 * * *", "Pacific/Apia", after, 1) == ["12-31 09:00"]


def test_the_prefix_names_the_zone() -> None:
    value = cron("TZ=Europe/Berlin 0 9 * * *", tz="Asia/Tokyo")
    assert (value.tz, value.text) == ("Europe/Berlin", "0 9 * * *")
    assert value.after(NEW_YEAR).hour == 8


def test_a_hash_is_stable_and_goes_by_the_key() -> None:
    # These are part of what is stored: a change would move every schedule that has H.
    assert [f"{cron('H H * * *', key=key).after(NEW_YEAR):%H:%M}" for key in ("a", "b")] == [
        "02:08",
        "01:39",
    ]
    assert cron("H * * * *", key="a") != cron("H * * * *", key="b")
    assert cron("0 * * * *", key="a") == cron("0 * * * *", key="b")


def test_a_hash_can_have_steps_and_a_range() -> None:
    minutes = [at.minute for at in cron("H/15 * * * *", key="x").take(4, after=NEW_YEAR)]
    assert {minute % 15 for minute in minutes} == {minutes[0] % 15}
    assert len(set(minutes)) == 4
    assert 10 <= cron("H(10-12) * * * *", key="x").after(NEW_YEAR).minute <= 12
    assert all(cron("0 0 H * *", key=str(n)).after(NEW_YEAR).day <= 28 for n in range(60))


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "0 fields"),
        ("* * * *", 7, "4 fields"),
        ("* * * * * * * *", 14, "8 fields"),
        ("60 * * * *", 0, "0 to 59"),
        ("* 24 * * *", 2, "0 to 23"),
        ("* * 0 * *", 4, "1 to 31"),
        ("* * * 13 *", 6, "1 to 12"),
        ("* * * * 8", 8, "0 to 7"),
        ("1,,2 * * * *", 2, "an empty item"),
        ("5-1 * * * *", 0, "backwards"),
        ("*/0 * * * *", 0, "step"),
        ("* * * FOO *", 6, "JAN to DEC"),
        ("* * * * MON#6", 8, "#1 to #5"),
        ("* * 32W * *", 4, "1W to 31W"),
        ("? * * * *", 0, "day fields"),
        ("@reboot", 0, "no time"),
        ("@never", 0, "@hourly"),
        ("0 0 * * １", 8, "0 to 7"),
    ],
)
def test_a_fault_is_pointed_at(text: str, position: int, words: str) -> None:
    with pytest.raises(BadRecurrence, match=words) as error:
        cron(text)
    assert error.value.position == position


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 29 2 * 2023"])
def test_what_never_fires_is_refused(text: str) -> None:
    with pytest.raises(BadRecurrence, match="never"):
        cron(text)


def test_text_round_trips() -> None:
    for text in ["*/5 9-17 * * mon-fri", "@daily", "0 0 9 L * ? 2030", "H H(1-5) * * *"]:
        value = cron(text, tz="Asia/Tokyo", key="k")
        assert cron(value.text, tz=value.tz, key="k") == value
