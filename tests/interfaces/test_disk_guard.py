"""New work on a disk that is nearly full: refused by the service, until there is room."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from msgspec.structs import replace

from disks import MIB, small_disk, taken
from interfaces.rest_client import RestClient
from onbeat import Onbeat
from onbeat.api.asgi import build_api
from onbeat.app import disk_guard
from onbeat.app.disk_guard import LOOK_SECONDS, DiskGuard
from onbeat.model.errors import Unavailable
from onbeat.service import Service
from onbeat.settings import Settings
from onbeat.stores.sqlite.ballast import free_percent
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.stores.sqlite.transaction import Transaction
from onbeat.testing.build import DAY

LEFT = MIB // 2
"""About 2 % of the disk."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Any]:
    with small_disk(tmp_path / "disk") as place:
        yield place


@pytest.fixture
def url(disk: Any) -> Any:
    return f"sqlite:///{disk}/onbeat.db"


def the_service(url: str, **api: Any) -> Any:
    settings = Settings(store=url)
    settings = replace(settings, api=replace(settings.api, **api))
    beat = Onbeat(url)

    @beat.task("work")
    def work() -> None: ...

    return Service(settings, beat)


@pytest.fixture
async def service(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(disk_guard, "LOOK_SECONDS", 0.0)
    service = the_service(url)
    await service.backend.store.open()
    yield service
    await service.backend.store.close()


@pytest.fixture
def rest(service: Any) -> Any:
    return RestClient(build_api(service.context()))


def a_body(**fields: Any) -> Any:
    return {"name": "n", "every": "1h", "target": {"task": "work"}, **fields}


def call(method: Any, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def counts(rest: RestClient) -> Any:
    stats = (await rest.get("/api/stats")).json
    return stats["jobs"], stats["schedules"]


async def test_what_would_add_is_refused_until_there_is_room(rest: RestClient, disk: Any) -> None:
    id = (await rest.post("/api/schedules", a_body())).json["id"]
    span = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    adding = [
        ("POST", "/api/jobs", {"task": "work"}),
        ("POST", "/api/jobs", {"jobs": [{"task": "work"}]}),
        ("POST", "/api/schedules", a_body()),
        ("PUT", "/api/schedules-by-key/new", a_body()),
        ("POST", f"/api/schedules/{id}/trigger", None),
        ("POST", f"/api/schedules/{id}/backfill", span),
    ]
    before = await counts(rest)
    other = taken(disk, left=LEFT)
    for method, path, body in adding:
        refused = await rest.send(method, path, body)
        assert (refused.status, refused.error["code"]) == (503, "unavailable"), path
        assert refused.headers["retry-after"] == "1"
        for word in (
            "% of the store's disk is free",
            "below 5 % new work is refused",
            "free some space",
        ):
            assert word in refused.error["message"]
    for request in (call("job.enqueue", task="work"), call("submit:work")):
        answer = (await rest.post("/rpc", request)).json["error"]
        assert (answer["data"]["code"], "free some space" in answer["message"]) == (
            "unavailable",
            True,
        )
    notification = {"jsonrpc": "2.0", "method": "submit:work"}
    response = await rest.post("/rpc", notification)
    assert (response.status, response.headers["retry-after"]) == (503, "1")
    assert await counts(rest) == before
    assert (await rest.get("/api/dead")).json["letters"] == []
    other.unlink()
    for method, path, body in adding:
        assert (await rest.send(method, path, body)).status in {200, 201, 202}, path
    assert (await rest.post("/rpc", call("submit:work"))).json["result"]["created"]


async def test_what_reads_ends_or_makes_room_goes_on(rest: RestClient, disk: Any) -> None:
    id = (await rest.post("/api/schedules", a_body(key="kept"))).json["id"]
    jobs = [(await rest.post("/api/jobs", {"task": "work"})).json["id"] for _ in range(2)]
    taken(disk, left=LEFT)
    claim = {"worker": "w", "tasks": ["work"], "limit": 1}
    (lease,) = (await rest.post("/api/jobs/claim", claim)).json["jobs"]
    report = {"token": lease["token"], "result": 1}
    going = [
        ("GET", f"/api/jobs/{jobs[1]}", None),
        ("PUT", "/api/schedules-by-key/kept", a_body(name="other")),
        ("POST", f"/api/jobs/{lease['id']}/settle", report),
        ("POST", f"/api/jobs/{jobs[1]}/cancel", None),
        ("POST", f"/api/jobs/{jobs[1]}/retry", None),
        ("POST", "/api/queues/default/pause", None),
        ("POST", f"/api/schedules/{id}/pause", None),
        ("DELETE", f"/api/schedules/{id}", None),
    ]
    for method, path, body in going:
        answer = await rest.send(method, path, body)
        assert answer.status == 200, (path, answer.body)


async def test_the_bound_is_a_setting(url: str, disk: Any) -> None:
    careless = the_service(url, disk_free_min=0)
    await careless.backend.store.open()
    taken(disk, left=LEFT)
    rest = RestClient(build_api(careless.context()))
    assert (await rest.post("/api/jobs", {"task": "work"})).status == 201
    await careless.backend.store.close()


def test_a_store_that_is_no_file_is_not_asked() -> None:
    service = the_service("memory://")
    assert service.context().check_capacity == service.backend.context.check_capacity


async def test_what_was_pruned_makes_room(rest: RestClient, service: Any, disk: Any) -> None:
    """The file does not shrink, but what is empty in it is written anew."""
    body = {"jobs": [{"task": "work", "labels": {"filler": "x" * 200}}] * 4_000}
    ids = (await rest.post("/api/jobs", body)).json["ids"]
    store, now = service.backend.store, service.backend.clock.now()
    await store.cancel(ids, "by hand", now)
    later = {"finished_before": now + DAY, "failed_before": now + DAY, "limit": len(ids)}
    assert await store.prune(**later) == len(ids)
    await store.ping()  # by then the log is copied back
    taken(disk, left=LEFT)
    assert (await rest.post("/api/jobs", {"task": "work"})).status == 201


def test_a_file_system_that_tells_of_no_size_has_room() -> None:
    transaction = Transaction(apsw.Connection(":memory:"))
    assert free_percent(transaction, "/proc/onbeat.db") == 100


async def test_the_disk_is_looked_at_once_a_second(disk: Any) -> None:
    store = SqliteStore(f"{disk}/onbeat.db")
    await store.open()
    seconds = 0.0
    one = DiskGuard(store.free_percent, 5, lambda: seconds)
    await one.check()
    other = taken(disk, left=LEFT)
    seconds = LOOK_SECONDS / 2
    await one.check()
    seconds = LOOK_SECONDS
    with pytest.raises(Unavailable, match="free some space"):
        await one.check()
    other.unlink()
    seconds = LOOK_SECONDS * 1.5
    with pytest.raises(Unavailable):
        await one.check()
    seconds = LOOK_SECONDS * 2
    await one.check()
    await store.close()
