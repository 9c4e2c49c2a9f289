"""Groups whose commands are imported when they are used, and the one place that ends a run."""

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NoReturn

import click
import msgspec

from onbeat.cli.endings import OK, ending_of

DEBUG: Final = "onbeat.debug"


class Lazy(msgspec.Struct, frozen=True):
    """A command by its place, `module:attribute`, and what `--help` says of it."""

    place: str
    help: str


class LazyGroup(click.Group):
    """A group that knows of its commands without importing them: `--help` has to be quick."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            # Click names the nearest of the commands that it knows.
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
    """The outermost group: whatever happens inside ends in an exit code and at most one line."""

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
            # Whoever read has read enough; the interpreter would complain once more at its end.
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(OK)
        except (Exception, KeyboardInterrupt) as error:
            if debug.get(DEBUG) and not isinstance(error, click.ClickException):
                raise
            ending = ending_of(error)
            click.echo(ending.line, err=True)
            sys.exit(ending.code)
        sys.exit(code if isinstance(code, int) else OK)
