"""What a target gets from the events that its job was made for."""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from app import event_tasks as tasks
from app.event_jobs import NOW, an_event, ended, made_for, task
from app.event_tasks import beat
from conditions import eventually
from onbeat import Context, JobFailed, Onbeat, Options
from onbeat.model.errors import Unavailable
from onbeat.model.event import Event
from onbeat.model.ids import JobId
from onbeat.model.target import HttpTarget, MessageTarget, Target
from onbeat.operations.tables.events import EVENT_LIST
from onbeat.operations.tables.remote_work import JOB_START
from onbeat.ports.store import Store
from onbeat.ports.transport import Envelope
from onbeat.targets.codec import Codec
from onbeat.targets.event import HandlerEvent, event_kind
from onbeat.targets.http_request import request_for
from onbeat.targets.message import envelope
from onbeat.testing.build import a_job
from onbeat.transports.memory_broker import MemoryBroker
from onbeat.wire.cloud_events import BATCHED, STRUCTURED, cloud_event
from onbeat.wire.events import FindEvents
from onbeat.wire.requests import StartJob
from onbeat.wire.worker_results import LeaseBody


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with beat:
        yield beat.backend.store


async def result(store: Store, target: Target, *events: Event) -> Any:
    job = await ended(store, await made_for(store, target, *events))
    attempts = await store.attempts(job.id)
    assert job.state == "succeeded", attempts
    return None if job.result is None else json.loads(bytes(job.result))


async def error(store: Store, target: Target, *events: Event) -> str:
    job = await ended(store, await made_for(store, target, *events))
    assert job.state == "failed"
    (attempt,) = await store.attempts(job.id)
    return str(attempt.error)


async def test_a_task_gets_the_event_by_its_annotation(store: Store) -> None:
    event = an_event("1", {"n": 1}, subject="order", extensions={"tenant": "a"})
    got = await result(store, task("first"), event)
    assert got == ["1", event.source, "paid", "order", {"tenant": "a"}, {"n": 1}]
    assert await result(store, task("bare"), an_event("2", [1, 2])) == [1, 2]
    assert await result(store, task("bare"), an_event("3", data=None)) == {"order": 3}


async def test_data_has_the_annotated_type(store: Store) -> None:
    assert await result(store, task("typed"), an_event("7")) == 7
    binary = an_event("8", "AP8=", is_base64=True, datacontenttype="image/png")
    assert await result(store, task("bytes"), binary) == "00ff"
    told = await error(store, task("typed"), an_event("9", {"order": "nine"}))
    assert "the data of event '9' does not fit the task" in told
    assert "$.order" in told


async def test_a_list_gets_all_of_them_beside_other_arguments(store: Store) -> None:
    events = [an_event(id) for id in "123"]
    assert await result(store, task("all", 2), *events) == [2, 4, 6]
    others = [an_event(id) for id in "45"]
    assert await result(store, task("all", factor=3), *others) == [12, 15]


async def test_one_event_of_several_is_the_first(store: Store) -> None:
    assert await result(store, task("typed"), an_event("2"), an_event("1")) == 2


async def test_a_default_is_for_jobs_without_events(store: Store) -> None:
    assert await result(store, task("perhaps", "yes"), an_event("1")) == ["1", "yes"]


async def test_the_context_has_them_too(store: Store) -> None:
    assert await result(store, task("context"), an_event("1"), an_event("2")) == [
        {"order": 1},
        {"order": 2},
    ]


async def test_they_reach_a_process_of_its_own(store: Store) -> None:
    assert await result(store, task("isolated"), an_event("5"), an_event("6")) == [5, 2]


async def test_a_job_without_an_event_fails_once_where_the_task_needs_one(store: Store) -> None:
    assert await (await tasks.perhaps.asend(word="yes")).aresult(30) == [None, "yes"]
    with pytest.raises(JobFailed, match="needs an event, and this job was made by none"):
        await (await tasks.first.asend()).aresult(30)


async def test_a_job_whose_events_are_gone_says_so(store: Store) -> None:
    job = await made_for(store, task("first"))
    assert (await ended(store, job)).state == "failed"
    (attempt,) = await store.attempts(job.id)
    assert "prune.events_after" in str(attempt.error)


