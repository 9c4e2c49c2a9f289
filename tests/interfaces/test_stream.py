"""`GET /api/stream` in this process: what is told, its bounds, and who may read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from starlette.routing import BaseRoute

from conditions import eventually
from interfaces.rest_client import RestClient
from interfaces.stream_reader import StreamReader
from onbeat.api import ApiOptions, build_api
from onbeat.api.security import Access
from onbeat.api.stream_hub import LINGER_SECONDS, StreamHub, streams_max
from onbeat.engine.alerts import AlertWatch
from onbeat.engine.bulk import BulkRunner
from onbeat.model.errors import Unavailable
from onbeat.model.limits import STREAMS_MAX, STREAMS_OF_KEY_MAX
from onbeat.model.live import LiveEvent
from onbeat.operations.alerts import concerns_now
from onbeat.rules.live_feed import EVENTS_HERE_MAX
from onbeat.rules.sessions import proof_of
from onbeat.rules.stream_memory import EVENTS_BEHIND_MAX, IDS_MAX
from onbeat.testing.build import a_worker
from operations.harness import OperationsHarness

ADMIN = "admin-key-of-the-test-0001"
READ = "read-key-of-the-test-00003"
SUBMIT = "submit-key-of-the-test-004"
KEYS = (f"boss:admin={ADMIN}", f"look:read={READ}", f"send:submit={SUBMIT}")
ALL = "/api/stream?events=job,schedule,queue,alert,bulk,pulse,changed"


class Live:
    """A service with its hub of streams, and one without keys."""

    def __init__(self, keys: tuple[str, ...] = (), streams: int = STREAMS_MAX) -> None:
        self.office = OperationsHarness()
        self.hub = StreamHub(self.office.context, streams)
        self.access: Access | None = None

        def pages(access: Access) -> Iterable[BaseRoute]:
            self.access = access
            return ()

        self.app = build_api(self.office.context, ApiOptions(keys=keys), pages=pages, hub=self.hub)
        self.rest = RestClient(self.app)
        self.feed = self.office.context.live

    def reader(self, url: str = "/api/stream", **headers: str) -> StreamReader:
        return StreamReader(self.app, url, **headers)

    async def open_session(self) -> str:
        assert self.access is not None
        return await self.access.keyring.open_session(READ)

    def note(self, count: int = 1, **fields: Any) -> None:
        event: dict[str, Any] = {
            "kind": "job",
            "id": "1",
            "to": "running",
            "at": self.office.clock.at,
        } | fields
        for _ in range(count):
            self.feed.note(LiveEvent(**event))


Build = Callable[..., Live]


@pytest_asyncio.fixture
async def build() -> AsyncIterator[Build]:
    """Makes services, which stop at the end."""
    made: list[Live] = []

    def build(**options: Any) -> Live:
        made.append(Live(**options))
        return made[-1]

    yield build
    for one in made:
        await one.hub.close()


@pytest.fixture
def live(build: Build) -> Live:
    return build()


# What is told


async def test_a_change_by_a_request_is_told(live: Live) -> None:
    async with live.reader() as reader:
        assert (reader.status, reader.headers["content-type"]) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        assert reader.headers["cache-control"] == "no-store"
        assert "content-length" not in reader.headers
        body = {"task": "mail", "labels": {"a": "b"}}
        id = (await live.rest.post("/api/jobs", body)).json["id"]
        await live.rest.post(f"/api/jobs/{id}/cancel")
        await live.rest.post(f"/api/jobs/{id}/retry")
        await live.rest.post("/api/queues/slow/pause")
        jobs = await reader.until("job", 3)
        assert [(one["id"], one["to"], one["task"]) for one in jobs] == [
            (id, "waiting", "mail"),
            (id, "cancelled", "mail"),
            (id, "waiting", "mail"),
        ]
        (queue,) = await reader.until("queue")
        assert (queue["id"], queue["to"]) == ("slow", "paused")
        assert reader.body.startswith(b"retry: 2000\n\n")
        assert {one.kind for one in reader.told} == {"job", "queue"}


async def test_every_change_of_a_schedule_is_told(live: Live) -> None:
    async with live.reader() as reader:
        draft = {"name": "n", "every": "5m", "target": {"task": "t"}}
        id = (await live.rest.post("/api/schedules", draft)).json["id"]
        for done in ("pause", "resume", "trigger"):
            await live.rest.post(f"/api/schedules/{id}/{done}")
        await live.rest.put(f"/api/schedules/{id}", {"every": "6m"})
        await live.rest.delete(f"/api/schedules/{id}")
        told = await reader.until("schedule", 6)
        assert [one["to"] for one in told] == [
            *("created", "paused", "resumed", "triggered", "changed", "deleted")
        ]
        assert {one["id"] for one in told} == {id}
        (job,) = reader.of("job")
        assert job["schedule_id"] == id


async def test_what_alerts_silences_and_bulks_do_is_told(live: Live) -> None:
    office, context = live.office, live.office.context
    watch = AlertWatch(office.store, office.clock, lambda: concerns_now(context), live.feed)
    bulks = BulkRunner(office.store, office.clock, live.feed)
    url = "/api/stream?events=alert,bulk,changed,job"
    async with live.reader(url) as reader, live.reader("/api/stream?queue=mail") as other:
        id = (await live.rest.post("/api/jobs", {"task": "mail", "delay": "1h"})).json["id"]
        await live.rest.post(f"/api/jobs/{id}/reschedule", {"delay": "0s"})
        await reader.until("job", 2)
        await watch.step()
        office.move(seconds=20)
        await watch.step()
        silence = (await live.rest.post("/api/silences", {"match": "*", "for": "1h"})).json["id"]
        await live.rest.delete(f"/api/silences/{silence}")
        bulk = {"do": "cancel", "where": {"queue": "default"}}
        await live.rest.post("/api/jobs/bulk", bulk | {"dry_run": True})
        made = (await live.rest.post("/api/jobs/bulk", bulk)).json["id"]
        office.move(seconds=20)
        await bulks.step()
        office.move(minutes=2)
        await watch.step()
        told = [(one["id"], one["to"]) for one in await reader.until("alert", 5)]
        assert told == [
            ("no-worker", "begun"),
            ("no-worker", "raised"),
            (silence, "silenced"),
            (silence, "unsilenced"),
            ("no-worker", "resolved"),
        ]
        steps = [(one["id"], one["to"], one["done"]) for one in await reader.until("bulk", 2)]
        assert steps == [(made, "waiting", 0), (made, "done", 1)]
        live.office.move(seconds=2)
        changed = await reader.until("changed")
        assert any(one["alerts"] for one in changed)
        await eventually(
            lambda: any(made in one["bulks"] and one["more"] for one in reader.of("changed")),
            "the jobs of the bulk are counted",
        )
        assert other.of("alert") == []


async def test_a_request_that_is_refused_or_changes_nothing_is_not_told(live: Live) -> None:
    unique = {"task": "mail", "unique": "one"}
    await live.rest.post("/api/jobs", unique)
    async with live.reader() as reader:
        assert (await live.rest.post("/api/jobs", unique)).status == 200
        assert (await live.rest.post("/api/queues/%23/pause")).status >= 400
        await live.rest.post("/api/queues/last/pause")
        await reader.until("queue")
        assert [one.data["id"] for one in reader.told] == ["last"]


async def test_a_summary_and_a_pulse_are_told(live: Live) -> None:
    async with live.reader("/api/stream?events=pulse,changed") as reader:
        await live.rest.post("/api/jobs", {"task": "mail", "queue": "q"})
        live.note(id="7", flow="f", schedule_id="s")
        live.note(id="9", kind="log", to="logged")
        live.office.move(seconds=10)
        (changed,) = await reader.until("changed")
        assert "7" in changed["jobs"]
        assert (changed["more"], changed["workers"]) == (0, False)
        assert (changed["schedules"], changed["queues"], changed["flows"]) == (["s"], ["q"], ["f"])
        assert changed["logs"] == ["9"]
        await eventually(lambda: live.hub.depths.due == 1, "the depths are read")
        live.office.move(seconds=10)
        pulse = (await reader.until("pulse", 2))[-1]
        assert (pulse["due"], pulse["running"], pulse["workers"]) == (1, 0, 0)
        assert pulse["oldest_due"]["queue"] == "q"
        assert pulse["lateness"] == {"p50": None, "p95": None}
        assert reader.of("job") == []


async def test_a_pulse_comes_soon_after_a_worker_has_come(live: Live) -> None:
    """Nothing starts or ends, so that the next one would come after ten seconds."""
    async with live.reader("/api/stream?events=pulse") as reader:
        live.office.move(seconds=10)
        (first,) = await reader.until("pulse")
        await eventually(lambda: live.hub.depths.workers == 0, "the depths are read")
        await live.office.store.heartbeat(a_worker(beat_at=live.office.clock.now()))
        live.office.move(seconds=2)
        await eventually(lambda: live.hub.depths.workers == 1, "the worker is seen")
        live.office.move(seconds=2)
        (_, second) = await reader.until("pulse", 2)
        assert (first["workers"], second["workers"], second["seconds"]) == (0, 1, 4.0)


async def test_a_pulse_comes_without_the_store(live: Live, monkeypatch: Any) -> None:
    async def away(*_: object) -> None:
        raise Unavailable

    monkeypatch.setattr(live.office.store, "queues", away)
    async with live.reader("/api/stream?events=pulse") as reader:
        live.office.move(seconds=20)
        (pulse, *_) = await reader.until("pulse")
        assert (pulse["due"], pulse["oldest_due"]) == (None, None)


async def test_only_what_is_asked_for_is_told(live: Live) -> None:
    async with (
        live.reader("/api/stream?events=job&queue=a&label=run:1:2") as one,
        live.reader("/api/stream?state=failed") as other,
    ):
        live.note(id="1", queue="a", labels={"run": "1:2"})
        live.note(id="2", queue="b", labels={"run": "1:2"}, to="failed")
        live.note(id="3", queue="a", to="failed")
        live.note(id="4", queue="a", labels={"run": "1:2"}, to="failed")
        await one.until("job", 2)
        await other.until("job", 3)
        assert [told["id"] for told in one.of("job")] == ["1", "4"]
        assert [told["id"] for told in other.of("job")] == ["2", "3", "4"]


async def test_a_quiet_stream_sends_comments(live: Live) -> None:
    async with live.reader("/api/stream?events=queue") as reader:
        live.office.move(seconds=16)
        live.note()
        await eventually(lambda: b"\n\n:\n\n" in reader.body, "a comment came")
        assert reader.told == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("foo=1", "foo"),
        ("events=job,alarm", "events"),
        ("events=", "events"),
        ("events=null", "events"),
        ("state=due", "state"),
        ("queue=a&queue=b", "queue"),
        ("schedule_id=nightly", "schedule_id"),
        ("label=run", "label"),
        ("after=" + "1" * 41, "after"),
        ("task=" + "t" * 201, "task"),
    ],
)
async def test_a_wrong_parameter_is_refused_by_its_name(live: Live, query: str, field: str) -> None:
    answer = await live.rest.get(f"/api/stream?{query}")
    assert answer.status in {400, 422}
    assert answer.error["field"] == field
    assert not live.feed.is_read


async def test_head_answers_without_a_stream(live: Live) -> None:
    answer = await live.rest.send("HEAD", "/api/stream")
    assert (answer.status, answer.body) == (200, b"")
    assert not live.feed.is_read


# Resuming


async def test_a_reader_resumes_where_it_was(live: Live) -> None:
    async with live.reader() as reader:
        live.note(3)
        await reader.until("job", 3)
        second = reader.told[1].id
    live.note(2)
    async with (
        live.reader(last_event_id=second) as back,
        live.reader(f"/api/stream?after={second}") as other,
    ):
        await back.until("job", 3)
        await other.until("job", 3)
        assert back.told == other.told
        boot = second.partition(".")[0]
        assert [one.id for one in back.told] == [f"{boot}.{n}" for n in (3, 4, 5)]


@pytest.mark.parametrize("id", ["00000000.1", "x", "{boot}.9", "{boot}.-1"])
async def test_an_unknown_place_is_reset(live: Live, id: str) -> None:
    async with live.reader() as reader:
        live.note()
        await reader.until("job")
        known = reader.told[0].id
        place = id.format(boot=live.hub.boot)
        async with live.reader(last_event_id=place) as back:
            await back.until("reset")
            assert back.told[0] == ("reset", {}, known)
            live.note()
            assert len(await back.until("job")) == 1
        assert reader.of("reset") == []


async def test_the_memory_is_dropped_a_minute_after_the_last_reader(live: Live) -> None:
    async with live.reader() as reader:
        live.note()
        await reader.until("job")
        id = reader.told[0].id
    assert live.feed.is_read
    live.office.move(seconds=LINGER_SECONDS)
    await eventually(lambda: not live.feed.is_read, "nobody reads any more")
    async with live.reader(last_event_id=id) as back:
        await back.until("reset")


# Bounds


async def test_a_slow_reader_gets_a_gap_and_the_newest_pulse(live: Live) -> None:
    async with live.reader(ALL) as reader, live.reader("/api/stream?events=job") as other:
        reader.get_stuck()
        live.note()
        await other.until("job")
        for _ in range(3):
            live.note(EVENTS_BEHIND_MAX // 2)
            last = len(other.of("job"))
            await other.until("job", last + EVENTS_BEHIND_MAX // 2)
        live.office.move(seconds=10)
        await eventually(lambda: live.hub.pulse_at == live.office.clock.monotonic(), "a pulse")
        reader.go_on()
        (gap,) = await reader.until("gap")
        assert gap["missed"] >= 3 * (EVENTS_BEHIND_MAX // 2)
        assert len(reader.of("job")) == 1
        await reader.until("pulse")
        live.note(id="after")
        await eventually(lambda: reader.of("job")[-1]["id"] == "after", "it goes on")


async def test_more_than_there_is_room_for_is_counted(live: Live) -> None:
    async with live.reader() as reader:
        live.note(EVENTS_HERE_MAX + 5)
        (gap,) = await reader.until("gap")
        assert gap == {"missed": 5}
        assert len(await reader.until("job", EVENTS_HERE_MAX)) == EVENTS_HERE_MAX


async def test_few_jobs_make_an_event_while_nobody_reads_of_jobs(live: Live) -> None:
    async with live.reader("/api/stream?events=pulse,changed"):
        await eventually(lambda: live.feed.here is not None, "somebody reads")
        outlet = live.feed.here
        assert outlet is not None
        assert outlet.room == IDS_MAX
        async with live.reader("/api/stream?events=job"):
            await eventually(lambda: outlet.room == EVENTS_HERE_MAX, "jobs are read of")
        live.office.move(seconds=LINGER_SECONDS - 1)
        assert outlet.room == EVENTS_HERE_MAX
        live.office.move(seconds=2)
        await eventually(lambda: outlet.room == IDS_MAX, "nobody comes back")


async def test_a_process_has_a_bounded_number_of_streams(build: Build) -> None:
    live = build(streams=2)
    async with live.reader(), live.reader() as last:
        refused = await live.rest.get("/api/stream")
        assert (refused.status, refused.headers["retry-after"]) == (429, "30")
        assert "2 streams" in refused.error["message"]
        assert (await live.rest.get("/api/jobs")).status == 200
        await last.leave()
        async with live.reader() as again:
            assert again.status == 200


async def test_a_key_has_a_bounded_number_of_streams(build: Build) -> None:
    live = build(keys=KEYS)
    async with AsyncExitStack() as stack:
        for _ in range(STREAMS_OF_KEY_MAX):
            await stack.enter_async_context(live.reader(x_api_key=READ))
        refused = await live.rest.get("/api/stream", x_api_key=READ)
        assert (refused.status, refused.headers["retry-after"]) == (429, "30")
        assert "'look'" in refused.error["message"]
        async with live.reader(x_api_key=ADMIN) as other:
            assert other.status == 200
    assert not live.hub.readers
    assert not live.hub.of_key


@pytest.mark.parametrize(
    ("connections", "most"), [(8, 2), (3, 1), (256, 64), (255, 63), (4096, STREAMS_MAX)]
)
def test_streams_leave_connections_for_requests(connections: int, most: int) -> None:
    assert streams_max(connections) == most


async def test_at_the_end_readers_are_told_and_new_ones_refused(live: Live) -> None:
    async with live.reader() as reader:
        await live.hub.close()
        await eventually(lambda: reader.has_ended, "the stream has ended")
        assert reader.told[-1] == ("bye", {}, "")
    assert (await live.rest.get("/api/stream")).status == 503
    assert not live.feed.is_read


async def test_a_stuck_reader_holds_the_end_up_for_a_moment_only(live: Live) -> None:
    async with live.reader() as reader:
        reader.get_stuck()
        live.note()
        await eventually(lambda: live.hub.ring.last, "it has something to send")
        async with asyncio.timeout(30):
            await live.hub.close()


# Rights


async def test_a_key_needs_the_scope_read(build: Build) -> None:
    live = build(keys=KEYS)
    assert (await live.rest.get("/api/stream")).status == 401
    refused = await live.rest.get("/api/stream", x_api_key=SUBMIT)
    assert refused.status == 403
    assert "`read`" in refused.error["message"]
    async with live.reader(authorization=f"Bearer {READ}") as reader:
        assert reader.status == 200


async def test_a_stream_ends_with_its_key(build: Build) -> None:
    live = build(keys=KEYS)
    made = await live.rest.post("/api/keys", {"name": "guest", "scopes": ["read"]}, x_api_key=ADMIN)
    async with (
        live.reader(x_api_key=made.json["key"]) as guest,
        live.reader(x_api_key=READ) as other,
    ):
        live.note()
        await guest.until("job")
        await live.rest.delete("/api/keys/guest", x_api_key=ADMIN)
        live.office.move(seconds=31)
        live.note()
        await eventually(lambda: guest.has_ended, "the stream has ended")
        assert [one.kind for one in guest.told] == ["job", "bye"]
        assert len(await other.until("job", 2)) == 2


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "same-origin"}, 200),
        ({}, 401),
        ({"sec_fetch_site": "same-site"}, 401),
        ({"sec_fetch_site": "cross-site"}, 401),
        ({"sec_fetch_site": "none"}, 401),
    ],
)
async def test_a_session_counts_for_a_page_of_ours_only(
    build: Build, headers: dict[str, str], status: int
) -> None:
    live = build(keys=KEYS)
    token = await live.open_session()
    async with live.reader(cookie=f"onbeat={token}", **headers) as reader:
        assert reader.status == status


async def test_the_cookie_counts_nowhere_else_without_its_proof(build: Build) -> None:
    live = build(keys=KEYS)
    token = await live.open_session()
    sent = {"cookie": f"onbeat={token}", "sec_fetch_site": "same-origin"}
    for path in ("/api/jobs", "/api/stream/", "/api/streams"):
        assert (await live.rest.get(path, **sent)).status == 401
    assert (await live.rest.post("/api/stream", **sent)).status == 401
    proof = {"onbeat_view": proof_of(token)}
    assert (await live.rest.get("/api/jobs", **sent, **proof)).status == 200
