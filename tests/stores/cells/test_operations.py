"""Operations over a front: what goes on while a cell is away, and what only a cell does."""

from typing import Any, cast

import msgspec
import pytest

from onbeat.app.local_backend import LocalBackend
from onbeat.model.errors import Invalid, Unavailable
from onbeat.operations.table import OPERATIONS_BY_NAME
from onbeat.ports.store import Store
from onbeat.rules.cells import SCHEDULE, slot_of_id
from onbeat.stores.cells import CellStore
from onbeat.stores.memory import MemoryStore
from stores.cells.front import a_front, a_key_in
from stores.cells.links import Link


class Caller:
    """Requests to operations over a front of two cells, each behind a link."""

    def __init__(self) -> None:
        self.links = [Link(MemoryStore()), Link(MemoryStore())]
        self.front: CellStore = a_front(stores=cast("list[Store]", self.links))
        self.backend = LocalBackend("cells:///test.toml", store=cast("Store", self.front))

    async def __call__(self, operation: str, body: object = None, **named: str) -> Any:
        encoded = None if body is None else msgspec.json.encode(body)
        return await self.backend.call_json(OPERATIONS_BY_NAME[operation], named, encoded)

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