async def test_schedules_take_tasks_that_need_an_event() -> None:
    beat = Onbeat("memory://")
    seen: list[list[str]] = []

    @beat.schedule(on="paid")
    def one(event: HandlerEvent[Any]) -> None:
        seen.append(["one", event.id])

    @beat.task
    async def several(context: Context, events: list[HandlerEvent[Any]], word: str) -> None:
        seen.append([word, *(event.id for event in events)])

    async with beat:
        await beat.schedules.aput("several", None, several.call(word="all"), on="paid")
        await beat.events.apublish("paid", id="p1")
        await eventually(lambda: len(seen) == 2, "both ran")
    assert sorted(seen) == [["all", "p1"], ["one", "p1"]]


# HTTP and messages


def request(target: HttpTarget, *events: Event) -> Any:
    return request_for(a_job(target=target), target, NOW, "onbeat", events)


def test_an_http_target_without_a_body_gets_the_event() -> None:
    event = an_event("1")
    sent = request(HttpTarget("https://example.com/"), event)
    assert (sent.method, sent.headers["Content-Type"]) == ("POST", STRUCTURED)
    assert json.loads(sent.body) == {
        "specversion": "1.0",
        "id": "1",
        "source": event.source,
        "type": "paid",
        "time": "2026-03-02T12:00:00Z",
        "data": {"order": 1},
    }
    sent = request(HttpTarget("https://example.com/", method="PUT"), an_event("1"), an_event("2"))
    assert (sent.method, sent.headers["Content-Type"]) == ("PUT", BATCHED)
    assert [event["id"] for event in json.loads(sent.body)] == ["1", "2"]


def test_a_signed_call_signs_the_event() -> None:
    secret = "whsec_" + "A" * 32
    target = HttpTarget("https://example.com/", secret=secret)
    sent = request_for(a_job(target=target), target, NOW, "onbeat", [an_event("1")])
    signature = Webhook(secret).sign(sent.headers["webhook-id"], NOW, sent.body.decode())
    assert sent.headers["webhook-signature"] == signature


def test_a_body_and_a_content_type_of_its_own_stay() -> None:
    sent = request(HttpTarget("https://example.com/", body="mine"), an_event("1"))
    assert (sent.method, sent.body) == ("GET", b"mine")
    own = HttpTarget("https://example.com/", headers={"content-type": "application/json"})
    assert "Content-Type" not in request(own, an_event("1")).headers


def message(target: MessageTarget, *events: Event) -> Envelope:
    return envelope(a_job(target=target), target, events)


def test_a_message_without_a_body_is_the_event() -> None:
    event = an_event("1")
    sent = message(MessageTarget("here", "q"), event)
    assert json.loads(sent.body) == json.loads(msgspec.json.encode(cloud_event(event)))
    assert sent.headers["content-type"] == STRUCTURED
    sent = message(MessageTarget("here", "q"), an_event("1"), an_event("2"))
    assert [event["id"] for event in json.loads(sent.body)] == ["1", "2"]
    assert sent.headers["content-type"] == BATCHED
    own = MessageTarget("here", "q", msgspec.Raw(b'{"n":1}'))
    assert message(own, an_event("1")).body == b'{"n":1}'


# A broker


@pytest.fixture
async def program(request: pytest.FixtureRequest) -> AsyncIterator[Onbeat]:
    name = f"memory://events-{id(request)}"
    options = Options(transport=name, connections={"here": name}, remote_tasks=("export",))
    async with Onbeat("memory://", options=options) as running:
        yield running


async def take(program: Onbeat, queue: str) -> Any:
    """The next message of the queue."""
    broker = MemoryBroker(program.backend.options.transport)
    async with broker.consumer(queue, 1) as consumer:
        deliveries = await consumer.receive(1, 30)
        await consumer.acknowledge(deliveries)
    (delivery,) = deliveries
    return delivery


async def put(program: Onbeat, body: bytes, id: str) -> None:
    broker = MemoryBroker(program.backend.options.transport)
    await broker.publish("onbeat.events", [Envelope(body=body, id=id, headers={})])
    await broker.close()


async def test_a_message_target_gets_the_event_over_its_broker(program: Onbeat) -> None:
    await made_for(program.backend.store, MessageTarget("here", "out"), an_event("1"))
    assert json.loads((await take(program, "out")).body)["id"] == "1"


