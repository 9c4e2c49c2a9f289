"""The contract of `onbeat.ports.store.Store`, as tests that every store must pass.

Subclass `StoreContract` and define a fixture for the store::

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
from onbeat.testing.store_contract.access import AuditContract, KeyContract, SecretContract
from onbeat.testing.store_contract.alerts import AlertContract
from onbeat.testing.store_contract.bulks import BulkContract
from onbeat.testing.store_contract.cancel_and_retry import CancelContract, RetryContract
from onbeat.testing.store_contract.cascades import CascadeContract
from onbeat.testing.store_contract.claims import ClaimContract
from onbeat.testing.store_contract.clocks import ClockContract
from onbeat.testing.store_contract.copy.events import CopiedEventContract
from onbeat.testing.store_contract.copy.jobs import CopiedJobContract, CopyContract
from onbeat.testing.store_contract.copy.repeated import CopiedAgainContract
from onbeat.testing.store_contract.copy.schedules import (
    CopiedEditContract,
    CopiedScheduleContract,
)
from onbeat.testing.store_contract.dead_letters import DeadLetterContract
from onbeat.testing.store_contract.edges import EdgeContract, RetriedFlowContract
from onbeat.testing.store_contract.enqueue import AfterContract, EnqueueContract, UniqueContract
from onbeat.testing.store_contract.event_histories import EventHistoryContract
from onbeat.testing.store_contract.event_waits import CopiedWaitContract, EventWaitContract
from onbeat.testing.store_contract.events import (
    EventKeyContract,
    EventListingContract,
    EventPruneContract,
    EventScheduleContract,
    PublishContract,
    ReplayContract,
    RouteContract,
)
from onbeat.testing.store_contract.fan_out import SendContract
from onbeat.testing.store_contract.faults import FaultContract, JobFaultContract
from onbeat.testing.store_contract.flows import FlowContract
from onbeat.testing.store_contract.heartbeats import HeartbeatContract, RescueContract
from onbeat.testing.store_contract.held_keys import HeldKeyContract
from onbeat.testing.store_contract.hints import HintContract, OpeningContract
from onbeat.testing.store_contract.history import PulseContract
from onbeat.testing.store_contract.idempotency import (
    RequestContract,
    RequestKeepingContract,
    RequestRaceContract,
)
from onbeat.testing.store_contract.job_logs import JobLogContract
from onbeat.testing.store_contract.job_search import JobSearchContract
from onbeat.testing.store_contract.lateness import LatenessContract
from onbeat.testing.store_contract.leases import (
    HandOverContract,
    StartContract,
    TimedLeaseContract,
)
from onbeat.testing.store_contract.limits.fairness import TurnContract
from onbeat.testing.store_contract.limits.groups import GroupContract
from onbeat.testing.store_contract.limits.model_based import AdmissionHistoryContract
from onbeat.testing.store_contract.limits.order import AdmissionOrderContract
from onbeat.testing.store_contract.limits.queues import ConcurrencyContract, RateContract
from onbeat.testing.store_contract.limits.races import AdmissionRaceContract
from onbeat.testing.store_contract.listings import (
    JobListingContract,
    OccurrenceListingContract,
    ScheduleListingContract,
)
from onbeat.testing.store_contract.live import LiveContract
from onbeat.testing.store_contract.model_based import HistoryContract
from onbeat.testing.store_contract.overlaps import OverlapContract
from onbeat.testing.store_contract.own_events import OwnEventContract
from onbeat.testing.store_contract.plans import OverdueContract, PlanContract
from onbeat.testing.store_contract.prune import PruneContract
from onbeat.testing.store_contract.races import RaceContract
from onbeat.testing.store_contract.reschedule import RescheduleContract
from onbeat.testing.store_contract.schedules import (
    BackfillContract,
    DeleteContract,
    DispositionContract,
    EditContract,
    NewRuleContract,
    ScheduleContract,
    TriggerContract,
)
from onbeat.testing.store_contract.sensitive import SensitiveContract
from onbeat.testing.store_contract.settlements import ProgressContract, SettlementContract
from onbeat.testing.store_contract.start_conditions import StartConditionContract
from onbeat.testing.store_contract.stats import QueueNameContract, QueueStatsContract, StatsContract
from onbeat.testing.store_contract.successes import SuccessContract
from onbeat.testing.store_contract.sweeps import SweepContract
from onbeat.testing.store_contract.targets import TargetContract
from onbeat.testing.store_contract.timeline import TimelineContract


@pytest.mark.asyncio
class StoreContract(
    OpeningContract,
    ClockContract,
    EnqueueContract,
    UniqueContract,
    HeldKeyContract,
    OwnEventContract,
    SensitiveContract,
    AfterContract,
    CascadeContract,
    EdgeContract,
    RetriedFlowContract,
    FlowContract,
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
    SuccessContract,
    ProgressContract,
    HeartbeatContract,
    RescueContract,
    TimedLeaseContract,
    StartContract,
    HandOverContract,
    SendContract,
    CancelContract,
    RetryContract,
    RescheduleContract,
    BulkContract,
    ScheduleContract,
    PlanContract,
    OverdueContract,
    EditContract,
    NewRuleContract,
    DeleteContract,
    TriggerContract,
    BackfillContract,
    DispositionContract,
    JobListingContract,
    JobSearchContract,
    ScheduleListingContract,
    OccurrenceListingContract,
    LatenessContract,
    AlertContract,
    PulseContract,
    TimelineContract,
    JobFaultContract,
    FaultContract,
    LiveContract,
    JobLogContract,
    QueueStatsContract,
    QueueNameContract,
    StatsContract,
    PruneContract,
    SweepContract,
    RequestContract,
    RequestKeepingContract,
    RequestRaceContract,
    DeadLetterContract,
    PublishContract,
    EventListingContract,
    EventScheduleContract,
    RouteContract,
    EventKeyContract,
    ReplayContract,
    EventPruneContract,
    EventHistoryContract,
    EventWaitContract,
    CopiedWaitContract,
    HintContract,
    RaceContract,
    HistoryContract,
    CopyContract,
    CopiedScheduleContract,
    CopiedJobContract,
    CopiedEventContract,
    CopiedAgainContract,
    CopiedEditContract,
    SecretContract,
    TargetContract,
    StartConditionContract,
    KeyContract,
    AuditContract,
):
    """The whole contract of a store."""

    @pytest.fixture
    def store(self) -> Store:
        """An opened, empty store."""
        raise NotImplementedError("a subclass gives the store to be tested")
