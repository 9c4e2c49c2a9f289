"""`onbeat schedule export`, `diff` and `apply`: schedules as a file."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from docs.pages import ROOT, blocks
from onbeat import Onbeat, daily, every, http
from onbeat.cli import yaml_files
from onbeat.cli.main import root
from onbeat.recurrence import union

GUIDE = ROOT / "docs" / "guides" / "schedules-as-a-file.md"

BILLING = """\
name: billing
schedules:
  nightly:
    cron: "30 2 * * *"
    timezone: Europe/Berlin
    window: {from: 22:00, to: 23:30, timezone: UTC}
    target: {task: ledger.run}
  ping:
    every: 15m
    callback_url: https://api.example.com/hook
    headers: {Authorization: Bearer secret}
    body: |
      {"n": 1,
       "m": 2}
  unpaid:
    on: {type: order.placed}
    target: {task: orders.remind}
"""


class Files:
    """The commands in a folder of their own, whose store is `onbeat.db`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, text: str, name: str = "s.yaml") -> None:
        (self.folder / name).write_text(text)

    def run(self, *args: str, code: int = 0, text: str | None = None) -> Any:
        result = CliRunner().invoke(root, ["schedule", *args], input=text)
        assert result.exit_code == code, result.output
        return result

    def steps(self, *args: str) -> dict[str, str]:
        answer = json.loads(self.run(*args, "--json").stdout)
        return {one["key"]: one["change"] for one in answer["schedules"]}

    def schedules(self) -> list[str]:
        answer = json.loads(self.run("list", "--json").stdout)
        return sorted(one["name"] for one in answer["schedules"])


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return Files(tmp_path)


def test_a_rule_without_a_text_is_left_out_and_a_start_is_written(files: Files) -> None:
    beat = Onbeat("sqlite:///onbeat.db")
    try:
        call = http("GET", "https://example.com")
        beat.schedules.put("both", union(every("1h"), daily("09:00")), call)
        beat.schedules.put("counted", every("1d", start="2026-01-01T03:00:00Z"), call)
    finally:
        beat.close()
    exported = files.run("export", "--all")
    assert "left out: 1 with a rule that only a program can make" in exported.stderr
    assert "start: '2026-01-01T03:00:00Z'" in exported.stdout
    assert "both" not in exported.stdout
    files.run("apply", "-", text=exported.stdout)
    shown = json.loads(files.run("show", "counted", "--json").stdout)
    assert shown["start"] == "2026-01-01T03:00:00Z"
    files.run("update", "counted", "--start", "2026-01-01T04:00:00Z")
    assert "T04:00:00Z" in json.loads(files.run("show", "counted", "--json").stdout)["next_at"]


def test_a_file_is_applied_once_however_often(files: Files) -> None:
    files.write(BILLING)
    dry = files.steps("apply", "s.yaml", "--dry-run")
    assert dry == {"nightly": "new", "ping": "new", "unpaid": "new"}
    assert files.schedules() == []
    assert files.steps("apply", "s.yaml") == dry
    assert files.schedules() == ["nightly", "ping", "unpaid"]
    assert set(files.steps("apply", "s.yaml").values()) == {"unchanged"}


def test_the_file_of_the_guide_can_be_applied(files: Files) -> None:
    (text,) = (block.text for block in blocks(GUIDE, "yaml"))
    files.write(text)
    assert set(files.steps("apply", "s.yaml").values()) == {"new"}
    assert files.schedules() == ["Prices of the shop", "nightly-ledger", "remind-unpaid"]


def test_what_changes_is_told_before_and_then_done(files: Files) -> None:
    files.write(BILLING)
    files.run("apply", "s.yaml")
    files.write(BILLING.replace("15m", "20m"))
    told = files.run("diff", "s.yaml").output
    assert "every: 15m → 20m" in told
    assert "1 changed, 2 unchanged" in told
    assert files.steps("diff", "s.yaml")["ping"] == "changed"
    files.run("apply", "s.yaml")
    assert json.loads(files.run("show", "ping", "--json").stdout)["every"] == "20m"


def test_prune_deletes_what_left_this_file_alone(files: Files) -> None:
    files.run("add", "by hand", "--every", "1h", "--task", "t", "--key", "hand")
    files.write(BILLING.replace("name: billing", "name: other").replace("ping:", "pong:"), "o.yaml")
    files.run("apply", "o.yaml")
    files.write("name: billing\nschedules:\n  old: {every: 1h, target: {task: t}}\n")
    files.run("apply", "s.yaml")
    files.write("name: billing\nschedules: {}\n")
    assert files.steps("apply", "s.yaml") == {}
    assert files.steps("apply", "s.yaml", "--prune") == {"old": "deleted"}
    assert files.schedules() == ["by hand", "nightly", "pong", "unpaid"]


def test_prune_needs_to_know_which_file(files: Files) -> None:
    files.write("schedules: {}\n")
    assert "--prune needs a `name:`" in files.run("apply", "s.yaml", "--prune", code=2).output


