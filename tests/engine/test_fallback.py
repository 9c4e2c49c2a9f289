"""Without the broker jobs still run: carriers give back, and workers claim for themselves."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from engine.bench import Bench, Told
from engine.broker import LocalBroker
from onbeat.engine.carrier import Carrier
from onbeat.engine.crew import Crew
from onbeat.engine.fallback import PATIENCE, BrokerWatch, Fallback
from onbeat.engine.receiver import Receiver
from onbeat.engine.renewer import Renewer
from onbeat.model.errors import Unavailable
from onbeat.model.job import JobState
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import carrier_id
from onbeat.ports.transport import Envelope
from onbeat.testing.build import NOW, SECOND, a_job
from onbeat.wire.work import run_queue
from waiting import eventually

RUN = run_queue("default")


class Fleet:
    """A dispatcher and a worker on one store, each with an eye of its own on the broker."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.near, self.far = LocalBroker(), LocalBroker()
        self.far.lines = self.near.lines
        self.told = Told()
        self.carriers_watch = BrokerWatch(self.near, bench.clock, self.told)
        self.workers_watch = BrokerWatch(self.far, bench.clock, self.told)
        self.carrier = Carrier(
            bench.store,
            self.carriers_watch,
            bench.clock,
            Crew(bench.store, bench.clock),
            carrier_id("one"),
            None,
        )
        self.fallback = Fallback(
            bench.store, bench.clock, self.workers_watch, bench.worker, bench.dispatcher
        )
        self.receiver = Receiver(
            bench.store,
            self.far,
            bench.clock,
            bench.worker,
            bench.row.id,
            bench.handlers.registry.tasks,
            "default",
            self.bury,
        )

    async def bury(self, source, delivery, reason) -> None:
        raise AssertionError(f"{delivery.body!r} was put aside: {reason}")

    def break_down(self, *, is_away=True) -> None:
        self.near.is_away = self.far.is_away = is_away

    async def beat(self) -> None:
        queues = None if self.carriers_watch.is_usable else ()
        row = replace(self.bench.row, id=self.carrier.id, lanes=(), queues=queues)
        store, clock = self.bench.store, self.bench.clock
        await Renewer(store, store, clock, lambda: row, self.carrier).renew_held()

    async def pass_by(self, seconds=1.0) -> None:
        """Some seconds in which everybody looks around."""
        self.bench.clock.set(self.bench.clock.now() + seconds * SECOND)
        for watch in (self.carriers_watch, self.workers_watch):
            await watch.look()
        if self.carriers_watch.is_usable:
            await self.carrier.step()
        else:
            await self.carrier.retreat(0.5)
        await self.beat()

    async def fall_back(self) -> None:
        await self.fallback.step()
        # The worker is handed what was claimed, as the process does.
        if self.bench.transport.under_way:
            self.bench.worker.accept(await self.bench.transport.receive())
        await self.bench.worker.idle.wait()


@pytest.fixture
async def fleet():
    ran = []

    async def work(n=0):
        ran.append(n)

    async with Bench(work=work) as bench:
        fleet = Fleet(bench)
        fleet.ran = ran
        await fleet.beat()
        yield fleet
        await fleet.receiver.leave()
        for watch in (fleet.carriers_watch, fleet.workers_watch):
            await watch.stop()


def numbered(count, **fields):
    return [
        a_job(target=HandlerTarget("work", kwargs=msgspec.Raw(b'{"n":%d}' % n)), **fields)
        for n in range(count)
    ]


async def announced(fleet, count=1, **fields):
    jobs = numbered(count, **fields)
    await fleet.bench.store.enqueue(jobs)
    await fleet.pass_by()
    assert [(await fleet.bench.job(job)).worker for job in jobs] == [fleet.carrier.id] * count
    return jobs


async def refuses(room):
    raise Unavailable("no room")


async def takes_its_time(room):
    await room.wait()
    raise Unavailable("it took too long")


async def test_while_the_broker_is_fine_the_worker_claims_nothing(fleet):
    await fleet.pass_by()
    await fleet.bench.store.enqueue(numbered(3))
    fleet.bench.store.calls.clear()
    for _ in range(10):
        fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
        await fleet.workers_watch.look()
        await fleet.fall_back()
    assert fleet.ran == []
    assert set(fleet.bench.store.calls) == {"workers"}


async def test_a_short_absence_of_the_broker_changes_nothing(fleet):
    (job,) = await announced(fleet)
    fleet.break_down()
    for _ in range(2):
        await fleet.pass_by()
        await fleet.fall_back()
    assert (await fleet.bench.job(job)).worker == fleet.carrier.id
    fleet.break_down(is_away=False)
    await fleet.pass_by()
    assert fleet.carriers_watch.silences == 0


