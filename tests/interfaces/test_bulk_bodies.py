"""Large bodies: a few at once, and the next is refused before it is read."""

import asyncio
import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from conditions import eventually
from interfaces.rest_client import RestClient
from onbeat.api.asgi import build_api
from onbeat.model.limits import BULK_BODIES_MAX, REQUEST_BYTES_MAX
from operations.harness import OperationsHarness

LARGE = REQUEST_BYTES_MAX + 1
HEADERS = {"host": "testserver", "content-type": "application/json"}
DECLARED: dict[str, Any] = {"content-length": str(LARGE)}


@pytest.fixture
async def app() -> RestClient:
    office = OperationsHarness()
    await office.store.open()
    return RestClient(build_api(office.context))


class Later:
    """A part of a body that is made when it is asked for, if ever."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.make().__await__()


class Slow:
    """A body whose second part comes when `ended` is set."""

    def __init__(self, app: RestClient, path: str, first: bytes = b" ", **headers: Any) -> None:
        self.ended = asyncio.Event()
        self.begun = False
        self.first = first
        parts = [Later(self.part), Later(self.rest)]
        sent = {**HEADERS, **headers}
        self.answer = asyncio.ensure_future(app.send_parts("POST", path, parts, sent))

    async def part(self) -> bytes:
        self.begun = True
        return self.first

    async def rest(self) -> bytes:
        await self.ended.wait()
        return b"{}"


@pytest.mark.parametrize("path", ["/api/jobs", "/rpc"])
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "grown"])
async def test_so_many_large_bodies_are_taken_at_once_and_no_more(
    app: RestClient, path: str, declared: bool
) -> None:
    headers = DECLARED if declared else {}
    first = b" " if declared else b" " * LARGE
    held = [Slow(app, path, first, **headers) for _ in range(BULK_BODIES_MAX)]
    await eventually(lambda: all(body.begun for body in held), "all are being read")
    refused = Slow(app, path, first, **headers)
    answer = await refused.answer
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert refused.begun is not declared
    small = await app.post(path, {})
    assert small.status != 503
    for body in held:
        body.ended.set()
    assert {(await body.answer).status for body in held} <= {200, 400, 422}
    again = Slow(app, path, first, **headers)
    again.ended.set()
    assert (await again.answer).status != 503


async def test_the_refusal_says_what_to_do(app: RestClient) -> None:
    held = [Slow(app, "/api/jobs", **DECLARED) for _ in range(BULK_BODIES_MAX)]
    await eventually(lambda: all(body.begun for body in held), "all are being read")
    error = (await Slow(app, "/api/jobs", **DECLARED).answer).error
    assert error["code"] == "unavailable"
    assert "send it again in a moment, or in smaller parts" in error["message"]
    spoken = (await Slow(app, "/rpc", **DECLARED).answer).json
    assert spoken["error"]["data"]["code"] == "unavailable"
    for body in held:
        body.ended.set()
        await body.answer


async def test_an_id_may_be_given_once_in_a_batch(app: RestClient) -> None:
    def calls(*ids: Any) -> list[dict[str, Any]]:
        return [{"jsonrpc": "2.0", "method": "stats.show", "id": id} for id in ids]

    refused = await app.post("/rpc", calls(1, "a", 2, "a"))
    assert refused.json["error"]["code"] == -32600
    assert "The id a is given twice" in refused.json["error"]["data"]["detail"]
    assert (await app.post("/rpc", calls(1, 1.0))).json["error"]["code"] == -32600
    told_apart = await app.post("/rpc", calls(1, "1", None, None))
    assert [answer["id"] for answer in told_apart.json] == [1, "1", None, None]


async def test_queues_come_in_pages(app: RestClient) -> None:
    for n in range(12):
        await app.put(f"/api/queues/q{n:02}", {"concurrency": 1})
    first = (await app.get("/api/queues")).json
    assert [queue["name"] for queue in first["queues"]] == [f"q{n:02}" for n in range(10)]
    assert (first["page"], first["limit"], first["total"]) == (1, 10, 12)
    second = (await app.get("/api/queues?page=2")).json
    assert [queue["name"] for queue in second["queues"]] == ["q10", "q11"]
    assert (await app.get("/api/queues?page=3")).json["queues"] == []
    assert len((await app.get("/api/queues?limit=1000")).json["queues"]) == 12


async def test_figures_name_the_unknown_tasks_with_most_jobs(app: RestClient) -> None:
    jobs = [{"task": f"t{n:03}"} for n in range(53)] + [{"task": "t052"}, {"task": "t051"}] * 2
    await app.post("/api/jobs", {"jobs": jobs})
    result = (await app.get("/api/stats")).json
    assert len(result["unknown_tasks"]) == 50
    assert list(result["unknown_tasks"].items())[:2] == [("t051", 3), ("t052", 3)]
    assert result["unknown_tasks_more"] == 3


async def test_many_jobs_are_read_aside_and_faults_name_their_place(app: RestClient) -> None:
    jobs = [{"task": "work"}] * 300
    stored = await app.post("/api/jobs", {"jobs": jobs})
    assert len(set(stored.json["ids"])) == 300
    jobs[200] = {"task": "work", "delay": "soon"}
    refused = await app.send("POST", "/api/jobs", json.dumps({"jobs": jobs}).encode())
    assert refused.error["field"] == "jobs[200].delay"
