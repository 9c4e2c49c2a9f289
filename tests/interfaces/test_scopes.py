"""Every operation with every scope, over REST and over JSON-RPC; keys, their limits and their end."""

import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.key_refusals import PEERS_MAX, REFUSED_MAX, Refusals
from onbeat.api.keyring import FRESH_SECONDS
from onbeat.model.errors import RateLimited, Unavailable
from onbeat.model.principal import Scope
from onbeat.operations.scopes import reference_page
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from onbeat.rules.access import expand_scopes
from operations.harness import OperationsHarness

ID = "01900000-0000-7000-8000-000000000000"
KEYS = {scope: f"{scope.value}-key-of-some-length" for scope in Scope}
CONFIGURED = tuple(f"{scope.value}er:{scope.value}={key}" for scope, key in KEYS.items())
ALLOWED = {
    Scope.READ: {Scope.READ},
    Scope.SUBMIT: {Scope.SUBMIT},
    Scope.WORK: {Scope.WORK},
    Scope.OPERATE: {Scope.READ, Scope.SUBMIT, Scope.OPERATE},
    Scope.ADMIN: set(Scope),
}
CASES = [(operation, scope) for operation in OPERATIONS for scope in Scope]


@pytest.fixture
def office() -> Any:
    return OperationsHarness()


def client(office: OperationsHarness, *keys: str, **options: Any) -> RestClient:
    return RestClient(build_api(office.context, ApiOptions(keys=keys, **options)))


def named(case: object) -> str:
    return case.name if isinstance(case, Operation) else str(case)


def test_the_scopes_include_what_the_page_says() -> None:
    assert {scope: expand_scopes([scope]) for scope in Scope} == ALLOWED


@pytest.mark.parametrize(("operation", "scope"), CASES, ids=named)
async def test_each_operation_is_for_its_scope_over_rest(
    office: OperationsHarness, operation: Operation, scope: Scope
) -> None:
    rest = client(office, *CONFIGURED)
    path = operation.path.format(id=ID, name="q", key="k", fault="1", group="1")
    answer = await rest.send(operation.method, path, x_api_key=KEYS[scope])
    check(answer.status == 403, answer.json.get("error", {}), operation, scope)


@pytest.mark.parametrize(("operation", "scope"), CASES, ids=named)
async def test_each_operation_is_for_its_scope_over_rpc(
    office: OperationsHarness, operation: Operation, scope: Scope
) -> None:
    rest = client(office, *CONFIGURED)
    call = {"jsonrpc": "2.0", "method": operation.name, "id": 1}
    answer = await rest.post("/rpc", call, x_api_key=KEYS[scope])
    error = answer.json.get("error", {})
    check(error.get("data", {}).get("code") == "forbidden", error, operation, scope)


def check(is_refused: Any, error: Any, operation: Any, scope: Any) -> None:
    assert is_refused is (operation.scope not in ALLOWED[scope])
    if is_refused:
        assert f"`{operation.scope}`" in error["message"]
        assert f"'{scope.value}er'" in error["message"]


@pytest.mark.parametrize("scope", Scope)
async def test_submissions_and_metrics_have_scopes_too(
    office: OperationsHarness, scope: Scope
) -> None:
    async def metrics(_accept: str) -> Any:
        return b"onbeat_up 1\n", "text/plain"

    rest = client(office, *CONFIGURED, metrics=metrics)
    answer = await rest.get("/metrics", x_api_key=KEYS[scope])
    assert answer.status == (200 if Scope.READ in ALLOWED[scope] else 403)
    call = {"jsonrpc": "2.0", "method": "submit:export", "params": {}, "id": 1}
    error = (await rest.post("/rpc", call, x_api_key=KEYS[scope])).json["error"]
    assert ("`submit`" in error["message"]) is (Scope.SUBMIT not in ALLOWED[scope])


async def test_a_batch_does_what_its_key_may_and_no_more(office: OperationsHarness) -> None:
    rest = client(office, *CONFIGURED)
    calls = [
        {"jsonrpc": "2.0", "method": method, "id": method}
        for method in ("stats.show", "key.list", "job.list")
    ]
    answers = (await rest.post("/rpc", calls, x_api_key=KEYS[Scope.READ])).json
    assert ["error" in answer for answer in answers] == [False, True, False]


async def test_a_notification_that_is_not_allowed_does_nothing(office: OperationsHarness) -> None:
    rest = client(office, *CONFIGURED)
    call = {"jsonrpc": "2.0", "method": "queue.pause", "params": {"name": "mail"}}
    assert (await rest.post("/rpc", call, x_api_key=KEYS[Scope.READ])).status == 204
    assert list(await office.store.queues(office.clock.now())) == []


