"""Messages that somebody forged, and brokers that take one thing and not another."""

import asyncio
import json
from datetime import timedelta

import msgspec
import pytest

from engine.bench import Bench
from engine.broker import LocalBroker
from onbeat.engine.crew import Crew
from onbeat.engine.dead import BODY_BYTES_TOLD_MAX, WAITING_MAX, DeadPost
from onbeat.engine.intake import Intake
from onbeat.engine.receiver import Receiver
from onbeat.engine.remote import RemoteSender, RemoteTasks
from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.job import JobState
from onbeat.model.letter import DeadLetter
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.outcome import Released
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import carrier_id
from onbeat.ports.store import ClaimRequest
from onbeat.ports.transport import Envelope
from onbeat.testing.build import NOW, a_job
from onbeat.wire.work import DEAD, REPLIES, SUBMIT, announcement, run_queue, work_queue

RUN, WORK = run_queue("default"), work_queue("default")


@pytest.fixture
def broker():
    return LocalBroker()


@pytest.fixture
def buried():
    return []


@pytest.fixture
def bury(buried):
    async def bury(source, delivery, reason):
        buried.append((source, delivery.body, reason))

    return bury


# Announcements.


@pytest.fixture
async def bench():
    ran, goes_on = [], asyncio.Event()

    async def work(n=0):
        ran.append(n)

    async def long(n=0):
        ran.append(n)
        await goes_on.wait()

    async with Bench(work=work, long=long, concurrency=2) as bench:
        bench.ran, bench.goes_on = ran, goes_on
        yield bench


@pytest.fixture
async def receiver(bench, broker, bury):
    receiver = Receiver(
        bench.store,
        broker,
        bench.clock,
        bench.worker,
        bench.row.id,
        bench.handlers.registry.tasks,
        "default",
        bury,
    )
    yield receiver
    await receiver.leave()


def numbered(task, count):
    return [
        a_job(target=HandlerTarget(task, kwargs=msgspec.Raw(b'{"n":%d}' % n))) for n in range(count)
    ]


async def carried(bench, jobs):
    await bench.store.enqueue(jobs)
    claimed = await bench.store.claim(
        ClaimRequest(
            worker=carrier_id("one"),
            now=bench.clock.now(),
            limit=len(jobs),
            lanes=frozenset({"work", "long"}),
        )
    )
    return claimed.jobs


def call(**fields):
    return {"jsonrpc": "2.0", "method": "work", "id": a_job().id, "token": 1} | fields


@pytest.mark.parametrize(
    "body",
    [
        call(token=2**63),
        call(token=-1),
        call(id="no id"),
        call(id="\x00" * 36),
        [call() for _ in range(1_001)],
        [call() | {"padding": "x" * 1_048_576}],
    ],
    ids=["token too high", "token below 0", "no id", "zeros", "too many", "too long"],
)
async def test_announcements_that_cannot_be_are_put_aside(receiver, broker, buried, body):
    text = json.dumps(body).encode()
    broker.put(RUN, Envelope(body=text, id="forged"))
    await receiver.step()
    ((source, message, _),) = buried
    assert (source, message, broker.lines[RUN].handed_out) == (RUN, text, {})


@pytest.mark.parametrize("hops", ["many", "-1", "9" * 5_000, "²"])
async def test_hops_that_are_no_number_end_there(receiver, broker, hops):
    jobs = [a_job("elsewhere")]
    broker.put(RUN, Envelope(body=announcement(jobs), id="1", headers={"onbeat-hops": hops}))
    await receiver.step()
    assert (broker.published, await broker.depth(RUN)) == ([], 0)
    assert broker.lines[RUN].handed_out == {}


async def test_a_worker_starts_no_more_than_it_has_room_for(bench, receiver, broker):
    jobs = await carried(bench, numbered("long", 5))
    broker.put(RUN, Envelope(body=announcement(jobs), id="1"))
    await receiver.step()
    states = [(await bench.job(job)).worker for job in jobs]
    assert states == [bench.row.id] * 2 + [carrier_id("one")] * 3
    await receiver.leave()
    assert await broker.depth(RUN) == 1, "the others are there for whoever has room"
    bench.goes_on.set()
    await bench.worker.idle.wait()
    for _ in range(2):
        await receiver.step()
        await bench.worker.idle.wait()
    assert sorted(bench.ran) == [0, 1, 2, 3, 4]


async def test_slots_that_become_free_meanwhile_are_used(bench, receiver, broker):
    """What came in one message is not sent on where there is room by then."""
    (first, *others) = await carried(bench, [*numbered("long", 1), *numbered("work", 2)])
    broker.put(RUN, Envelope(body=announcement([first]), id="1"))
    await receiver.step()
    start = bench.store.inner.start

    async def start_slowly(*asked):
        bench.goes_on.set()
        await bench.worker.idle.wait()
        return await start(*asked)

    bench.store.inner.start = start_slowly
    broker.put(RUN, Envelope(body=announcement(others), id="2"))
    await receiver.step()
    await bench.worker.idle.wait()
    assert (len(bench.ran), broker.published) == (3, [])


async def test_small_messages_are_still_taken_together(bench, receiver, broker):
    jobs = await carried(bench, numbered("work", 4))
    for job in jobs:
        broker.put(RUN, Envelope(body=announcement([job]), id=job.id))
    for _ in range(3):
        await receiver.step()
        await bench.worker.idle.wait()
    assert sorted(bench.ran) == [0, 1, 2, 3]
    assert bench.store.calls.count("start") < 4


