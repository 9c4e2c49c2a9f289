"""A request that is sent again under its key is answered as the first time, and not done again."""

import asyncio
import json
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.openapi import openapi_document
from onbeat.model.access import AuditFilter
from onbeat.model.errors import Forbidden, RequestInFlight
from onbeat.model.job import JobState
from onbeat.model.outcome import Failed
from onbeat.model.page import JobFilter
from onbeat.model.principal import Principal, Scope
from onbeat.operations.invoke import call_once, request_from
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.jobs import JOB_ENQUEUE
from onbeat.ports.store import Settlement
from onbeat.rules.idempotency import digest_of
from onbeat.rules.settlement import attempt_of, settle
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.counters import Counters
from operations.harness import OperationsHarness

KEYS = ("a-key-of-some-length-1", "a-key-of-some-length-2")
JOB = {"task": "work", "args": [1]}
SCHEDULE = {"name": "s", "every": "1h", "target": {"task": "work"}}
MANY = {"jobs": [{"task": "work", "args": [n]} for n in range(30)]}


@pytest.fixture
def office() -> Any:
    return OperationsHarness()


@pytest.fixture
def rest(office: OperationsHarness) -> Any:
    return RestClient(build_api(office.context))


@pytest.fixture
def jobs(office: OperationsHarness) -> Any:
    async def found() -> Any:
        return (await office.store.jobs(JobFilter(limit=100))).items

    return found


async def test_a_repeated_request_is_counted_and_logged_with_what_the_first_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    counters = Counters()
    office = OperationsHarness(telemetry=CompositeTelemetry(counters))
    rest = RestClient(build_api(office.context))
    first = await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert counters.repeats == {}
    await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert counters.repeats == {"job.enqueue": 1}
    assert counters.sent_jobs == {"api": 1}
    assert f"request.repeated operation=job.enqueue id={first.json['id']}" in caplog.text


@pytest.mark.parametrize("body", [JOB, MANY, {**JOB, "unique": "u"}])
async def test_jobs_are_made_once_and_answered_as_the_first_time(
    rest: RestClient, jobs: Any, body: dict[str, Any]
) -> None:
    first = await rest.post("/api/jobs", body, idempotency_key="k")
    count = len(await jobs())
    again = await rest.post("/api/jobs", body, idempotency_key="k")

    assert (again.status, again.json) == (first.status, first.json) == (201, first.json)
    assert len(await jobs()) == count


async def test_a_repeated_answer_says_so_in_a_header(rest: RestClient) -> None:
    first = await rest.post("/api/jobs", JOB, idempotency_key="k")
    again = await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_job_that_has_ended_is_not_made_again(
    rest: RestClient, office: OperationsHarness, jobs: Any
) -> None:
    first = await rest.post("/api/jobs", JOB, idempotency_key="k")
    await rest.post(f"/api/jobs/{first.json['id']}/cancel")
    again = await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert again.json == first.json
    assert [job.state for job in await jobs()] == [JobState.CANCELLED]


async def test_without_a_key_each_request_is_one_of_its_own(rest: RestClient, jobs: Any) -> None:
    await rest.post("/api/jobs", JOB)
    await rest.post("/api/jobs", JOB)
    assert len(await jobs()) == 2


async def test_other_keys_are_other_requests(rest: RestClient, jobs: Any) -> None:
    for key in ("k", "K", '"k"'):
        await rest.post("/api/jobs", JOB, idempotency_key=key)
    assert len(await jobs()) == 3


async def test_an_answer_about_a_live_job_with_the_unique_key_is_repeated(
    rest: RestClient, jobs: Any
) -> None:
    live = await rest.post("/api/jobs", {**JOB, "unique": "u"})
    first = await rest.post("/api/jobs", {**JOB, "unique": "u"}, idempotency_key="k")
    await rest.post(f"/api/jobs/{live.json['id']}/cancel")
    again = await rest.post("/api/jobs", {**JOB, "unique": "u"}, idempotency_key="k")
    assert (first.status, again.status) == (200, 200)
    assert again.json == first.json == {"id": live.json["id"], "created": False}


async def test_another_body_under_the_key_is_refused(rest: RestClient, jobs: Any) -> None:
    await rest.post("/api/jobs", JOB, idempotency_key="k")
    other = await rest.post("/api/jobs", {"task": "work", "args": [2]}, idempotency_key="k")
    assert other.status == 422
    assert other.error["code"] == "validation_failed"
    assert other.error["field"] == "Idempotency-Key"
    assert "another body" in other.error["message"]
    assert len(await jobs()) == 1


