"""Requests that come again, at two API processes on one store, one of which is killed."""

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from app.lossy_proxy import LossyProxy
from app.programs import Program, program
from conditions import eventually
from free_ports import free_port

pytestmark = pytest.mark.proof

KEYS = 12
CALLERS = 8
REPEATS = 3  # of each request, at each process

UP = """
import sys
from onbeat.cli.main import main
sys.argv[1:1] = ["up", "--store", open("store").read(), "--roles", "api"]
main()
"""


class Api:
    """One API process, and a proxy before it that loses what it is told to."""

    def __init__(self, process: Program, port: int) -> None:
        self.process = process
        self.port = port

    async def post(
        self, body: object, key: str, *, path: str = "/api/jobs", port: int | None = None
    ) -> tuple[int, dict[str, object]]:
        """Status and answer; a request that is told to come again does."""
        url = f"http://127.0.0.1:{port or self.port}{path}"
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.post(
                    url, json=body, headers={"Idempotency-Key": key}
                ) as response:
                    answer = await response.json()
                    if response.status != 409 or "Retry-After" not in response.headers:
                        return response.status, answer

    async def count(self) -> int:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/api/stats") as response,
        ):
            stats = await response.json()
        return sum(stats["jobs"].values())


@asynccontextmanager
async def two_apis(place: Path) -> AsyncIterator[tuple[Api, Api]]:
    ports = free_port(), free_port()
    async with AsyncExitStack() as stack:
        processes = []
        for port in ports:
            process = stack.enter_context(program(UP, place, "--port", str(port)))
            # The first one brings the store up to date.
            process.wait_to_say("event=ready")
            processes.append(process)
        one, two = (Api(process, port) for process, port in zip(processes, ports, strict=True))
        yield one, two


async def lost(api: Api, body: object, key: str) -> None:
    """The request goes through and is answered; the process is killed before that is heard."""
    async with LossyProxy(api.port, lambda _: True) as proxy:
        port = int(proxy.address.rpartition(":")[2])
        with pytest.raises(aiohttp.ClientError):
            await api.post(body, key, port=port)
        assert proxy.lost == 1
    api.process.signal(signal.SIGKILL)
    api.process.ended()


async def test_two_api_processes_do_a_request_once(place: Path) -> None:
    async with two_apis(place) as apis:

        def sent(number: int) -> str:
            return f"key-{number}"

        answers = await asyncio.gather(
            *(
                api.post({"task": "work", "args": [number]}, sent(number))
                for number in range(KEYS)
                for _ in range(REPEATS)
                for api in apis
            )
        )
        assert {status for status, _ in answers} == {201}
        assert len({str(answer["id"]) for _, answer in answers}) == KEYS
        assert await apis[0].count() == KEYS

        status, refused = await apis[1].post({"task": "work", "args": [-1]}, sent(0))
        assert status == 422, refused

        body = {"jobs": [{"task": "work", "args": [number]} for number in range(150)]}
        await lost(apis[0], body, "killed")
        status, first = await apis[1].post(body, "killed")
        _, again = await apis[1].post(body, "killed")
        assert status == 201
        assert first == again
        assert await apis[1].count() == KEYS + 150


async def test_what_a_killed_process_was_asked_is_done_once_by_another(place: Path) -> None:
    """Requests are under way at that moment: before, in and after their commit."""
    request: list[int] = []

    async with two_apis(place) as (one, two):

        async def send(start: int) -> None:
            for number in itertools.count(start, CALLERS):
                request.append(number)
                try:
                    await one.post({"task": "work", "args": [number]}, f"key-{number}")
                except aiohttp.ClientError:
                    return

        async def kill() -> None:
            await eventually(lambda: len(request) >= 10 * CALLERS, "many requests were sent")
            one.process.signal(signal.SIGKILL)

        await asyncio.gather(kill(), *(send(start) for start in range(CALLERS)))
        await asyncio.gather(
            *(two.post({"task": "work", "args": [number]}, f"key-{number}") for number in request)
        )
        assert await two.count() == len(request)
