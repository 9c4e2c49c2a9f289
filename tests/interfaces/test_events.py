"""Events over REST and JSON-RPC, in each of their forms."""

import base64
import json
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from interfaces.rest_client import RestClient
from onbeat.api import build_api
from onbeat.model.errors import Unavailable
from onbeat.model.event import EventVerdict
from onbeat.model.ids import EventSeq, JobId, ScheduleId
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, EVENT_BYTES_MAX, EVENTS_MAX
from onbeat.model.principal import Principal, Scope
from onbeat.model.route import Routing
from onbeat.operations.events import publish
from onbeat.operations.tables.events import EVENT_LIST, EVENT_SHOW
from onbeat.wire.cloud_events import BATCHED, STRUCTURED, PublishBody
from onbeat.wire.events import PublishEvents
from operations.harness import NOON, OperationsHarness

LEAST = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "paid"}
BINARY = {f"ce_{name}": value for name, value in LEAST.items()}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


@pytest.fixture
def rest(office: OperationsHarness) -> RestClient:
    return RestClient(build_api(office.context))


async def shown(rest: RestClient, id: str = "1") -> Any:
    answer = await rest.get(f"/api/events/{id}")
    assert answer.status == 200, answer.body
    return answer.json


async def test_a_plain_event_is_stored_once(rest: RestClient) -> None:
    body = {"type": "paid", "data": {"order": 7}, "id": "1", "source": "/shop"}
    answer = await rest.post("/api/events", body)
    assert (answer.status, answer.json) == (202, {"id": "1", "created": True})
    answer = await rest.post("/api/events", {**body, "data": {"order": 8}})
    assert (answer.status, answer.json) == (202, {"id": "1", "created": False})
    assert await shown(rest) == {
        "id": "1",
        "source": "/shop",
        "type": "paid",
        "time": "2026-03-02T12:00:00Z",
        "data": {"order": 7},
        "received_at": "2026-03-02T12:00:00Z",
        "routed_at": None,
        "jobs": [],
        "verdicts": [],
    }


async def test_a_plain_event_gets_an_id_and_a_source(rest: RestClient) -> None:
    answer = await rest.post("/api/events", {"type": "paid"})
    event = await shown(rest, answer.json["id"])
    assert event["source"] == "default"
    assert "data" not in event


async def test_the_source_is_by_default_the_name_of_the_key(office: OperationsHarness) -> None:
    shop = Principal(name="the shop", scopes=frozenset({Scope.SUBMIT}))
    answer = await publish(office.context.acting_for(shop), PublishEvents(PublishBody(type="paid")))
    (event,) = (await office.ask(EVENT_LIST))["events"]
    assert (event["id"], event["source"]) == (answer.id, "the%20shop")


async def test_a_structured_event_keeps_its_attributes(rest: RestClient) -> None:
    body = msgspec.json.encode({**LEAST, "tenant": "a", "subject": "order", "data": [1]})
    answer = await rest.post("/api/events", body, content_type=f"{STRUCTURED}; charset=utf-8")
    assert (answer.status, answer.json) == (202, {"id": "1", "created": True})
    event = await shown(rest)
    assert (event["extensions"], event["subject"], event["data"]) == ({"tenant": "a"}, "order", [1])


@pytest.mark.parametrize(
    ("mark", "is_hidden"),
    [(True, True), ("true", True), ("yes", True), (1, True), (False, False), ("false", False)],
)
async def test_the_data_of_a_sensitive_event_is_shown_in_no_answer(
    office: OperationsHarness, rest: RestClient, mark: object, is_hidden: bool
) -> None:
    """The extension may be a text: in binary mode there is no other."""
    body = msgspec.json.encode({**LEAST, "sensitive": mark, "data": {"code": "4711"}})
    await rest.post("/api/events", body, content_type=STRUCTURED)
    event = await shown(rest)
    assert event["data"] == ("…" if is_hidden else {"code": "4711"})
    listed = await rest.get("/api/events")
    assert ("4711" not in listed.body.decode()) is is_hidden
    ((stored),) = await office.store.events_by_id("1")
    assert stored.event.data is not None
    assert b"4711" in bytes(stored.event.data)


