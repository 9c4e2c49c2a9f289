"""`onbeat timeline`: lanes as text, and the same as JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onbeat.cli.main import root
from onbeat.cli.timeline import COLUMNS, NAME_COLUMNS
from onbeat.model.limits import TIMELINE_LANES_MAX

PAYLOAD = "a \x1b[31mred [bold]name"


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, args)
        assert result.exit_code == code, result.output
        return result.output

    return run


def add(onbeat: Callable[..., Any], name: str, *rule: str) -> str:
    given = rule or ("--cron", "0 6 * * *")
    return onbeat("schedule", "add", name, *given, "--task", "tick").strip()


def test_a_lane_has_a_sign_for_each_part_of_the_day(onbeat: Callable[..., Any]) -> None:
    add(onbeat, "morning")
    lines = onbeat("timeline", "--day", "2999-01-07").splitlines()
    assert lines[0] == "Monday 07 January 2999 00:00, 24 hours, UTC"
    assert lines[1].split() == [f"{hour:02}:00" for hour in range(0, 24, 3)]
    assert [line.split()[0] for line in lines[2:]] == ["All", "morning"]
    for line in lines[2:]:
        assert line.rstrip()[NAME_COLUMNS:] == " " * (COLUMNS // 4) + "+"


def test_a_turned_clock_is_told(onbeat: Callable[..., Any]) -> None:
    add(onbeat, "morning")
    berlin = ("--tz", "Europe/Berlin")
    spring = onbeat("timeline", "--day", "2026-03-29", *berlin)
    assert "23 hours, Europe/Berlin" in spring
    assert "02:00 to 03:00 does not exist" in spring
    autumn = onbeat("timeline", "--day", "2026-10-25", *berlin)
    assert "02:00 to 03:00 comes twice" in autumn
    week = onbeat("timeline", "--day", "2026-10-19", "--span", "week", *berlin)
    assert "169 hours" in week
    assert ["19", "Oct", "20", "Oct"] in [line.split()[:4] for line in week.splitlines()]


def test_now_is_a_bar_and_what_waits_has_a_sign(onbeat: Callable[..., Any]) -> None:
    id = add(onbeat, "often", "--every", "2m")
    onbeat("schedule", "trigger", id)
    lines = onbeat("timeline", "--span", "6h").splitlines()
    assert "|" in lines[1]
    assert "o" in lines[-1][NAME_COLUMNS:]
    assert "+" in lines[-1][NAME_COLUMNS:]


def test_json_is_the_answer_of_the_service(onbeat: Callable[..., Any]) -> None:
    id = add(onbeat, "morning")
    answer = json.loads(onbeat("timeline", "--day", "2999-01-07", "--schedule", id, "--json"))
    assert [lane["id"] for lane in answer["lanes"]] == [id]
    assert answer["all"][0]["planned"] == 1


def test_more_schedules_than_a_page_are_told(onbeat: Callable[..., Any]) -> None:
    for number in range(TIMELINE_LANES_MAX + 1):
        add(onbeat, f"s{number:02}")
    answer = onbeat("timeline", "--order", "name")
    assert "40 of 41; see more with --page 2" in answer
    assert "s40" in onbeat("timeline", "--order", "name", "--page", "2")


def test_names_are_text(onbeat: Callable[..., Any]) -> None:
    add(onbeat, PAYLOAD.replace("\x1b", ""))
    assert "[bold]" in onbeat("timeline")
    assert "no schedules" in onbeat("timeline", "--q", "nothing")


@pytest.mark.parametrize("given", [("--day", "today"), ("--tz", "Nowhere"), ("--span", "year")])
def test_what_cannot_be_shown_is_refused(
    onbeat: Callable[..., Any], given: tuple[str, str]
) -> None:
    result = CliRunner().invoke(root, ["timeline", *given])
    assert result.exit_code != 0
    assert given[0].strip("-") in result.output


def test_what_is_not_known_is_told(onbeat: Callable[..., Any], monkeypatch: Any) -> None:
    add(onbeat, "morning")
    monkeypatch.setattr("onbeat.operations.timelines.RECURRENCE_STEPS_MAX", TIMELINE_LANES_MAX)
    answer = onbeat("timeline", "--day", "2999-01-07", "--span", "week")
    assert "morning: what comes is not known, its rule takes too many steps to search" in answer