def test_the_page_of_scopes_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs/reference/scopes.md"
    assert page.read_text() == reference_page()


# A worker's key


@pytest.fixture
async def exporter(office: OperationsHarness) -> Any:
    """A key for one queue, and a job in each of two."""
    rest = client(office, BOSS, f"exporter:work:exports,more={WORKER}")
    for queue in ("exports", "mail"):
        body = {"task": "export", "queue": queue}
        assert (await rest.post("/api/jobs", body, x_api_key=BOSS)).status == 201
    return rest


BOSS = "boss-key-of-some-length"
WORKER = "worker-key-of-some-length"
CLAIM = {"worker": "w", "tasks": ["export"], "limit": 10}


async def test_a_worker_claims_from_its_own_queues_alone(exporter: Any) -> None:
    jobs = (await exporter.post("/api/jobs/claim", CLAIM, x_api_key=WORKER)).json["jobs"]
    assert len(jobs) == 1
    answer = await exporter.post("/api/jobs/claim", CLAIM | {"queues": ["mail"]}, x_api_key=WORKER)
    assert (answer.status, "'mail'" in answer.error["message"]) == (403, True)
    report = {"token": jobs[0]["token"], "result": 1}
    answer = await exporter.post(f"/api/jobs/{jobs[0]['id']}/settle", report, x_api_key=WORKER)
    assert answer.json == {"settled": True, "state": "succeeded"}


async def test_a_worker_touches_no_job_of_another_queue(exporter: Any) -> None:
    request = CLAIM | {"queues": ["mail"]}
    (job,) = (await exporter.post("/api/jobs/claim", request, x_api_key=BOSS)).json["jobs"]
    for verb, more in (("start", {}), ("renew", {}), ("settle", {"result": "forged"})):
        path, body = f"/api/jobs/{job['id']}/{verb}", {"token": job["token"], **more}
        answer = await exporter.post(path, body, x_api_key=WORKER)
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert (await exporter.get(f"/api/jobs/{job['id']}", x_api_key=BOSS)).json["state"] == "running"


# Keys of the store


async def make(rest: RestClient, admin: Any, **draft: Any) -> Any:
    answer = await rest.post("/api/keys", draft, x_api_key=admin)
    assert answer.status == 201, answer.body
    return answer.json["key"]


async def test_a_key_of_the_store_is_let_in_until_it_is_revoked(office: OperationsHarness) -> None:
    rest = client(office, BOSS)
    key = await make(rest, BOSS, name="grafana", scopes=["read"])
    assert key not in str(await office.store.keys())
    office.move(seconds=FRESH_SECONDS)
    assert (await rest.get("/api/stats", x_api_key=key)).status == 200
    assert (await rest.delete("/api/keys/grafana", x_api_key=BOSS)).status == 200
    office.move(seconds=5)
    assert (await rest.get("/api/stats", x_api_key=key)).status == 401
    assert (await rest.delete("/api/keys/grafana", x_api_key=BOSS)).status == 404


async def test_the_first_key_of_the_store_closes_an_open_service(office: OperationsHarness) -> None:
    rest = client(office)
    key = await make(rest, "", name="boss", scopes=["admin"])
    office.move(seconds=FRESH_SECONDS)
    assert (await rest.get("/api/stats")).status == 401
    assert (await rest.get("/healthz")).status == 200
    assert (await rest.get("/api/stats", x_api_key=key)).status == 200


async def test_a_key_ends_with_its_time(office: OperationsHarness) -> None:
    rest = client(office, BOSS, "old:read=old-key-of-some-length@2026-03-02T12:00:10Z")
    key = await make(rest, BOSS, name="short", scopes=["read"], expires="10s")
    office.move(seconds=9)
    assert (await rest.get("/api/stats", x_api_key=key)).status == 200
    assert (await rest.get("/api/stats", x_api_key="old-key-of-some-length")).status == 200
    office.move(seconds=1)
    for one in (key, "old-key-of-some-length"):
        answer = await rest.get("/api/stats", x_api_key=one)
        assert (answer.status, "expired" in answer.error["message"]) == (401, True)


