"""How a run ends that does not end well: an exit code and one line."""

import sys
from typing import Final

import click
import msgspec

from onbeat.model.errors import BadRecurrence, Invalid, Misconfigured, OnbeatError, Unavailable

OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130


class BadRule(click.ClickException):
    """A rule on the command line that cannot be read; the caret below it says where."""

    exit_code = BAD_USAGE

    def __init__(self, error: BadRecurrence) -> None:
        super().__init__(error.pointed())


class Ending(msgspec.Struct, frozen=True):
    code: int
    line: str


def ending_of(error: BaseException) -> Ending:
    match error:
        case click.UsageError():
            return Ending(BAD_USAGE, usage_text(error))
        case click.Abort() | KeyboardInterrupt():
            return Ending(INTERRUPTED, told("interrupted"))
        case click.ClickException():
            return Ending(error.exit_code, told(error.format_message()))
        case Misconfigured():
            return Ending(BAD_USAGE, told(setting_line(error)))
        case Unavailable():
            return Ending(UNREACHABLE, told(str(error)))
        case OnbeatError():
            return Ending(FAILED, told(failure_line(error)))
        case ModuleNotFoundError() if is_missing_package(error):
            package = (error.name or "").partition(".")[0]
            message = f"this needs the package {package}: pip install 'onbeat[server]'"
            return Ending(BAD_USAGE, told(message))
        case _:
            return Ending(FAILED, told(unexpected_line(error)))


def is_missing_package(error: ModuleNotFoundError) -> bool:
    """The plain library brings only what a program needs that runs Onbeat inside itself."""
    return (error.name or "onbeat").partition(".")[0] != "onbeat"


def told(message: str) -> str:
    return f"onbeat: {message}"


def usage_text(error: click.UsageError) -> str:
    """The message, and where the help is; the help itself for a group without a command."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    message = error.format_message().rstrip(".")
    path = error.ctx.command_path if error.ctx else "onbeat"
    return told(f"{message}; see `{path} --help`")


def setting_line(error: Misconfigured) -> str:
    """The message, with the setting's key where it does not name it."""
    message = str(error)
    return f"{error.key}: {message}" if error.key and error.key not in message else message


def failure_line(error: OnbeatError) -> str:
    """The message, with the field where it does not name it, and the reason where it is short."""
    message = str(error)
    if not isinstance(error, Invalid):
        return message
    if error.field and error.field not in message:
        message = f"{error.field}: {message}"
    return f"{message} ({' '.join(error.detail.split())})" if error.detail else message


def unexpected_line(error: BaseException) -> str:
    again = " ".join(["onbeat", "--debug", *sys.argv[1:2]])
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected {reason}; `{again} …` shows where"
