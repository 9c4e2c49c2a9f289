"""Instants at the first and last moment that there is: refused or answered, never an error of ours."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat.api.asgi import build_api
from onbeat.stores.memory import MemoryStore
from onbeat.stores.sqlite.store import SqliteStore
from operations.harness import OperationsHarness

EDGES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "0001-01-01T00:00:00.000001Z",
    "0001-01-02T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "9999-12-31T00:00:00Z",
    "9999-12-31T23:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59.999999-23:59",
]
CALLBACK = {"callback_url": "https://example.com/"}
DAILY = {"name": "n", "rrule": "FREQ=DAILY", **CALLBACK}
ZONE = {"timezone": "Pacific/Auckland"}


@pytest.fixture(params=["memory", "sqlite"])
async def rest(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    office = OperationsHarness(
        MemoryStore() if request.param == "memory" else SqliteStore(str(tmp_path / "o.db"))
    )
    await office.store.open()
    yield RestClient(build_api(office.context))
    await office.store.close()


async def seen(rest: RestClient) -> None:
    """Everything that shows what was stored."""
    for path in (
        "/api/schedules",
        "/api/jobs",
        "/api/stats",
        "/api/queues",
        "/api/forecast",
        "/api/timeline",
    ):
        assert (await rest.get(path)).status == 200, path


def answered(answer: Any) -> Any:
    assert answer.status in {200, 201, 202, 400, 422}, answer.body
    return answer.status < 300


@pytest.mark.parametrize("at", EDGES)
async def test_schedules_at_the_edge(rest: RestClient, at: str) -> None:
    bodies = [
        {"name": "n", "at": at, **CALLBACK},
        DAILY | {"starts_at": at},
        DAILY | {"ends_at": at},
        DAILY | {"starts_at": at, "ends_at": at} | ZONE,
        DAILY | {"starts_at": at, "grace": "3660d", "jitter": "1d", "expires_after": "3660d"},
        {"name": "n", "every": "10000y", **CALLBACK} | {"starts_at": at},
        {"name": "n", "cron": "59 59 23 31 12 * 9999", **CALLBACK} | {"starts_at": at},
    ]
    for body in bodies:
        created = await rest.post("/api/schedules", body)
        if answered(created):
            id = created.json["id"]
            assert (await rest.get(f"/api/schedules/{id}")).status == 200
            answered(await rest.post(f"/api/schedules/{id}/pause"))
            answered(await rest.post(f"/api/schedules/{id}/resume"))
            answered(await rest.get(f"/api/schedules/{id}/events/pending"))
    await seen(rest)


@pytest.mark.parametrize("at", EDGES)
async def test_backfills_at_the_edge(rest: RestClient, at: str) -> None:
    id = (await rest.post("/api/schedules", DAILY | ZONE)).json["id"]
    for other in EDGES:
        answered(await rest.post(f"/api/schedules/{id}/backfill", {"from": at, "to": other}))
    await seen(rest)


@pytest.mark.parametrize("at", EDGES)
async def test_forecasts_at_the_edge(rest: RestClient, at: str) -> None:
    await rest.post("/api/schedules", DAILY | ZONE)
    await rest.post("/api/schedules", DAILY | {"rrule": "FREQ=HOURLY"})
    quoted = at.replace("+", "%2B")
    answered(await rest.get(f"/api/forecast?from={quoted}"))
    answered(await rest.get(f"/api/forecast?to={quoted}"))
    for other in EDGES:
        until = other.replace("+", "%2B")
        answered(await rest.get(f"/api/forecast?from={quoted}&to={until}"))


@pytest.mark.parametrize("at", EDGES)
async def test_jobs_at_the_edge(rest: RestClient, at: str) -> None:
    for body in (
        {"run_at": at},
        {"expires_at": at},
        {"run_at": at, "expires_at": at, "timeout": "3660d"},
        {"run_at": at, "retry": {"delay": "3660d", "delay_max": "3660d"}},
    ):
        created = await rest.post("/api/jobs", {"task": "work", **body})
        if answered(created):
            id = created.json["id"]
            assert (await rest.get(f"/api/jobs/{id}")).status == 200
            assert (await rest.get(f"/api/jobs/{id}/why")).status == 200
    await seen(rest)


@pytest.mark.parametrize("at", EDGES)
async def test_audits_and_keys_at_the_edge(rest: RestClient, at: str) -> None:
    quoted = at.replace("+", "%2B")
    for query in (f"since={quoted}", f"until={quoted}", f"since={quoted}&until={quoted}"):
        answered(await rest.get(f"/api/audit?{query}"))
    answered(await rest.post("/api/keys", {"name": "k", "scopes": ["read"], "expires_at": at}))


@pytest.mark.parametrize("at", EDGES)
@pytest.mark.parametrize(
    "rule",
    [
        {"rrule": "FREQ=DAILY"},
        {"rrule": "FREQ=SECONDLY;INTERVAL=1000000000"},
        {"rrule": "DTSTART:00010101T000000\nRRULE:FREQ=YEARLY"},
        {"rrule": "DTSTART:99991231T235959Z\nRRULE:FREQ=SECONDLY"},
        {"rrule": "RDATE:00010101T000000,99991231T235959"},
        {"cron": "* * * * * * *"},
        {"every": "P10000Y"},
        {"every": "1ms"},
        {"at": "0001-01-01T00:00:00Z"},
        {"at": "9999-12-31T23:59:59.999999Z"},
    ],
    ids=str,
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "America/New_York"])
async def test_previews_at_the_edge(at: str, rule: dict[str, Any], zone: str) -> None:
    office = OperationsHarness()
    rest = RestClient(build_api(office.context))
    body = {**rule, "after": at, "timezone": zone, "count": 3}
    answered(await rest.post("/api/recurrence/preview", body))