async def test_the_data_of_a_sensitive_event_in_binary_mode_is_not_shown(rest: RestClient) -> None:
    await rest.post(
        "/api/events", b"\x00\xff", content_type="image/png", **BINARY, ce_sensitive="true"
    )
    event = await shown(rest)
    assert (event["data"], "data_base64" in event) == ("…", False)


async def test_a_batch_is_stored_whole_or_not_at_all(rest: RestClient) -> None:
    batch = [{**LEAST, "id": "1"}, {**LEAST, "id": "2"}]
    answer = await rest.post("/api/events", msgspec.json.encode(batch), content_type=BATCHED)
    created = [{"id": "1", "created": True}, {"id": "2", "created": True}]
    assert (answer.status, answer.json) == (202, {"events": created})
    answer = await rest.post("/api/events", [{**LEAST, "id": "3"}, {**LEAST, "id": ""}])
    assert (answer.status, answer.error["field"]) == (422, "events[1].id")
    assert (await rest.get("/api/events/3")).status == 404
    answer = await rest.post("/api/events", b"[]", content_type=BATCHED)
    assert (answer.status, answer.json) == (202, {"events": []})


async def test_a_binary_event_has_its_attributes_in_headers(rest: RestClient) -> None:
    answer = await rest.post(
        "/api/events", b"\x00\xff", content_type="image/png", **BINARY, ce_tenant="a%20b"
    )
    assert answer.status == 202, answer.body
    event = await shown(rest)
    assert event["data_base64"] == base64.b64encode(b"\x00\xff").decode()
    assert (event["datacontenttype"], event["extensions"]) == ("image/png", {"tenant": "a b"})
    headers = BINARY | {"ce_id": "2"}
    answer = await rest.post("/api/events", b'{"n":1}', content_type="application/json", **headers)
    assert (await shown(rest, "2"))["data"] == {"n": 1}
    answer = await rest.post("/api/events", b"", **(BINARY | {"ce_id": "3"}))
    assert answer.status == 202
    assert "data" not in await shown(rest, "3")


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        ({"data": 1}, {}, 422, "type"),
        ({"type": ""}, {}, 422, "type"),
        ({"type": "onbeat.job.failed"}, {}, 422, "type"),
        (b"{", {"content_type": "application/json"}, 400, None),
        (b"", {}, 400, None),
        (b"", BINARY | {"ce_type": ""}, 422, "type"),
        (b'{"type": "a"}', {"content_type": STRUCTURED}, 422, "specversion"),
        (b'{"type": "a"}', {"content_type": BATCHED}, 400, None),
        (b'{"type": "a"}', {"content_type": "text/plain"}, 400, None),
    ],
)
async def test_a_wrong_event_is_refused_by_name(
    rest: RestClient, body: Any, headers: dict[str, str], status: int, field: str | None
) -> None:
    answer = await rest.post("/api/events", body, **headers)
    assert (answer.status, answer.error.get("field")) == (status, field), answer.body
    assert (await rest.get("/api/events")).json["events"] == []


async def test_a_header_given_twice_is_refused(office: OperationsHarness) -> None:
    class Twice(dict[str, str]):
        def items(self) -> Any:
            return [*super().items(), ("CE-Type", "void")]

    rest = RestClient(build_api(office.context))
    headers = {name.replace("_", "-"): value for name, value in BINARY.items()}
    answer = await rest.send_parts(
        "POST", "/api/events", [b""], Twice({"host": "testserver", **headers})
    )
    assert (answer.status, answer.error["field"]) == (422, "ce-type")


def event_of(size: int) -> bytes:
    text = msgspec.json.encode({**LEAST, "data": ""})
    return msgspec.json.encode({**LEAST, "data": "x" * (size - len(text))})


