"""`onbeat cell`."""

import asyncio
from pathlib import Path

import click

from onbeat.app.cells import CellLook, MapLook, fence, look_at
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED, OK
from onbeat.cli.output import plain, show_json, show_message, show_table
from onbeat.model.cells import MAP_VERSION_MAX


@click.group("cell")
def cell_group() -> None:
    """Cells: the stores that share one system between them."""


@cell_group.command("list", epilog=examples("onbeat cell list --store cells:////etc/cells.toml"))
@click.option("--store", metavar="URL", help="The map of cells.  [default: as configured]")
@config_option
@json_option
def list_cells(store: str | None, config: Path | None, *, as_json: bool) -> int:
    """List the cells of a map, with their slots and what they know.

    SEEN is the highest version of the map that a cell was told of. Exit 1 where a cell does not
    answer, or knows a newer map than this one.
    """
    settings = ConnectionOptions(store=store, config=config).settings()
    look = asyncio.run(look_at(settings.store))
    if as_json:
        show_json(look)
    else:
        show_table(
            ["CELL", "STORE", "SLOTS", "SEEN", "WORKERS", "STATE"],
            [row_of(cell, look) for cell in look.cells],
            empty="no cells",
        )
    return OK if all(state_of(cell, look) == "ok" for cell in look.cells) else FAILED


def row_of(cell: CellLook, look: MapLook) -> list[str]:
    counts = [plain(count) for count in (cell.slots, cell.seen, cell.workers)]
    return [cell.name, plain(cell.store), *counts, state_of(cell, look)]


def state_of(cell: CellLook, look: MapLook) -> str:
    if cell.error is not None:
        return plain(cell.error)
    return "ok" if (cell.seen or 0) <= look.version else "knows a newer map"


@cell_group.command(
    "fence",
    epilog=examples("onbeat cell fence --store postgresql://onbeat@old/onbeat --map-version 4"),
)
@click.option("--store", metavar="URL", required=True, help="The store of the cell.")
@click.option(
    "--map-version",
    type=click.IntRange(1, MAP_VERSION_MAX),
    required=True,
    help="The version of the new map.",
)
@json_option
def fence_cell(store: str, map_version: int, *, as_json: bool) -> None:
    """Tell a cell of a new map, so that fronts with an older one use it no longer.

    They stop within 5 seconds, and answer that the cell is unavailable until they are started with
    the new map. Do it before the last copy of a cell to another server.
    """
    seen = asyncio.run(fence(store, map_version))
    if as_json:
        show_json({"seen": seen})
    else:
        show_message(f"fronts with a map below version {seen} use this cell no longer")
