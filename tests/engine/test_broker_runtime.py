"""Jobs that go over a broker: what it loses, doubles or forges costs time, and nothing else."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from engine.broker import LocalBroker
from engine.harness import EngineHarness
from onbeat.engine.broker import remote
from onbeat.engine.broker.dispatcher import LOOK_PERIOD, PATIENCE, QUIET_PERIOD, BrokerDispatcher
from onbeat.engine.broker.fleet import ALONE_PERIOD, IN_FLIGHT_MIN, FleetView
from onbeat.engine.broker.inbound import AT_ONCE_BYTES, InboundConsumer
from onbeat.engine.broker.job_consumer import HOPS_MAX, JobConsumer
from onbeat.engine.broker.remote import FLEET_GRACE, RemoteSender, RemoteTasks
from onbeat.engine.dispatcher import LOOK_AGAIN_MAX
from onbeat.engine.heartbeat import Heartbeat, NoAttempts
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LOST_BESIDE_MAX, LOST_MAX
from onbeat.model.outcome import UNANSWERED
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import carrier_id
from onbeat.operations.fence import fence_of
from onbeat.ports.transport import Delivery, Envelope
from onbeat.rules.calls_in_flight import IN_FLIGHT_MAX
from onbeat.testing.build import HOUR, NOW, SECOND, a_job
from onbeat.wire.broker_messages import REPLIES, SUBMIT, announcement

RUN = "onbeat.run.default"
WORK = "onbeat.work.default"
FEW = 100
"""Calls in flight of a task, once its workers are known to be few."""


class BrokerFleet:
    """A worker's bench, and a carrier beside it on the same store and clock."""

    def __init__(self, bench: EngineHarness) -> None:
        self.bench = bench
        self.ran: list[int] = []
        self.broker = LocalBroker()
        self.dead_letters: list[tuple[str, bytes, str]] = []
        self.view = FleetView(bench.store, bench.clock)
        self.guard = LeaseGuard(bench.clock, bench.row.lease_seconds, bench.note_regained)
        self.carrier = BrokerDispatcher(
            bench.store, self.broker, bench.clock, self.view, carrier_id("one"), None, self.guard
        )
        self.row = replace(bench.row, id=self.carrier.id, lanes=())
        self.receiver = self.a_receiver("default")

    def a_receiver(self, queue: str) -> JobConsumer:
        bench = self.bench
        return JobConsumer(
            bench.store,
            self.broker,
            bench.clock,
            bench.worker,
            bench.row.id,
            bench.handlers.registry.tasks,
            queue,
            self.add_dead_letter,
        )

    def a_sender(self, *declared: str, known_here: frozenset[str] = frozenset()) -> RemoteSender:
        bench = self.bench
        return RemoteSender(
            bench.store,
            self.broker,
            bench.clock,
            self.view,
            "one",
            None,
            RemoteTasks(frozenset(declared), lambda: known_here),
            timedelta(seconds=120),
            bench.worker.record,
            lambda: fence_of(bench.store),
            lambda job: job,
        )

    async def add_dead_letter(self, source: str, delivery: Delivery, reason: str) -> None:
        self.dead_letters.append((source, delivery.body, reason))

    async def beat(self) -> None:
        store, clock = self.bench.store, self.bench.clock
        heartbeat = Heartbeat(store, store, clock, lambda: self.row, NoAttempts(), self.guard)
        await heartbeat.renew_leases()

    async def rescued(self) -> int:
        """How many jobs are taken back within five seconds."""
        count = 0
        for _ in range(5):
            self.bench.clock.set(self.bench.clock.now() + SECOND)
            count += await self.bench.rescuer.rescue_expired()
        return count

    async def carry(self) -> None:
        """One round of the carrier, long enough after the last one that it looks around."""
        self.bench.clock.set(self.bench.clock.now() + SECOND)
        await self.carrier.step()

    async def take(self) -> None:
        await self.receiver.step()
        await self.bench.worker.idle.wait()


