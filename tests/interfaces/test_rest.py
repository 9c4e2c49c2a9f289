"""What holds for every request: errors, keys, bodies, pages of other sites, documents."""

import asyncio
import logging
import re
from collections import defaultdict
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.requests import LENIENT
from onbeat.model.access import AuditFilter
from onbeat.model.errors import Unavailable
from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.model.outcome import Lost
from onbeat.operations.invoke import query_names
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from operations.harness import OperationsHarness

PARAMETER = re.compile(r"\{(\w+)\}")
ID = "01900000-0000-7000-8000-00000000ffff"
KEY = "a-key-of-some-length"
TASK = {"name": "n", "every": "5m", "target": {"task": "t"}}


@pytest.fixture
def office() -> Any:
    return OperationsHarness()


@pytest.fixture
def rest(office: OperationsHarness) -> Any:
    return RestClient(build_api(office.context))


def concrete(path: str) -> str:
    return path.format(id=ID, name="q", key="k", fault="1", group="1")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_every_operation_has_its_route(rest: RestClient, operation: Operation) -> None:
    answer = await rest.send(operation.method, concrete(operation.path))
    assert answer.status != 405
    if answer.status == 404:
        assert answer.error["message"] in {
            "Schedule not found",
            "Job not found",
            "Dead letter not found",
            "Event not found",
            "Bulk not found",
            "Flow not found",
            "Key not found",
            "Failure not found",
            "Group not found",
            "Silence not found",
        }


@pytest.mark.parametrize(
    "path", ["/x", "/api", "/api/x", "/api/jobs/a/b/c", "/rpc/x", "/favicon.ico"]
)
async def test_nothing_is_404(rest: RestClient, path: str) -> None:
    answer = await rest.get(path)
    assert answer.status == 404
    assert answer.error == {"code": "not_found", "message": f"There is nothing at {path}"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", f"/api/schedules/{ID}", {"GET", "HEAD", "PUT", "DELETE"}),
        ("DELETE", "/api/schedules", {"GET", "HEAD", "POST"}),
        ("GET", f"/api/schedules/{ID}/pause", {"POST"}),
        ("POST", "/healthz", {"GET", "HEAD"}),
        ("GET", "/rpc", {"POST"}),
        ("OPTIONS", "/api/jobs", {"GET", "HEAD", "POST"}),
    ],
)
async def test_another_method_is_405_and_says_which_there_are(
    rest: RestClient, method: str, path: str, allowed: set[str]
) -> None:
    answer = await rest.send(method, path)
    assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
    assert set(answer.headers["allow"].split(", ")) == allowed


async def test_a_head_is_answered_like_a_get(rest: RestClient) -> None:
    assert (await rest.send("HEAD", "/api/jobs")).status == 200


async def test_a_trailing_slash_is_redirected(rest: RestClient) -> None:
    answer = await rest.get("/api/schedules/")
    assert answer.status == 307
    assert answer.headers["location"].endswith("/api/schedules")


async def test_jobs_are_created_listed_and_shown(rest: RestClient) -> None:
    created = await rest.post("/api/jobs", {"task": "t", "unique": "u"})
    assert (created.status, set(created.json)) == (201, {"id"})
    again = await rest.post("/api/jobs", {"task": "t", "unique": "u"})
    assert (again.status, again.json["id"]) == (200, created.json["id"])
    many = await rest.post("/api/jobs", {"jobs": [{"task": "t"}] * 3})
    assert (many.status, len(many.json["ids"])) == (201, 3)
    listed = (await rest.get("/api/jobs?limit=2&state=waiting&task=t")).json
    assert len(listed["jobs"]) == 2
    rest_of_them = (await rest.get(f"/api/jobs?limit=9&cursor={listed['cursor']}")).json
    assert len(rest_of_them["jobs"]) == 2
    assert (await rest.get(f"/api/jobs/{created.json['id']}")).json["attempts"] == []
    assert (await rest.get(f"/api/jobs/{created.json['id']}/why")).json["code"] == "no_worker"
    cancelled = await rest.post(f"/api/jobs/{created.json['id']}/cancel")
    assert (cancelled.status, cancelled.json["state"]) == (200, "cancelled")


