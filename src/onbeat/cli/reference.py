"""The reference page of the command line, generated from the commands."""

from collections.abc import Iterator
from typing import Final

import click

from onbeat.cli.main import root

WIDTH: Final = 78

HEAD: Final = """\
# Command line

Written by `python -m onbeat.cli.reference`; a test holds it to the commands.

Commands talk to a store (`--store`, else the store of the settings) or to a service (`--server` or
`ONBEAT_SERVER`, with the key in `ONBEAT_API_KEY`). Listings and shows print tables for people, and
with `--json` the same JSON as the REST API answers. Times are shown in this
machine's zone; instants that are given without an offset are read in it, or in the zone of `--tz`.
Tables fit 80 columns. Colours and progress appear on a terminal only, and `NO_COLOR` is honoured.

| exit code | meaning |
|---|---|
| 0 | done; a service that was asked to stop has drained |
| 1 | refused, not found, a conflict; `doctor`: a fault; `job add --wait`: the job did not succeed |
| 2 | bad usage or configuration, a rule that cannot be read |
| 3 | the store or the service cannot be reached |
| 4 | `job add --wait`: the job has not ended in time; it goes on |
| 130 | interrupted |

Requests to a service of another machine go through the proxy that `HTTP_PROXY` or `HTTPS_PROXY`
names, unless `NO_PROXY` names the service. A proxy for `http://` sees the key: use `https://`. A
service of this machine (`localhost` or a loopback address) is asked directly, whatever these say.
`.netrc` is not read. An `Onbeat("http://…")` in a program does the same.

An error is one line on standard error: what, which field, what to do. `onbeat --debug …` adds the
traceback.
"""


def commands(group: click.Group, path: str = "onbeat") -> Iterator[tuple[str, click.Command]]:
    """Every command and group below, by its full name."""
    with click.Context(group) as ctx:
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            assert command is not None
            yield f"{path} {name}", command
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")


def reference_page() -> str:
    """The page in Markdown."""
    return HEAD + "".join(section(path, command) for path, command in commands(root))


def section(path: str, command: click.Command) -> str:
    # A fixed width, so that the page does not depend on the terminal.
    with click.Context(command, info_name=path, terminal_width=WIDTH) as ctx:
        ctx.help_option_names = ["-h", "--help"]
        return f"\n## {path}\n\n```text\n{command.get_help(ctx)}\n```\n"


if __name__ == "__main__":
    click.echo(reference_page(), nl=False)