@pytest.fixture
async def fleet() -> AsyncIterator[BrokerFleet]:
    ran = []

    async def work(n: int = 0) -> None:
        ran.append(n)

    async with EngineHarness(work=work) as bench:
        fleet = BrokerFleet(bench)
        fleet.ran = ran
        await fleet.beat()
        yield fleet
        await fleet.receiver.close()


def numbered(count: int) -> list[Job]:
    return [
        a_job(target=HandlerTarget("work", kwargs=msgspec.Raw(b'{"n":%d}' % n)))
        for n in range(count)
    ]


async def test_a_due_job_goes_over_the_broker_and_runs_once(fleet: BrokerFleet) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    await fleet.carry()
    carried = await fleet.bench.job(job)
    assert (carried.state, carried.worker, carried.attempt) == (
        JobState.RUNNING,
        fleet.carrier.id,
        1,
    )
    await fleet.take()
    done = await fleet.bench.job(job)
    assert (done.state, done.attempt, fleet.ran) == (JobState.SUCCEEDED, 1, [0])


async def test_many_jobs_share_messages(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(100))
    await fleet.carry()
    assert len(fleet.broker.published) < 10
    assert all(envelope.fleeting for _, envelope in fleet.broker.published), "hints, and no more"
    for _ in range(20):
        await fleet.take()
    assert sorted(fleet.ran) == list(range(100))


async def test_a_doubled_message_runs_nothing_twice(fleet: BrokerFleet) -> None:
    fleet.broker.copies = 3
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    for _ in range(3):
        await fleet.take()
    assert fleet.ran == [0]


async def test_a_lost_message_is_announced_again_after_a_while(fleet: BrokerFleet) -> None:
    fleet.broker.loses = True
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    fleet.broker.loses = False
    await fleet.carry()
    assert len(fleet.broker.published) == 1
    fleet.bench.clock.set(fleet.bench.clock.now() + PATIENCE * SECOND)
    await fleet.carry()
    await fleet.take()
    assert (fleet.ran, len(fleet.broker.published)) == ([0], 2)


async def test_the_waits_between_announcements_grow(fleet: BrokerFleet) -> None:
    fleet.broker.loses = True
    await fleet.bench.store.enqueue(numbered(1))
    for _ in range(200):
        await fleet.carry()
    assert 6 <= len(fleet.broker.published) <= 8


async def test_while_nothing_moves_the_carrier_looks_ever_more_seldom(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(IN_FLIGHT_MIN))
    await fleet.carry()
    rests = []
    for _ in range(8):
        fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
        rests.append(await fleet.carrier.step())
    assert rests == sorted(rests)
    assert (rests[0], rests[-1]) == (2 * LOOK_PERIOD, QUIET_PERIOD)
    await fleet.take()
    fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
    await fleet.carrier.step()
    assert fleet.carrier.look_period == LOOK_PERIOD


async def test_the_first_worker_is_found_soon(fleet: BrokerFleet) -> None:
    """Many jobs may have waited for it; the carrier does not sleep for long without anybody."""
    await fleet.bench.store.forget_workers([fleet.bench.row.id])
    await fleet.bench.store.enqueue(numbered(1))
    rest = await fleet.carrier.step()
    assert rest == ALONE_PERIOD
    await fleet.bench.renewer.renew_leases()
    fleet.bench.clock.set(fleet.bench.clock.now() + rest * SECOND)
    await fleet.carrier.step()
    await fleet.take()
    assert fleet.ran == [0]


async def test_what_is_due_is_claimed_before_anything_else_is_asked(fleet: BrokerFleet) -> None:
    await fleet.carry()
    await fleet.bench.store.enqueue(numbered(1))
    fleet.bench.store.calls.clear()
    await fleet.carry()
    assert fleet.bench.store.calls[0] == "claim"
    assert {"workers", "held_leases"} < set(fleet.bench.store.calls)


