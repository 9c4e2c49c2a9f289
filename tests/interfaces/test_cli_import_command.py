"""The command `onbeat import`: its file, its report, and its way into a store."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cost import assert_linear
from onbeat.cli.imports import SOURCES, ImportOptions, read
from onbeat.cli.main import root
from onbeat.model.limits import IMPORT_BYTES_MAX

CRONTAB = "CRON_TZ=Europe/Berlin\n30 2 * * * /srv/backup.sh\n0 9 1 * mon /srv/invoices.sh\n"
Run = Callable[..., Any]


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crontab.txt").write_text(CRONTAB)

    def run(*args: str, code: int = 0, text: str | None = None) -> Any:
        result = CliRunner().invoke(root, args, input=text)
        assert result.exit_code == code, result.output
        return result

    return run


def test_the_file_goes_to_standard_output_and_the_report_to_standard_error(onbeat: Run) -> None:
    result = onbeat("import", "crontab", "crontab.txt", "--after", "2027-03-27T12:00:00Z")
    assert result.stdout.startswith("schedules:\n  backup:\n    cron: 30 2 * * *\n")
    assert "missed run" in result.stderr
    assert "Sun 2027-03-28 01:00:00Z  Sun 2027-03-28 01:00:00Z" in result.stderr
    assert "2 schedules, 2 differ, 0 could not be carried over" in result.stderr


def test_the_file_is_accepted_and_fires_as_the_table_says(onbeat: Run) -> None:
    answer = json.loads(
        onbeat(
            "import", "crontab", "crontab.txt", "-o", "s.yaml", "--name", "cron", "--json"
        ).stdout
    )
    assert answer["name"] == "cron"
    onbeat("schedule", "diff", "s.yaml")
    onbeat("schedule", "apply", "s.yaml")
    for key, fires in answer["fires"].items():
        shown = json.loads(onbeat("schedule", "show", key, "--json").stdout)
        first = datetime.fromisoformat(shown["next_at"])
        assert first in {datetime.fromisoformat(at) for at in fires["onbeat"]}
        assert fires["onbeat"] == fires["source"]
    again = json.loads(onbeat("schedule", "apply", "s.yaml", "--json").stdout)
    assert {one["change"] for one in again["schedules"]} == {"unchanged"}


def test_a_file_is_overwritten_by_force_alone(onbeat: Run, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("mine")
    refused = onbeat("import", "crontab", "crontab.txt", "-o", "s.yaml", code=2)
    assert "--force overwrites it" in refused.stderr
    assert (tmp_path / "s.yaml").read_text() == "mine"
    onbeat("import", "crontab", "crontab.txt", "-o", "s.yaml", "--force")
    assert (tmp_path / "s.yaml").read_text().startswith("schedules:")


def test_strict_fails_where_something_is_lost(onbeat: Run) -> None:
    onbeat("import", "crontab", "crontab.txt", "--strict")
    lossy = onbeat("import", "crontab", "-", "--strict", code=1, text=f"{CRONTAB}@reboot x\n")
    assert "@reboot" in lossy.stderr
    assert "backup" in lossy.stdout


def test_the_document_has_schedules_differences_and_fires(onbeat: Run) -> None:
    result = onbeat(
        "import", "crontab", "-", "--json", "--fires", "1", "--task", "ops.run", "--tz", "UTC",
        "--after", "2027-01-01T00:00:00Z", text="MAILTO=a\n0 1 * * * x\n",
    )  # fmt: skip
    answer = json.loads(result.stdout)
    assert answer["schedules"]["x"]["target"]["task"] == "ops.run"
    assert answer["fires"] == {
        "x": {"source": ["2027-01-01T01:00:00Z"], "onbeat": ["2027-01-01T01:00:00Z"]}
    }
    first = answer["differences"][0]
    assert (first["feature"], first["line"], first["lost"]) == ("MAILTO", 1, True)


@pytest.mark.parametrize(
    ("args", "text", "problem"),
    [
        (("celery", "-"), "def (", "standard input, line 1: not Python"),
        (("crontab", "-", "--tz", "Mars"), "", "no zone that is known"),
        (("crontab", "nowhere"), "", "cannot be read"),
        (("crontab", "-"), "#" * (IMPORT_BYTES_MAX + 1), "more than 1048576 bytes"),
    ],
    ids=["python", "zone", "no-file", "too-large"],
)
def test_a_file_that_cannot_be_read_is_bad_usage(
    onbeat: Run, args: tuple[str, ...], text: str, problem: str
) -> None:
    assert problem in onbeat("import", *args, code=2, text=text).stderr


def test_a_file_of_nothing_has_no_schedules(onbeat: Run) -> None:
    for source in SOURCES:
        assert onbeat("import", source, "-", text="").stdout == "schedules: {}\n"


LINES = {
    "crontab": "{0} 1 * * * run-{1}\n",
    "celery": 'beat_schedule["{1}"] = {{"task": "t", "schedule": crontab(minute={0})}}\n',
    "apscheduler": 's.add_job(f, "cron", minute={0}, id="{1}")\n',
    "rrule-scheduler": '{{"name": "{1}", "rrule": "DTSTART:20270101T00{0:02d}00Z\\nRRULE:FREQ=DAILY",'
    ' "callback_url": "https://example.com/{1}"}}\n',
    "kubernetes": "---\nkind: CronJob\nmetadata: {{name: j{1}}}\nspec:\n  schedule: {0} 1 * * *\n"
    "  jobTemplate: {{spec: {{template: {{spec: {{containers: [{{command: [/bin/true]}}]}}}}}}}}\n",
    "eventbridge": '{{"Name": "{1}", "ScheduleExpression": "cron({0} 1 * * ? *)"}}\n',
}


@pytest.mark.parametrize("source", SOURCES)
def test_twice_the_lines_cost_at_most_thrice_as_much(source: str) -> None:
    def text(count: int) -> str:
        return "".join(LINES[source].format(number % 60, number) for number in range(count))

    once, twice = text(150), text(300)
    assert len(read(twice, source, ImportOptions()).schedules) == 300
    assert_linear(
        lambda: read(once, source, ImportOptions()),
        lambda: read(twice, source, ImportOptions()),
        source,
    )
