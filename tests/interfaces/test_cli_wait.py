"""`onbeat job add --wait`: the result, and the exit code, on a store and through a service."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from click.testing import CliRunner

from onbeat import Onbeat, Retry
from onbeat.api.asgi import build_api
from onbeat.app.listener import Server
from onbeat.cli.main import root

PLACES = ["store", "service"]


@pytest.fixture(params=PLACES)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[str, str]]:
    """The options that name a running program with two tasks."""
    url = f"sqlite:///{tmp_path}/onbeat.db"
    beat = Onbeat(url)

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    @beat.task("fail", retry=Retry(1))
    async def fail() -> None:
        raise ValueError("no such customer")

    async with beat:
        if request.param == "store":
            yield "--store", url
            return
        api = build_api(beat.backend.context)
        server = Server(uvicorn.Config(api, port=0, lifespan="off", log_config=None))
        serving = asyncio.create_task(server.serve())
        await server.listens.wait()
        yield "--server", f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        await serving


async def run(place: tuple[str, str], *args: str) -> Any:
    """`onbeat job add …` in a thread, as this loop runs the jobs."""
    return await asyncio.to_thread(CliRunner().invoke, root, ["job", "add", *args, *place])


async def test_the_result_is_printed(place: Any) -> None:
    done = await run(place, "--task", "add", "--args", "[1, 2]", "--wait", "60s")
    assert (done.exit_code, done.stdout) == (0, "3\n")


async def test_a_failure_is_told_and_ends_with_1(place: Any) -> None:
    done = await run(place, "--task", "fail", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "failed: attempts used up: ValueError: no such customer" in " ".join(done.stderr.split())


async def test_a_job_that_is_not_done_in_time_goes_on_and_ends_with_4(place: Any) -> None:
    done = await run(place, "--task", "add", "--delay", "1h", "--wait", "50ms")
    assert (done.exit_code, done.stdout) == (4, "")
    assert "is waiting and goes on" in done.stderr


async def test_json_is_the_whole_job(place: Any) -> None:
    done = await run(place, "--task", "add", "--args", "[1, 2]", "--wait", "--json")
    job = json.loads(done.stdout)
    assert (done.exit_code, job["state"], job["result"]) == (0, "succeeded", 3)
    done = await run(place, "--task", "fail", "--wait", "--json")
    job = json.loads(done.stdout)
    assert (done.exit_code, job["state"], done.stderr) == (1, "failed", "")
    assert job["error"]


@pytest.mark.parametrize("more", [["--wait", "soon"], ["--wait", "--file", "jobs.jsonl"]])
def test_a_wait_that_cannot_be_is_bad_usage(more: list[str], tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    task = [] if "--file" in more else ["--task", "t"]
    done = CliRunner().invoke(root, ["job", "add", *task, *more, "--store", store])
    assert done.exit_code == 2
    assert not (tmp_path / "onbeat.db").exists()
