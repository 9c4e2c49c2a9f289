"""`onbeat migrate`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from onbeat.cli.backend import open_store_of
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.examples import examples
from onbeat.cli.output import show_json, show_message
from onbeat.ports.store import SchemaChange
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
    settings = ConnectionOptions(store=store, config=config).settings()
    url, changes = asyncio.run(open_once(settings))
    if as_json:
        show_json(answer_of(url, changes))
        return
    for change in changes:
        show_message(f"{change.url} is up to date: {in_words(change)}")


async def open_once(settings: Settings) -> tuple[str, Sequence[SchemaChange]]:
    """The URL of the store, and what opening it did."""
    async with open_store_of(settings) as backend:
        return backend.store.url, backend.store.schema_changes


def answer_of(url: str, changes: Sequence[SchemaChange]) -> dict[str, Any]:
    """That of one database, or with those of each cell that answers."""
    stores = [
        {"store": one.url, "migrated": one.was_needed, "from": one.before, "to": one.after}
        for one in changes
    ]
    if [one.url for one in changes] == [url]:
        return stores[0]
    return {"store": url, "migrated": any(one.was_needed for one in changes), "cells": stores}


def in_words(change: SchemaChange) -> str:
    if not change.was_needed:
        return f"it had schema {change.after} already"
    made = f"migrated from schema {change.before}" if change.before else "made anew"
    return f"schema {change.after}, {made}"
