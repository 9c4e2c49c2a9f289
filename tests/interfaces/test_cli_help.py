"""Help: every command has some, and the reference page says the same."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from onbeat.cli.main import root
from onbeat.cli.reference import commands, reference_page
from onbeat.operations.table import OPERATIONS
from onbeat.settings.table import TABLE

HERE = Path(__file__)
PAGE = HERE.parents[2] / "docs" / "reference" / "cli.md"
SOURCES = HERE.parents[2] / "src" / "onbeat" / "cli"

COMMANDS = dict(commands(root))


def help_of(path: str) -> str:
    result = CliRunner().invoke(root, [*path.split()[1:], "--help"])
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("path", COMMANDS)
def test_help_says_what_a_command_does_and_names_every_flag(path: str) -> None:
    text = help_of(path)
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        for flag in parameter.opts if isinstance(parameter, click.Option) else ():
            assert re.search(rf"{flag}\b", text), flag
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@pytest.mark.parametrize("path", COMMANDS)
def test_help_fits_80_columns(path: str) -> None:
    assert all(len(line) <= 80 for line in help_of(path).splitlines())


def test_listings_and_shows_speak_json() -> None:
    silent = {"onbeat up", "onbeat completion", "onbeat openapi", "onbeat version"}
    without = {
        path
        for path, command in COMMANDS.items()
        if not isinstance(command, click.Group)
        and not any("--json" in parameter.opts for parameter in command.params)
    }
    assert without == silent


def test_up_has_a_flag_for_every_setting_that_is_no_secret() -> None:
    text = help_of("onbeat up")
    assert [s.path for s in TABLE.values() if s.flag and s.flag not in text] == []
    assert "--api-keys" not in text


def test_the_commands_that_are_promised_are_there() -> None:
    promised = (
        "up,schedule add,schedule list,schedule show,schedule update,schedule pause,"
        "schedule resume,schedule trigger,schedule backfill,schedule delete,job add,job list,"
        "job show,job cancel,job retry,job why,flow list,flow show,flow cancel,flow retry,"
        "queue list,queue show,queue pause,queue resume,queue limit,"
        "worker list,dead-letter list,dead-letter show,dead-letter replay,dead-letter delete,"
        "next,explain,migrate,doctor,completion,openapi,version"
    )
    assert {f"onbeat {name}" for name in promised.split(",")} <= set(COMMANDS)


def test_every_operation_is_reached_by_some_command() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.glob("*.py"))
    # A preview needs no service: `onbeat next` asks the rule itself. Workers are programs. The
    # rounds of a rotation are the library's.
    unsaid = {"recurrence.preview", "job.claim", "job.start", "job.renew", "job.settle"}
    missing = {o.name for o in OPERATIONS if f'"{o.name}"' not in text}
    assert missing == unsaid | {"secrets.rotate"}
    assert "rotate_all(" in text


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page()
