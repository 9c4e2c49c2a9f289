"""Messages that somebody forged, and brokers that take one thing and not another."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from engine.broker import LocalBroker
from engine.harness import EngineHarness
from onbeat.engine.broker.dead_letters import COPY_BYTES_MAX, WAITING_MAX, DeadLetterPublisher
from onbeat.engine.broker.fleet import FleetView
from onbeat.engine.broker.inbound import InboundConsumer
from onbeat.engine.broker.job_consumer import JobConsumer
from onbeat.engine.broker.remote import RemoteSender, RemoteTasks
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.limits import CLAIM_MAX
from onbeat.model.target import HandlerTarget
from onbeat.model.worker import carrier_id
from onbeat.operations.fence import fence_of
from onbeat.ports.store import ClaimRequest
from onbeat.ports.transport import Delivery, Envelope
from onbeat.testing.build import NOW, a_job
from onbeat.wire.broker_messages import DEAD, REPLIES, SUBMIT, announcement, run_queue, work_queue

RUN, WORK = run_queue("default"), work_queue("default")


@pytest.fixture
def broker() -> LocalBroker:
    return LocalBroker()


@pytest.fixture
def buried() -> list[Any]:
    return []


@pytest.fixture
def bury(buried: list[Any]) -> Callable[..., Any]:
    async def bury(source: str, delivery: Delivery, reason: str) -> None:
        buried.append((source, delivery.body, reason))

    return bury


# Announcements.


class Announced(EngineHarness):
    """A bench that keeps what its tasks have run, and the event for which the long one waits."""

    ran: list[int]
    goes_on: asyncio.Event


@pytest.fixture
async def bench() -> AsyncIterator[Announced]:
    ran: list[int] = []
    goes_on = asyncio.Event()

    async def work(n: int = 0) -> None:
        ran.append(n)

    async def long(n: int = 0) -> None:
        ran.append(n)
        await goes_on.wait()

    async with Announced(work=work, long=long, concurrency=2) as bench:
        bench.ran, bench.goes_on = ran, goes_on
        yield bench


@pytest.fixture
async def receiver(
    bench: Announced, broker: LocalBroker, bury: Callable[..., Any]
) -> AsyncIterator[JobConsumer]:
    receiver = JobConsumer(
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
    await receiver.close()


def numbered(task: str, count: int) -> list[Job]:
    return [
        a_job(target=HandlerTarget(task, kwargs=msgspec.Raw(b'{"n":%d}' % n))) for n in range(count)
    ]


async def carried(bench: Announced, jobs: list[Job]) -> tuple[Any, ...]:
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


def call(**fields: Any) -> dict[str, Any]:
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
async def test_announcements_that_cannot_be_are_put_aside(
    receiver: JobConsumer,
    broker: LocalBroker,
    buried: list[Any],
    body: dict[str, Any] | list[dict[str, Any]],
) -> None:
    text = json.dumps(body).encode()
    broker.put(RUN, Envelope(body=text, id="forged"))
    await receiver.step()
    ((source, message, _),) = buried
    assert (source, message, broker.lines[RUN].handed_out) == (RUN, text, {})


@pytest.mark.parametrize("hops", ["many", "-1", "9" * 5_000, "²"])
async def test_hops_that_are_no_number_end_there(
    receiver: JobConsumer, broker: LocalBroker, hops: str
) -> None:
    jobs = [a_job("elsewhere")]
    broker.put(RUN, Envelope(body=announcement(jobs), id="1", headers={"onbeat-hops": hops}))
    await receiver.step()
    assert (broker.published, await broker.depth(RUN)) == ([], 0)
    assert broker.lines[RUN].handed_out == {}


async def test_a_worker_starts_no_more_than_it_has_room_for(
    bench: Announced, receiver: JobConsumer, broker: LocalBroker
) -> None:
    jobs = await carried(bench, numbered("long", 5))
    broker.put(RUN, Envelope(body=announcement(jobs), id="1"))
    await receiver.step()
    states = [(await bench.job(job)).worker for job in jobs]
    assert states == [bench.row.id] * 2 + [carrier_id("one")] * 3
    await receiver.close()
    assert await broker.depth(RUN) == 1, "the others are there for whoever has room"
    bench.goes_on.set()
    await bench.worker.idle.wait()
    for _ in range(2):
        await receiver.step()
        await bench.worker.idle.wait()
    assert sorted(bench.ran) == [0, 1, 2, 3, 4]


async def test_slots_that_become_free_meanwhile_are_used(
    bench: Announced, receiver: JobConsumer, broker: LocalBroker
) -> None:
    """What came in one message is not sent on where there is room by then."""
    (first, *others) = await carried(bench, [*numbered("long", 1), *numbered("work", 2)])
    broker.put(RUN, Envelope(body=announcement([first]), id="1"))
    await receiver.step()
    start = bench.store.inner.start

    async def start_slowly(*asked: Any) -> tuple[Job]:
        bench.goes_on.set()
        await bench.worker.idle.wait()
        return await start(*asked)

    bench.store.inner.start = start_slowly
    broker.put(RUN, Envelope(body=announcement(others), id="2"))
    await receiver.step()
    await bench.worker.idle.wait()
    assert (len(bench.ran), broker.published) == (3, [])


async def test_small_messages_are_still_taken_together(
    bench: Announced, receiver: JobConsumer, broker: LocalBroker
) -> None:
    jobs = await carried(bench, numbered("work", 4))
    for job in jobs:
        broker.put(RUN, Envelope(body=announcement([job]), id=job.id))
    for _ in range(3):
        await receiver.step()
        await bench.worker.idle.wait()
    assert sorted(bench.ran) == [0, 1, 2, 3]
    assert bench.store.calls.count("start") < 4


# What comes in.


async def test_an_answer_that_nobody_takes_holds_nothing_up(
    broker: LocalBroker, bury: Callable[..., Any], buried: list[Any]
) -> None:
    async def answer(delivery: Delivery) -> bytes:
        return b"done"

    async def publish(queue: Any, envelopes: Any) -> Any:
        if queue != REPLIES:
            raise Unavailable("there is no such queue")
        broker.published += [(queue, envelope) for envelope in envelopes]

    broker.publish = publish
    for number in range(3):
        headers = {"reply-to": "amq.nobody"} if number == 1 else {}
        broker.put(SUBMIT, Envelope(body=b"{}", id=str(number), headers=headers))
    intake = InboundConsumer(broker, SUBMIT, answer, bury)
    await intake.step()
    await intake.close()
    assert sorted(one.id for _, one in broker.published) == ["0.reply", "2.reply"]
    assert (broker.lines[SUBMIT].handed_out, buried) == ({}, [])


async def test_answers_wait_for_a_broker_that_has_gone(
    broker: LocalBroker, bury: Callable[..., Any]
) -> None:
    request = []

    async def answer(delivery: Delivery) -> bytes:
        request.append(delivery.id)
        broker.is_away = len(request) == 1
        return b"done"

    broker.put(SUBMIT, Envelope(body=b"{}", id="1"))
    intake = InboundConsumer(broker, SUBMIT, answer, bury)
    with pytest.raises(Unavailable):
        await intake.step()
    assert len(broker.lines[SUBMIT].handed_out) == 1
    broker.is_away = False
    await intake.step()
    await intake.close()
    assert ([one.id for _, one in broker.published], request) == (["1.reply"], ["1", "1"])


# Dead letters.


def a_letter(**fields: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "id": a_job().id,
        "at": NOW,
        "source": SUBMIT,
        "reason": "no JSON",
        "body": b"{",
    }
    return DeadLetter(**(given | fields))


async def test_letters_are_told_in_order_and_kept_while_the_broker_is_away(
    broker: LocalBroker,
) -> None:
    post, letters = DeadLetterPublisher(broker), [a_letter() for _ in range(3)]
    for letter in letters:
        post.submit(letter)
    broker.is_away = True
    assert await post.step() > 1, "it is not tried in a hurry"
    broker.is_away = False
    await post.step()
    await post.step()
    assert [(queue, one.id) for queue, one in broker.published] == [
        (DEAD, letter.id) for letter in letters
    ]


async def test_a_large_message_is_cut_when_it_is_told_of(broker: LocalBroker) -> None:
    post = DeadLetterPublisher(broker)
    post.submit(a_letter(body=b"x" * (COPY_BYTES_MAX + 1)))
    await post.step()
    ((_, answer),) = broker.published
    assert len(answer.body) == COPY_BYTES_MAX
    assert answer.headers["onbeat-cut"] == str(COPY_BYTES_MAX + 1)


async def test_a_letter_too_large_for_the_broker_does_not_keep_the_others_back(
    broker: LocalBroker,
) -> None:
    post = DeadLetterPublisher(broker)
    wide = a_letter(headers={f"h{n}": "x" * 1_000 for n in range(500)}, reason="wide")
    for letter in (a_letter(), wide, a_letter()):
        post.submit(letter)
    take = broker.publish

    async def publish(queue: Any, envelopes: Any) -> Any:
        if any(len(envelope.headers) > 100 for envelope in envelopes):
            raise TooLarge("the headers of a message have at most 100,000 bytes", "headers")
        await take(queue, envelopes)

    broker.publish = publish
    await post.step()
    assert len(broker.published) == 3
    (answer,) = [envelope for _, envelope in broker.published if envelope.id == wide.id]
    assert answer.headers == {"onbeat-source": SUBMIT, "onbeat-reason": "wide"}


async def test_letters_that_wait_are_bounded(broker: LocalBroker) -> None:
    post = DeadLetterPublisher(broker)
    for _ in range(WAITING_MAX + 50):
        post.submit(a_letter())
    assert len(post.waiting) == WAITING_MAX


async def test_letters_that_wait_take_no_more_memory_than_what_is_told_of_them(
    broker: LocalBroker,
) -> None:
    post = DeadLetterPublisher(broker)
    post.submit(a_letter(body=bytes(8 * COPY_BYTES_MAX)))
    assert [len(one.body) for one in post.waiting] == [COPY_BYTES_MAX]


async def test_a_post_without_letters_goes_round(broker: LocalBroker) -> None:
    assert 0 < await DeadLetterPublisher(broker).step() < 5


# Work for other languages.


async def test_a_broker_that_takes_no_work_is_tried_with_one_job_at_a_time(
    bench: Announced, broker: LocalBroker
) -> None:
    jobs = [a_job("export") for _ in range(CLAIM_MAX // 2)]
    await bench.store.enqueue(jobs)
    fleet = FleetView(bench.store, bench.clock)
    sender = RemoteSender(
        bench.store,
        broker,
        bench.clock,
        fleet,
        "one",
        None,
        RemoteTasks(frozenset({"export"}), frozenset),
        timedelta(seconds=120),
        bench.worker.record,
        lambda: fence_of(bench.store),
        lambda job: job,
    )
    take = broker.publish

    async def full(queue: Any, envelopes: Any) -> Any:
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
