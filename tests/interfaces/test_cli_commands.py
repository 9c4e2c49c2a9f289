"""Commands on the command line, against a store on disk."""

import os
from pathlib import Path
from typing import Any

import pytest

from interfaces.test_cli_requests import asked, onbeat

__all__ = ["asked", "onbeat"]  # fixtures


def test_a_command_is_added_with_all_its_parts(onbeat: Any, asked: Any, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\nb\n")
    parts = ("--env", "A= b=c ", "--env", "DB_PASSWORD=x", "--cwd", "/srv", "--stdin", "@list")
    given = ("--command", *parts, "--", "/usr/bin/backup", "--all", "a b")
    target = {
        "command": ["/usr/bin/backup", "--all", "a b"],
        "env": {"A": " b=c ", "DB_PASSWORD": "***"},
        "cwd": "/srv",
        "stdin": "a\nb\n",
    }
    job = onbeat("job", "add", *given).stdout.strip()
    assert asked("job", "show", job)["target"] == target
    schedule = onbeat("schedule", "add", "s", "--every", "1h", *given).stdout.strip()
    assert asked("schedule", "show", schedule)["target"] == target
    onbeat("schedule", "update", schedule, "--command", "--", "/usr/bin/backup")
    assert asked("schedule", "show", schedule)["target"] == {"command": ["/usr/bin/backup"]}
    assert "/usr/bin/ba" in onbeat("job", "list").stdout


def test_why_says_that_no_worker_runs_it(onbeat: Any) -> None:
    job = onbeat("job", "add", "--command", "--", "/usr/bin/backup").stdout.strip()
    assert "No worker is alive." in onbeat("job", "why", job).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--command",), "--command needs a program: end with -- /PATH/TO/PROGRAM ARGUMENTS"),
        (("--command", "--url", "http://x", "--", "/bin/p"), "--url does not go with --command"),
        (("--command", "--secret-file", "x", "--", "/p"), "--secret-file does not go with"),
        (("--command", "--header", "A: b", "--", "/p"), "--header does not go with --command"),
        (("--url", "http://x", "--secret-file", os.devnull), "--secret-file has no secret in it"),
        (("--task", "t", "--env", "A=b"), "--env is of a program; give --command with it"),
        (("--", "/bin/p"), "unexpected '/bin/p'; a task is named by --task"),
        (("--command", "--env", "A", "--", "/bin/p"), "--env must be NAME=VALUE"),
        ((), "--task or --url, or --command"),
    ],
)
def test_a_wrong_use_is_told_in_one_line(onbeat: Any, args: tuple[str, ...], words: str) -> None:
    assert words in onbeat("job", "add", *args, code=2).stderr


def test_a_wrong_program_is_refused_with_its_field(onbeat: Any) -> None:
    wrong = onbeat("job", "add", "--command", "--", "backup", code=1)
    assert "target.command[0] must be the absolute path of a program" in wrong.stderr
