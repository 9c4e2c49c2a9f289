"""Cells: whole stores that share the slots of one system between them."""

from typing import Final

import msgspec

SLOTS: Final = 1024
"""Slots of every system; ids have 10 bits for them."""
CELLS_MAX: Final = 64
"""Cells of one map: each merged listing asks all of them."""
MAP_VERSION_MAX: Final = 2**53 - 1
"""As large as a number of JSON may be."""


class Cell(msgspec.Struct, frozen=True):
    """One store, by name and URL, and the slots that belong to it, as first and last ones.

    Its `url` may have a password: show it to nobody.
    """

    name: str
    url: str
    slots: tuple[tuple[int, int], ...]


class CellMap(msgspec.Struct, frozen=True):
    """Which cell has which slots. Each slot is in exactly one; a newer map has a higher version."""

    version: int
    cells: tuple[Cell, ...]