@pytest.mark.parametrize(
    ("headers", "prefix", "most"),
    [
        ({"content_type": STRUCTURED}, b"{", EVENT_BYTES_MAX),
        ({"content_type": "application/json"}, b"{", EVENT_BYTES_MAX),
        (BINARY | {"content_type": "application/json"}, b"[", EVENT_BYTES_MAX),
        ({"content_type": BATCHED}, b"[", BULK_REQUEST_BYTES_MAX),
    ],
)
async def test_a_body_over_its_bound_is_not_read_whole(
    rest: RestClient, headers: dict[str, str], prefix: bytes, most: int
) -> None:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    part, read = b" " * (1 << 20), 0

    def parts() -> Any:
        nonlocal read
        yield prefix
        for _ in range(most // len(part) + 10):
            read += len(part)
            yield part

    assert await send_lazily(rest, sent, parts()) == 413
    assert read <= most + 2 * len(part)
    declared = {**sent, "content-length": str(BULK_REQUEST_BYTES_MAX + 1)}
    assert await send_lazily(rest, declared, iter([b"{"])) == 413


async def send_lazily(rest: RestClient, headers: dict[str, str], parts: Any) -> int:
    """The status of a request whose parts are made when the application asks for them."""
    status = 0

    async def receive() -> dict[str, Any]:
        part = next(parts, None)
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/events",
        "raw_path": b"/api/events",
        "query_string": b"",
        "root_path": "",
        "headers": [
            (name.lower().encode(), value.encode())
            for name, value in {"host": "testserver", **headers}.items()
        ],
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
    }
    await rest.app(scope, receive, send)
    return status


async def test_an_event_may_have_its_bound(rest: RestClient) -> None:
    answer = await rest.post("/api/events", event_of(EVENT_BYTES_MAX), content_type=STRUCTURED)
    assert answer.status == 202
    answer = await rest.post("/api/events", event_of(EVENT_BYTES_MAX + 1), content_type=STRUCTURED)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    batch = b"[" + event_of(EVENT_BYTES_MAX) + b"," + event_of(EVENT_BYTES_MAX) + b"]"
    assert (await rest.post("/api/events", batch, content_type=BATCHED)).status == 202
    answer = await rest.post("/api/events", [{"type": "a"}] * (EVENTS_MAX + 1))
    assert (answer.status, answer.error["field"]) == (413, "events")


async def test_a_request_with_a_key_is_done_once(rest: RestClient) -> None:
    first = await rest.post("/api/events", {"type": "a"}, idempotency_key="k")
    again = await rest.post("/api/events", {"type": "a"}, idempotency_key="k")
    assert (again.status, again.json) == (202, first.json)
    assert len((await rest.get("/api/events")).json["events"]) == 1
    other = await rest.post("/api/events", {"type": "b"}, idempotency_key="k")
    assert (other.status, other.error["field"]) == (422, "Idempotency-Key")


async def test_events_are_listed_newest_first_in_pages(rest: RestClient) -> None:
    for id, type, source in (("1", "a.x", "/s/1"), ("2", "a.y", "/s/2"), ("3", "b", "/s/1")):
        await rest.post("/api/events", {"type": type, "source": source, "id": id})

    async def ids(query: str) -> list[str]:
        return [event["id"] for event in (await rest.get(f"/api/events{query}")).json["events"]]

    assert await ids("") == ["3", "2", "1"]
    assert await ids("?type=a.*") == ["2", "1"]
    assert await ids("?type=a.x") == ["1"]
    assert await ids("?source=/s/1") == ["3", "1"]
    assert await ids("?source=/s/*&type=b") == ["3"]
    page = (await rest.get("/api/events?limit=2")).json
    assert page["cursor"] is not None
    assert await ids(f"?limit=2&cursor={page['cursor']}") == ["1"]
    for cursor in ("x", "-1", "9" * 30):
        answer = await rest.get(f"/api/events?cursor={cursor}")
        assert (answer.status, answer.error["field"]) == (400, "cursor")
    assert (await rest.get("/api/events?kind=a")).status == 422


