"""Without the broker jobs still run: carriers give back, and workers claim for themselves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from conditions import eventually
from engine.broker import LocalBroker
from engine.harness import EngineHarness, RecordingTelemetry
from onbeat.engine.broker.dispatcher import BrokerDispatcher
from onbeat.engine.broker.fallback import PATIENCE, BrokerWatch, Fallback
from onbeat.engine.broker.fleet import FleetView
from onbeat.engine.broker.job_consumer import JobConsumer, start_carried
from onbeat.engine.heartbeat import Heartbeat, NoAttempts
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.model.errors import Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import carrier_id
from onbeat.ports.transport import Envelope
from onbeat.testing.build import NOW, SECOND, a_job
from onbeat.wire.broker_messages import run_queue

RUN = run_queue("default")


def ignore_change() -> None: ...


class FallbackFleet:
    """A dispatcher and a worker on one store, each with an eye of its own on the broker."""

    def __init__(self, bench: EngineHarness) -> None:
        self.bench = bench
        self.ran: list[int] = []
        self.near, self.far = LocalBroker(), LocalBroker()
        self.far.lines = self.near.lines
        self.told = RecordingTelemetry()
        self.carriers_watch = BrokerWatch(self.near, bench.clock, self.told, ignore_change)
        self.workers_watch = BrokerWatch(self.far, bench.clock, self.told, self.note_turn)
        self.turns: list[bool] = []
        self.guard = LeaseGuard(bench.clock, bench.row.lease_seconds, bench.note_regained)
        self.carrier = BrokerDispatcher(
            bench.store,
            self.carriers_watch,
            bench.clock,
            FleetView(bench.store, bench.clock),
            carrier_id("one"),
            None,
            self.guard,
        )
        self.fallback = Fallback(
            bench.store, bench.clock, self.workers_watch, bench.worker, bench.dispatcher
        )
        self.receiver = JobConsumer(
            bench.store,
            self.far,
            bench.clock,
            bench.worker,
            bench.row.id,
            bench.handlers.registry.tasks,
            "default",
            self.add_dead_letter,
        )

    async def add_dead_letter(self, source: Any, delivery: Any, reason: Any) -> None:
        raise AssertionError(f"{delivery.body!r} was put aside: {reason}")

    def break_down(self, *, is_away: bool = True) -> None:
        self.near.is_away = self.far.is_away = is_away

    async def beat(self) -> None:
        queues = None if self.carriers_watch.is_usable else ()
        row = replace(self.bench.row, id=self.carrier.id, lanes=(), queues=queues)
        store, clock = self.bench.store, self.bench.clock
        await Heartbeat(store, store, clock, lambda: row, NoAttempts(), self.guard).renew_leases()

    async def pass_by(self, seconds: float = 1.0) -> None:
        """Some seconds in which everybody looks around."""
        self.bench.clock.set(self.bench.clock.now() + seconds * SECOND)
        for watch in (self.carriers_watch, self.workers_watch):
            await watch.check()
        if self.carriers_watch.is_usable:
            await self.carrier.step()
        else:
            await self.carrier.hand_over_all(0.5)
        await self.beat()

    def note_turn(self) -> None:
        self.turns.append(self.workers_watch.is_usable)

    async def fall_back(self) -> None:
        await self.fallback.step()
        await self.bench.worker.idle.wait()


@pytest.fixture
async def fleet() -> AsyncIterator[FallbackFleet]:
    ran = []

    async def work(n: int = 0) -> None:
        ran.append(n)

    async with EngineHarness(work=work) as bench:
        fleet = FallbackFleet(bench)
        fleet.ran = ran
        await fleet.beat()
        yield fleet
        await fleet.receiver.close()
        for watch in (fleet.carriers_watch, fleet.workers_watch):
            await watch.stop()


def numbered(count: int, **fields: Any) -> list[Job]:
    return [
        a_job(target=HandlerTarget("work", kwargs=msgspec.Raw(b'{"n":%d}' % n)), **fields)
        for n in range(count)
    ]


async def announced(fleet: FallbackFleet, count: int = 1, **fields: Any) -> list[Job]:
    jobs = numbered(count, **fields)
    await fleet.bench.store.enqueue(jobs)
    await fleet.pass_by()
    assert [(await fleet.bench.job(job)).worker for job in jobs] == [fleet.carrier.id] * count
    return jobs


async def refuses(room: asyncio.Event) -> None:
    raise Unavailable("no room")


async def takes_its_time(room: asyncio.Event) -> None:
    await room.wait()
    raise Unavailable("it took too long")


async def test_while_the_broker_is_fine_the_worker_claims_nothing(fleet: FallbackFleet) -> None:
    await fleet.pass_by()
    await fleet.bench.store.enqueue(numbered(3))
    fleet.bench.store.calls.clear()
    for _ in range(10):
        fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
        await fleet.workers_watch.check()
        await fleet.fall_back()
    assert fleet.ran == []
    assert set(fleet.bench.store.calls) == {"workers"}


async def test_a_short_absence_of_the_broker_changes_nothing(fleet: FallbackFleet) -> None:
    (job,) = await announced(fleet)
    fleet.break_down()
    for _ in range(2):
        await fleet.pass_by()
        await fleet.fall_back()
    assert (await fleet.bench.job(job)).worker == fleet.carrier.id
    fleet.break_down(is_away=False)
    await fleet.pass_by()
    assert fleet.carriers_watch.failed_pings == 0


async def test_what_was_on_its_way_and_what_is_new_runs_without_the_broker(
    fleet: FallbackFleet,
) -> None:
    (job,) = await announced(fleet)
    await fleet.near.purge(RUN)
    fleet.break_down()
    for _ in range(4):
        await fleet.pass_by()
    back = await fleet.bench.job(job)
    assert (back.state, back.attempt, back.released) == (JobState.WAITING, 0, 0)
    await fleet.bench.store.enqueue(numbered(3))
    await fleet.fall_back()
    assert sorted(fleet.ran) == [0, 0, 1, 2]
    assert (await fleet.bench.job(job)).attempt == 1


async def test_a_message_that_comes_after_all_runs_nothing_twice(fleet: FallbackFleet) -> None:
    await announced(fleet)
    fleet.break_down()
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    fleet.break_down(is_away=False)
    await fleet.receiver.step()
    await fleet.bench.worker.idle.wait()
    assert fleet.ran == [0]


async def test_when_the_broker_is_back_jobs_go_over_it_again(fleet: FallbackFleet) -> None:
    fleet.break_down()
    for _ in range(5):
        await fleet.pass_by()
        await fleet.fall_back()
    assert fleet.fallback.is_needed
    fleet.break_down(is_away=False)
    await fleet.pass_by()
    await announced(fleet)
    fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
    await fleet.fall_back()
    assert (fleet.fallback.is_needed, fleet.ran) == (False, [])
    await fleet.receiver.step()
    await fleet.bench.worker.idle.wait()
    assert fleet.ran == [0]


@pytest.mark.parametrize("fails", [refuses, takes_its_time])
async def test_a_broker_that_takes_nothing_is_done_without(
    fleet: FallbackFleet, fails: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if fails is takes_its_time:
        monkeypatch.setattr("onbeat.engine.broker.fallback.PATIENCE", 0.01)
    room, tries = asyncio.Event(), []

    async def publish(queue: str, envelopes: Sequence[Envelope]) -> None:
        tries.append(queue)
        await fails(room)

    whole, fleet.near.publish = fleet.near.publish, publish
    await fleet.bench.store.enqueue(numbered(2))
    with pytest.raises(Unavailable):
        await fleet.pass_by()
    await fleet.fall_back()
    assert fleet.ran == []
    fleet.bench.clock.set(fleet.bench.clock.now() + PATIENCE * SECOND)
    with pytest.raises(Unavailable):
        await fleet.carrier.announce([*fleet.carrier.in_flight.values()])
    assert (fleet.carriers_watch.is_full, fleet.carriers_watch.is_away) == (True, False)
    await fleet.pass_by()
    await fleet.fall_back()
    assert sorted(fleet.ran) == [0, 1]
    assert len(tries) == (1 if fails is takes_its_time else 3), "one is under way at a time"
    fleet.near.publish = whole
    room.set()
    await fleet.pass_by()
    assert fleet.carriers_watch.is_usable
    await fleet.receiver.step()
    assert await fleet.near.depth(RUN) == 0, "what was published to try it has been read"


async def test_one_dispatcher_that_can_announce_is_enough(fleet: FallbackFleet) -> None:
    await fleet.bench.store.heartbeat(replace(fleet.bench.row, id=carrier_id("two"), lanes=()))
    fleet.carriers_watch.update(away=False, full=True)
    await fleet.beat()
    await fleet.fallback.reassess()
    assert not fleet.fallback.is_needed


async def test_a_worker_cut_off_from_the_broker_takes_what_others_cannot_bring(
    fleet: FallbackFleet,
) -> None:
    foreign = a_job("elsewhere")
    await fleet.bench.store.heartbeat(replace(fleet.bench.row, id="other", lanes=("elsewhere",)))
    await fleet.bench.store.enqueue([foreign])
    await announced(fleet, 3)
    assert (await fleet.bench.job(foreign)).worker == fleet.carrier.id
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (sorted(fleet.ran), fleet.carriers_watch.is_usable) == ([0, 1, 2], True)
    assert (await fleet.bench.job(foreign)).worker == fleet.carrier.id


async def test_a_job_cancelled_while_it_was_held_does_not_run(fleet: FallbackFleet) -> None:
    (job,) = await announced(fleet)
    await fleet.bench.store.cancel([job.id], "not wanted", NOW)
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (await fleet.bench.until(job, JobState.CANCELLED)).reason == "not wanted"
    assert fleet.ran == []


async def test_a_worker_of_some_queues_leaves_the_others_alone(fleet: FallbackFleet) -> None:
    (job,) = await announced(fleet, queue="elsewhere")
    fleet.bench.dispatcher.queues = ("default",)
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (await fleet.bench.job(job)).worker == fleet.carrier.id


async def test_what_the_store_did_not_take_back_is_given_back_later(fleet: FallbackFleet) -> None:
    (job,) = await announced(fleet)
    fleet.bench.store.trouble["settle"] = 1
    with pytest.raises(Unavailable):
        await fleet.carrier.hand_over_all(0.5)
    assert list(fleet.carrier.in_flight) == [job.id]
    await fleet.carrier.hand_over_all(0.5)
    assert (await fleet.bench.job(job)).state is JobState.WAITING


async def test_a_claim_whose_answer_was_lost_is_given_back_too(fleet: FallbackFleet) -> None:
    (job,) = numbered(1)
    await fleet.pass_by()
    await fleet.bench.store.enqueue([job])
    fleet.bench.store.after["claim"] = 1
    with pytest.raises(Unavailable):
        await fleet.carrier.dispatch_due(10)
    for _ in range(2):
        await fleet.carrier.hand_over_all(0.5)
    assert (await fleet.bench.job(job)).state is JobState.WAITING


async def test_a_job_that_two_parts_of_a_worker_start_at_once_runs_once(
    fleet: FallbackFleet,
) -> None:
    (job,) = await announced(fleet)
    bench = fleet.bench
    lease = job.id, (await bench.job(job)).token
    start = bench.store.inner.start

    async def start_slowly(*given: Any) -> Any:
        answer = await start(*given)
        await asyncio.sleep(0)
        return answer

    bench.store.inner.start = start_slowly
    calls = [
        start_carried(bench.store, bench.worker, bench.row.id, [lease], bench.clock)
        for _ in range(2)
    ]
    await asyncio.gather(*calls)
    await bench.worker.idle.wait()
    assert fleet.ran == [0]


async def test_a_broker_that_never_answers_is_asked_one_question_at_a_time(
    fleet: FallbackFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.engine.broker.fallback.ANSWER_SECONDS", 0.01)
    request, answers = [], asyncio.Event()

    async def ping() -> None:
        request.append(1)
        await answers.wait()

    fleet.far.ping = ping
    watch = fleet.workers_watch
    for _ in range(5):
        fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
        await watch.check()
    assert (watch.is_away, len(request)) == (True, 1)
    answers.set()
    await watch.check()
    assert not watch.is_away


async def test_the_loop_says_once_in_a_while_that_the_broker_is_away(
    fleet: FallbackFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.engine.broker.fallback.TROUBLED_PERIOD", 0.001)
    watch = fleet.workers_watch
    fleet.far.is_away = True
    for _ in range(2):
        await watch.step()
    fleet.bench.clock.set(fleet.bench.clock.now() + PATIENCE * SECOND)
    step = asyncio.create_task(watch.step())
    await eventually(lambda: len(fleet.told.of("loop_failed")) > 3, "it is told")
    (name, error), *_ = fleet.told.of("loop_failed")
    assert (name, str(error)) == ("broker", "the broker is away")
    fleet.far.is_away = False
    await step
    assert fleet.turns == [False, True]


async def test_an_announcement_of_nothing_is_read_as_such(fleet: FallbackFleet) -> None:
    fleet.near.put(RUN, Envelope(body=b"[]", id=""))
    await fleet.receiver.step()
    assert (fleet.ran, await fleet.near.depth(RUN)) == ([], 0)