async def test_a_suspect_is_explained_as_one(rest: RestClient, office: OperationsHarness) -> None:
    id = (await rest.post("/api/jobs", {"task": "t"})).json["id"]
    for _ in range(2):
        await office.run(Lost("its worker ended", company=2), "t")
        office.move(minutes=1)
    answer = (await rest.get(f"/api/jobs/{id}/why")).json
    assert answer["code"] == "no_worker"
    assert "runs apart: alone in its worker." in answer["explanation"]


async def test_a_key_may_hold_slashes(rest: RestClient) -> None:
    put = await rest.put("/api/schedules-by-key/team/a%2Fb%20c", TASK)
    assert put.status == 201
    shown = (await rest.get(f"/api/schedules/{put.json['id']}")).json
    assert shown["key"] == "team/a/b c"
    assert (await rest.put("/api/schedules-by-key/team/a%2Fb%20c", TASK)).status == 200
    # The path of version 0.1 goes on working.
    assert (await rest.put("/api/schedules/by-key/team/a%2Fb%20c", TASK)).status == 200


async def test_lists_are_never_null(rest: RestClient) -> None:
    assert (await rest.get("/api/schedules")).json == {
        "schedules": [],
        "page": 1,
        "limit": 10,
        "total": 0,
    }
    assert (await rest.get("/api/jobs")).json == {"jobs": [], "limit": 10, "cursor": None}
    assert (await rest.get("/api/queues")).json["queues"] == []
    assert (await rest.get("/api/workers")).json == {"workers": [], "remote": []}
    assert (await rest.get("/api/dead")).json == {"letters": [], "limit": 10, "cursor": None}


async def test_a_field_at_fault_is_named(rest: RestClient) -> None:
    answer = await rest.post("/api/jobs", {"jobs": [{"task": "a"}, {"task": "b", "priority": "x"}]})
    assert answer.status == 400
    assert answer.error["field"] == "jobs[1].priority"
    answer = await rest.get("/api/schedules?status=asleep")
    assert (answer.status, answer.error["field"]) == (422, "status")


async def test_conflicts_are_409(rest: RestClient) -> None:
    assert (await rest.post("/api/schedules", TASK | {"key": "k"})).status == 201
    answer = await rest.post("/api/schedules", TASK | {"key": "k"})
    assert (answer.status, answer.error["code"]) == (409, "conflict")


async def test_a_store_that_is_away_is_503(office: OperationsHarness, rest: RestClient) -> None:
    async def away(id: Any) -> Any:
        raise Unavailable

    office.store.schedule = away
    answer = await rest.get(f"/api/schedules/{ID}")
    assert (answer.status, answer.error["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_what_nobody_foresaw_is_500_and_told_to_the_log_alone(
    office: OperationsHarness, rest: RestClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(filter: Any) -> Any:
        raise ZeroDivisionError("the inner secret")

    office.store.schedules = broken
    with caplog.at_level(logging.ERROR):
        answer = await rest.get("/api/schedules?q=geheim")
    assert answer.status == 500
    assert answer.error == {"code": "internal_error", "message": "An unexpected error occurred"}
    assert "api.failed" in caplog.text
    assert "geheim" not in caplog.text


# Queries

READING = [operation for operation in OPERATIONS if operation.method == "GET"]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_an_unknown_parameter_is_refused_by_name(
    rest: RestClient, operation: Operation
) -> None:
    answer = await rest.send(operation.method, f"{concrete(operation.path)}?stat=failed", None)
    assert (answer.status, answer.error["code"]) == (422, "validation_failed")
    assert answer.error["field"] == "stat"
    assert answer.error["message"].startswith("stat is not a known parameter; ")
    for name in query_names(operation):
        assert name in answer.error["message"]


@pytest.mark.parametrize("text", ["", "null", "NULL"])
@pytest.mark.parametrize("operation", READING, ids=lambda operation: operation.name)
async def test_a_parameter_that_says_nothing_is_refused_by_name(
    rest: RestClient, operation: Operation, text: str
) -> None:
    for name in set(query_names(operation)) - LENIENT:
        answer = await rest.get(f"{concrete(operation.path)}?{name}={text}")
        assert (answer.status, answer.error["field"]) == (422, name)


async def test_a_parameter_given_twice_is_refused(rest: RestClient) -> None:
    answer = await rest.get("/api/jobs?state=failed&state=running")
    assert (answer.status, answer.error["field"]) == (422, "state")


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "null", "1e3", "5.0"])
async def test_nonsense_of_pages_falls_back_to_the_default(rest: RestClient, text: str) -> None:
    answer = await rest.get(f"/api/schedules?limit={text}&page={text}")
    assert (answer.status, answer.json["limit"], answer.json["page"]) == (200, 10, 1)