async def test_an_id_of_several_sources_needs_the_source(rest: RestClient) -> None:
    for source in ("/a", "/b"):
        await rest.post("/api/events", {"type": "t", "source": source, "id": "1"})
    answer = await rest.get("/api/events/1")
    assert answer.status == 409
    assert "/a, /b" in answer.error["message"]
    assert (await rest.get("/api/events/1?source=/b")).json["source"] == "/b"
    assert (await rest.post("/api/events/1/replay")).status == 409
    assert (await rest.post("/api/events/1/replay?source=/b")).status == 202
    assert (await rest.get("/api/events/1?source=/c")).status == 404


@pytest.mark.parametrize("id", ["a/b", "a/replay", "ü ?#%", ".", "1"])
async def test_an_id_may_have_any_characters(rest: RestClient, id: str) -> None:
    assert (await rest.post("/api/events", {"type": "t", "id": id})).status == 202
    path = quote(id, safe="")
    assert (await rest.get(f"/api/events/{path}")).json["id"] == id
    assert (await rest.post(f"/api/events/{path}/replay")).status == 202


async def routed(office: OperationsHarness, *verdicts: EventVerdict) -> None:
    assert await office.store.route(Routing(verdicts={EventSeq(1): verdicts}, at=NOON))


async def test_an_event_shows_what_it_made(office: OperationsHarness, rest: RestClient) -> None:
    await rest.post("/api/events", {"type": "t", "id": "1"})
    made = EventVerdict(ScheduleId("01900000-0000-7000-8000-0000000000aa"), JobId("j"))
    none = EventVerdict(ScheduleId("01900000-0000-7000-8000-0000000000ab"), None, "paused")
    more = EventVerdict(ScheduleId(""), None, "and 3 more schedules made no job of it")
    await routed(office, made, none, more)
    event = await shown(rest)
    assert event["routed_at"] == "2026-03-02T12:00:00Z"
    assert event["jobs"] == ["j"]
    assert event["verdicts"] == [
        {"schedule_id": made.schedule_id, "job_id": "j", "reason": None},
        {"schedule_id": none.schedule_id, "job_id": None, "reason": "paused"},
        {"schedule_id": None, "job_id": None, "reason": more.reason},
    ]
    assert (await rest.post("/api/events/1/replay")).json.keys() == {"message"}
    assert (await shown(rest))["routed_at"] is None


async def test_unknown_events_are_404(rest: RestClient) -> None:
    assert (await rest.get("/api/events/1")).status == 404
    assert (await rest.post("/api/events/1/replay")).status == 404


async def test_nothing_is_taken_in_while_the_disk_is_full(office: OperationsHarness) -> None:
    async def full() -> None:
        raise Unavailable("the disk is full")

    context = msgspec.structs.replace(office.context, check_capacity=full)
    answer = await RestClient(build_api(context)).post("/api/events", {"type": "t"})
    assert answer.status == 503
    assert (await office.ask(EVENT_LIST))["events"] == []


async def rpc(rest: RestClient, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await rest.post("/rpc", body)).json


async def test_events_over_json_rpc(office: OperationsHarness, rest: RestClient) -> None:
    answer = await rpc(rest, "event.publish", type="paid", id="1", data={"n": 1})
    assert answer["result"] == {"id": "1", "created": True}
    answer = await rpc(rest, "event.publish", **LEAST, tenant="a")
    assert answer["result"] == {"id": "1", "created": True}
    answer = await rpc(rest, "event.publish", events=[{**LEAST, "id": "2"}, {"type": "b"}])
    assert [one["created"] for one in answer["result"]["events"]] == [True, True]
    answer = await rpc(rest, "event.publish", type=7)
    assert answer["error"]["data"]["field"] == "type"
    answer = await rpc(rest, "event.list", type="paid")
    assert len(answer["result"]["events"]) == 3
    answer = await rpc(rest, "event.show", id="1", source="/shop")
    assert answer["result"]["extensions"] == {"tenant": "a"}
    answer = await rpc(rest, "event.replay", id="2")
    assert "message" in answer["result"]
    assert json.dumps(await office.ask(EVENT_SHOW, id="2"))