async def test_what_was_on_its_way_and_what_is_new_runs_without_the_broker(fleet):
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


async def test_a_message_that_comes_after_all_runs_nothing_twice(fleet):
    await announced(fleet)
    fleet.break_down()
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    fleet.break_down(is_away=False)
    await fleet.receiver.step()
    await fleet.bench.worker.idle.wait()
    assert fleet.ran == [0]


async def test_when_the_broker_is_back_jobs_go_over_it_again(fleet):
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
async def test_a_broker_that_takes_nothing_is_done_without(fleet, fails, monkeypatch):
    monkeypatch.setattr("onbeat.engine.fallback.PATIENCE", 0.01)
    room, tries = asyncio.Event(), []

    async def publish(queue, envelopes):
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
        await fleet.carrier.announce([*fleet.carrier.under_way.values()])
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


async def test_one_dispatcher_that_can_announce_is_enough(fleet):
    await fleet.bench.store.beat(replace(fleet.bench.row, id=carrier_id("two"), lanes=()))
    fleet.carriers_watch.judge(away=False, full=True)
    await fleet.beat()
    await fleet.fallback.look()
    assert not fleet.fallback.is_needed


async def test_a_worker_cut_off_from_the_broker_takes_what_others_cannot_bring(fleet):
    foreign = a_job("elsewhere")
    await fleet.bench.store.beat(replace(fleet.bench.row, id="other", lanes=("elsewhere",)))
    await fleet.bench.store.enqueue([foreign])
    await announced(fleet, 3)
    assert (await fleet.bench.job(foreign)).worker == fleet.carrier.id
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (sorted(fleet.ran), fleet.carriers_watch.is_usable) == ([0, 1, 2], True)
    assert (await fleet.bench.job(foreign)).worker == fleet.carrier.id


async def test_a_job_cancelled_while_it_was_held_does_not_run(fleet):
    (job,) = await announced(fleet)
    await fleet.bench.store.cancel([job.id], "not wanted", NOW)
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (await fleet.bench.until(job, JobState.CANCELLED)).reason == "not wanted"
    assert fleet.ran == []


async def test_a_worker_of_some_queues_leaves_the_others_alone(fleet):
    (job,) = await announced(fleet, queue="elsewhere")
    fleet.bench.dispatcher.queues = ("default",)
    fleet.far.is_away = True
    for _ in range(4):
        await fleet.pass_by()
    await fleet.fall_back()
    assert (await fleet.bench.job(job)).worker == fleet.carrier.id


async def test_what_the_store_did_not_take_back_is_given_back_later(fleet):
    (job,) = await announced(fleet)
    fleet.bench.store.trouble["settle"] = 1
    with pytest.raises(Unavailable):
        await fleet.carrier.retreat(0.5)
    assert list(fleet.carrier.under_way) == [job.id]
    await fleet.carrier.retreat(0.5)
    assert (await fleet.bench.job(job)).state is JobState.WAITING


async def test_a_claim_whose_answer_was_lost_is_given_back_too(fleet):
    (job,) = numbered(1)
    await fleet.pass_by()
    await fleet.bench.store.enqueue([job])
    fleet.bench.store.after["claim"] = 1
    with pytest.raises(Unavailable):
        await fleet.carrier.carry_due(10)
    for _ in range(2):
        await fleet.carrier.retreat(0.5)
    assert (await fleet.bench.job(job)).state is JobState.WAITING


async def test_a_broker_that_never_answers_is_asked_one_question_at_a_time(fleet, monkeypatch):
    monkeypatch.setattr("onbeat.engine.fallback.ANSWER_SECONDS", 0.01)
    asked, answers = [], asyncio.Event()

    async def ping():
        asked.append(1)
        await answers.wait()

    fleet.far.ping = ping
    watch = fleet.workers_watch
    for _ in range(5):
        fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
        await watch.look()
    assert (watch.is_away, len(asked)) == (True, 1)
    answers.set()
    await watch.look()
    assert not watch.is_away


async def test_the_loop_says_once_in_a_while_that_the_broker_is_away(fleet, monkeypatch):
    monkeypatch.setattr("onbeat.engine.fallback.TROUBLED_PERIOD", 0.001)
    turns, watch = [], fleet.workers_watch
    watch.turned = lambda: turns.append(watch.is_usable)
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
    assert turns == [False, True]


async def test_an_announcement_of_nothing_is_read_as_such(fleet):
    fleet.near.put(RUN, Envelope(body=b"[]", id=""))
    await fleet.receiver.step()
    assert (fleet.ran, await fleet.near.depth(RUN)) == ([], 0)
