"""Failures of a process, counted in memory and stored every few seconds."""

from collections.abc import Sequence

import pytest

from onbeat.engine.faults import FAULT_PERIOD, FaultRecorder
from onbeat.model.errors import Unavailable
from onbeat.model.fault import FaultChange
from onbeat.rules.fault_tally import FaultTally
from onbeat.stores.memory import MemoryStore
from onbeat.testing.store_contract.faults import a_change


class BrokenStore(MemoryStore):
    """A store that is away for a time."""

    is_away = True

    async def note_faults(self, changes: Sequence[FaultChange]) -> None:
        if self.is_away:
            raise Unavailable("the store is away")
        await super().note_faults(changes)


async def test_what_is_pending_is_stored_once() -> None:
    store, tally = MemoryStore(), FaultTally()
    recorder = FaultRecorder(store, tally)
    tally.add(a_change(1))
    assert await recorder.step() == FAULT_PERIOD
    assert await recorder.step() == FAULT_PERIOD
    assert [one.attempts for one in await store.faults()] == [1]


async def test_what_could_not_be_stored_is_stored_later() -> None:
    store, tally = BrokenStore(), FaultTally()
    recorder = FaultRecorder(store, tally)
    tally.add(a_change(1))
    with pytest.raises(Unavailable):
        await recorder.step()
    tally.add(a_change(1))
    store.is_away = False
    await recorder.step()
    assert [one.attempts for one in await store.faults()] == [2]
