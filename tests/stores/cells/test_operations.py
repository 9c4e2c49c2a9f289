"""Operations over a front: what goes on while a cell is away, and what only a cell does."""

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from onbeat.app.local_backend import LocalBackend
from onbeat.model.errors import Invalid, Unavailable
from onbeat.operations.invoke import call_once, request_from
from onbeat.operations.table import OPERATIONS_BY_NAME
from onbeat.operations.tables.events import EVENT_PUBLISH
from onbeat.ports.store import Store
from onbeat.rules.cells import SCHEDULE, slot_of_id
from onbeat.stores.cells import CellStore
from onbeat.stores.memory import MemoryStore
from operations.harness import StoppedClock
from stores.cells.front import a_front, a_key_in
from stores.cells.links import Link

SECOND = timedelta(seconds=1)


class Caller:
    """Requests to operations over a front of two cells, each behind a link."""

    def __init__(self) -> None:
        self.links = [Link(MemoryStore()), Link(MemoryStore())]
        self.front: CellStore = a_front(stores=cast("list[Store]", self.links))
        self.backend = LocalBackend("cells:///test.toml", store=cast("Store", self.front))
        self.clock = StoppedClock()

    async def __call__(self, operation: str, body: object = None, **named: str) -> Any:
        encoded = None if body is None else msgspec.json.encode(body)
        return await self.backend.call_json(OPERATIONS_BY_NAME[operation], named, encoded)

    async def publish(self, key: str, *events: dict[str, str]) -> Any:
        """The answer to a request for these events under a key, a second after the one before."""
        self.clock.at += SECOND
        body = msgspec.json.encode({"events": events})
        request = request_from(EVENT_PUBLISH, {}, body)
        context = msgspec.structs.replace(self.backend.context, clock=self.clock)
        answer, _ = await call_once(context, EVENT_PUBLISH, request, key)
        return msgspec.to_builtins(answer)

    async def add(self, place: int) -> str:
        """The id of a new job of this cell."""
        body = {"task": "work", "unique": a_key_in(self.front, place)}
        answer = await self("job.enqueue", body)
        assert self.front.fleet.of_id(answer["id"]).place == place
        return cast("str", answer["id"])

    async def put_schedule(self, place: int) -> str:
        key = a_key_in(self.front, place, SCHEDULE)
        body = {"cron": "0 9 * * *", "target": {"task": "work"}}
        answer = await self("schedule.put", body, key=key)
        return cast("str", answer["id"])


@pytest.fixture
def call() -> Caller:
    return Caller()


async def test_jobs_of_a_cell_are_sent_shown_and_changed_while_the_other_is_away(
    call: Caller,
) -> None:
    other = await call.add(1)
    schedule = await call.put_schedule(0)
    call.links[1].is_away = True
    for _ in range(8):  # ids, and so the cells of audit records, differ
        id = await call.add(0)
        assert (await call("job.show", id=id))["state"] == "waiting"
        assert (await call("job.cancel", {}, id=id))["state"] == "cancelled"
        assert (await call("job.retry", {}, id=id))["id"] == id
        assert (await call("job.log", id=id))["lines"] == []
        assert (await call("job.cancel", {}, id=id))["state"] == "cancelled"
    assert (await call("schedule.show", id=schedule))["id"] == schedule
    assert slot_of_id((await call("schedule.trigger", id=schedule))["job_id"]) == slot_of_id(
        schedule
    )
    assert (await call("schedule.occurrences", id=schedule))["occurrences"]
    for operation in ("job.show", "job.log"):
        with pytest.raises(Unavailable, match="cell b: no answer"):
            await call(operation, id=other)
    for operation in ("job.list", "schedule.list", "stats.show", "queue.list", "worker.list"):
        with pytest.raises(Unavailable, match="cell b: no answer"):
            await call(operation)
    call.links[1].is_away = False
    assert (await call("job.show", id=other))["state"] == "waiting"


async def test_a_job_of_a_schedule_is_found_by_one_question(call: Caller) -> None:
    schedule = await call.put_schedule(1)
    (job,) = (await call("job.list", limit="1"))["jobs"]
    assert job["schedule_id"] == schedule
    assert slot_of_id(job["id"]) == slot_of_id(schedule)


async def test_reads_answer_over_cells_but_for_the_ones_that_are_told(call: Caller) -> None:
    """Every operation that reads, without a parameter of its own."""
    refused: list[str] = []
    for name, operation in OPERATIONS_BY_NAME.items():
        if operation.method != "GET" or "{" in operation.path:
            continue
        try:
            await call(name)
        except Invalid as error:
            if "one cell at a time" in str(error):
                refused.append(name)
    assert refused == ["event.list"]


async def test_a_bulk_is_asked_of_one_cell(call: Caller) -> None:
    with pytest.raises(Invalid, match="add bulk: this is done in one cell at a time"):
        await call("job.bulk", {"do": "cancel", "where": {"queue": "default"}})
    assert (await call("bulk.list"))["bulks"] == []


async def test_a_repeat_completes_a_pause_and_limits(call: Caller) -> None:
    requests: list[tuple[str, str, object]] = [
        ("queue.pause", "pause_queue", {"note": "by hand"}),
        ("queue.limit", "limit_queue", {"concurrency": 3}),
        ("queue.resume", "pause_queue", None),
    ]
    for operation, verb, body in requests:
        call.links[1].broken.add(verb)
        with pytest.raises(Unavailable, match="done in cell a, without an answer from cell b"):
            await call(operation, body, name="mail")
        call.links[1].broken.clear()
        answer = await call(operation, body, name="mail")
        assert answer["paused"] is (operation != "queue.resume")
        for link in call.links:
            (queue,) = await link.store.queues(call.clock.at)
            assert queue.paused is answer["paused"]
            assert queue.limits.concurrency == (None if operation == "queue.pause" else 3)


async def test_an_event_has_one_id_in_all_cells_however_often_it_was_tried(call: Caller) -> None:
    call.links[1].broken.add("publish")
    for _ in range(2):
        with pytest.raises(Unavailable, match="cell b: no answer"):
            await call.publish("one", {"type": "paid"}, {"type": "paid", "id": "given"})
    call.links[1].broken.clear()
    first = await call.publish("one", {"type": "paid"}, {"type": "paid", "id": "given"})
    again = await call.publish("one", {"type": "paid"}, {"type": "paid", "id": "given"})
    assert again == first
    expected = {first["events"][0]["id"], "given"}
    for link in call.links:
        stored = await link.store.unrouted_events(9)
        assert [len(stored.events), {one.event.id for one in stored.events}] == [2, expected]


async def test_keys_and_bodies_that_differ_give_events_other_ids(call: Caller) -> None:
    one = await call.publish("one", {"type": "paid"}, {"type": "paid"})
    other = await call.publish("other", {"type": "paid"}, {"type": "paid"})
    ids = [event["id"] for answer in (one, other) for event in answer["events"]]
    assert len(set(ids)) == 4


async def test_an_event_without_an_id_is_in_no_cell_while_one_is_away(call: Caller) -> None:
    """A cell that is away may have it from an earlier try, under the id of that one."""
    call.links[1].is_away = True
    with pytest.raises(Unavailable, match="cell b: no answer"):
        await call.publish("one", {"type": "paid"})
    assert not (await call.links[0].store.unrouted_events(9)).events