async def test_a_page_has_the_bounds_of_its_own_list(rest: RestClient) -> None:
    added = await rest.post("/api/jobs", {"jobs": [{"task": "a", "name": "a"}, {"task": "b"}]})
    flow = f"/api/flows/{added.json['flow']}"
    limits = [(flow, "0", 0), (flow, "-1", 10), (flow, "1001", 1_000)]
    limits += [("/api/flows", "0", 20), ("/api/flows", "51", 50), ("/api/jobs", "0", 10)]
    for path, text, limit in limits:
        answer = await rest.get(f"{path}?limit={text}")
        assert (answer.status, answer.json["limit"]) == (200, limit), (path, text)
    counts = (await rest.get(f"{flow}?limit=0")).json
    assert (counts["jobs"], counts["counts"]["waiting"]) == ([], 2)


# Names


@pytest.mark.parametrize(
    "name", ["mail%2Fpause", "a%5Cb", "a%3Fb", "a%23b", "a%25b", "a,b", "%20a"]
)
async def test_a_queue_whose_name_breaks_paths_or_lists_is_refused(
    rest: RestClient, name: str
) -> None:
    paused = await rest.post(f"/api/queues/{name}/pause")
    limited = await rest.put(f"/api/queues/{name}", {"concurrency": 1})
    # A slash makes another path.
    assert (paused.status, limited.status) in {(422, 422), (404, 404), (404, 405)}
    assert (await rest.get("/api/queues")).json["queues"] == []
    sent = await rest.post("/api/jobs", {"task": "work", "queue": unquote(name)})
    assert (sent.status, sent.error["field"]) == (422, "queue")


@pytest.mark.parametrize(
    ("method", "url", "field"),
    [
        ("POST", "/api/queues/%ff/pause", "name"),
        ("GET", "/api/queues/a%C3", "name"),
        ("PUT", "/api/schedules-by-key/%ed%a0%80", "key"),
        ("GET", "/api/jobs?state=failed&queue=%ff", "queue"),
        ("GET", "/api/audit?actor=a%80b", "actor"),
    ],
)
async def test_a_name_that_is_not_utf8_is_refused_by_its_field(
    rest: RestClient, office: OperationsHarness, method: str, url: str, field: str
) -> None:
    body = {"every": "5m", "target": {"task": "work"}} if method == "PUT" else None
    answer = await rest.send(method, url, body)
    assert (answer.status, answer.error["field"]) == (400, field)
    assert answer.error["message"].startswith(f"{field} is not UTF-8 in the address, which has %")
    assert list(await office.store.queues(office.clock.now())) == []