async def test_a_mistyped_key_is_known_by_its_checksum_without_the_store(
    office: OperationsHarness,
) -> None:
    rest = client(office, BOSS)
    key = await make(rest, BOSS, name="grafana", scopes=["read"])

    async def away() -> None:
        raise Unavailable

    office.store.keys = away
    wrong = key[:9] + ("a" if key[9] != "a" else "b") + key[10:]
    answer = await rest.get("/api/stats", x_api_key=wrong)
    assert (answer.status, "mistyped" in answer.error["message"]) == (401, True)


async def test_while_the_store_is_away_only_configured_keys_are_let_in(
    office: OperationsHarness,
) -> None:
    rest = client(office, BOSS)
    key = await make(rest, BOSS, name="grafana", scopes=["read"])

    async def away() -> None:
        raise Unavailable

    office.store.keys = away
    office.move(seconds=FRESH_SECONDS)
    assert (await rest.get("/api/stats", x_api_key=key)).status == 503
    assert (await rest.get("/api/stats", x_api_key=BOSS)).status == 200


async def test_the_last_use_is_kept_to_about_a_minute(office: OperationsHarness) -> None:
    rest = client(office, BOSS)
    key = await make(rest, BOSS, name="grafana", scopes=["read"])
    noted = []
    real = office.store.note_key_use

    async def note(name: str, at: Any) -> None:
        noted.append(at)
        await real(name, at)

    office.store.note_key_use = note
    for seconds in (5, 20, 30, 10):
        office.move(seconds=seconds)
        await rest.get("/api/stats", x_api_key=key)
    assert [at.second for at in noted] == [5, 5]
    (shown,) = (await rest.get("/api/keys", x_api_key=BOSS)).json["keys"]
    assert (shown["name"], shown["used_at"]) == ("grafana", "2026-03-02T12:01:05Z")
    assert "key" not in shown
    assert "digest" not in shown


@pytest.mark.parametrize(
    ("draft", "status", "word"),
    [
        ({"name": "taken", "scopes": ["read"]}, 409, "'taken'"),
        ({"name": "a", "scopes": ["write"]}, 422, "'write' is not a scope"),
        ({"name": "a", "scopes": []}, 422, "at least one scope"),
        ({"name": "a b", "scopes": ["read"]}, 422, "name must be"),
        ({"name": "", "scopes": ["read"]}, 422, "name must be"),
        ({"name": "a", "scopes": ["read"], "expires": "soon"}, 422, "expires must be"),
        ({"name": "a", "scopes": ["read"], "colour": "red"}, 422, "colour"),
    ],
)
async def test_a_key_that_cannot_be_is_refused_in_clear_words(
    office: OperationsHarness, draft: dict[str, Any], status: int, word: str
) -> None:
    rest = client(office, BOSS)
    await make(rest, BOSS, name="taken", scopes=["read"])
    answer = await rest.post("/api/keys", draft, x_api_key=BOSS)
    assert (answer.status, word in answer.error["message"]) == (status, True)


# Refused keys


async def test_refused_keys_are_counted_logged_and_slowed_down(
    office: OperationsHarness, caplog: pytest.LogCaptureFixture
) -> None:
    counted = []
    rest = client(office, BOSS, key_refused=lambda: counted.append(1))
    with caplog.at_level(logging.WARNING, "onbeat"):
        for _ in range(REFUSED_MAX):
            answer = await rest.get("/api/stats", x_api_key="wrong-canary-key")
            assert answer.status == 401
        answer = await rest.get("/api/stats", x_api_key="wrong-canary-key")
    assert (answer.status, answer.error["code"]) == (429, "rate_limited")
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert (await rest.get("/api/stats", x_api_key=BOSS)).status == 200
    assert len(counted) == REFUSED_MAX + 1
    response = [record for record in caplog.records if "key.refused" in record.getMessage()]
    assert len(response) == 1
    assert "canary" not in json.dumps([record.getMessage() for record in caplog.records])
    office.move(seconds=60)
    assert (await rest.get("/api/stats", x_api_key="wrong-canary-key")).status == 401


def test_peers_are_remembered_within_a_bound() -> None:
    refusals = Refusals(lambda: 0.0, lambda: None)
    for number in range(3 * PEERS_MAX):
        refusals.note(f"peer {number}")
    assert len(refusals.windows) == PEERS_MAX


def test_each_peer_has_its_own_window() -> None:
    seconds = [0.0]
    refusals = Refusals(lambda: seconds[0], lambda: None)
    for _ in range(REFUSED_MAX):
        refusals.note("one")
    with pytest.raises(RateLimited) as caught:
        refusals.note("one")
    assert caught.value.retry_after == 60
    refusals.note("another")
    seconds[0] = timedelta(minutes=1).total_seconds()
    refusals.note("one")
