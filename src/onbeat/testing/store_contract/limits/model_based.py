"""Any history of limits, claims and ends yields the same jobs as in a memory store."""

from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from onbeat.model.job import Job
from onbeat.model.outcome import Outcome, Released, Succeeded
from onbeat.model.queue import Limits, Rate
from onbeat.ports.store import ClaimRequest, Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, SECOND, a_job, an_id
from onbeat.testing.store_contract.steps import a_request, a_settlement, ids_of

QUEUES = 3


class EnqueueStep(Struct, frozen=True):
    queue: int
    group: str | None
    priority: int
    due_in: timedelta
    count: int


class LimitStep(Struct, frozen=True):
    queue: int
    limits: Limits


class ClaimStep(Struct, frozen=True):
    limit: int
    all_queues: bool


class EndStep(Struct, frozen=True):
    choice: int
    outcome: Outcome


class WaitStep(Struct, frozen=True):
    span: timedelta


Step = EnqueueStep | LimitStep | ClaimStep | EndStep | WaitStep

spans = st.sampled_from([SECOND / 4, SECOND, 2 * SECOND, 7 * SECOND])
counts = st.none() | st.integers(1, 3)
# Draws on these buckets are whole microseconds, in any number of steps.
rates = st.none() | st.builds(Rate, st.sampled_from([1, 2, 4]), spans)
queues = st.integers(0, QUEUES - 1)
limits = st.builds(
    Limits,
    concurrency=counts,
    rate=rates,
    group_concurrency=counts,
    group_rate=rates,
    fair=st.booleans(),
)
enqueues = st.builds(
    EnqueueStep,
    queues,
    st.sampled_from([None, "a", "b", "c"]),
    st.integers(-1, 1),
    st.sampled_from([-SECOND, timedelta(), SECOND]),
    st.integers(1, 4),
)
steps = st.lists(
    enqueues
    | st.builds(LimitStep, queues, limits)
    | st.builds(ClaimStep, st.integers(1, 9), st.booleans())
    | st.builds(EndStep, st.integers(0, 9), st.sampled_from([Succeeded(), Released()]))
    | st.builds(WaitStep, spans),
    min_size=1,
    max_size=25,
)


class Twins:
    """The tested store and a memory store, with the same operations on both."""

    def __init__(self, store: Store) -> None:
        self.stores: tuple[Store, Store] = (store, MemoryStore())
        self.name = an_id()
        self.now: datetime = NOW
        self.running: list[Job] = []

    async def take(self, step: Step) -> None:
        match step:
            case EnqueueStep():
                await self.enqueue(step)
            case LimitStep(queue=queue, limits=limits):
                for store in self.stores:
                    await store.limit_queue(self.queue(queue), limits)
            case ClaimStep():
                await self.claim(step)
            case EndStep():
                await self.end(step)
            case WaitStep(span=span):
                self.now += span

    def queue(self, number: int) -> str:
        return f"{self.name}-{number}"

    async def enqueue(self, step: EnqueueStep) -> None:
        jobs = [
            a_job(
                self.name,
                queue=self.queue(step.queue),
                group=step.group,
                priority=step.priority,
                due_at=self.now + step.due_in,
            )
            for _ in range(step.count)
        ]
        for store in self.stores:
            await store.enqueue(jobs)

    async def claim(self, step: ClaimStep) -> None:
        request = a_request(
            now=self.now,
            limit=step.limit,
            lanes=frozenset({self.name}),
            queues=None if step.all_queues else (self.queue(1), self.queue(2)),
        )
        jobs, wanted = [await self.given_out(store, request) for store in self.stores]
        assert ids_of(jobs) == ids_of(wanted)
        self.running += jobs

    async def given_out(self, store: Store, request: ClaimRequest) -> tuple[Job, ...]:
        answer = await store.claim(request)
        assert answer.next_due_at is None or answer.next_due_at > self.now
        return tuple(answer.jobs)

    async def end(self, step: EndStep) -> None:
        if not self.running:
            return
        job = self.running.pop(step.choice % len(self.running))
        for store in self.stores:
            assert list(await store.settle([a_settlement(job, step.outcome, self.now)])) == [True]


class AdmissionHistoryContract:
    @settings(
        max_examples=60,
        deadline=None,
        # All examples share one store: each has its own task, and so lane, and queues. The test
        # runs once for each subclass of the contract, which differ only in their store.
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @given(history=steps)
    async def test_any_history_within_limits_gives_out_the_same_jobs_in_the_same_order(
        self, store: Store, history: list[Step]
    ) -> None:
        twins = Twins(store)
        for step in history:
            await twins.take(step)
        await twins.take(ClaimStep(100, all_queues=True))