async def test_a_remote_worker_gets_events_beside_its_arguments(program: Onbeat) -> None:
    target = task("export", object=23)
    await made_for(program.backend.store, target, an_event("1"), an_event("2"))
    call = json.loads((await take(program, "onbeat.work.default")).body)
    assert call["params"]["object"] == 23
    assert [event["id"] for event in call["params"]["events"]] == ["1", "2"]


async def test_an_event_comes_in_over_the_brokers_queue(program: Onbeat) -> None:
    store = program.backend.store
    await put(program, b'{"type": "paid", "data": {"n": 1}}', "message-1")
    await put(program, b'{"type": "paid", "data": {"n": 1}}', "message-1")
    await put(program, b'{"specversion":"1.0","type":"t","id":"7","source":"/s"}', "message-2")

    async def stored() -> Any:
        events = (await program.backend.call(EVENT_LIST, FindEvents())).events
        return events if len(events) == 2 else None

    events = await eventually(stored, "both events are stored")
    assert {(event.id, event.source) for event in events} == {("message-1", "default"), ("7", "/s")}
    assert not await store.dead_letters(None, 10)


async def test_a_wrong_event_becomes_a_dead_letter_that_names_the_field(program: Onbeat) -> None:
    store = program.backend.store
    await put(program, b'{"type": "onbeat.job.failed"}', "message-1")
    (letter,) = await eventually(lambda: store.dead_letters(None, 10), "there is a dead letter")
    assert letter.source == "onbeat.events"
    assert letter.reason.startswith("type must not begin with onbeat.")
    assert timedelta() <= await program.backend.now() - letter.at


# Parameters


def first_of_two(event: HandlerEvent[Any], n: int) -> Any:
    return event.id, n


def second_of_three(n: int, event: HandlerEvent[Any], context: Context) -> Any:
    return event.id, n, context


def last_by_name(n: int = 0, *, events: list[HandlerEvent[Any]]) -> Any:
    return [event.id for event in events], n


def between_defaults(a: int = 1, event: HandlerEvent[Any] | None = None, b: int = 2) -> Any:
    return a, event and event.id, b


def called(function: Any, *args: Any, events: Sequence[Event], **kwargs: Any) -> Any:
    codec = Codec("t", function, Context)
    codec.check_fit(args, kwargs)
    given = codec.with_events(list(args), kwargs, events)
    context: Any = "the context"
    positional, named = codec.with_context(*given, context)
    return function(*positional, **named)


def test_an_event_has_any_place_among_the_parameters() -> None:
    events = [an_event("1"), an_event("2")]
    assert called(first_of_two, 7, events=events) == ("1", 7)
    assert called(first_of_two, n=7, events=events) == ("1", 7)
    assert called(second_of_three, 7, events=events) == ("1", 7, "the context")
    assert called(second_of_three, n=7, events=events) == ("1", 7, "the context")
    assert called(last_by_name, 7, events=events) == (["1", "2"], 7)
    assert called(between_defaults, 7, 8, events=events) == (7, "1", 8)
    assert called(between_defaults, 7, 8, events=[]) == (7, None, 8)
    assert called(between_defaults, b=8, events=[]) == (1, None, 8)


@pytest.mark.parametrize(
    "kind", [list[int], dict[str, HandlerEvent[Any]], int | str, None, "Event"]
)
def test_other_annotations_are_no_events(kind: Any) -> None:
    assert event_kind(kind) is None


async def test_a_store_that_is_away_holds_up_the_start(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = store.events_of_job, [Unavailable("away")]

    async def away_at_first(id: JobId) -> Any:
        if failures:
            raise failures.pop()
        return await read(id)

    monkeypatch.setattr(store, "events_of_job", away_at_first)
    assert await result(store, task("typed"), an_event("7")) == 7
    assert not failures


async def test_a_large_event_is_fetched_by_a_remote_worker(program: Onbeat) -> None:
    store = program.backend.store
    job = await made_for(store, task("export", object=23), an_event("1", "x" * 200_000))
    delivery = await take(program, "onbeat.work.default")
    assert json.loads(delivery.body)["params"] == {"attempt": 1}
    assert delivery.headers["onbeat-fetch"] == f"/api/jobs/{job.id}/start"
    lease = LeaseBody(token=delivery.headers["onbeat-token"])
    answer = await program.backend.call(JOB_START, StartJob(job.id, lease))
    params = json.loads(bytes(answer.params))
    assert (params["object"], params["events"][0]["id"]) == (23, "1")
