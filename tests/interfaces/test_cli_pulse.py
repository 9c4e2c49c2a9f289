"""`onbeat pulse`: figures over time as lines, and the same as JSON."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onbeat.app.stores import open_store
from onbeat.cli.main import root
from onbeat.cli.pulse import COLUMNS, line, shown
from onbeat.testing.store_contract.history import a_pulse


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, args)
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_a_new_store_has_no_figures(onbeat: Callable[..., Any]) -> None:
    lines = onbeat("pulse").splitlines()
    assert lines[0].split() == ["LAST", "MOST", "LAST", "HOUR"]
    assert lines[1].split() == ["started/s", "-", "-"]


def test_json_has_every_point(onbeat: Callable[..., Any]) -> None:
    answer = json.loads(onbeat("pulse", "--span", "day", "--queue", "mail", "--json"))
    assert len(answer["points"]) == 288
    assert answer["sample"] is None


def test_queues_are_shown_each_with_its_hour(onbeat: Callable[..., Any]) -> None:
    assert "nothing has started" in onbeat("pulse", "--queues")
    store = open_store("sqlite:///onbeat.db")
    now = datetime.now(UTC)
    at = now.replace(second=now.second // 10 * 10, microsecond=0) - timedelta(minutes=2)

    async def put() -> None:
        await store.open()
        await store.put_pulses([a_pulse(at, starts=3)])
        await store.close()

    asyncio.run(put())
    assert json.loads(onbeat("pulse", "--queues", "--json"))["queues"]["mail ☃"].count(3) == 1
    row = onbeat("pulse", "--queues").splitlines()[1]
    assert row.split()[0] == "mail"
    assert "█" in row


def test_what_is_wrong_is_bad_usage(onbeat: Callable[..., Any]) -> None:
    assert "--span" in onbeat("pulse", "--span", "year", code=2)
    assert "queue" in onbeat("pulse", "--queue", "a/b", code=1)


def test_a_gap_is_blank_and_a_zero_is_not() -> None:
    assert line([None, 0, 1, 8]) == " ▁▂█"
    assert line([0, 0]) == "▁▁"
    assert line([None]) == " "


def test_many_points_share_columns() -> None:
    values = [float(n) for n in range(COLUMNS * 9)]
    assert len(line(values)) == COLUMNS
    assert line([*values, 1.0])[-1] == "▁"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.12345, "0.123"), (12.345, "12.3"), (1234.5, "1,234")]
)
def test_numbers_have_few_digits(value: float, text: str) -> None:
    assert shown(value) == text
