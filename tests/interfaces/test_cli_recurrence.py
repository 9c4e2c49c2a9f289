"""`onbeat next` and `onbeat explain`."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from onbeat.cli.main import root
from onbeat.cli.times import in_full, in_short, relative

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def run(*args: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(root, list(args))
    assert result.exit_code == code, result.output
    return result


def test_the_next_occurrences_are_shown_in_both_times_with_their_weekday() -> None:
    args = ("next", "0 9 * * MON-FRI", "--tz", "Europe/Berlin", "-n", "2", "--after", "2026-03-27")
    first, second = run(*args).stdout.splitlines()[2:4]
    assert "Fri  2026-03-27 09:00:00 CET   2026-03-27 08:00:00Z" in first
    assert "Mon  2026-03-30 09:00:00 CEST  2026-03-30 07:00:00Z" in second
    assert all(len(line) <= 80 for line in (first, second))


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=DAILY;BYHOUR=3;BYMINUTE=0;BYSECOND=0", "2026-11-20T03:00:00Z"),
        ("RRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25;BYHOUR=0;BYMINUTE=0;BYSECOND=0",
         "2026-12-25T00:00:00Z"),
        ("@daily", "2026-11-21T00:00:00Z"),
        ("every 15m", "2026-11-20T00:15:00Z"),
        ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"),
    ],
)  # fmt: skip
def test_each_language_of_rules_is_understood(rule: str, expected: str) -> None:
    result = json.loads(run("next", rule, "--after", "2026-11-20T00:00Z", "--json").stdout)
    assert result["occurrences"][0] == expected


def test_json_has_what_a_preview_has_and_the_local_times() -> None:
    args = (
        "next",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "-n",
        "2",
        "--after",
        "2027-03-13T12:00Z",
    )
    result = json.loads(run(*args, "--json").stdout)
    assert result["timezone"] == "America/New_York"
    assert result["occurrences"] == ["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"]
    gap, plain = result["details"]
    assert gap["local"] == "2027-03-14T03:00:00-04:00"
    assert gap["weekday"] == "Sunday"
    assert any("does not exist" in note for note in gap["notes"])
    assert plain["notes"] == []


def test_an_occurrence_in_a_gap_is_marked_and_explained() -> None:
    args = ("next", "30 2 * * *", "--tz", "America/New_York", "-n", "3", "--after", "2027-03-13")
    text = run(*args).stdout
    marked = [line for line in text.splitlines() if line.endswith("!")]
    assert len(marked) == 1
    assert "2027-03-14 03:00:00 EDT" in marked[0]
    assert "does not exist" in text


def test_a_rule_without_a_rest_says_so() -> None:
    text = run("next", "2020-01-01T00:00:00Z", "--after", "2026-01-01").stdout
    assert "no occurrence after this" in text


@pytest.mark.parametrize("command", ["next", "explain"])
def test_a_bad_rule_is_pointed_at(command: str) -> None:
    result = run(command, "0 9 * * MOM", code=2)
    message, rule, caret = result.stderr.splitlines()
    assert "MOM" in message
    assert rule[caret.index("^") :] == "MOM"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["next", "gibberish"], "gibberish"),
        (["next", "@daily", "--tz", "Europe/Berln"], "Europe/Berlin"),
        (["next", "@daily", "--after", "soon"], "--after"),
        (["next", "@daily", "-n", "0"], "-n"),
        (["next", "0 3 * *"], "4 fields; cron has 5"),
        (["next", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"], "FREQ"),
        (["next"], "RULE"),
    ],
)
def test_bad_usage_ends_with_2(args: list[str], said: str) -> None:
    assert said in run(*args, code=2).stderr


def test_a_rule_is_explained_in_words() -> None:
    text = run("explain", "0 3 * * *", "--tz", "Europe/Berlin").stdout
    assert "Europe/Berlin" in text
    assert "03:00" in text
    result = json.loads(run("explain", "0 3 * * *", "--json").stdout)
    assert (result["kind"], result["text"]) == ("cron", "0 3 * * *")


def test_an_explanation_shows_the_next_ten_and_what_may_surprise() -> None:
    args = ("explain", "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=9;BYMINUTE=0;BYSECOND=0")
    shown = run(*args, "--tz", "Europe/Berlin").stdout
    assert shown.count(" 09:00:00 CE") == 10
    assert "! never in February, April, June, September, November" in shown
    result = json.loads(run(*args, "--json").stdout)
    assert len(result["occurrences"]) == 10
    assert all(at.endswith("-31T09:00:00Z") for at in result["occurrences"])
    assert result["notes"] == ["never in February, April, June, September, November"]


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(milliseconds=300), "in 1 s"),
        (timedelta(), "now"),
        (timedelta(milliseconds=-900), "now"),
        (timedelta(seconds=45), "in 45 s"),
        (timedelta(minutes=10), "in 10 min"),
        (timedelta(hours=-3), "3 h ago"),
        (timedelta(days=-9), "9 d ago"),
        (timedelta(days=200), "in 7 mo"),
        (timedelta(days=3650), "in 10 y"),
    ],
)
def test_spans_are_said_in_one_unit(span: timedelta, text: str) -> None:
    assert relative(NOW + span, NOW) == text


def test_times_show_their_zone_and_how_far_away_they_are() -> None:
    assert in_full(None, NOW) == in_short(None, NOW) == "-"
    assert in_full("2026-11-20T15:00:00Z", NOW).endswith("(in 3 h)")
    assert in_short("2026-11-20T15:00:00Z", NOW).endswith(", in 3 h")
    assert re.match(r"\d\d:00:07 \S+, in 3 h$", in_short("2026-11-20T15:00:07Z", NOW, seconds=True))
    assert in_short("2028-01-05T12:00:00Z", NOW) == "05 Jan 2028, in 14 mo"


@pytest.mark.parametrize(
    ("args", "utc"),
    [
        (("2027-01-31T09:00", "--tz", "UTC"), "2027-01-31 09:00:00Z"),
        (("2027-07-31 09:00:00.25", "--tz", "Europe/Berlin"), "2027-07-31 07:00:00.25Z"),
    ],
)
def test_an_instant_without_an_offset_is_one_of_the_zone(args: Any, utc: str) -> None:
    assert utc in run("next", *args).stdout


def test_parts_of_a_second_are_shown() -> None:
    printed = run("next", "every 500ms", "-n", "2", "--after", "2027-01-01T00:00:00Z").stdout
    assert ["2027-01-01 00:00:00.5Z" in printed, "2027-01-01 00:00:01Z" in printed] == [True, True]
