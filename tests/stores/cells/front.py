"""Fronts over cells in memory."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from onbeat.model.cells import SLOTS, Cell, CellMap
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.page import JobFilter
from onbeat.ports.store import Store
from onbeat.rules.cells import GROUP, UNIQUE, slot_of_key, stamped
from onbeat.stores.cells import CellStore
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import an_id


def a_map(cells: int = 2, version: int = 1) -> CellMap:
    """So many cells, named `a`, `b` and so on, with equal ranges of slots."""
    width = SLOTS // cells
    ranges = [(place * width, (place + 1) * width - 1) for place in range(cells)]
    named = [
        Cell(chr(ord("a") + place), f"sqlite:///{place}", (own,))
        for place, own in enumerate(ranges)
    ]
    return CellMap(version, tuple(named))


def a_front(cells: int = 2, version: int = 1, stores: Sequence[Store] = ()) -> CellStore:
    """A front, not opened yet; over these stores, or new ones in memory."""
    used = stores or [MemoryStore() for _ in range(cells)]
    return CellStore("cells:///test.toml", a_map(len(used), version), used)


def stores_of(front: CellStore) -> list[Store]:
    return [cell.store for cell in front.fleet.cells]


class WorkedCells(CellStore):
    """A front for the contract, whose roles are those of the cell of slot 0."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fleet.of_slot(0).store, name)


def an_id_in(slot: int) -> JobId:
    """A new id with this slot."""
    return JobId(stamped(an_id(), slot))


def a_key_in(front: CellStore, place: int, kind: str = UNIQUE) -> str:
    """A key of this kind that belongs to the cell at this place."""
    keys = (f"key-{number}" for number in count())
    return next(key for key in keys if front.fleet.places[slot_of_key(kind, key)] == place)


def a_group_in(front: CellStore, place: int) -> str:
    """A group of the queue `default` that belongs to the cell at this place."""
    names = (f"group-{number}" for number in count())
    places = front.fleet.places
    return next(name for name in names if places[slot_of_key(GROUP, "default", name)] == place)


async def held_by(store: Store) -> list[Job]:
    """The jobs of one cell, the oldest id first."""
    return list((await store.jobs(JobFilter(limit=1000))).items[::-1])
