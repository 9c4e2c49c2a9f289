"""A client whose answers are lost sends its requests again, and nothing is done twice."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.responses import Response

from app.lossy_proxy import LossyProxy
from conditions import eventually
from onbeat import Conflict, Onbeat, Unavailable, every
from onbeat.api.asgi import build_api
from onbeat.app import service_client
from onbeat.app.listener import Server
from onbeat.cli.backend import BackendClient, open_backend
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.rules.idempotency import HEADER
from onbeat.settings import Settings

JOBS = 128
CALLERS = 16


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[Any]:
    """The port on which the ASGI application is served."""
    server = Server(uvicorn.Config(app, port=0, lifespan="off", log_config=None))
    serving = asyncio.create_task(server.serve())
    await server.listens.wait()
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


@pytest.fixture
async def beat(tmp_path: Path) -> AsyncIterator[Any]:
    """A program with its service, whose jobs end at once; `ran` counts them."""
    beat: Any = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    beat.ran = Counter()

    @beat.task("note")
    async def note(n: int) -> None:
        beat.ran[n] += 1

    async with beat:
        yield beat


@pytest.fixture
async def port(beat: Onbeat) -> AsyncIterator[Any]:
    async with served(build_api(beat.backend.context)) as port:
        yield port


async def jobs_of(beat: Onbeat) -> Any:
    return (await beat.backend.store.jobs(JobFilter(limit=1_000))).items


def note_of(client: Any) -> Any:
    @client.task("note")
    async def note(n: int) -> None: ...

    return note


async def test_lost_answers_double_no_job(beat: Any, port: Any) -> None:
    turns = asyncio.Semaphore(CALLERS)

    async with LossyProxy(port, lambda number: number % 5 == 0) as proxy:
        note = note_of(Onbeat(f"http://{proxy.address}"))

        async def send(n: int) -> str:
            async with turns:
                return (await note.asend(n)).id

        sent = await asyncio.gather(*(send(n) for n in range(JOBS)))

        assert proxy.lost >= JOBS / 5
    assert {job.id for job in await jobs_of(beat)} == set(sent)
    assert len(set(sent)) == JOBS
    await eventually(lambda: len(beat.ran) == JOBS, "all have run")
    assert set(beat.ran.values()) == {1}


async def first_answer_lost(port: Any, act: Any) -> None:
    async with LossyProxy(port, lambda number: number == 0) as proxy:
        await act(Onbeat(f"http://{proxy.address}"))
        assert proxy.lost == 1


async def test_many_jobs_in_one_request_are_made_once(beat: Onbeat, port: Any) -> None:
    async def send(client: Any) -> None:
        note = note_of(client)
        jobs = await client.asend([note.call(n) for n in range(40)])
        assert {job.id for job in jobs} == {job.id for job in await jobs_of(beat)}
        assert all(job.created for job in jobs)

    await first_answer_lost(port, send)
    assert len(await jobs_of(beat)) == 40


async def test_a_schedule_is_put_and_triggered_once(beat: Onbeat, port: Any) -> None:
    async def put(client: Any) -> None:
        note = note_of(client)
        await client.schedules.aput("mine", every("1h"), note.call(1))

    await first_answer_lost(port, put)
    page = await beat.backend.store.schedules(ScheduleFilter())
    assert page.total == 1
    before = len(await jobs_of(beat))

    async def trigger(client: Any) -> None:
        await client.schedules.atrigger("mine")

    async with LossyProxy(port, lambda number: number == 1) as proxy:  # 0 asks for the id
        await trigger(Onbeat(f"http://{proxy.address}"))
        assert proxy.lost == 1
    assert len(await jobs_of(beat)) == before + 1


async def test_a_command_is_sent_again_under_one_key(beat: Onbeat, port: Any) -> None:
    async with (
        LossyProxy(port, lambda number: number in {0, 2}) as proxy,
        open_backend(f"http://{proxy.address}", None, Settings) as backend,
    ):
        caller = BackendClient(backend)
        first = await caller.call("job.enqueue", {}, {"task": "note", "args": [1]})
        other = await caller.call("job.enqueue", {}, {"task": "note", "args": [2]})
        assert proxy.lost == 2
    assert {first["id"], other["id"]} == {job.id for job in await jobs_of(beat)}
    assert len(await jobs_of(beat)) == 2


class Answering:
    """A service that gives these answers, one after the other, and keeps the keys that came."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.keys: list[str | None] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.keys.append(headers.get(HEADER.lower()))
        while (await receive()).get("more_body"):
            pass
        await self.answers.pop(0)(scope, receive, send)


DONE = Response(b'{"ids": ["0199a1b2-0000-7000-8000-000000000001"]}', 201)
AWAY = Response(b'{"error": {"code": "unavailable", "message": "away"}}', 503)
IN_FLIGHT = Response(
    b'{"error": {"code": "conflict", "message": "under way"}}', 409, {"Retry-After": "0"}
)
TAKEN = Response(b'{"error": {"code": "conflict", "message": "taken"}}', 409)


@pytest.mark.parametrize(
    "passing",
    [AWAY, IN_FLIGHT, Response(b"<html>", 502), Response(b"", 504), Response(b"", 429)],
)
async def test_what_passes_is_waited_for_under_the_same_key(passing: Response) -> None:
    service = Answering(passing, passing, DONE)
    async with served(service) as port:
        await note_of(Onbeat(f"http://127.0.0.1:{port}")).asend(1)
    assert len(service.keys) == 3
    assert len({*service.keys}) == 1
    assert service.keys[0]


async def test_each_request_has_a_key_of_its_own() -> None:
    service = Answering(DONE, DONE)
    async with served(service) as port:
        note = note_of(Onbeat(f"http://127.0.0.1:{port}"))
        await note.asend(1)
        await note.asend(1)
    assert len({*service.keys}) == 2


async def test_what_does_not_pass_is_told_at_once() -> None:
    service = Answering(TAKEN)
    async with served(service) as port:
        with pytest.raises(Conflict, match="taken"):
            await note_of(Onbeat(f"http://127.0.0.1:{port}")).asend(1)
    assert len(service.keys) == 1


async def test_a_service_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_client, "PAUSE_SECONDS", 0.001)
    service = Answering(*[AWAY] * 20)
    async with served(service) as port:
        with pytest.raises(Unavailable, match="away"):
            await note_of(Onbeat(f"http://127.0.0.1:{port}")).asend(1)
    assert len(service.keys) == service_client.TRIES_MAX


async def test_a_wait_beyond_all_patience_is_not_begun() -> None:
    service = Answering(Response(AWAY.body, 503, {"Retry-After": "3600"}))
    async with served(service) as port:
        with pytest.raises(Unavailable, match="away"):
            await note_of(Onbeat(f"http://127.0.0.1:{port}")).asend(1)
    assert len(service.keys) == 1


async def test_what_asks_for_nothing_new_is_asked_once() -> None:
    service = Answering(AWAY)
    async with served(service) as port:
        with pytest.raises(Unavailable):
            await Onbeat(f"http://127.0.0.1:{port}").jobs.alist()
    assert service.keys == [None]


def test_pauses_grow_and_differ_and_hold_to_what_was_asked() -> None:
    pauses = [[service_client.pause_after(number, 2.0) for _ in range(50)] for number in range(4)]
    for number, drawn in enumerate(pauses):
        base = service_client.PAUSE_SECONDS * 2**number
        assert all(2.0 + base * 0.5 <= pause <= 2.0 + base * 1.5 for pause in drawn)
        assert len(set(drawn)) > 25
