"""Callers who leave: what they asked for ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conditions import eventually
from onbeat import Onbeat
from onbeat.api.asgi import build_api
from onbeat.model.limits import LOOP_STEPS_MAX
from onbeat.operations import recurrences
from onbeat.service import Service
from onbeat.settings import Settings


@pytest.fixture
async def app() -> AsyncIterator[Any]:
    service = Service(Settings(store="memory://"), Onbeat("memory://"))
    await service.backend.store.open()
    yield build_api(service.context())
    await service.backend.store.close()


async def test_a_search_ends_when_its_caller_hangs_up(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[bool] = []

    def endless(operator: Any, _body: Any, _now: Any) -> None:
        budget = operator.budget
        assert budget is not None
        budget.spend(LOOP_STEPS_MAX + 1)
        running.append(True)
        try:
            while True:
                budget.spend(0)
        finally:
            running.clear()

    monkeypatch.setattr(recurrences, "build_preview", endless)
    hung_up = asyncio.Event()
    body = json.dumps({"rrule": "FREQ=DAILY"}).encode()
    parts = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        for part in parts:
            return part
        await hung_up.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        pass

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/recurrence/preview",
        "raw_path": b"/api/recurrence/preview",
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    request = asyncio.ensure_future(app(scope, receive, send))
    await eventually(lambda: running, "the search is on")
    hung_up.set()
    await eventually(lambda: not running, "the search has ended")
    await request