async def test_a_name_of_a_parameter_that_is_not_utf8_is_refused(rest: RestClient) -> None:
    answer = await rest.get("/api/jobs?%FE=1")
    assert (answer.status, answer.error) == (
        400,
        {
            "code": "invalid_request",
            "message": "A name is not UTF-8 in the address, which has %FE; write ü as %C3%BC",
        },
    )


async def test_a_name_of_any_letters_is_one(rest: RestClient) -> None:
    for name in ("%C3%BC", "%EF%BF%BD", "%F0%9F%92%A5"):
        assert (await rest.post(f"/api/queues/{name}/pause")).json["name"] == unquote(name)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("/api/jobs?since=", "since"),
        ("/api/audit?until=", "until"),
        ("/api/forecast?from=", "from"),
        ("/api/timeline?day=", "day"),
    ],
)
async def test_a_plus_that_became_a_space_is_told(rest: RestClient, url: str, field: str) -> None:
    for text in ("2026-01-01T00:00:00+02:00", "2026-01-01T00:00:00.5%2002:00"):
        answer = await rest.get(url + text)
        assert (answer.status, answer.error["field"]) == (422, field)
        assert answer.error["message"].endswith("; a + in an address is a space: write it as %2B")
    for text in ("2026-01-01T00:00:00-02", "2026-01-01 02:00", "x"):
        assert "%2B" not in (await rest.get(url + text)).body.decode()
    assert (await rest.get(url + "2026-03-01T00:00:00%2B02:00")).status == 200


async def test_a_plus_is_not_blamed_for_another_fault(rest: RestClient) -> None:
    for name in ("stat", "state"):
        answer = await rest.get(f"/api/jobs?{name}=2026-01-01T00:00:00+02:00")
        assert (answer.error["field"], "%2B" in answer.error["message"]) == (name, False)


@pytest.mark.parametrize("coding", ["gzip", "br", "GZIP", "identity, gzip", "x" * 200])
@pytest.mark.parametrize("url", ["/api/jobs", "/api/events", "/rpc"])
async def test_a_compressed_body_is_refused(rest: RestClient, url: str, coding: str) -> None:
    answer = await rest.post(url, b"\x1f\x8b", content_encoding=coding)
    assert answer.status == 400
    assert f"Content-Encoding must be identity, not {coding[:100]}" in answer.body.decode()


async def test_a_body_that_says_it_is_not_compressed_is_read(rest: RestClient) -> None:
    for coding in ("identity", "Identity", " identity "):
        assert (
            await rest.post("/api/jobs", {"task": "work"}, content_encoding=coding)
        ).status == 201


async def test_a_wrong_method_makes_no_queue(rest: RestClient) -> None:
    answer = await rest.put("/api/queues/mail/pause", {"concurrency": 1})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert (await rest.get("/api/queues")).json["queues"] == []


@pytest.mark.parametrize(
    ("url", "body", "field"),
    [
        ("/api/jobs", {"task": "@http"}, "task"),
        ("/api/jobs", {"target": {"task": "@http"}}, "target.task"),
        ("/api/jobs", {"jobs": [{"task": "@message:mq"}]}, "jobs[0].task"),
        ("/api/schedules", {"name": "n", "every": "1h", "target": {"task": "@x"}}, "target.task"),
        ("/api/jobs/claim", {"worker": "w", "tasks": ["@http"]}, "tasks[0]"),
    ],
)
async def test_names_of_our_own_are_refused_for_tasks(
    rest: RestClient, url: str, body: dict[str, Any], field: str
) -> None:
    answer = await rest.post(url, body)
    assert (answer.status, answer.error["field"]) == (422, field)
    assert answer.error["message"] == f"{field} must not begin with @: such names are Onbeat's own"


FILTERED = [one for one in OPERATIONS if one.method == "GET" and query_names(one)]


