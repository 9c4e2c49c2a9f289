"""The commands of the README, the first steps and the guides, typed into a shell as printed."""

import json
import re
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest

from conditions import eventually_here
from docs.pages import README, TRIED, Command, blocks, commands, name_of, with_language
from docs.services import service
from docs.shell import Shell

STARTS_SERVICE = re.compile(r"onbeat up|make run")
# These set a machine up; that is what the person who runs this test has done already.
SETS_UP = re.compile(r"make \w|pip install|\S*/pip install|python3 -m venv")
READS = re.compile(r"curl -s \"?\$API[^ ]*$")
# A service without a program runs no task; this page has one of the package.
PROGRAMS = {"measure-your-load.md": ["onbeat.testing.load"]}
GUIDES = [page for page in with_language(TRIED, "console") if page != README]


def test_the_readme_s_requests_are_answered_as_shown(tmp_path: Path) -> None:
    (app,) = (block for block in blocks(README, "python") if block.file)
    (tmp_path / "app.py").write_text(app.text)
    with service(tmp_path, "app.py") as port, Shell(tmp_path) as shell:
        for command in commands(README):
            check(shell, at_port(command, port))


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_the_commands_of_a_page_work(page: Path, tmp_path: Path) -> None:
    program = PROGRAMS.get(page.name, [])
    with service(tmp_path, *program) as port, Shell(tmp_path) as shell:
        for command in commands(page):
            check(shell, at_port(command, port))


def at_port(command: Command, port: int) -> Command:
    return Command(*(text.replace("127.0.0.1:8080", f"127.0.0.1:{port}") for text in (
        command.text, command.shown
    )))  # fmt: skip


def check(shell: Shell, command: Command) -> None:
    if STARTS_SERVICE.match(command.text) or SETS_UP.match(command.text):
        return
    if READS.match(command.text):
        # What is asked for may be about to happen, as it is for a person who types.
        eventually_here(lambda: answers(shell, command), f"{command.text} gives what is shown")
        return
    code, printed = shell.run(command.text)
    # Some machines allow few open files, and doctor says so.
    assert code == 0 or (code == 1 and "doctor" in command.text), printed
    if command.shown:
        assert is_alike(json.loads(command.shown), json.loads(printed)), printed
        if "preview" in command.text:
            assert json.loads(command.shown) == json.loads(printed)


def answers(shell: Shell, command: Command) -> bool:
    code, printed = shell.run(command.text)
    assert code == 0, printed
    return is_alike(json.loads(command.shown), json.loads(printed))


def is_alike(shown: object, got: object) -> bool:
    """Equal but for ids and instants."""
    match shown, got:
        case dict(), dict():
            return shown.keys() == got.keys() and all(is_alike(shown[k], got[k]) for k in shown)
        case list(), list():
            return len(shown) == len(got) and all(map(is_alike, shown, got))
        case str(), str():
            return shown == got or (kind(shown) is not None and kind(shown) == kind(got))
        case _:
            return shown == got


def kind(text: str) -> str | None:
    for name, read in (("id", UUID), ("instant", datetime.fromisoformat)):
        try:
            read(text)
        except ValueError:
            continue
        return name
    return None
