"""What the cells of a map are, and the fence before one that is moved."""

import asyncio

import msgspec

from onbeat.app.stores import open_store
from onbeat.model.cells import Cell
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.settings.cells import is_map, map_at


class CellLook(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: its store, without secrets, and how many slots it has.

    `seen` is the highest version of a map that it was told of, 0 for none, and `workers` counts
    those that have a row; both are None where it does not answer, and `error` says why.
    """

    name: str
    store: str
    slots: int
    seen: int | None = None
    workers: int | None = None
    error: str | None = None


class MapLook(msgspec.Struct, frozen=True):
    """The version of a map, and its cells in order."""

    version: int
    cells: tuple[CellLook, ...]


async def look_at(url: str) -> MapLook:
    """The cells of the map at `url`. Raises `Misconfigured` for another URL, or a bad map."""
    if not is_map(url):
        raise Misconfigured("store: name the map of cells, cells:///PATH", "store")
    map = map_at(url)
    looks = await asyncio.gather(*(look_at_cell(cell) for cell in map.cells))
    return MapLook(map.version, tuple(looks))


async def look_at_cell(cell: Cell) -> CellLook:
    store = open_store(cell.url)
    slots = sum(last - first + 1 for first, last in cell.slots)
    look = CellLook(name=cell.name, store=store.url, slots=slots)
    try:
        await store.open()
        seen, workers = await store.note_map_version(0), len(await store.workers())
    except Unavailable as error:
        return msgspec.structs.replace(look, error=str(error))
    finally:
        await store.close()
    return msgspec.structs.replace(look, seen=seen, workers=workers)


async def fence(url: str, version: int) -> int:
    """Tell the store of a cell that a map of this version is in use; the highest that it knows.

    Fronts with an older map use the cell no longer, `stores.cells.fleet.LOOK_SECONDS` from then on.
    """
    if is_map(url):
        raise Misconfigured("store: name the store of one cell, not the map", "store")
    store = open_store(url)
    try:
        await store.open()
        return await store.note_map_version(version)
    finally:
        await store.close()