@pytest.mark.parametrize("operation", FILTERED, ids=lambda operation: operation.name)
async def test_nul_in_the_query_is_refused_by_name(rest: RestClient, operation: Operation) -> None:
    for name in {*query_names(operation)} - LENIENT:
        answer = await rest.get(f"{concrete(operation.path)}?{name}=a%00b")
        # A number or a choice is refused as such.
        assert (answer.status in {400, 422}, answer.error["field"]) == (True, name), answer.error


NAMED = [one for one in OPERATIONS if "{" in one.path and not one.body_required]


@pytest.mark.parametrize("operation", NAMED, ids=lambda operation: operation.name)
async def test_nul_in_a_path_is_refused_by_name_and_audited(
    rest: RestClient, office: OperationsHarness, operation: Operation
) -> None:
    for name in PARAMETER.findall(operation.path):
        values = {"id": ID, "name": "q", "key": "k", "fault": "1", "group": "1", name: "a%00b"}
        path = operation.path.format_map(defaultdict(lambda: "x", values))
        answer = await rest.send(operation.method, path)
        assert (answer.status, answer.error["field"]) == (422, name), answer.error
    if operation.is_audited and not {"group", "fault"} & {*PARAMETER.findall(operation.path)}:
        (record, *_) = await office.store.audit(AuditFilter())
        assert record.outcome == "validation_failed"
        assert "\0" not in record.object + record.summary


# Bodies


BARE = [one for one in OPERATIONS if one.body is None and one.method != "GET"]


@pytest.mark.parametrize("operation", BARE, ids=lambda operation: operation.name)
async def test_a_body_where_none_is_taken_is_refused_by_its_fields(
    rest: RestClient, operation: Operation
) -> None:
    path = concrete(operation.path)
    refused = await rest.send(operation.method, path, {"note": "x"})
    assert (refused.status, refused.error["field"]) == (422, "note")
    assert refused.error["message"] == "note is not a known field"
    for body, status in ((b"x", 400), (b"[]", 400), (b"[" * 100_000, 413)):
        assert (await rest.send(operation.method, path, body)).status == status
    for empty in (None, b"", b"{}"):
        assert (await rest.send(operation.method, path, empty)).status not in {400, 413, 422}


async def test_a_missing_body_is_400(rest: RestClient) -> None:
    for path in ("/api/schedules", "/api/jobs", "/api/recurrence/preview"):
        answer = await rest.post(path)
        assert (answer.status, answer.error["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("Application/JSON", 201),
        ("application/vnd.onbeat+json", 201),
        (None, 201),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("multipart/form-data; boundary=x", 400),
        ("application/json; charset=latin-1", 400),
        ("text/json", 400),
        ("", 400),
    ],
)
async def test_a_body_is_json_by_its_type_too(
    rest: RestClient, content_type: str | None, status: int
) -> None:
    headers = {} if content_type is None else {"content_type": content_type}
    answer = await rest.send("POST", "/api/jobs", b'{"task":"t"}', **headers)
    assert answer.status == status


async def test_a_body_over_the_cap_is_413(rest: RestClient) -> None:
    body = b'{"name":"' + b"x" * REQUEST_BYTES_MAX + b'"}'
    answer = await rest.send("POST", "/api/schedules", body)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert (await rest.send("POST", "/api/jobs", body)).status == 422


@pytest.mark.parametrize("declared", [str(BULK_REQUEST_BYTES_MAX + 1), "9" * 30])
async def test_a_declared_length_over_the_cap_is_refused_unread(
    rest: RestClient, declared: str
) -> None:
    async def never() -> None:
        pytest.fail("the body was read")

    part = never()
    answer = await rest.send_parts("POST", "/api/jobs", [part], {"content-length": declared})
    part.close()
    assert answer.status == 413


async def test_a_stream_over_the_cap_is_stopped_on_the_way(rest: RestClient) -> None:
    parts = [b"x" * 400_000] * 5
    answer = await rest.send_parts("POST", "/api/schedules", parts, {})
    assert answer.status == 413


