"""The contract of `onbeat.ports.store.Store`, as tests that every store must pass.

Subclass `StoreContract` and give it a store::

    class TestMine(StoreContract):
        @pytest_asyncio.fixture
        async def store(self):
            store = MyStore(...)
            await store.open()
            yield store
            await store.close()

Each test gets an opened, empty store. Needs pytest, pytest-asyncio and hypothesis. To see the
values in failing assertions, call `pytest.register_assert_rewrite("onbeat.testing.store_contract")`
before the import.
"""

import pytest

from onbeat.ports.store import Store
from onbeat.testing.store_contract.admission_histories import AdmissionHistoryContract
from onbeat.testing.store_contract.admission_orders import AdmissionOrderContract
from onbeat.testing.store_contract.admission_races import AdmissionRaceContract
from onbeat.testing.store_contract.admissions import ConcurrencyContract, RateContract
from onbeat.testing.store_contract.arrivals import AfterContract, EnqueueContract, UniqueContract
from onbeat.testing.store_contract.claims import ClaimContract
from onbeat.testing.store_contract.clocks import ClockContract
from onbeat.testing.store_contract.copied_again import CopiedAgainContract
from onbeat.testing.store_contract.copied_schedules import (
    CopiedEditContract,
    CopiedScheduleContract,
)
from onbeat.testing.store_contract.copies import CopiedJobContract, CopyContract
from onbeat.testing.store_contract.counts import QueueContract, QueueNameContract, StatsContract
from onbeat.testing.store_contract.groups import GroupContract
from onbeat.testing.store_contract.hands import CancelContract, RetryContract
from onbeat.testing.store_contract.hints import HintContract, OpeningContract
from onbeat.testing.store_contract.histories import HistoryContract
from onbeat.testing.store_contract.keeping import PruneContract
from onbeat.testing.store_contract.leases import StartContract, TimedLeaseContract
from onbeat.testing.store_contract.letters import LetterContract
from onbeat.testing.store_contract.listings import (
    JobListingContract,
    OccurrenceListingContract,
    ScheduleListingContract,
)
from onbeat.testing.store_contract.lives import BeatContract, RescueContract
from onbeat.testing.store_contract.overlaps import OverlapContract
from onbeat.testing.store_contract.plans import LapseContract, PlanContract
from onbeat.testing.store_contract.races import RaceContract
from onbeat.testing.store_contract.schedules import (
    BackfillContract,
    DeleteContract,
    DispositionContract,
    EditContract,
    NewRuleContract,
    ScheduleContract,
)
from onbeat.testing.store_contract.sendings import SendContract
from onbeat.testing.store_contract.settlements import ProgressContract, SettlementContract
from onbeat.testing.store_contract.turns import TurnContract


@pytest.mark.asyncio
class StoreContract(
    OpeningContract,
    ClockContract,
    EnqueueContract,
    UniqueContract,
    AfterContract,
    ClaimContract,
    OverlapContract,
    ConcurrencyContract,
    RateContract,
    GroupContract,
    TurnContract,
    AdmissionOrderContract,
    AdmissionRaceContract,
    AdmissionHistoryContract,
    SettlementContract,
    ProgressContract,
    BeatContract,
    RescueContract,
    TimedLeaseContract,
    StartContract,
    SendContract,
    CancelContract,
    RetryContract,
    ScheduleContract,
    PlanContract,
    LapseContract,
    EditContract,
    NewRuleContract,
    DeleteContract,
    BackfillContract,
    DispositionContract,
    JobListingContract,
    ScheduleListingContract,
    OccurrenceListingContract,
    QueueContract,
    QueueNameContract,
    StatsContract,
    PruneContract,
    LetterContract,
    HintContract,
    RaceContract,
    HistoryContract,
    CopyContract,
    CopiedScheduleContract,
    CopiedJobContract,
    CopiedAgainContract,
    CopiedEditContract,
):
    """All that a store promises."""

    @pytest.fixture
    def store(self) -> Store:
        """An opened, empty store."""
        raise NotImplementedError("a subclass gives the store to be tested")
