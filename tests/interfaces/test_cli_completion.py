"""The completion of shells, by the script that `onbeat completion` prints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from onbeat.cli.main import root

# What bash does at the tab key: it sets these variables, and calls the function.
TAB = """
source ./completion.sh
complete -p onbeat
COMP_WORDS=({words}) COMP_CWORD={position}
_onbeat_completion onbeat
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["onbeat", "qu"], ["queue"]),
        (["onbeat", "dead"], ["dead-letter"]),
        (["onbeat", "schedule", "pa"], ["pause"]),
        (["onbeat", "job", "list", "--st"], ["--state", "--store"]),
        (["onbeat", "completion", "''"], ["bash", "fish", "zsh"]),
    ],
    ids=" ".join,
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    program = tmp_path / "bin" / "onbeat"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m onbeat "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([str(program.parent), os.environ.get("PATH", os.defpath)])
    environment = os.environ | {"PATH": path}
    script = bash("onbeat completion bash", tmp_path, environment)
    (tmp_path / "completion.sh").write_text(script)
    typed = TAB.format(words=" ".join(words), position=len(words) - 1)
    registered, *offered = bash(typed, tmp_path, environment).splitlines()
    assert registered == "complete -o nosort -F _onbeat_completion onbeat"
    assert set(offered) == {*expected}


def bash(text: str, folder: Path, environment: dict[str, str]) -> str:
    ran = subprocess.run(
        ["bash", "--norc", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("zsh", "compdef _onbeat_completion onbeat"),
        ("fish", 'complete --no-files --command onbeat --arguments "(_onbeat_completion)";'),
    ],
)
def test_other_shells_have_theirs(shell: str, line: str) -> None:
    printed = CliRunner().invoke(root, ["completion", shell])
    assert printed.exit_code == 0
    assert line in map(str.strip, printed.output.splitlines())


def test_another_shell_is_refused_by_name() -> None:
    refused = CliRunner().invoke(root, ["completion", "tcsh"])
    assert refused.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in refused.output