async def test_a_body_in_parts_is_whole(rest: RestClient) -> None:
    answer = await rest.send_parts("POST", "/api/jobs", [b'{"ta', b"", b'sk":"t"}'], {})
    assert answer.status == 201


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    office: OperationsHarness,
) -> None:
    options = ApiOptions(body_deadline=timedelta(milliseconds=20))
    rest = RestClient(build_api(office.context, options))
    forever: Any = asyncio.Event().wait()
    answer = await rest.send_parts("POST", "/api/jobs", [b"{", forever], {})
    assert answer.status == 400
    assert "did not arrive" in answer.error["message"]


async def test_a_large_body_of_many_jobs_is_taken(rest: RestClient) -> None:
    jobs = [{"task": "t", "args": ["x" * 300]} for _ in range(5_000)]
    answer = await rest.post("/api/jobs", {"jobs": jobs})
    assert len(answer.json["ids"]) == 5_000
    assert (await rest.post("/api/jobs", {"jobs": [{"task": "t"}] * 10_001})).status == 422


# Who may come in

OPEN = {"/healthz", "/readyz", "/docs/openapi.yml", "/docs/openapi.json", "/swagger-ui"}
CLOSED = {"/metrics", "/x", "/docs", "/swagger", "/api/docs/x", "/healthz/x", "/API/jobs"}
WRONG = [
    {},
    {"authorization": "Bearer"},
    {"authorization": "Bearer wrong"},
    {"authorization": f"Basic {KEY}"},
    {"authorization": KEY},
    {"authorization": f"Bearer {KEY}x"},
    {"authorization": f"Bearer {KEY[:-1]}"},
    {"authorization": "Bearer é"},
    {"authorization": "Bearer " + "x" * 100_000},
    {"x_api_key": "wrong"},
    {"x_api_key": ""},
    {"cookie": f"key={KEY}"},
]
RIGHT = [
    {"authorization": f"Bearer {KEY}"},
    {"authorization": f"bearer  {KEY}"},
    {"x_api_key": KEY},
    {"authorization": "Bearer other-key"},
]


@pytest.fixture
def locked(office: OperationsHarness) -> Any:
    async def metrics(_accept: str) -> Any:
        return b"onbeat_up 1\n", "text/plain; version=0.0.4"

    return RestClient(
        build_api(office.context, ApiOptions(keys=(KEY, "other-key"), metrics=metrics))
    )


async def test_metrics_come_in_the_format_that_is_asked_for(office: OperationsHarness) -> None:
    async def metrics(accept: str) -> Any:
        return b"", f"of {accept}"

    rest = RestClient(build_api(office.context, ApiOptions(metrics=metrics)))
    answer = await rest.get("/metrics", accept="application/openmetrics-text")
    assert answer.headers["content-type"] == "of application/openmetrics-text"
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_no_operation_without_a_key(locked: Any, operation: Operation) -> None:
    for headers in WRONG:
        answer = await locked.send(operation.method, concrete(operation.path), **headers)
        assert (answer.status, answer.error["code"]) == (401, "unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert KEY not in answer.body.decode()
    for headers in RIGHT:
        answer = await locked.send(operation.method, concrete(operation.path), **headers)
        assert answer.status != 401


async def test_a_key_in_the_query_does_not_count(locked: Any) -> None:
    assert (await locked.get(f"/api/jobs?key={KEY}&api_key={KEY}")).status == 401


@pytest.mark.parametrize("path", sorted(OPEN))
async def test_health_and_documents_need_no_key(locked: Any, path: str) -> None:
    assert (await locked.get(path)).status == 200


@pytest.mark.parametrize("path", sorted(CLOSED))
async def test_all_else_needs_a_key(locked: Any, path: str) -> None:
    assert (await locked.get(path)).status == 401
    assert (await locked.get(path, x_api_key=KEY)).status in {200, 404}


async def test_without_keys_everybody_may(rest: RestClient) -> None:
    assert (await rest.get("/api/jobs")).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec_fetch_site": "same-origin", "origin": "http://other.example"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"origin": "http://testserver"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://testserver.evil.example"}, 403),
    ],
)
async def test_pages_of_other_sites_change_nothing(
    rest: RestClient, headers: dict[str, Any], status: int
) -> None:
    answer = await rest.post("/api/queues/q/pause", **headers)
    assert answer.status == status
    assert (await rest.get("/api/jobs", **headers)).status == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8080", 200),
        ("127.0.0.2:8080", 200),
        ("10.1.2.3", 200),
        ("[::1]:8080", 200),
        ("onbeat.internal:80", 200),
        ("evil.example", 403),
        ("127.1", 403),
        ("2130706433", 403),
        ("a" * 10_000, 403),
        ("localhost.evil.example", 403),
        ("evil.example:localhost", 403),
        ("[", 403),
        ("", 403),
    ],
)
async def test_only_known_host_names_are_answered(
    office: OperationsHarness, host: str, status: int
) -> None:
    options = ApiOptions(hosts=("localhost", "Onbeat.internal"))
    rest = RestClient(build_api(office.context, options))
    answer = await rest.get("/api/jobs", host=host)
    assert answer.status == status
    if status == 403:
        assert "api.hosts" in answer.error["message"]


