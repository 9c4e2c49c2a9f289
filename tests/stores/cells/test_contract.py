"""The contract of a store, asked of a front: what callers do goes through it, roles are in a cell.

All records of the contract have slot 0, so that one cell has them: the front must find them there,
and add nothing and leave out nothing beside the other cell, which is empty.
"""

from collections.abc import AsyncIterator
from typing import cast

import pytest

from onbeat.model.cells import Cell, CellMap
from onbeat.ports.store import Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.store_contract import StoreContract
from stores.cells.front import WorkedCells

SLOT_0_LAST = CellMap(
    1,
    (Cell("others", "sqlite:///a", ((1, 1023),)), Cell("first", "sqlite:///b", ((0, 0),))),
)


class NoDigest:
    """Every key has slot 0."""

    def __init__(self, _data: bytes, *, digest_size: int) -> None:
        self.size = digest_size

    def digest(self) -> bytes:
        return bytes(self.size)


OF_ONE_CELL = (
    # The front tells no version: it has told the cells.
    "test_the_version_of_a_map_only_rises",
    # Rows that a process of the front writes are in the first cell, and its own roles prune them.
    "test_old_batches_and_watchers_are_deleted",
    "test_many_that_fold_at_once_make_one_row",
    "test_the_first_that_folds_wins",
    # A sample is told where every cell has one.
    "test_samples_of_one_resolution_do_not_hide_those_of_another",
    "test_one_sample_is_kept_for_each_slot",
    # Each cell prunes its own alerts and silences.
    "test_alerts_are_listed_newest_first_and_pruned",
)
"""Tests whose steps mix what a front does with what the roles of one cell do."""


class TestCells(StoreContract):
    @pytest.fixture
    async def store(self, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
        monkeypatch.setattr("onbeat.rules.cells.blake2b", NoDigest)
        store = WorkedCells("cells:///test.toml", SLOT_0_LAST, [MemoryStore(), MemoryStore()])
        await store.open()
        yield cast("Store", store)  # the roles of a cell do the rest
        await store.close()


for name in OF_ONE_CELL:
    assert hasattr(TestCells, name), name
    setattr(TestCells, name, None)
