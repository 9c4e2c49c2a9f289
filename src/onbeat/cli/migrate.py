"""`onbeat migrate`."""

import asyncio
from pathlib import Path

import click

from onbeat.cli.backend import open_store_of
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.examples import examples
from onbeat.cli.output import show_json, show_message
from onbeat.settings import Settings

store_option = click.option("--store", metavar="URL", help="The store.  [default: as configured]")


@click.command(
    "migrate", epilog=examples("onbeat migrate --store sqlite:////var/lib/onbeat/onbeat.db")
)
@store_option
@config_option
@json_option
def migrate(store: str | None, config: Path | None, *, as_json: bool) -> None:
    """Migrate the store's schema to this version. Every start does this too."""
    url = asyncio.run(open_once(ConnectionOptions(store=store, config=config).settings()))
    show_json({"store": url, "migrated": True}) if as_json else show_message(f"{url} is up to date")


async def open_once(settings: Settings) -> str:
    """The URL of the store, whose schema is that of this version once it is open."""
    async with open_store_of(settings) as backend:
        return backend.store.url
