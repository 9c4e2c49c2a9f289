"""Commands on an SQLite file that does not exist: a look makes none, a change does."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onbeat import Onbeat
from onbeat.cli.exit_codes import UNREACHABLE
from onbeat.cli.main import root

ID = "01a21f6f-0d8f-7000-8000-000000000001"
LOOKS = (
    "alert list", "bulk list", "bulk show 1", "dead-letter list", "doctor", "event list", "failure list",
    "flow list", "forecast", "job list", f"logs {ID}", f"job show {ID}", f"job why {ID}",
    "key list", "pulse", "queue list", "schedule export", "schedule list", "schedule show nightly",
    "schedule preview nightly", "schedule apply --dry-run s.yaml", "schedule diff s.yaml",
    "stats", "timeline", "top --once", "worker list", "audit",
)  # fmt: skip
CHANGES = (
    "migrate", "job add --task mail.send", "queue pause mail", "schedule apply s.yaml",
    "event send a.b --source /s", "schedule add tick --every 1m --task tick",
)  # fmt: skip

Onbeats = Callable[[str], Result]


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Onbeats:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("schedules: {a: {every: 1m, target: {task: tick}}}")
    return lambda command: CliRunner().invoke(root, command.split())


@pytest.mark.parametrize("command", LOOKS)
def test_a_look_at_a_file_that_does_not_exist_names_it_and_makes_none(
    onbeat: Onbeats, tmp_path: Path, command: str
) -> None:
    result = onbeat(f"{command} --store sqlite:///typo.db")
    assert result.exit_code == UNREACHABLE, result.output
    remedy = f"{tmp_path}/typo.db does not exist; `onbeat up` or `onbeat migrate` makes it"
    assert remedy in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["s.yaml"]


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_makes_the_file(onbeat: Onbeats, tmp_path: Path, command: str) -> None:
    result = onbeat(f"{command} --store sqlite:///new.db")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "new.db").exists()
    assert onbeat("job list --store sqlite:///new.db").exit_code == 0


def test_the_settings_of_here_need_no_store(onbeat: Onbeats, tmp_path: Path) -> None:
    result = onbeat("settings --json")
    assert result.exit_code == 0, result.output
    assert '"key": "store"' in result.output
    assert not list(tmp_path.glob("*.db"))


def test_a_program_makes_the_file(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/program.db")
    assert beat.stats().workers == 0
    beat.close()
    assert (tmp_path / "program.db").exists()
