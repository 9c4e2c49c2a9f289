"""The router: from stored events to jobs, with several routers and lost ones."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from engine.harness import FaultyStore, FixedRandomness, RecordingTelemetry
from onbeat.app.stores import open_store
from onbeat.app.virtual_clock import ManualClock
from onbeat.engine.router import INLINE_MAX, REFUSED_PAUSE, ROUTE_PERIOD, Router
from onbeat.expressions.cel import CelExpressions
from onbeat.model.condition import Window
from onbeat.model.errors import Unavailable
from onbeat.model.event import Event, StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.limits import ROUTE_MATCHES_MAX, ROUTE_MAX
from onbeat.model.page import JobFilter, OccurrenceFilter
from onbeat.model.plan import Plan
from onbeat.model.reaction import Keep
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.events import EventFilter
from onbeat.ports.expressions import NO_EXPRESSIONS
from onbeat.ports.store import ClaimRequest, SentJobs, Store
from onbeat.recurrence import compile_spec
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job
from rules.reactions import a_reaction, gather, on

BY = "event.data.key"


class Bench:
    """Routers over one store."""

    def __init__(self, store: Store) -> None:
        self.clock = ManualClock(NOW)
        self.store: Any = FaultyStore(store)
        self.telemetry = RecordingTelemetry()
        self.router = self.a_router()
        self.sent = 0

    def a_router(self, expressions: Any = None) -> Router:
        return Router(
            self.store,
            self.clock,
            FixedRandomness(),
            self.telemetry,
            expressions or CelExpressions(),
            compile_spec,
        )

    async def add(self, schedule: Schedule) -> Schedule:
        plan = Plan(
            schedule_id=schedule.id, version=1, planned_through=NOW, plan_at=None, finished=False
        )
        await self.store.add_schedule(schedule, plan)
        return schedule

    async def publish(self, *keys: str, type: str = "paid") -> Sequence[StoredEvent]:
        events = []
        for key in keys:
            self.sent += 1
            data = msgspec.Raw(msgspec.json.encode({"key": key}))
            id = f"e{self.sent}"
            events.append(Event(id=id, source="/shop", type=type, time=NOW, data=data))
        await self.store.publish(events, self.clock.now())
        return [(await self.store.events_by_id(event.id))[0] for event in events]

    def pass_by(self, span: timedelta) -> None:
        self.clock.set(self.clock.now() + span)

    async def route_all(self) -> None:
        while await self.router.step() < ROUTE_PERIOD:
            pass

    async def jobs(self) -> Sequence[Job]:
        return (await self.store.jobs(JobFilter(limit=1_000))).items

    async def verdict(self, event: StoredEvent) -> Any:
        (stored,) = await self.store.events_by_id(event.event.id)
        (verdict,) = stored.verdicts
        return verdict

    async def start_due(self) -> Sequence[Job]:
        request = ClaimRequest(
            worker=WorkerId("w"), now=self.clock.now(), limit=100, lanes=frozenset({"work"})
        )
        return (await self.store.claim(request)).jobs


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"
    store = open_store(url)
    await store.open()
    yield Bench(store)
    await store.close()


async def test_an_event_becomes_a_job(bench: Bench) -> None:
    schedule = await bench.add(a_reaction(on(condition=f"{BY} == 'yes'")))
    yes, no = await bench.publish("yes", "no")
    assert await bench.router.step() == 0.0
    assert await bench.router.step() == ROUTE_PERIOD
    (job,) = await bench.jobs()
    assert job.schedule_id == schedule.id
    assert [event.seq for event in await bench.store.events_of_job(job.id)] == [yes.seq]
    assert (await bench.verdict(no)).reason == "condition is false"
    assert bench.telemetry.of("routed") == [(2, 1)]


async def test_nothing_is_read_while_no_event_comes(bench: Bench) -> None:
    await bench.add(a_reaction())
    bench.store.calls.clear()
    assert await bench.router.step() == ROUTE_PERIOD
    assert bench.store.calls == ["unrouted_events"]


async def test_events_that_no_schedule_wants_are_decided_on(bench: Bench) -> None:
    await bench.publish("a", type="nobody")
    await bench.route_all()
    (stored,) = await bench.store.events(EventFilter(limit=10))
    assert stored.routed_at == NOW
    assert stored.verdicts == ()


async def test_schedules_are_read_once_and_followed(bench: Bench) -> None:
    schedule = await bench.add(a_reaction(on(condition="true")))
    read: list[int] = []
    inner = bench.store.event_schedules

    async def event_schedules(known: Mapping[Any, int]) -> Any:
        found = await inner(known)
        read.append(len(found.changed))
        return found

    bench.store.event_schedules = event_schedules
    for _ in range(2):
        await bench.publish("a")
        await bench.route_all()
    paused = replace(schedule, version=2, status=ScheduleStatus.PAUSED)
    assert await bench.store.update_schedule(paused, None, NOW)
    (event,) = await bench.publish("a")
    await bench.route_all()
    assert (await bench.verdict(event)).reason == "schedule is paused"
    assert await bench.store.delete_schedule(schedule.id, NOW)
    await bench.publish("a")
    await bench.route_all()
    assert read == [1, 0, 1, 0]
    assert bench.router.reactions == {}


async def test_without_the_extra_only_schedules_with_expressions_are_kept_from_events(
    bench: Bench,
) -> None:
    with_text = await bench.add(a_reaction(on(condition="true")))
    plain = await bench.add(a_reaction())
    bench.router = bench.a_router(NO_EXPRESSIONS)
    await bench.publish("a")
    await bench.route_all()
    (stored,) = await bench.store.events(EventFilter(limit=1))
    verdicts = {verdict.schedule_id: verdict for verdict in stored.verdicts}
    assert verdicts[plain.id].job_id is not None
    assert "cel-expr-python" in str(verdicts[with_text.id].reason)
    # Once the extra is there, a replay makes up for it.
    bench.router = bench.a_router()
    await bench.store.replay_event(stored.seq)
    await bench.route_all()
    assert len(await bench.jobs()) == 2


async def test_many_events_are_judged_aside(bench: Bench) -> None:
    await bench.add(a_reaction(on(by=BY), gather=gather(60)))
    await bench.publish(*"ab" * INLINE_MAX)
    await bench.route_all()
    jobs = await bench.jobs()
    assert [len(await bench.store.events_of_job(job.id)) for job in jobs] == [INLINE_MAX] * 2


async def test_a_backlog_is_routed_in_portions(bench: Bench) -> None:
    await bench.publish(*"a" * (ROUTE_MAX + 1))
    await bench.route_all()
    assert [events for events, _ in bench.telemetry.of("routed")] == [ROUTE_MAX, 1]


async def test_a_decision_has_a_bounded_number_of_matches(bench: Bench) -> None:
    for _ in range(30):
        await bench.add(a_reaction())
    await bench.publish(*"a" * 200)
    await bench.route_all()
    portion = ROUTE_MATCHES_MAX // 30
    assert bench.telemetry.of("routed")[0] == (portion, portion * 30)
    assert sum(events for events, _ in bench.telemetry.of("routed")) == 200


async def test_of_two_routers_each_event_is_routed_by_one(bench: Bench) -> None:
    await bench.add(a_reaction(on(by=BY), gather=gather(60, keep=Keep.FIRST)))
    await bench.add(a_reaction())
    await bench.publish(*"abc" * 10)
    routers = [bench.router, bench.a_router()]
    for router in routers:
        router.batch_max = 4

    inner = bench.store.unrouted_events

    async def unrouted_events(limit: int) -> Any:
        read = await inner(limit)
        await asyncio.sleep(0)  # both have read before one decides
        return read

    bench.store.unrouted_events = unrouted_events

    async def run(router: Router) -> None:
        while await router.step() < ROUTE_PERIOD:
            pass

    await asyncio.gather(*map(run, routers))
    assert len(await bench.jobs()) == 3 + 30
    assert bench.telemetry.of("route_refused")
    assert sum(events for events, _ in bench.telemetry.of("routed")) == 30


async def test_a_refused_decision_is_made_again_for_fewer_events(bench: Bench) -> None:
    schedule = await bench.add(a_reaction())
    await bench.publish(*"abcd")
    edited = replace(schedule, version=2, queue="other")
    await before_route(bench, lambda: bench.store.update_schedule(edited, None, NOW))
    assert await bench.router.step() == REFUSED_PAUSE * 0.5
    assert bench.router.batch_max == ROUTE_MAX // 2
    assert await bench.jobs() == ()
    await bench.route_all()
    assert {job.queue for job in await bench.jobs()} == {"other"}
    assert bench.router.batch_max == ROUTE_MAX


async def before_route(bench: Bench, meanwhile: Callable[[], Any]) -> None:
    """Let something happen once, between reading and the decision."""
    inner = bench.store.route
    left = [meanwhile]

    async def route(routing: Any) -> bool:
        if left:
            await left.pop()()
        stored: bool = await inner(routing)
        return stored

    bench.store.route = route


async def test_an_event_does_not_join_a_job_that_has_just_started(bench: Bench) -> None:
    await bench.add(a_reaction(gather=gather(60)))
    await bench.publish("a")
    await bench.route_all()
    bench.pass_by(59 * SECOND)
    (late,) = await bench.publish("b")
    bench.pass_by(MINUTE)
    await before_route(bench, bench.start_due)
    await bench.route_all()
    first, second = sorted(await bench.jobs(), key=lambda job: job.id)
    assert [event.seq for event in await bench.store.events_of_job(second.id)] == [late.seq]
    assert len(await bench.store.events_of_job(first.id)) == 1


@pytest.mark.parametrize("verb", ["unrouted_events", "event_schedules", "keyed_jobs", "route"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_router_that_dies_at_any_verb_loses_and_doubles_nothing(
    bench: Bench, verb: str, when: str
) -> None:
    await bench.add(a_reaction(on(by=BY), gather=gather(60), cancel_on=(on("done"),)))
    await bench.add(a_reaction())
    await bench.publish(*"aab")
    (bench.store.trouble if when == "before" else bench.store.after)[verb] = 1
    with pytest.raises(Unavailable):
        await bench.route_all()
    bench.router = bench.a_router()
    await bench.route_all()
    jobs = await bench.jobs()
    assert len(jobs) == 2 + 3
    sizes = sorted([len(await bench.store.events_of_job(job.id)) for job in jobs])
    assert sizes == [1, 1, 1, 1, 2]


async def test_absence_is_a_delay_that_an_event_cancels(bench: Bench) -> None:
    await bench.add(a_reaction(on("placed", by=BY), cancel_on=(on("paid"),), delay=10 * MINUTE))
    await bench.publish("kept", "left", type="placed")
    await bench.route_all()
    bench.pass_by(MINUTE)
    await bench.publish("kept", type="paid")
    await bench.route_all()
    bench.pass_by(10 * MINUTE)
    (job,) = await bench.start_due()
    (event,) = await bench.store.events_of_job(job.id)
    assert event.event.data is not None
    assert msgspec.json.decode(event.event.data) == {"key": "left"}


async def test_an_event_cancels_a_job_whose_window_is_still_closed(bench: Bench) -> None:
    evening = Window(start=18 * 60, end=19 * 60, timezone="UTC")
    schedule = a_reaction(on("placed", by=BY), cancel_on=(on("paid"),), window=(evening,))
    await bench.add(schedule)
    await bench.publish("kept", "left", type="placed")
    await bench.route_all()
    bench.pass_by(HOUR)
    assert await bench.start_due() == ()
    await bench.publish("kept", type="paid")
    await bench.route_all()
    bench.pass_by(5 * HOUR)
    (job,) = await bench.start_due()
    assert job.due_at == NOW + 6 * HOUR
    (event,) = await bench.store.events_of_job(job.id)
    assert msgspec.json.decode(event.event.data or b"") == {"key": "left"}


async def test_a_debounce_without_a_key_keeps_the_last_of_all_events(bench: Bench) -> None:
    await bench.add(a_reaction(gather=gather(1800, quiet=300, keep=Keep.LAST)))
    for key in ("a", "b"):
        (last,) = await bench.publish(key)
        await bench.route_all()
        bench.pass_by(4 * MINUTE)
    bench.pass_by(MINUTE)
    (job,) = await bench.start_due()
    assert [event.seq for event in await bench.store.events_of_job(job.id)] == [last.seq]


async def test_a_throttle_without_a_key_counts_all_events(bench: Bench) -> None:
    await bench.add(a_reaction(gather=gather(3600, keep=Keep.FIRST)))
    starts = []
    for minutes in (0, 30, 60):
        bench.clock.set(NOW + timedelta(minutes=minutes))
        (event,) = await bench.publish(f"key {minutes}")
        await bench.route_all()
        starts.append(len(await bench.start_due()))
    assert starts == [1, 0, 1]
    job = (await bench.verdict(event)).job_id
    (latest,) = await bench.store.export_event_keys(None, 10)
    assert (latest.job_id, latest.key.by, latest.gathered) == (job, "", 1)


async def test_its_jobs_are_among_the_occurrences_of_a_schedule(bench: Bench) -> None:
    schedule = await bench.add(a_reaction(gather=gather(60)))
    await bench.publish("a")
    await bench.route_all()
    wanted = OccurrenceFilter(schedule_id=schedule.id, ended=False, limit=10)
    (job,) = (await bench.store.occurrence_jobs(wanted)).items
    assert job.due_at == NOW + MINUTE


async def test_a_debounce_is_put_off_and_keeps_the_last(bench: Bench) -> None:
    await bench.add(a_reaction(on(by=BY), gather=gather(1800, quiet=300, keep=Keep.LAST)))
    for _ in range(3):
        (last,) = await bench.publish("a")
        await bench.route_all()
        bench.pass_by(4 * MINUTE)
    assert await bench.start_due() == ()
    bench.pass_by(MINUTE)
    (job,) = await bench.start_due()
    assert [event.seq for event in await bench.store.events_of_job(job.id)] == [last.seq]


async def test_a_throttle_runs_once_in_its_span(bench: Bench) -> None:
    await bench.add(a_reaction(on(by=BY), gather=gather(3600, keep=Keep.FIRST)))
    starts = []
    for minutes in (0, 30, 59, 60):
        bench.clock.set(NOW + timedelta(minutes=minutes))
        await bench.publish("a")
        await bench.route_all()
        starts.append(len(await bench.start_due()))
    assert starts == [1, 0, 0, 1]


async def test_events_of_a_pause_are_not_made_up(bench: Bench) -> None:
    schedule = await bench.add(a_reaction(status=ScheduleStatus.PAUSED))
    await bench.publish("a")
    await bench.route_all()
    bench.pass_by(HOUR)
    resumed = replace(schedule, version=2, status=ScheduleStatus.ACTIVE)
    assert await bench.store.update_schedule(resumed, None, bench.clock.now())
    await bench.route_all()
    assert await bench.jobs() == ()


async def wait_for(bench: Bench, type: str, step: str = "step") -> Job:
    """A running job that waits for an event of the type."""
    await bench.store.enqueue([a_job(due_at=bench.clock.now())])
    (job,) = await bench.start_due()
    wait = EventWait(job_id=job.id, step=step, type=type)
    sent = SentJobs(sender=job.id, token=job.token, jobs=(), wait=wait)
    assert list(await bench.store.enqueue_from([sent])) == [True]
    return job


async def test_many_waits_for_one_event_end_in_parts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event has no decision before the last of them has ended."""
    monkeypatch.setattr("onbeat.engine.router.ROUTE_FREED_MAX", 2)
    jobs = [await wait_for(bench, "paid") for _ in range(5)]
    await wait_for(bench, "sent")
    await bench.add(a_reaction())
    (event,) = await bench.publish("a")
    left = []
    while await bench.router.step() < ROUTE_PERIOD:
        keys = [AwaitedKey("paid"), AwaitedKey("sent")]
        left.append(len(await bench.store.open_waits(keys, 10)))
    assert left == [4, 2, 1]
    assert bench.telemetry.of("routed") == [(0, 0), (0, 0), (1, 1)]
    (stored,) = await bench.store.events_by_id(event.event.id)
    made, freed = stored.verdicts
    assert made.job_id is not None
    assert freed.job_id == jobs[-1].id


async def test_events_of_one_round_end_only_what_they_are_for(bench: Bench) -> None:
    job = await wait_for(bench, "pai*")
    first, second = await bench.publish("a", "b")
    await bench.route_all()
    assert (await bench.verdict(first)).job_id == job.id
    (stored,) = await bench.store.events_by_id(second.event.id)
    assert stored.verdicts == ()