# What comes in.


async def test_an_answer_that_nobody_takes_holds_nothing_up(broker, bury, buried):
    async def answer(delivery):
        return b"done"

    async def publish(queue, envelopes):
        if queue != REPLIES:
            raise Unavailable("there is no such queue")
        broker.published += [(queue, envelope) for envelope in envelopes]

    broker.publish = publish
    for number in range(3):
        headers = {"reply-to": "amq.nobody"} if number == 1 else {}
        broker.put(SUBMIT, Envelope(body=b"{}", id=str(number), headers=headers))
    intake = Intake(broker, SUBMIT, answer, bury)
    await intake.step()
    await intake.leave()
    assert sorted(one.id for _, one in broker.published) == ["0.reply", "2.reply"]
    assert (broker.lines[SUBMIT].handed_out, buried) == ({}, [])


async def test_answers_wait_for_a_broker_that_has_gone(broker, bury):
    asked = []

    async def answer(delivery):
        asked.append(delivery.id)
        broker.is_away = len(asked) == 1
        return b"done"

    broker.put(SUBMIT, Envelope(body=b"{}", id="1"))
    intake = Intake(broker, SUBMIT, answer, bury)
    with pytest.raises(Unavailable):
        await intake.step()
    assert len(broker.lines[SUBMIT].handed_out) == 1
    broker.is_away = False
    await intake.step()
    await intake.leave()
    assert ([one.id for _, one in broker.published], asked) == (["1.reply"], ["1", "1"])


# Dead letters.


def a_letter(**fields):
    given = {"id": a_job().id, "at": NOW, "source": SUBMIT, "reason": "no JSON", "body": b"{"}
    return DeadLetter(**given | fields)


async def test_letters_are_told_in_order_and_kept_while_the_broker_is_away(broker):
    post, letters = DeadPost(broker), [a_letter() for _ in range(3)]
    for letter in letters:
        post.put(letter)
    broker.is_away = True
    assert await post.step() > 1, "it is not tried in a hurry"
    broker.is_away = False
    await post.step()
    await post.step()
    assert [(queue, one.id) for queue, one in broker.published] == [
        (DEAD, letter.id) for letter in letters
    ]


async def test_a_large_message_is_cut_when_it_is_told_of(broker):
    post = DeadPost(broker)
    post.put(a_letter(body=b"x" * (BODY_BYTES_TOLD_MAX + 1)))
    await post.step()
    ((_, told),) = broker.published
    assert len(told.body) == BODY_BYTES_TOLD_MAX
    assert told.headers["onbeat-cut"] == str(BODY_BYTES_TOLD_MAX + 1)


async def test_a_letter_too_large_for_the_broker_does_not_keep_the_others_back(broker):
    post = DeadPost(broker)
    wide = a_letter(headers={f"h{n}": "x" * 1_000 for n in range(500)}, reason="wide")
    for letter in (a_letter(), wide, a_letter()):
        post.put(letter)
    take = broker.publish

    async def publish(queue, envelopes):
        if any(len(one.headers) > 100 for one in envelopes):
            raise TooLarge("the headers of a message have at most 100,000 bytes", "headers")
        await take(queue, envelopes)

    broker.publish = publish
    await post.step()
    assert len(broker.published) == 3
    (told,) = [one for _, one in broker.published if one.id == wide.id]
    assert told.headers == {"onbeat-source": SUBMIT, "onbeat-reason": "wide"}


async def test_letters_that_wait_are_bounded(broker):
    post = DeadPost(broker)
    for _ in range(WAITING_MAX + 50):
        post.put(a_letter())
    assert len(post.waiting) == WAITING_MAX


async def test_letters_that_wait_take_no_more_memory_than_what_is_told_of_them(broker):
    post = DeadPost(broker)
    post.put(a_letter(body=bytes(8 * BODY_BYTES_TOLD_MAX)))
    assert [len(one.body) for one in post.waiting] == [BODY_BYTES_TOLD_MAX]


async def test_a_post_without_letters_goes_round(broker):
    assert 0 < await DeadPost(broker).step() < 5


# Work for other languages.


async def test_a_broker_that_takes_no_work_is_tried_with_one_job_at_a_time(bench, broker):
    jobs = [a_job("export") for _ in range(CLAIM_MAX // 2)]
    await bench.store.enqueue(jobs)
    crew = Crew(bench.store, bench.clock)
    sender = RemoteSender(
        bench.store,
        broker,
        bench.clock,
        crew,
        "one",
        None,
        RemoteTasks(frozenset({"export"}), frozenset),
        timedelta(seconds=120),
        lambda job: bench.worker.record(job, Released(), timedelta()),
    )
    take = broker.publish

    async def full(queue, envelopes):
        raise Unavailable("no room")

    broker.publish = full
    for _ in range(4):
        with pytest.raises(Unavailable):
            await sender.step()
    tokens = sum([(await bench.job(job)).token for job in jobs])
    assert tokens == len(jobs) + 3
    broker.publish = take
    while await sender.step() == 0.0:
        pass
    assert len(broker.published) == len(jobs)
    assert {(await bench.job(job)).state for job in jobs} == {JobState.RUNNING}
