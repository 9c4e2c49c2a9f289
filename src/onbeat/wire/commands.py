"""Reads commands: a program on a worker's machine, with arguments, environment and input."""

import re
from posixpath import normpath
from typing import Annotated, Final

from msgspec import Meta, UnsetType

from onbeat.model.encrypted import check_in_clear
from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import (
    COMMAND_ARG_BYTES_MAX,
    COMMAND_ARGS_MAX,
    COMMAND_CWD_CHARS_MAX,
    COMMAND_ENV_BYTES_MAX,
    COMMAND_ENV_MAX,
    COMMAND_ENV_NAME_CHARS_MAX,
    COMMAND_PROGRAMS_MAX,
    PAYLOAD_BYTES_MAX,
)
from onbeat.model.target import CommandTarget
from onbeat.wire.values import read_name

ArgvForm = Annotated[
    tuple[str, ...] | UnsetType,
    Meta(description="A program on the worker's machine, by its absolute path, and its arguments"),
]
EnvForm = Annotated[
    dict[str, str] | UnsetType | None,
    Meta(description="Variables of the command; `***` stands for a stored credential"),
]
CwdForm = Annotated[
    str | UnsetType | None, Meta(description="The absolute path of the folder that it runs in")
]
StdinForm = Annotated[str | UnsetType | None, Meta(description="The input of the command")]

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_VARIABLES: Final = "ONBEAT_"
JOB_VARIABLES: Final = frozenset(
    {
        *("ONBEAT_JOB_ID", "ONBEAT_ATTEMPT", "ONBEAT_TOKEN", "ONBEAT_IDEMPOTENCY_KEY"),
        *("ONBEAT_SCHEDULE_ID", "ONBEAT_SCHEDULED_AT"),
    }
)
"""What every command has, or those of a schedule; no settings, as `onbeat` may be a command."""

LOADING: Final = re.compile(
    r"LD_.*|_?RLD.*|DYLD_.*|LIBPATH|SHLIB_PATH|PATH|IFS|CDPATH|ENV|BASH_.*|BASHOPTS|SHELLOPTS|PS4"
    r"|GLOBIGNORE|GCONV_PATH|PYTHON.*|PERL.*|RUBY(LIB|OPT)|NODE_(OPTIONS|PATH)|CLASSPATH"
    r"|_?JAVA_.*|JDK_JAVA_OPTIONS|LUA_.*|GIT_.*"
)
"""Variables that decide which code a program loads: with one, who may send a job could run another
program than the one that is allowed.
"""


def command_target(
    argv: tuple[str, ...], env: dict[str, str], cwd: str | None, stdin: str | None, field: str
) -> CommandTarget:
    """Raises `Invalid` for a command that no system could run, and `TooLarge` for its bounds."""
    prefix = f"{field}." if field else ""
    if not argv:
        raise Invalid(f"{prefix}command needs the path of a program", f"{prefix}command")
    read_program(argv[0], f"{prefix}command[0]")
    size = argv_size(argv, f"{prefix}command") + env_size(env, f"{prefix}env")
    if cwd is not None:
        read_folder(cwd, f"{prefix}cwd")
    size += 0 if stdin is None else text_size(stdin, f"{prefix}stdin")
    if size > PAYLOAD_BYTES_MAX:
        raise TooLarge(
            f"{prefix}command may have at most {PAYLOAD_BYTES_MAX} bytes with env and stdin; "
            f"it has {size}",
            f"{prefix}command",
        )
    return CommandTarget(argv=argv, env=env, cwd=cwd, stdin=stdin)


def read_program(text: str, field: str) -> str:
    """The absolute path of a program, in the one form by which it can be allowed."""
    read_name(text, field)
    if not text.startswith("/") or text.startswith("//") or normpath(text) != text or text == "/":
        raise Invalid(
            f"{field} must be the absolute path of a program, such as /usr/bin/backup, without "
            "`..`, `.` and double slashes",
            field,
        )
    return text


def read_programs(texts: tuple[str, ...], field: str) -> tuple[str, ...]:
    """The programs that a worker allows."""
    if len(texts) > COMMAND_PROGRAMS_MAX:
        raise Invalid(f"{field} may have at most {COMMAND_PROGRAMS_MAX} programs", field)
    return tuple(dict.fromkeys(read_program(text, field) for text in texts))


def argv_size(argv: tuple[str, ...], field: str) -> int:
    if len(argv) > COMMAND_ARGS_MAX:
        raise TooLarge(f"{field} may have at most {COMMAND_ARGS_MAX} items", field)
    sizes = [text_size(text, f"{field}[{at}]") for at, text in enumerate(argv)]
    longest = max(sizes)
    if longest > COMMAND_ARG_BYTES_MAX:
        at = sizes.index(longest)
        raise TooLarge(
            f"{field}[{at}] may have at most {COMMAND_ARG_BYTES_MAX} bytes; send more as stdin",
            f"{field}[{at}]",
        )
    return sum(sizes)


def env_size(env: dict[str, str], field: str) -> int:
    if len(env) > COMMAND_ENV_MAX:
        raise TooLarge(f"{field} may have at most {COMMAND_ENV_MAX} variables", field)
    return sum(len(read_variable(name, field)) + value_size(env[name], name, field) for name in env)


def read_variable(name: str, field: str) -> str:
    """The name of a variable that a caller may set."""
    if len(name) > COMMAND_ENV_NAME_CHARS_MAX or VARIABLE.fullmatch(name) is None:
        raise Invalid(
            f"{field}: a name has letters, digits and _, does not begin with a digit, and has at "
            f"most {COMMAND_ENV_NAME_CHARS_MAX} characters",
            field,
        )
    if name.startswith(OWN_VARIABLES):
        raise Invalid(f"{field}: names that begin with {OWN_VARIABLES} are Onbeat's own", field)
    if LOADING.fullmatch(name) is not None:
        raise Invalid(
            f"{field}: {name} could make an allowed program run other code; set it in a script of "
            "your own, and allow that",
            field,
        )
    return name


def value_size(value: str, name: str, field: str) -> int:
    check_in_clear(value, f"{field}.{name}")
    size = text_size(value, f"{field}.{name}")
    if size > COMMAND_ENV_BYTES_MAX:
        raise TooLarge(
            f"{field}.{name} may have at most {COMMAND_ENV_BYTES_MAX} bytes", f"{field}.{name}"
        )
    if value.startswith("() {"):
        raise Invalid(f"{field}.{name} must not be the text of a shell function", f"{field}.{name}")
    return size


def read_folder(text: str, field: str) -> str:
    read_name(text, field, chars_max=COMMAND_CWD_CHARS_MAX)
    if not text.startswith("/"):
        raise Invalid(f"{field} must be an absolute path", field)
    text_size(text, field)
    return text


def text_size(text: str, field: str) -> int:
    """Bytes of the text in UTF-8. Raises `Invalid` for one that no program can be given."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise Invalid(f"{field} must be text that UTF-8 can hold", field) from None
    if "\0" in text:
        raise Invalid(f"{field} must not contain NUL", field)
    return size
