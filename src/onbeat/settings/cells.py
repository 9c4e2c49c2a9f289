"""The file with the map of cells, which `store` names as `cells:///PATH`."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from onbeat.model.cells import Cell, CellMap
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.rules.cells import check_map
from onbeat.settings.texts import read_text
from onbeat.settings.url_schemes import STORES, url_of
from onbeat.telemetry.redaction import without_credentials

CELLS: Final = "cells:///"
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,62}")
RANGE: Final = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
OF_SERVERS: Final = {name: STORES[name] for name in ("postgresql", "mysql", "sqlite")}


class WrittenCell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cell as it is written: `url`, or the variable that has it, and slots such as `0-511`."""

    slots: str
    url: str | None = None
    url_from: str | None = None


class WrittenMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    cells: dict[str, WrittenCell]


def is_map(url: str) -> bool:
    return url.startswith(CELLS)


def map_at(url: str, environment: Mapping[str, str] | None = None) -> CellMap:
    """The map in the file of a `cells:///PATH`. Raises `Misconfigured`, which names the field."""
    path = Path(url.removeprefix(CELLS))
    text = read_text(path)
    try:
        written = msgspec.convert(tomllib.loads(text), WrittenMap)
        map = CellMap(
            version=written.version,
            cells=tuple(
                cell_of(name, cell, os.environ if environment is None else environment)
                for name, cell in written.cells.items()
            ),
        )
        check_map(map)
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} is not TOML: {error}", "store") from error
    except (msgspec.ValidationError, Invalid) as error:
        raise Misconfigured(f"{path}: {error}", "store") from error
    return map


def cell_of(name: str, cell: WrittenCell, environment: Mapping[str, str]) -> Cell:
    field = f"cells.{name}"
    if not NAME.fullmatch(name):
        raise Invalid(
            f"{field}: a name has up to 63 small letters, digits, - and _, and begins with a letter"
        )
    slots = tuple(range_of(part.strip(), f"{field}.slots") for part in cell.slots.split(","))
    return Cell(name, store_url(cell, field, environment), slots)


def range_of(text: str, field: str) -> tuple[int, int]:
    match = RANGE.fullmatch(text)
    if match is None:
        raise Invalid(f"{field}: {text[:80]!r} is no range; write 0-511, or 0-255, 768-1023")
    return int(match[1]), int(match[2] or match[1])


def store_url(cell: WrittenCell, field: str, environment: Mapping[str, str]) -> str:
    """The URL of a cell's store. An error shows no password."""
    if (cell.url is None) == (cell.url_from is None):
        raise Invalid(f"{field}: name either url, or url_from, the variable that has the URL")
    url, where = cell.url, f"{field}.url"
    if cell.url_from is not None:
        url, where = environment.get(cell.url_from), f"{field}.url_from"
        if url is None:
            raise Invalid(f"{where}: the variable {cell.url_from} is not set; set it to the URL")
    try:
        return url_of(OF_SERVERS)(url)
    except ValueError as error:
        shown = without_credentials(url or "")[:80]
        raise Invalid(f"{where}: {shown!r} must be {error}") from None


def passwords_at(url: str) -> list[str]:
    """The passwords in the URLs of a map; none where it cannot be read, which others tell."""
    try:
        cells = map_at(url).cells
    except Misconfigured:
        return []
    return [password for cell in cells if (password := urlsplit(cell.url).password)]
