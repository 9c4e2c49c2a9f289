"""Command groups that import their commands on demand, and the handler of the final error."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click
import msgspec

from onbeat.cli.exit_codes import OK, exit_status_of
from onbeat.model.renamed import warn_renamed

DEBUG: Final = "onbeat.debug"
NOTHING_RENAMED: Final[Mapping[str, str]] = {}


class LazyCommand(msgspec.Struct, frozen=True):
    """The location of a command, `module:attribute`, and its short help."""

    place: str
    help: str


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, for a fast `--help`."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, LazyCommand],
        renamed: Mapping[str, str] = NOTHING_RENAMED,
        **kwargs: Any,
    ) -> None:
        """`renamed` maps command names of the previous version to new ones."""
        super().__init__(*args, **kwargs)
        self.lazy = lazy
        self.renamed = renamed

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.renamed:
            old, cmd_name = cmd_name, self.renamed[cmd_name]
            warn_renamed(f"`onbeat {old}`", f"`onbeat {cmd_name}`")
        if cmd_name not in self.lazy:
            # Click suggests the closest of the commands that it knows.
            self.commands = dict.fromkeys(self.lazy, click.Command(None))
            return None
        module, _, attribute = self.lazy[cmd_name].place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.lazy.items()])


class Root(LazyGroup):
    """The root group: every error becomes an exit code and at most one line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002  click's signature
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        return self.run(list(sys.argv[1:] if args is None else args), extra)

    def run(self, args: list[str], extra: dict[str, Any]) -> NoReturn:
        extra.setdefault("obj", {})
        debug = extra["obj"]
        try:
            code = super().main(args, "onbeat", standalone_mode=False, **extra)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader closed the pipe; without this the interpreter would report that at exit.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(OK)
        except (Exception, KeyboardInterrupt) as error:
            if debug.get(DEBUG) and not isinstance(error, click.ClickException):
                raise
            ending = exit_status_of(error)
            click.echo(ending.line, err=True)
            sys.exit(ending.code)
        sys.exit(code if isinstance(code, int) else OK)