async def test_the_same_body_may_be_written_in_another_way(rest: RestClient, jobs: Any) -> None:
    first = await rest.post(
        "/api/jobs", b'{"task":"w","kwargs":{"a":1,"b":2}}', idempotency_key="k"
    )
    again = await rest.post(
        "/api/jobs", b'{ "kwargs": {"b": 2, "a": 1}, "task": "w" }', idempotency_key="k"
    )
    assert again.json == first.json


@pytest.mark.parametrize("key", ["", " ", "two words", "größe", "k" * 256, "tab\tin it"])
async def test_a_key_that_is_none_is_refused(rest: RestClient, jobs: Any, key: str) -> None:
    answer = await rest.send_parts(
        "POST",
        "/api/jobs",
        [json.dumps(JOB).encode()],
        {"host": "testserver", "Idempotency-Key": key},
    )
    assert answer.status == 400
    assert answer.error["code"] == "invalid_request"
    assert answer.error["field"] == "Idempotency-Key"
    assert "255" in answer.error["message"]
    assert not await jobs()


async def test_the_longest_key_is_taken(rest: RestClient, jobs: Any) -> None:
    for _ in range(2):
        answer = await rest.post("/api/jobs", JOB, idempotency_key="k" * 255)
        assert answer.status == 201
    assert len(await jobs()) == 1


async def test_a_bad_request_uses_up_no_key(rest: RestClient, jobs: Any) -> None:
    bad = await rest.post("/api/jobs", {**JOB, "priority": 10**6}, idempotency_key="k")
    good = await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert (bad.status, good.status) == (422, 201)
    assert len(await jobs()) == 1


async def test_a_schedule_is_made_once(rest: RestClient) -> None:
    first = await rest.post("/api/schedules", SCHEDULE, idempotency_key="k")
    again = await rest.post("/api/schedules", SCHEDULE, idempotency_key="k")
    assert (again.status, again.json) == (201, first.json)
    assert (await rest.get("/api/schedules")).json["total"] == 1


async def test_a_schedule_with_a_key_of_its_own_is_answered_rather_than_refused(
    rest: RestClient,
) -> None:
    body = {**SCHEDULE, "key": "mine"}
    first = await rest.post("/api/schedules", body, idempotency_key="k")
    again = await rest.post("/api/schedules", body, idempotency_key="k")
    other = await rest.post("/api/schedules", body, idempotency_key="other")
    assert again.json == first.json
    assert other.status == 409


async def test_a_repeat_is_answered_though_the_request_would_be_refused_by_now(
    rest: RestClient, office: OperationsHarness
) -> None:
    body = {"name": "s", "at": "2026-03-02T12:30:00Z", "target": {"task": "work"}}
    first = await rest.post("/api/schedules", body, idempotency_key="k")
    office.move(days=1)
    again = await rest.post("/api/schedules", body, idempotency_key="k")
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json


async def test_a_schedule_is_triggered_once(rest: RestClient, jobs: Any) -> None:
    id = (await rest.post("/api/schedules", SCHEDULE)).json["id"]
    before = len(await jobs())
    first = await rest.post(f"/api/schedules/{id}/trigger", idempotency_key="k")
    again = await rest.post(f"/api/schedules/{id}/trigger", idempotency_key="k")
    assert again.json == first.json
    assert len(await jobs()) == before + 1


async def test_one_key_does_not_trigger_two_schedules(rest: RestClient) -> None:
    ids = [(await rest.post("/api/schedules", SCHEDULE)).json["id"] for _ in range(2)]
    assert (await rest.post(f"/api/schedules/{ids[0]}/trigger", idempotency_key="k")).status == 200
    assert (await rest.post(f"/api/schedules/{ids[1]}/trigger", idempotency_key="k")).status == 422


async def test_a_repeated_trigger_is_answered_after_the_schedule_has_gone(rest: RestClient) -> None:
    id = (await rest.post("/api/schedules", SCHEDULE)).json["id"]
    first = await rest.post(f"/api/schedules/{id}/trigger", idempotency_key="k")
    await rest.delete(f"/api/schedules/{id}")
    again = await rest.post(f"/api/schedules/{id}/trigger", idempotency_key="k")
    assert again.json == first.json


