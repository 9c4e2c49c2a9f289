"""`onbeat top`."""

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.output import show_json
from onbeat.model.errors import Misconfigured

if TYPE_CHECKING:
    from onbeat.cli.top.records import Picture

EPILOG: Final = examples(
    "onbeat top",
    "onbeat top --server http://onbeat.internal:8080",
    "onbeat top --once",
    "onbeat top --once --json",
)
EXTRA: Final = (
    "this needs the package textual: pip install 'onbeat[server,top]';"
    " `onbeat top --once` does without"
)
NO_TERMINAL: Final = "this is not a terminal; `onbeat top --once` prints one picture"


@click.command("top", epilog=EPILOG)
@click.option("--once", is_flag=True, help="Print one picture as text, and end.")
@json_option
@with_client
def top(connection: ConnectionOptions, *, once: bool, as_json: bool) -> None:
    """Watch it run: what is broken and since when, rates, queues, failures, workers.

    In the terminal, and moving by itself; `?` lists the keys, `q` quits.
    """
    if once:
        show_once(connection, as_json=as_json)
        return
    if as_json:
        raise click.UsageError("--json goes with --once")
    if not is_terminal():
        raise click.UsageError(NO_TERMINAL)
    show_live(connection)


def is_terminal() -> bool:
    # The screen is drawn on standard error.
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def show_once(connection: ConnectionOptions, *, as_json: bool) -> None:
    # Loaded here: the help starts sooner without the records of all answers.
    from onbeat.cli.top.answers import Asker  # noqa: PLC0415
    from onbeat.cli.top.picture import picture_of  # noqa: PLC0415
    from onbeat.cli.top.text import show_picture  # noqa: PLC0415

    async def ask() -> "Picture":
        async with connection.connect() as backend:
            return picture_of(await Asker(backend).ask())

    picture = asyncio.run(ask())
    show_json(picture) if as_json else show_picture(picture)


def show_live(connection: ConnectionOptions) -> None:
    """Raises `Misconfigured` where the extra is not installed."""
    try:
        from onbeat.cli.top.app import TopApp  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise Misconfigured(EXTRA) from None
    from onbeat.telemetry.redaction import without_credentials  # noqa: PLC0415

    place = connection.server or connection.settings().store
    TopApp(without_credentials(place), connection.connect).show_until_quit()
