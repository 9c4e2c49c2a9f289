"""Any history of events, decisions, claims and pruning is the same as in memory."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.event import Event, EventVerdict, StoredEvent
from onbeat.model.ids import EventSeq, JobId
from onbeat.model.job import Job
from onbeat.model.route import Carried, EventKey, KeyedJob, Routing
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import DAY, NOW, SECOND, a_plan, an_id
from onbeat.testing.store_contract.events import (
    a_keyed_job,
    a_reaction,
    a_reaction_job,
    a_routing,
    an_event,
)
from onbeat.testing.store_contract.steps import a_settlement, claim_jobs

BOUND = 1_000


class EventAction(Enum):
    PUBLISH = auto()
    PUBLISH_AGAIN = auto()
    OPEN = auto()
    JOIN = auto()
    CANCEL = auto()
    EDIT = auto()
    RUN = auto()
    REPLAY = auto()
    PRUNE = auto()


class EventStep(NamedTuple):
    act: EventAction
    choice: int
    """The index of the event, job or key that the step applies to."""


STEPS = st.lists(
    st.builds(EventStep, st.sampled_from(EventAction), st.integers(0, 5)), min_size=1, max_size=30
)
JobView = tuple[Job | None, list[Event]]


class History:
    """Takes the same steps in both stores, which number events each in their own way."""

    def __init__(self, store: Store) -> None:
        self.stores: tuple[Store, Store] = (store, MemoryStore())
        self.task, self.source = an_id(), an_id()
        self.schedule = a_reaction(target=HandlerTarget(self.task))
        self.known_version = self.schedule.version
        self.now = NOW
        self.events: list[Event] = []
        self.jobs: list[Job] = []

    async def begin(self) -> None:
        for store in self.stores:
            await store.add_schedule(self.schedule, a_plan(self.schedule))

    async def take(self, step: EventStep) -> None:
        self.now += SECOND
        match step.act:
            case EventAction.PUBLISH | EventAction.PUBLISH_AGAIN:
                await self.publish(step)
            case EventAction.OPEN:
                await self.open(step)
            case EventAction.EDIT:
                await self.edit()
            case EventAction.RUN:
                await self.run()
            case EventAction.REPLAY:
                await self.replay(step)
            case EventAction.PRUNE:
                await self.prune()
            case _ if self.jobs:
                await self.use_job(step, self.jobs[step.choice % len(self.jobs)])
            case _:
                return

    async def open(self, step: EventStep) -> None:
        job = replace(self.a_job(), due_at=NOW + step.choice % 2 * DAY)
        self.jobs.append(job)
        await self.route(job, step, jobs=(job,), keyed=(self.keyed(job),))

    async def use_job(self, step: EventStep, job: Job) -> None:
        if step.act is EventAction.CANCEL:
            await self.route(None, step, cancelled={job.id: "an event"})
            return
        keyed = replace(self.keyed(job), gathered=step.choice + 2)
        due = {job.id: NOW + DAY}
        await self.route(job, step, joined=(job.id,), postponed=due, keyed=(keyed,))

    def a_job(self) -> Job:
        return replace(a_reaction_job(self.schedule), target=self.schedule.target)

    def keyed(self, job: Job) -> KeyedJob:
        """Each job has one key for ever."""
        return a_keyed_job(job, f"key {int(job.id[-3:], 16) % 3}", opened_at=self.now)

    async def publish(self, step: EventStep) -> None:
        if step.act is EventAction.PUBLISH or not self.events:
            self.events.append(an_event(source=self.source))
        events = self.events[-step.choice - 1 :]
        ours, theirs = [list(await store.publish(events, self.now)) for store in self.stores]
        assert ours == theirs

    async def route(self, job: Job | None, step: EventStep, **fields: object) -> None:
        """Decide about the first events, with the version that was read last."""
        answers = [
            await store.route(
                self.routing(await self.unrouted(store), job, step.choice + 1, **fields)
            )
            for store in self.stores
        ]
        assert answers[0] == answers[1]
        if not answers[0]:
            self.known_version = self.schedule.version

    def routing(
        self, events: Sequence[StoredEvent], job: Job | None, count: int, **fields: object
    ) -> Routing:
        first = events[:count]
        carried = () if job is None else [Carried(e.seq, job.id, self.schedule.id) for e in first]
        rest = {
            "jobs": (),
            "carried": tuple(carried),
            "at": self.now,
            "versions": {self.schedule.id: self.known_version},
        }
        return a_routing(first, self.schedule, job, **(rest | fields))

    async def unrouted(self, store: Store) -> list[StoredEvent]:
        events = (await store.unrouted_events(BOUND)).events
        return [one for one in events if one.event.source == self.source]

    async def edit(self) -> None:
        self.schedule = replace(self.schedule, version=self.schedule.version + 1)
        for store in self.stores:
            assert await store.update_schedule(self.schedule, None, self.now)

    async def run(self) -> None:
        for store in self.stores:
            for job in await claim_jobs(store, now=NOW, lanes=frozenset({self.task})):
                await store.settle([a_settlement(job, now=self.now)])

    async def replay(self, step: EventStep) -> None:
        if not self.events:
            return
        event = self.events[step.choice % len(self.events)]
        for store in self.stores:
            for stored in await store.events_by_id(event.id, event.source):
                assert await store.replay_event(stored.seq)

    async def prune(self) -> None:
        for store in self.stores:
            await store.prune(finished_before=self.now, failed_before=self.now, limit=BOUND)
            await store.prune_events(self.now, BOUND)

    async def compare(self) -> None:
        ours, theirs = [await self.view(store) for store in self.stores]
        assert ours == theirs

    async def view(self, store: Store) -> tuple[object, ...]:
        stored = [
            replace(one, seq=EventSeq(0))
            for event in self.events
            for one in await store.events_by_id(event.id, event.source)
        ]
        keys = [EventKey(self.schedule.id, f"key {number}") for number in range(3)]
        jobs = [await self.view_of(store, job.id) for job in self.jobs]
        waiting = [one.event.id for one in await self.unrouted(store)]
        return stored, list(await store.keyed_jobs(keys)), jobs, waiting

    async def view_of(self, store: Store, id: JobId) -> JobView:
        return await store.job(id), [one.event for one in await store.events_of_job(id)]

    async def end(self) -> None:
        """Leave no event to the next history in the same store."""
        store, _ = self.stores
        left: dict[EventSeq, tuple[EventVerdict, ...]] = {
            one.seq: () for one in await self.unrouted(store)
        }
        assert await store.route(Routing(verdicts=left, at=self.now))


class EventHistoryContract:
    @settings(
        max_examples=40,
        deadline=None,
        # All examples share one store: each has its own source and task. The test runs once for
        # each subclass of the contract, which differ only in their store.
        suppress_health_check=[
            HealthCheck.differing_executors,
            HealthCheck.function_scoped_fixture,
            HealthCheck.too_slow,
        ],
    )
    @given(steps=STEPS)
    async def test_events_go_as_in_memory(self, store: Store, steps: list[EventStep]) -> None:
        history = History(store)
        await history.begin()
        for step in steps:
            await history.take(step)
            await history.compare()
        await history.end()
