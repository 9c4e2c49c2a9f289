"""`onbeat forecast`: the heat map, and the same as JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onbeat.cli.main import root


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")

    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, args)
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_the_map_has_a_row_for_a_day_and_a_block_for_a_busy_hour(
    onbeat: Callable[..., Any],
) -> None:
    onbeat("schedule", "add", "tick", "--cron", "0 5 * * *", "--task", "tick")

    lines = onbeat("forecast", "--after", "2030-01-07T00:00:00Z", "--days", "2").splitlines()

    assert lines[1].startswith("Mon 07 Jan")
    assert "█" in lines[1] or "▓" in lines[1]
    assert lines[1].rstrip().endswith("1")
    assert "2 occurrences of 1 active schedules; the busiest hour has 1" in lines[-1]


def test_json_has_every_hour(onbeat: Callable[..., Any]) -> None:
    onbeat("schedule", "add", "tick", "--cron", "0 5 * * *", "--task", "tick")

    answer = json.loads(
        onbeat("forecast", "--after", "2030-01-07T00:00:00Z", "--days", "1", "--json")
    )

    assert len(answer["hours"]) == 24
    assert answer["fires"] == 1


def test_a_map_that_is_cut_says_from_when(onbeat: Callable[..., Any]) -> None:
    rule = "FREQ=SECONDLY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14"
    onbeat("schedule", "add", "dense", "--rrule", rule, "--task", "tick")

    lines = onbeat("forecast", "--after", "2030-01-07T00:00:00Z", "--days", "3").splitlines()

    assert [line.rsplit(maxsplit=1)[-1] for line in lines[1:4]] == ["54,000", "46,000+", "0+"]
    assert lines[-3:] == [
        "at least 100,000 occurrences of 1 active schedules; the busiest hour has 3,600+",
        "from Tue 08 Jan 12:00 on there may be more than is counted",
        "not counted to the end: dense",
    ]


def test_an_empty_store_says_so(onbeat: Callable[..., Any]) -> None:
    assert "no active schedules" in onbeat("forecast")


@pytest.mark.parametrize("after", ["soon", "2030-01-07T00:00:00"])
def test_a_wrong_instant_is_bad_usage(onbeat: Callable[..., Any], after: str) -> None:
    assert "--after" in onbeat("forecast", "--after", after, code=2)