def test_an_export_is_a_file_that_changes_nothing(files: Files) -> None:
    files.write(BILLING)
    files.run("apply", "s.yaml")
    files.run("add", "no key", "--every", "1h", "--task", "t")
    export = files.run("export")
    assert "left out: 1 without a key" in export.stderr
    assert "secrets, which stay in this store: ping" in export.stderr
    assert "Bearer" not in export.stdout
    assert set(files.steps("apply", "s.yaml").values()) == {"unchanged"}
    named = files.run("export", "--name", "billing").stdout
    assert named.startswith("name: billing\nschedules:\n  nightly:\n    cron: 30 2 * * *\n")
    again = files.run("apply", "-", text=named).output
    assert again.splitlines()[-1] == "3 unchanged"
    files.run("export", "e.json", "--json")
    assert set(files.steps("apply", "e.json").values()) == {"unchanged"}
    window = "    - days: MON-SUN\n      from: '22:00'\n"
    assert window in named
    assert "    body: |\n" in named.replace("        body", "    body")


def test_an_export_names_its_secrets_and_another_store_refuses_them(files: Files) -> None:
    files.write(BILLING)
    files.run("apply", "s.yaml")
    files.run("export", "e.yaml")
    other = f"sqlite:///{files.folder}/other.db"
    said = files.run("apply", "e.yaml", "--store", other, code=2).output
    assert "nothing was changed" in said
    assert "ping.target.http.headers.Authorization" in said
    assert json.loads(files.run("list", "--json", "--store", other).stdout)["total"] == 0


def test_sensitive_and_finished_schedules_are_left_out(files: Files) -> None:
    files.run("add", "quiet", "--every", "1h", "--task", "t", "--key", "quiet", "--sensitive")
    export = files.run("export")
    assert export.stdout == "schedules: {}\n"
    assert "left out: 1 sensitive" in export.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedules: [", "line 1 is not YAML"),
        ("schedules: {a: 3}", "Expected `object`, got `int`"),
        ("schedule: {}", "unknown field `schedule`"),
        ("schedules: {a: {every: 1h}, a: {every: 2h}}", "line 1: a is given twice"),
        ("schedules: {? [1] : 2}", "a key must be a text"),
        ("name: ''\nschedules: {}", "a name has 1 to 200 characters"),
        ("schedules: {a: {<<: 3}}", "<< needs a mapping"),
        ("schedules: {a: {crn: 1}}", "a.crn: crn is not a known field"),
        (
            "schedules: {a: {cron: '61 * * * *', target: {task: t}}, b: {every: 1h}}",
            "b: Give a callback_url, or a target",
        ),
        (
            "name: x\nschedules: {a: {every: 1h, labels: {onbeat.file: y}, target: {task: t}}}",
            "a.labels.onbeat.file: this label is that of the file's name",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_changes(files: Files, text: str, said: str) -> None:
    files.write(text)
    output = files.run("apply", "s.yaml", code=2).output
    assert said in output
    assert files.schedules() == []


def test_files_that_cannot_be_read_or_written(files: Files) -> None:
    assert (
        "none.yaml cannot be read: No such file" in files.run("apply", "none.yaml", code=2).output
    )
    said = files.run("export", f"{files.folder}/none/e.yaml", code=2).output
    assert "cannot be written" in said
    (files.folder / "s.yaml").write_bytes(b"\xff\xfe")
    assert "is not text in UTF-8" in files.run("apply", "s.yaml", code=2).output


def test_a_file_has_bounds(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(20)
    )
    files.write(bomb)
    assert "with its aliases it has more than" in files.run("apply", "s.yaml", code=2).output
    files.write("schedules: " + "[" * 200 + "]" * 200)
    assert "values within one another" in files.run("apply", "s.yaml", code=2).output
    files.write("schedules: {}\n" + "#" * 100)
    monkeypatch.setattr(yaml_files, "FILE_BYTES_MAX", 50)
    assert "more than 50 bytes" in files.run("apply", "s.yaml", code=2).output


def test_a_diff_of_a_file_takes_no_other_option(files: Files) -> None:
    files.write(BILLING)
    assert "give no other option" in files.run("diff", "s.yaml", "--every", "1h", code=2).output
    assert "--prune needs a FILE" in files.run("diff", "nightly", "--prune", code=2).output


def test_texts_stay_what_they_look_like() -> None:
    values = {
        "22:30": "22:30",
        "yes": "yes",
        "true": True,
        "2027-01-31": "2027-01-31",
        "0x1f": "0x1f",
        "1_000": "1_000",
        "007": "007",
        "15": 15,
        "-1.5": -1.5,
        "'15'": "15",
        "~": None,
        ".inf": ".inf",
    }
    text = "".join(f"- {written}\n" for written in values)
    node = yaml_files.Values("here").value_of(yaml_files.composed(text), 0)
    assert node == list(values.values())
    merged = yaml_files.composed("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}")
    assert yaml_files.Values("here").value_of(merged, 0)["b"] == {"x": 3, "y": 2}