async def test_a_backfill_is_answered_with_the_count_of_the_first_time(rest: RestClient) -> None:
    rule = "DTSTART:20260101T000000Z\nRRULE:FREQ=HOURLY"
    body = {"name": "s", "rrule": rule, "target": {"task": "work"}}
    id = (await rest.post("/api/schedules", body)).json["id"]
    span = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-01T06:00:00Z"}
    first = await rest.post(f"/api/schedules/{id}/backfill", span, idempotency_key="k")
    again = await rest.post(f"/api/schedules/{id}/backfill", span, idempotency_key="k")
    other = await rest.post(f"/api/schedules/{id}/backfill", span)
    assert first.json["jobs"] > 0
    assert (again.status, again.json) == (202, first.json)
    assert other.json["jobs"] == 0


async def test_a_job_is_retried_once_and_then_shown_as_it_is(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = (await rest.post("/api/jobs", JOB)).json["id"]
    await rest.post(f"/api/jobs/{id}/cancel")
    first = await rest.post(f"/api/jobs/{id}/retry", idempotency_key="k")
    await rest.post(f"/api/jobs/{id}/cancel")
    again = await rest.post(f"/api/jobs/{id}/retry", idempotency_key="k")
    assert (first.json["state"], again.json["state"]) == ("waiting", "cancelled")
    assert (await rest.get(f"/api/jobs/{id}")).json["state"] == "cancelled"


async def test_a_job_that_cannot_be_retried_uses_up_no_key(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = (await rest.post("/api/jobs", JOB)).json["id"]
    (job,) = await office.claim("work")
    early = await rest.post(f"/api/jobs/{id}/retry", idempotency_key="k")
    outcome = Failed("of its own", retryable=False)
    ended = settle(job, outcome, office.clock.at, 0.5)
    attempt = attempt_of(job, outcome, office.clock.at)
    await office.store.settle([Settlement(job=ended, attempt=attempt)])
    later = await rest.post(f"/api/jobs/{id}/retry", idempotency_key="k")
    assert (early.status, later.status) == (409, 200)


async def test_operations_have_keys_of_their_own(rest: RestClient, jobs: Any) -> None:
    job = await rest.post("/api/jobs", JOB, idempotency_key="k")
    schedule = await rest.post("/api/schedules", SCHEDULE, idempotency_key="k")
    assert (job.status, schedule.status) == (201, 201)


async def test_principals_have_keys_of_their_own(office: OperationsHarness, jobs: Any) -> None:
    api = build_api(office.context, ApiOptions(keys=KEYS))
    mine, yours = (RestClient(api, **{"x-api-key": key}) for key in KEYS)
    first = await mine.post("/api/jobs", JOB, idempotency_key="k")
    other = await yours.post("/api/jobs", {"task": "work"}, idempotency_key="k")
    again = await mine.post("/api/jobs", JOB, idempotency_key="k")
    assert (first.status, other.status) == (201, 201)
    assert first.json == again.json != other.json


async def test_no_answer_is_given_to_who_may_not_ask(office: OperationsHarness) -> None:
    api = build_api(office.context, ApiOptions(keys=KEYS))
    mine, nobody = RestClient(api, **{"x-api-key": KEYS[0]}), RestClient(api)
    await mine.post("/api/jobs", JOB, idempotency_key="k")
    assert (await nobody.post("/api/jobs", JOB, idempotency_key="k")).status == 401


async def test_no_answer_is_given_to_who_may_not_ask_any_more(office: OperationsHarness) -> None:
    may, must_not = (
        office.context.acting_for(Principal(name="p", scopes=frozenset({scope})))
        for scope in (Scope.SUBMIT, Scope.READ)
    )
    request = request_from(JOB_ENQUEUE, {}, json.dumps(JOB).encode())
    first, _ = await call_once(may, JOB_ENQUEUE, request, "k")
    assert await call_once(may, JOB_ENQUEUE, request, "k") == (first, True)
    with pytest.raises(Forbidden):
        await call_once(must_not, JOB_ENQUEUE, request, "k")


async def test_a_repeat_is_not_audited_again(rest: RestClient, office: OperationsHarness) -> None:
    for _ in range(2):
        await rest.post("/api/schedules", SCHEDULE, idempotency_key="k")
    assert [record.action for record in await office.store.audit(AuditFilter())] == [
        "schedule.create"
    ]


async def test_requests_at_once_make_one_job(rest: RestClient, jobs: Any) -> None:
    answers = await asyncio.gather(
        *(rest.post("/api/jobs", JOB, idempotency_key="k") for _ in range(20))
    )
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert len(await jobs()) == 1


async def test_while_the_first_is_under_way_a_repeat_is_told_when_to_come_again(
    office: OperationsHarness, rest: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(_jobs: Any, _keyed: Any = None) -> None:
        raise RequestInFlight

    monkeypatch.setattr(office.store, "enqueue", held)
    answer = await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert answer.headers["retry-after"] == "1"


async def test_a_key_is_no_matter_where_nothing_is_made(rest: RestClient) -> None:
    for key in ("k", "k"):
        assert (await rest.get("/api/stats", idempotency_key=key)).status == 200
        put = await rest.put("/api/schedules-by-key/s", SCHEDULE, idempotency_key=key)
        assert put.status in {200, 201}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/silences", {"match": "*", "for": "1h"}),
        ("/api/keys", {"name": "grafana", "scopes": ["read"]}),
    ],
)
async def test_what_could_not_be_answered_twice_refuses_a_key(
    rest: RestClient, path: str, body: Any
) -> None:
    refused = await rest.post(path, body, idempotency_key="k")
    assert (refused.status, refused.error["field"]) == (422, "Idempotency-Key")
    assert f"POST {path} takes no Idempotency-Key" in refused.error["message"]
    assert (await rest.post(path, body)).status == 201


async def call(rest: RestClient, method: Any, params: Any, *, id: int = 1, **members: Any) -> Any:
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params, **members})
    return (await rest.send("POST", "/rpc", text.encode(), content_type="application/json")).json


