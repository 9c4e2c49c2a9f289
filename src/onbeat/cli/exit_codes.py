"""The exit code and the error line of a failed run."""

import sys
from typing import Final

import click
import msgspec

from onbeat.model.errors import (
    BadRecurrence,
    Invalid,
    Misconfigured,
    OnbeatError,
    Unauthorized,
    Unavailable,
)
from onbeat.telemetry.redaction import escape_controls

OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_IN_TIME: Final = 4
INTERRUPTED: Final = 130

KEY_ADVICE: Final = "set ONBEAT_API_KEY, or give --api-key"


class BadRule(click.ClickException):
    """An invalid rule on the command line, with a caret below the position of the error."""

    exit_code = BAD_USAGE

    def __init__(self, error: BadRecurrence) -> None:
        super().__init__(error.pointed())


class ExitStatus(msgspec.Struct, frozen=True):
    code: int
    line: str


def exit_status_of(error: BaseException) -> ExitStatus:
    match error:
        case click.UsageError():
            return ExitStatus(BAD_USAGE, usage_text(error))
        case click.Abort() | KeyboardInterrupt():
            return ExitStatus(INTERRUPTED, error_line("interrupted"))
        case click.ClickException():
            return ExitStatus(error.exit_code, click_error_lines(error.format_message()))
        case Misconfigured():
            return ExitStatus(BAD_USAGE, error_line(setting_line(error)))
        case Unavailable():
            return ExitStatus(UNREACHABLE, error_line(str(error)))
        case OnbeatError():
            return ExitStatus(FAILED, error_line(failure_line(error)))
        case ModuleNotFoundError() if is_missing_package(error):
            package = (error.name or "").partition(".")[0]
            message = f"this needs the package {package}: pip install 'onbeat[server]'"
            return ExitStatus(BAD_USAGE, error_line(message))
        case _:
            return ExitStatus(FAILED, error_line(unexpected_line(error)))


def is_missing_package(error: ModuleNotFoundError) -> bool:
    """The plain library omits packages that only the service and the command line need."""
    return (error.name or "onbeat").partition(".")[0] != "onbeat"


def error_line(message: str) -> str:
    """One line without control characters, because the text may come from a service."""
    return f"onbeat: {escape_controls(message)}"


def click_error_lines(message: str) -> str:
    """Keeps its lines, such as a rule and the caret below it."""
    return f"onbeat: {escape_controls(message, keep_newlines=True)}"


def usage_text(error: click.UsageError) -> str:
    """The message, and how to get help; the help itself for a group without a command."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    message = error.format_message().rstrip(".")
    path = error.ctx.command_path if error.ctx else "onbeat"
    return click_error_lines(f"{message}; see `{path} --help`")


def setting_line(error: Misconfigured) -> str:
    """The message, with the setting's key unless it contains it."""
    message = str(error)
    return f"{error.key}: {message}" if error.key and error.key not in message else message


def failure_line(error: OnbeatError) -> str:
    """The message, with the field unless it contains it, and the reason if it is short."""
    message = str(error)
    if isinstance(error, Unauthorized):
        return key_line(message)
    if not isinstance(error, Invalid):
        return message
    if error.field and error.field not in message:
        message = f"{error.field}: {message}"
    return f"{message} ({' '.join(error.detail.split())})" if error.detail else message


def key_line(message: str) -> str:
    """The reason, with the setting of the command line in place of the header of a request."""
    return f"{message.partition(';')[0].rstrip('.')}; {KEY_ADVICE}"


def unexpected_line(error: BaseException) -> str:
    again = " ".join(["onbeat", "--debug", *sys.argv[1:2]])
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected {reason}; `{again} …` shows where"
