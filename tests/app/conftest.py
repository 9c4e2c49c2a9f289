import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from onbeat import Onbeat, Retry
from onbeat.api.asgi import build_api
from onbeat.app.listener import Server


@pytest.fixture(params=["memory", "sqlite"])
async def beat(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Onbeat]:
    """An Onbeat that does not run yet."""
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/onbeat.db"
    one = Onbeat(url)
    yield one
    await one.aclose()
    one.backend.portal.close()


@pytest.fixture
async def service() -> AsyncIterator[Any]:
    """The address of a running program with two tasks."""
    beat = Onbeat("memory://")

    @beat.task("add")
    async def add(a: int, b: int) -> int:
        return a + b

    @beat.task("fail", retry=Retry(1))
    async def fail() -> None:
        raise ValueError("of its own")

    api = build_api(beat.backend.context)
    server = Server(uvicorn.Config(api, port=0, lifespan="off", log_config=None))
    async with beat:
        serving = asyncio.create_task(server.serve())
        await server.listens.wait()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        await serving