async def test_a_call_has_its_key_beside_its_params(rest: RestClient) -> None:
    params = {**SCHEDULE, "key": "mine"}
    first = await call(rest, "schedule.create", params, key="k")
    again = await call(rest, "schedule.create", params, key="k")
    other = await call(rest, "schedule.create", {**params, "name": "t"}, key="k")
    assert first["result"] == again["result"]
    assert other["error"]["data"]["field"] == "Idempotency-Key"
    shown = await rest.get(f"/api/schedules/{first['result']['id']}")
    assert shown.json["key"] == "mine"


async def test_rest_and_rpc_share_keys(rest: RestClient) -> None:
    first = await rest.post("/api/jobs", JOB, idempotency_key="k")
    again = await call(rest, "job.enqueue", JOB, key="k")
    assert again["result"] == first.json


async def test_a_submission_is_stored_once(office: OperationsHarness, jobs: Any) -> None:
    async def knows(_task: Any) -> Any:
        return True

    rest = RestClient(build_api(replace(office.context, knows_task=knows)))
    first = await call(rest, "submit:work", {"a": 1}, key="k")
    again = await call(rest, "submit:work", {"a": 1}, key="k")
    other = await call(rest, "submit:work", {"a": 2}, key="k")
    assert first["result"] == again["result"]
    assert "error" in other
    assert len(await jobs()) == 1


@pytest.mark.parametrize("key", [1, None, "", "two words", ["k"]])
async def test_a_member_that_is_no_key_is_refused(rest: RestClient, jobs: Any, key: Any) -> None:
    answer = await call(rest, "job.enqueue", JOB, key=key)
    assert answer["error"]["data"]["field"] == "key"
    assert not await jobs()


async def test_the_header_serves_the_calls_of_a_batch_by_their_places(
    rest: RestClient, jobs: Any
) -> None:
    calls = [
        {"jsonrpc": "2.0", "id": id, "method": "job.enqueue", "params": {"task": "w", "args": [id]}}
        for id in range(3)
    ]
    text = json.dumps(calls).encode()
    sent = {"content_type": "application/json", "idempotency_key": "k" * 255}
    first = await rest.send("POST", "/rpc", text, **sent)
    again = await rest.send("POST", "/rpc", text, **sent)
    assert first.json == again.json
    assert len(await jobs()) == 3


def test_the_document_names_the_header_where_it_is_taken() -> None:
    paths = openapi_document()["paths"]
    for operation in OPERATIONS:
        described = paths[operation.path][operation.method.lower()]
        names = [parameter["name"] for parameter in described["parameters"]]
        assert ("Idempotency-Key" in names) is operation.takes_key, operation.name


async def test_keys_are_kept_by_principal_and_operation_and_hashed(
    rest: RestClient, office: OperationsHarness
) -> None:
    await rest.post("/api/jobs", JOB, idempotency_key="k")
    assert await office.store.keyed_answer(digest_of("anonymous", "job.enqueue", "k"))
