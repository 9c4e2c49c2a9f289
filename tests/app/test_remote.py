"""An Onbeat that is a client of a service elsewhere; the service is real, in this process."""

import asyncio

import pytest
import uvicorn

from onbeat import (
    Invalid,
    JobFailed,
    Misconfigured,
    NotFound,
    Onbeat,
    Retry,
    Unavailable,
    daily,
    every,
)
from onbeat.api.asgi import build_api
from onbeat.serving import Server

BOOKS = {"overlap": "skip", "grace": "1h"}


@pytest.fixture
async def service():
    """The address of a running program with two tasks."""
    beat = Onbeat("memory://")

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    @beat.task("fail", retry=Retry(1))
    async def fail() -> None:
        raise ValueError("of its own")

    api = build_api(beat.operator)
    server = Server(uvicorn.Config(api, port=0, lifespan="off", log_config=None))
    async with beat:
        serving = asyncio.create_task(server.serve())
        await server.listens.wait()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        await serving


@pytest.fixture
def client(service):
    return Onbeat(service)


@pytest.fixture
def add(client):
    @client.task("add")
    async def add(a: int, b: int) -> int: ...

    return add


async def test_a_job_is_sent_runs_there_and_its_result_comes_back(add):
    job = await add.asend(2, b=3)

    assert job.created
    assert await job.aresult(10) == 5
    assert [attempt.outcome for attempt in (await job.astate()).attempts] == ["succeeded"]


async def test_many_jobs_go_in_one_request_and_keep_their_options(client, add):
    later = add.options(delay="1h", priority=3, unique="u", labels={"a": "b"}, timeout="5s")

    first, second = await client.asend([later.call(1, 2), later.call(1, 2)])

    assert (first.created, second.created, second.id) == (True, False, first.id)
    state = await first.astate()
    assert (state.priority, state.unique, state.labels) == (3, "u", {"a": "b"})


async def test_a_failure_there_is_told_here(client):
    @client.task("fail", retry=Retry(1))
    async def fail() -> None: ...

    job = await fail.asend()

    with pytest.raises(JobFailed, match="ValueError: of its own"):
        await job.aresult(10)


async def test_schedules_are_kept_there_by_key(client, add):
    rule = daily("03:00", tz="Europe/Berlin")
    id = await client.schedules.aput("books", rule, add.call(1, 2), **BOOKS)

    assert await client.schedules.aput("books", rule, add.call(1, 2), **BOOKS) == id
    shown = await client.schedules.aget("books")
    assert (shown.id, shown.overlap, shown.grace) == (id, "skip", "1h")
    await client.schedules.apause("books")
    assert (await client.schedules.aget("books")).status == "paused"
    await client.schedules.adelete("books")
    with pytest.raises(NotFound, match="books"):
        await client.schedules.aget("books")


async def test_a_function_of_time_cannot_be_sent(client, add):
    with pytest.raises(Invalid, match="cannot be sent to a service"):
        await client.schedules.aput("odd", lambda after: after, add.call(1, 2))


async def test_it_runs_nothing_itself(client):
    with pytest.raises(Misconfigured, match="keeps and runs everything"):
        await client.start()


async def test_a_service_that_is_not_there_is_unavailable():
    gone = Onbeat("http://127.0.0.1:9")
    nothing = gone.task("t")(lambda: None)

    with pytest.raises(Unavailable, match="is `onbeat up` running there"):
        await gone.schedules.aput("x", every("1h"), nothing.call())


@pytest.mark.parametrize("url", ["http://", "https:///api"])
def test_an_address_must_name_a_host(url):
    with pytest.raises(Misconfigured, match="must be a URL like"):
        Onbeat(url)