@pytest.mark.parametrize(("hosts_with_key", "status"), [(False, 200), (True, 403)])
async def test_a_key_lets_any_host_name_in_unless_names_are_set(
    office: OperationsHarness, hosts_with_key: bool, status: int
) -> None:
    options = ApiOptions(keys=(KEY,), hosts=("a.example",), hosts_with_key=hosts_with_key)
    rest = RestClient(build_api(office.context, options))
    named = {"authorization": f"Bearer {KEY}"}
    assert (await rest.get("/api/jobs", host="a.example", **named)).status == 200
    assert (await rest.get("/api/jobs", host="b.example", **named)).status == status
    assert (await rest.get("/healthz", host="10.0.0.1")).status == 200


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/x", "/swagger-ui/", "/docs/openapi.yml"])
async def test_every_answer_keeps_browsers_out_of_trouble(rest: RestClient, path: str) -> None:
    headers = (await rest.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "server" not in headers


# Health and figures


async def test_health(rest: RestClient) -> None:
    assert (await rest.get("/healthz")).json == {"status": "ok"}
    assert (await rest.get("/readyz")).json == {"status": "ready", "checks": {}}
    assert (await rest.get("/metrics")).status == 404


async def test_readiness_answers_in_time_though_the_store_does_not(
    office: OperationsHarness,
) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    options = ApiOptions(ready=never, ready_deadline=timedelta(milliseconds=20))
    answer = await RestClient(build_api(office.context, options)).get("/readyz")
    assert answer.status == 503
    assert answer.error["message"] == "store: no answer within 0.02 s"


async def test_readiness_names_what_is_wrong(office: OperationsHarness) -> None:
    result = {"store": "ok", "planner": "stuck for 90 s"}

    async def ready() -> Any:
        return result

    rest = RestClient(build_api(office.context, ApiOptions(ready=ready)))
    answer = await rest.get("/readyz")
    assert answer.status == 503
    assert answer.error == {"code": "unavailable", "message": "planner: stuck for 90 s"}
    result["planner"] = "ok"
    assert (await rest.get("/readyz")).json["checks"] == {"store": "ok", "planner": "ok"}


async def test_metrics_are_given_as_they_are(locked: Any) -> None:
    answer = await locked.get("/metrics", x_api_key=KEY)
    assert answer.body == b"onbeat_up 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4"


async def test_routes_of_others_come_first(office: OperationsHarness) -> None:
    async def own(_: Any) -> Any:
        return PlainTextResponse("own")

    rest = RestClient(build_api(office.context, pages=lambda _access: [Route("/", own)]))
    assert (await rest.get("/")).body == b"own"
