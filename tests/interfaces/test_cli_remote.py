"""How requests of the command line are spelled over HTTP, and what becomes of the answers."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.web_response import Response

from onbeat.cli.backend import BackendClient, open_backend
from onbeat.cli.exit_codes import exit_status_of
from onbeat.model.errors import (
    Conflict,
    Invalid,
    Misconfigured,
    NotFound,
    OnbeatError,
    Unauthorized,
    Unavailable,
)
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.operation import Operation
from onbeat.rules.ip_policy import is_this_machine
from onbeat.settings import Settings


@pytest.fixture
async def service() -> AsyncIterator[Any]:
    """Answers what it is told to, and keeps what it was asked."""

    class Service:
        asked: Any = None
        answer = web.json_response({"ok": True})
        body: bytes
        url: str

    result = Service()

    async def handle(request: Any) -> Any:
        result.asked = request
        result.body = await request.read()
        # A response can be sent once only.
        return web.Response(
            body=result.answer.body,
            status=result.answer.status,
            content_type=result.answer.content_type,
        )

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application) as server:
        result.url = str(server.make_url("/"))
        yield result


async def call(service: Any, *args: Any, key: Any = None, url: Any = None) -> Any:
    async with open_backend(url or service.url, key, Settings) as backend:
        return await BackendClient(backend).call(*args)


async def test_fields_go_into_path_query_and_body(service: Any) -> None:
    assert await call(service, "job.list", {"state": "failed", "limit": 5, "queue": None}) == {
        "ok": True
    }
    assert service.asked.method == "GET"
    assert service.asked.path_qs == "/api/jobs?state=failed&limit=5"
    await call(service, "schedule.update", {"id": "a/b?c"}, {"name": "x"})
    assert service.asked.method == "PUT"
    assert service.asked.raw_path == "/api/schedules/a%2Fb%3Fc"
    assert service.body == b'{"name":"x"}'
    assert service.asked.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_every_operation_can_be_asked_for(service: Any, operation: Operation) -> None:
    fields = {"id": "1", "name": "n", "key": "k", "fault": "7", "group": "g"}
    named = {name: text for name, text in fields.items() if f"{{{name}}}" in operation.path}
    await call(service, operation.name, named, {} if operation.body else None)
    assert service.asked.method == operation.method
    assert service.asked.path == operation.path.format(**fields)


async def test_the_key_is_sent_as_a_bearer(service: Any) -> None:
    await call(service, "stats.show", {}, key="secret")
    assert service.asked.headers["Authorization"] == "Bearer secret"
    await call(service, "stats.show", {})
    assert "Authorization" not in service.asked.headers


@pytest.mark.parametrize("suffix", ["", "api", "api/"])
async def test_the_base_of_the_api_may_be_named_too(service: Any, suffix: str) -> None:
    await call(service, "stats.show", {}, url=service.url + suffix)
    assert service.asked.path == "/api/stats"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (422, "validation_failed", Invalid),
        (401, "unauthorized", Unauthorized),
        (503, "unavailable", Unavailable),
        (500, "internal_error", OnbeatError),
    ],
)
async def test_an_error_comes_back_as_what_it_was(
    service: Any, status: int, code: str, kind: type[Any]
) -> None:
    problem = {"error": {"code": code, "message": "no way", "field": "name"}}
    service.answer = web.json_response(problem, status=status)
    with pytest.raises(kind, match="no way") as caught:
        await call(service, "stats.show", {})
    assert getattr(caught.value, "field", "name") == "name"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (web.Response(text="<html>hello"), Unavailable),
        (web.Response(text="Not here", status=404), OnbeatError),
        (web.Response(text="bad gateway", status=502), Unavailable),
    ],
)
async def test_somebody_else_who_answers_is_not_believed(
    service: Any, answer: Response, kind: type[Any]
) -> None:
    service.answer = answer
    with pytest.raises(kind, match="as Onbeat does"):
        await call(service, "stats.show", {})


async def test_nobody_there_is_unavailable_and_shows_no_password() -> None:
    with pytest.raises(Unavailable, match="did not answer: connection refused") as caught:
        await call(None, "stats.show", {}, url="http://u:canary@127.0.0.1:1")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "x"])
async def test_a_server_must_be_a_url(url: str) -> None:
    with pytest.raises(Misconfigured, match="--server"):
        await call(None, "stats.show", {}, url=url)


# Proxies


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names a proxy at which nobody is, and refuses every way round it."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("proxy")
async def test_a_service_of_this_machine_is_asked_without_a_proxy(service: Any) -> None:
    await call(service, "stats.show", {}, key="k")
    assert service.asked.headers["authorization"] == "Bearer k"


async def test_a_service_elsewhere_is_asked_through_the_proxy(
    service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", service.url.replace("http://", "http://user:word@", 1))
    monkeypatch.delenv("no_proxy", raising=False)
    await call(service, "stats.show", {}, url="http://onbeat.invalid:8080", key="k")
    assert service.asked.url.host == "onbeat.invalid"
    assert service.asked.headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"
    assert service.asked.headers["authorization"] == "Bearer k"


async def test_no_proxy_is_heeded(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", service.url)
    monkeypatch.setenv("no_proxy", "onbeat.invalid")
    with pytest.raises(Unavailable):
        await call(service, "stats.show", {}, url="http://onbeat.invalid:8080")
    assert service.asked is None


async def test_a_password_in_netrc_does_not_take_the_place_of_the_key(
    service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text(
        "machine 127.0.0.1 login a password b\nmachine onbeat.invalid login a password b\n"
    )
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("http_proxy", service.url)
    monkeypatch.delenv("no_proxy", raising=False)
    for url in (service.url, "http://onbeat.invalid"):
        await call(service, "stats.show", {}, url=url, key="k")
        assert service.asked.headers["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("", False),
    ],
)
def test_only_loopback_is_this_machine(host: str, own: bool) -> None:
    assert is_this_machine(host) is own


# What a service says, on a terminal


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a\x1b]0;pwn\x07b", "onbeat: a\\e]0;pwn\\x07b"),
        ("first\nonbeat: done", "onbeat: first\\nonbeat: done"),
        ("right \u202e left", "onbeat: right \\u202e left"),
    ],
)
@pytest.mark.parametrize("kind", [Conflict, Invalid, NotFound, Unavailable, OnbeatError])
def test_an_error_of_a_service_cannot_steer_the_terminal(
    kind: type[Any], message: str, line: str
) -> None:
    assert exit_status_of(kind(message)).line == line


async def test_an_error_with_escapes_is_one_line_of_text(service: Any) -> None:
    problem = {"error": {"code": "conflict", "message": "a\x1b[2Jb", "field": "x\x9bm"}}
    service.answer = web.json_response(problem, status=409)
    with pytest.raises(Conflict) as caught:
        await call(service, "stats.show", {})
    assert exit_status_of(caught.value).line == "onbeat: a\\e[2Jb"


def test_a_usage_error_keeps_its_lines_and_loses_its_escapes() -> None:
    ending = exit_status_of(click.ClickException("a rule\n  ^ \x1b[2J"))
    assert ending.line == "onbeat: a rule\n  ^ \\e[2J"