async def test_a_claim_with_room_for_more_is_not_repeated_at_once(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(3))
    assert await fleet.carrier.step() == QUIET_PERIOD
    assert len(fleet.carrier.in_flight) == 3


async def test_what_has_been_started_is_not_announced_again(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    await fleet.take()
    await fleet.carry()
    assert fleet.carrier.in_flight == {}


async def test_while_the_broker_is_away_nothing_is_lost_and_it_is_sent_on_its_return(
    fleet: BrokerFleet,
) -> None:
    fleet.broker.is_away = True
    await fleet.bench.store.enqueue(numbered(3))
    with pytest.raises(Unavailable):
        await fleet.carry()
    await fleet.bench.store.enqueue(later := numbered(1))
    with pytest.raises(Unavailable):
        await fleet.carry()
    (waits,) = [await fleet.bench.job(job) for job in later]
    assert waits.state is JobState.WAITING, "nothing is claimed that could not be announced"
    fleet.broker.is_away = False
    await fleet.carry()
    for _ in range(4):
        await fleet.take()
    assert sorted(fleet.ran) == [0, 0, 1, 2]


async def test_a_claim_whose_answer_was_lost_is_found_by_what_is_held(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(1))
    fleet.bench.store.after["claim"] = 1
    with pytest.raises(Unavailable):
        await fleet.carry()
    for _ in range(3):
        await fleet.carry()
    await fleet.take()
    assert fleet.ran == [0]


async def test_a_second_claim_of_a_job_is_found_although_the_first_is_still_known(
    fleet: BrokerFleet,
) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    await fleet.carry()
    await fleet.broker.purge(RUN)
    fleet.bench.store.inner._tables.workers.pop(fleet.carrier.id)
    await fleet.bench.rescuer.rescue_expired()
    fleet.bench.store.after["claim"] = 1
    with pytest.raises(Unavailable):
        await fleet.carry()
    (first,) = fleet.carrier.in_flight.values()
    assert first.job.token < (await fleet.bench.job(job)).token
    for _ in range(3):
        await fleet.carry()
    await fleet.take()
    assert fleet.ran == [0]


async def test_a_dead_carrier_costs_no_attempt(fleet: BrokerFleet) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    await fleet.carry()
    await fleet.broker.purge(RUN)
    fleet.bench.store.inner._tables.workers.pop(fleet.carrier.id)
    assert await fleet.bench.rescuer.rescue_expired() == 1
    back = await fleet.bench.job(job)
    assert (back.state, back.attempt, back.released, back.lost) == (JobState.WAITING, 0, 0, 0)


async def test_a_message_of_an_older_claim_runs_nothing(fleet: BrokerFleet) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    await fleet.carry()
    fleet.bench.store.inner._tables.workers.pop(fleet.carrier.id)
    await fleet.bench.rescuer.rescue_expired()
    await fleet.take()
    assert (fleet.ran, (await fleet.bench.job(job)).state) == ([], JobState.WAITING)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"id":"x"}', b"\xff\xfe", b"[" * 10_000])
async def test_what_is_no_announcement_is_put_aside(fleet: BrokerFleet, body: bytes) -> None:
    fleet.broker.put(RUN, Envelope(body=body, id="bad"))
    await fleet.take()
    ((source, buried, reason),) = fleet.dead_letters
    assert (source, buried) == (RUN, body)
    assert "no announcement" in reason
    assert fleet.broker.lines[RUN].handed_out == {}


async def test_a_forged_announcement_runs_nothing(fleet: BrokerFleet) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    fleet.broker.put(RUN, Envelope(body=announcement([replace(job, token=1)]), id="forged"))
    await fleet.take()
    assert (fleet.ran, fleet.dead_letters) == ([], [])


