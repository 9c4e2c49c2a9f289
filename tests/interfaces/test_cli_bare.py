"""The command line of `pip install onbeat`, without any extra."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from interfaces.up import up
from onbeat.cli.main import root
from onbeat.cli.reference import commands

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
hidden, commands = sys.argv[1].split(","), sys.argv[2:]
sys.modules.update(dict.fromkeys(hidden))
from onbeat.cli.main import root
for command in commands:
    try:
        root.main(command.split())
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""

IN_A_STORE = (
    "migrate",
    "schedule add tick --every 1h --task x",
    "schedule list",
    "schedule export schedules.yaml",
    "schedule diff schedules.yaml",
    "schedule apply schedules.yaml --dry-run",
    "import crontab crontab --output crontab.yaml",
    "schedule apply crontab.yaml",
    "job add --task x",
    "job list --counts",
    "job bulk cancel --state waiting --dry-run",
    "queue limit mail --concurrency 3",
    "stats",
    "pulse",
    "top --once",
    "timeline",
    "forecast",
    "settings",
    "load --rate 20 --for 0.1s --task x --wait 0s",
    "backup copy.db",
    "doctor",
)
ANYWHERE = ("next @daily", "explain @hourly", "openapi", "openapi --format json", "completion bash")
AT_A_SERVICE = ("stats", "schedule add tick --every 1h --task x", "schedule list", "job list")


def installed_with(requirements: list[str]) -> Iterator[str]:
    """The names of these distributions, and of those that they need here without any extra."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
            yield from installed_with(requires(requirement.name) or [])


@pytest.fixture(scope="module")
def hidden() -> str:
    """The modules that are installed here and would not be."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    there = {"onbeat", *installed_with(project["dependencies"])}
    return ",".join(
        module
        for module, owners in packages_distributions().items()
        if not there & set(map(canonicalize_name, owners)) and module not in sys.stdlib_module_names
    )


def run(folder: Path, hidden: str, *lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, hidden, *lines],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_command_has_help_without_an_extra(hidden: str, tmp_path: Path) -> None:
    lines = [f"{path} --help".removeprefix("onbeat ") for path, _ in commands(root)]
    assert len(lines) > 80
    run(tmp_path, hidden, *(line for line in lines if line != "up --help"))


def test_commands_on_a_store_need_no_extra(hidden: str, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ONBEAT_LOG__LEVEL=warning\n")
    (tmp_path / "onbeat.yaml").write_text("store: sqlite:///jobs.db\n")
    (tmp_path / "crontab").write_text("5 4 * * sun /usr/bin/backup\n")
    printed = run(tmp_path, hidden, *IN_A_STORE, *ANYWHERE)
    assert "waiting" in printed
    assert "/api/jobs" in printed
    assert (tmp_path / "jobs.db").exists()
    assert "/usr/bin/backup" in (tmp_path / "crontab.yaml").read_text()


def test_commands_at_a_service_need_no_extra(hidden: str, tmp_path: Path) -> None:
    with up(tmp_path, "--store", "memory://", "--log-format", "json") as service:
        address = "http://{}:{}".format(*service.address)
        printed = run(tmp_path, hidden, *(f"{line} --server {address}" for line in AT_A_SERVICE))
    assert "tick" in printed