async def test_a_task_unknown_to_this_worker_is_passed_on_but_not_for_ever(
    fleet: BrokerFleet,
) -> None:
    other = a_job("elsewhere")
    fleet.broker.put(RUN, Envelope(body=announcement([replace(other, token=1)]), id="x"))
    for _ in range(HOPS_MAX + 5):
        await fleet.take()
    assert len(fleet.broker.published) == HOPS_MAX
    assert await fleet.broker.depth(RUN) == 0


async def test_while_the_store_is_away_the_messages_stay_unacknowledged(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    fleet.bench.store.trouble["start"] = 2
    for _ in range(2):
        with pytest.raises(Unavailable):
            await fleet.take()
    assert len(fleet.broker.lines[RUN].handed_out) == 1
    await fleet.take()
    assert (fleet.ran, fleet.broker.lines[RUN].handed_out) == ([0], {})


async def test_a_start_whose_answer_was_lost_runs_the_job_once(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    fleet.bench.store.after["start"] = 1
    with pytest.raises(Unavailable):
        await fleet.take()
    await fleet.take()
    assert fleet.ran == [0]


async def test_a_job_cancelled_on_its_way_does_not_run(fleet: BrokerFleet) -> None:
    (job,) = numbered(1)
    await fleet.bench.store.enqueue([job])
    await fleet.carry()
    await fleet.bench.store.cancel([job.id], "not wanted", NOW)
    await fleet.take()
    done = await fleet.bench.until(job, JobState.CANCELLED)
    assert (done.reason, fleet.ran) == ("not wanted", [])


async def test_a_draining_worker_leaves_messages_to_others(fleet: BrokerFleet) -> None:
    await fleet.bench.store.enqueue(numbered(1))
    await fleet.carry()
    fleet.bench.worker.is_draining = True
    await fleet.receiver.step()
    assert await fleet.broker.depth(RUN) == 1


async def test_a_carrier_that_stops_gives_back_what_nobody_has_started(fleet: BrokerFleet) -> None:
    jobs = numbered(2)
    await fleet.bench.store.enqueue(jobs[:1])
    await fleet.carry()
    await fleet.take()
    await fleet.bench.store.enqueue(jobs[1:])
    await fleet.carry()
    await fleet.carrier.hand_back(0.5)
    back = await fleet.bench.job(jobs[1])
    assert (back.state, back.attempt, back.due_at) == (
        JobState.WAITING,
        0,
        jobs[1].due_at,
    )
    assert (await fleet.bench.job(jobs[0])).state is JobState.SUCCEEDED


# Work for other languages.


async def test_a_declared_task_goes_out_in_the_documented_form(fleet: BrokerFleet) -> None:
    target = HandlerTarget("export", kwargs=msgspec.Raw(b'{"objectID":23}'))
    job = a_job(target=target)
    await fleet.bench.store.enqueue([job])
    sender = fleet.a_sender("export")
    await sender.step()
    ((queue, envelope),) = fleet.broker.published
    assert queue == WORK
    assert json.loads(envelope.body) == {
        "jsonrpc": "2.0",
        "method": "export",
        "params": {"objectID": 23, "attempt": 1},
        "id": job.id,
    }
    assert envelope.headers == {
        "onbeat-token": (await fence_of(fleet.bench.store)).seal(job.id, Token(1)),
        "onbeat-attempt": "1",
        "onbeat-deadline": "2030-01-01T12:02:00Z",
    }
    sent = await fleet.bench.job(job)
    assert sent.lease_until == fleet.bench.clock.now() + 120 * SECOND


async def sent_and_lost(fleet: BrokerFleet, sender: RemoteSender, job: Job, *, heard: bool) -> Job:
    """The job after its call was sent, and its lease ran out; a worker may have renewed it."""
    await sender.step()
    sent = await fleet.bench.job(job)
    if heard:
        (lease,) = await fleet.bench.store.renew([(sent.id, sent.token)], sent.lease_until)
        assert lease is not None
    assert await fleet.bench.rescuer.rescue_expired() == 0
    fleet.bench.clock.set(fleet.bench.clock.now() + 121 * SECOND)
    assert await fleet.rescued() == 1
    return await fleet.bench.job(job)


async def test_a_call_that_no_worker_answers_is_sent_again_for_as_long_as_it_takes(
    fleet: BrokerFleet,
) -> None:
    job = a_job("export", expires_at=NOW + 9 * HOUR, start_by=NOW + 9 * HOUR)
    await fleet.bench.store.enqueue([job])
    sender = fleet.a_sender("export")
    calls = LOST_BESIDE_MAX + 1
    for number in range(1, calls + 1):
        back = await sent_and_lost(fleet, sender, job, heard=False)
        assert (back.state, back.error) == (JobState.WAITING, UNANSWERED)
        assert (back.attempt, back.lost, back.released, back.suspicion) == (number, number, 0, None)
        assert back.start_by == job.start_by
        fleet.bench.clock.set(max(back.due_at, fleet.bench.clock.now()))
    attempts = await fleet.bench.store.attempts(job.id)
    assert {(one.outcome, one.error) for one in attempts} == {(OutcomeName.LOST, UNANSWERED)}
    assert len(attempts) == calls
    for _ in range(LOST_MAX):
        assert back.state is JobState.WAITING
        fleet.bench.clock.set(max(back.due_at, fleet.bench.clock.now()))
        back = await sent_and_lost(fleet, sender, job, heard=True)
    assert back.state is JobState.FAILED
    assert back.reason.startswith("poison: its worker died 3 times while it ran, each time alone")


async def test_a_call_whose_worker_was_heard_of_is_an_attempt_that_may_be_lost(
    fleet: BrokerFleet,
) -> None:
    job = a_job("export")
    await fleet.bench.store.enqueue([job])
    sender = fleet.a_sender("export")
    back = await sent_and_lost(fleet, sender, job, heard=True)
    assert (back.state, back.attempt, back.lost) == (JobState.WAITING, 1, 1)
    for _ in range(LOST_MAX - 1):
        fleet.bench.clock.set(fleet.bench.clock.now() + HOUR)
        back = await sent_and_lost(fleet, sender, job, heard=True)
    assert back.state is JobState.FAILED
    assert back.reason.startswith("poison: its worker died 3 times")


async def test_a_call_whose_worker_was_heard_of_is_in_flight_no_more(fleet: BrokerFleet) -> None:
    """Long work that is renewed takes no place from other calls, and is not called back."""
    jobs = [a_job("export") for _ in range(FEW + 1)]
    await fleet.bench.store.enqueue(jobs)
    sender = fleet.a_sender("export")
    sender.calls["export"].most = FEW
    await sender.step()
    await sender.step()
    assert len(fleet.broker.published) == FEW
    sent = await fleet.bench.job(jobs[0])
    await fleet.bench.store.renew([(sent.id, sent.token)], fleet.bench.clock.now() + HOUR)
    await sender.step()
    assert len(fleet.broker.published) == FEW + 1


async def test_all_calls_of_a_sender_have_a_bound(fleet: BrokerFleet) -> None:
    sender = fleet.a_sender("export", "resize")
    for task in ("export", "resize"):
        sender.calls[task].most = IN_FLIGHT_MAX
        await fleet.bench.store.enqueue([a_job(task) for _ in range(IN_FLIGHT_MAX // 2 + 1)])
    while await sender.step() == 0.0:
        pass
    assert len(fleet.broker.published) == IN_FLIGHT_MAX
    assert len(await fleet.bench.store.held_leases(sender.id)) == IN_FLIGHT_MAX


async def test_answers_are_looked_for_less_often_the_longer_there_is_none(
    fleet: BrokerFleet,
) -> None:
    await fleet.bench.store.enqueue([a_job("export") for _ in range(FEW + 1)])
    sender = fleet.a_sender("export")
    sender.calls["export"].most = FEW
    assert await sender.step() == 0.0
    assert await sender.step() == remote.LOOK_PERIOD
    fleet.bench.clock.set(fleet.bench.clock.now() + 4 * SECOND)
    assert await sender.step() == 4 * remote.QUIET_SHARE
    fleet.bench.clock.set(fleet.bench.clock.now() + 60 * SECOND)
    assert await sender.step() == LOOK_AGAIN_MAX
    sent = await fleet.bench.store.held_leases(sender.id)
    await fleet.bench.store.renew([(sent[0].job_id, sent[0].token)], NOW + HOUR)
    assert await sender.step() == 0.0
    assert await sender.step() == remote.LOOK_PERIOD


async def test_workers_that_are_away_hold_up_no_other_task(fleet: BrokerFleet) -> None:
    """Their jobs are due first, and of them one is sent in each lease."""
    away = [a_job("export") for _ in range(2 * FEW)]
    others = [a_job("resize", due_at=NOW + HOUR) for _ in range(FEW)]
    await fleet.bench.store.enqueue(away + others)
    sender = fleet.a_sender("export", "resize")
    sender.calls["export"].most = FEW
    for calls in (FEW, 1, 1):
        before = len(fleet.broker.published)
        while await sender.step() == 0.0:
            pass
        assert len(fleet.broker.published) == before + calls
        fleet.bench.clock.set(fleet.bench.clock.now() + 121 * SECOND)
        assert await fleet.rescued() == calls
    before = len(fleet.broker.published)
    fleet.bench.clock.set(NOW + HOUR)
    while await sender.step() == 0.0:
        pass
    methods = [json.loads(one.body)["method"] for _, one in fleet.broker.published[before:]]
    assert Counter(methods) == {"export": 1, "resize": FEW}


async def test_what_could_not_be_sent_is_given_back_and_costs_nothing(fleet: BrokerFleet) -> None:
    job = a_job("export")
    await fleet.bench.store.enqueue([job])
    sender = fleet.a_sender("export")

    async def fails(queue: Any, envelopes: Any) -> Any:
        raise Unavailable("gone between two calls")

    fleet.broker.publish = fails
    with pytest.raises(Unavailable):
        await sender.step()
    back = await fleet.bench.job(job)
    assert (back.state, back.attempt, back.released) == (JobState.WAITING, 0, 0)


async def test_without_the_broker_nothing_is_claimed_for_other_languages(
    fleet: BrokerFleet,
) -> None:
    job = a_job("export")
    await fleet.bench.store.enqueue([job])
    fleet.broker.is_away = True
    with pytest.raises(Unavailable):
        await fleet.a_sender("export").step()
    assert (await fleet.bench.job(job)).token == 0


async def test_a_large_payload_is_to_be_fetched(fleet: BrokerFleet) -> None:
    text = msgspec.json.encode({"page": "x" * 200_000})
    job = a_job(target=HandlerTarget("export", kwargs=msgspec.Raw(text)))
    await fleet.bench.store.enqueue([job])
    await fleet.a_sender("export").step()
    ((_, envelope),) = fleet.broker.published
    assert len(envelope.body) < 1_000
    assert envelope.headers["onbeat-fetch"] == f"/api/jobs/{job.id}/start"


async def test_a_task_known_here_goes_out_on_trial_when_no_worker_was_seen_that_knows_it(
    fleet: BrokerFleet,
) -> None:
    job = a_job("export")
    await fleet.bench.store.enqueue([a_job("work"), job])
    sender = fleet.a_sender(known_here=frozenset({"work", "export", "@http"}))
    await sender.step()
    assert fleet.broker.published == []
    fleet.bench.clock.set(fleet.bench.clock.now() + FLEET_GRACE * SECOND)
    await sender.step()
    assert [json.loads(one.body)["method"] for _, one in fleet.broker.published] == ["export"]
    fleet.bench.clock.set(fleet.bench.clock.now() + 121 * SECOND)
    assert await fleet.rescued() == 1
    back = await fleet.bench.job(job)
    assert (back.state, back.attempt, back.lost, back.released) == (JobState.WAITING, 0, 0, 0)


async def test_what_is_on_trial_goes_to_a_worker_that_shows_itself(fleet: BrokerFleet) -> None:
    job = a_job("export")
    await fleet.bench.store.enqueue([job])
    sender = fleet.a_sender(known_here=frozenset({"export"}))
    await sender.step()
    fleet.bench.clock.set(fleet.bench.clock.now() + FLEET_GRACE * SECOND)
    await sender.step()
    assert (await fleet.bench.job(job)).state is JobState.RUNNING
    await fleet.bench.store.heartbeat(replace(fleet.bench.row, id="late", lanes=("export",)))
    fleet.bench.clock.set(fleet.bench.clock.now() + SECOND)
    await sender.step()
    back = await fleet.bench.job(job)
    assert (back.state, back.attempt) == (JobState.WAITING, 0)


# What comes in.


async def test_what_comes_in_is_answered_and_acknowledged(fleet: BrokerFleet) -> None:
    async def answer(delivery: Delivery) -> bytes:
        return delivery.body.upper()

    intake = InboundConsumer(fleet.broker, SUBMIT, answer, fleet.add_dead_letter)
    fleet.broker.put(SUBMIT, Envelope(body=b"a", id="1"))
    fleet.broker.put(SUBMIT, Envelope(body=b"b", id="2", headers={"reply-to": "mine"}))
    await intake.step()
    await intake.close()
    assert {(queue, one.body, one.id) for queue, one in fleet.broker.published} == {
        (REPLIES, b"A", "1.reply"),
        ("mine", b"B", "2.reply"),
    }
    assert fleet.broker.lines[SUBMIT].handed_out == {}


async def test_what_comes_in_waits_for_the_store(fleet: BrokerFleet) -> None:
    answers = [Unavailable("away"), None]

    async def answer(delivery: Delivery) -> None:
        fields = answers.pop(0)
        if fields is not None:
            raise fields

    intake = InboundConsumer(fleet.broker, SUBMIT, answer, fleet.add_dead_letter)
    fleet.broker.put(SUBMIT, Envelope(body=b"a", id="1"))
    with pytest.raises(Unavailable):
        await intake.step()
    assert len(fleet.broker.lines[SUBMIT].handed_out) == 1
    await intake.step()
    await intake.close()
    assert (fleet.broker.lines[SUBMIT].handed_out, fleet.dead_letters) == ({}, [])


async def test_large_messages_are_acted_on_a_few_at_once(fleet: BrokerFleet) -> None:
    """Each may be copied on its way, and many of them at once would fill the memory."""
    heights, now = [], set()

    async def answer(delivery: Delivery) -> None:
        now.add(delivery.id)
        heights.append(len(now))
        await asyncio.sleep(0)
        now.discard(delivery.id)

    intake = InboundConsumer(fleet.broker, SUBMIT, answer, fleet.add_dead_letter)
    for number in range(12):
        fleet.broker.put(SUBMIT, Envelope(body=bytes(AT_ONCE_BYTES // 4), id=str(number)))
    for _ in range(3):
        await intake.step()
    await intake.close()
    assert (len(heights), max(heights)) == (12, 4)
    assert fleet.broker.lines[SUBMIT].handed_out == {}


async def test_one_bad_message_does_not_hold_up_the_others(fleet: BrokerFleet) -> None:
    async def answer(delivery: Delivery) -> None:
        if delivery.body == b"bad":
            raise KeyError("params")

    intake = InboundConsumer(fleet.broker, SUBMIT, answer, fleet.add_dead_letter)
    for body in (b"good", b"bad", b"good"):
        fleet.broker.put(SUBMIT, Envelope(body=body, id="1"))
    await intake.step()
    await intake.close()
    assert fleet.dead_letters == [(SUBMIT, b"bad", "KeyError: 'params'")]
    assert fleet.broker.lines[SUBMIT].handed_out == {}
