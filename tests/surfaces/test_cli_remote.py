"""How requests of the command line are spelled over HTTP, and what becomes of the answers."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from onbeat.cli.remote import remote_caller
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


@pytest.fixture
async def service():
    """Answers what it is told to, and keeps what it was asked."""

    class Service:
        asked = None
        answer = web.json_response({"ok": True})

    found = Service()

    async def handle(request):
        found.asked = request
        found.body = await request.read()
        # A response can be sent once only.
        return web.Response(
            body=found.answer.body,
            status=found.answer.status,
            content_type=found.answer.content_type,
        )

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(application) as server:
        found.url = str(server.make_url("/"))
        yield found


async def call(service, *args, key=None, url=None):
    async with remote_caller(url or service.url, key) as caller:
        return await caller.call(*args)


async def test_fields_go_into_path_query_and_body(service):
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
async def test_every_operation_can_be_asked_for(service, operation):
    fields = {"id": "1", "name": "n", "key": "k"}
    named = {name: text for name, text in fields.items() if f"{{{name}}}" in operation.path}
    await call(service, operation.name, named, {} if operation.body else None)
    assert service.asked.method == operation.method
    assert service.asked.path == operation.path.format(**fields)


async def test_the_key_is_sent_as_a_bearer(service):
    await call(service, "stats.show", {}, key="secret")
    assert service.asked.headers["Authorization"] == "Bearer secret"
    await call(service, "stats.show", {})
    assert "Authorization" not in service.asked.headers


@pytest.mark.parametrize("suffix", ["", "api", "api/"])
async def test_the_base_of_the_api_may_be_named_too(service, suffix):
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
async def test_an_error_comes_back_as_what_it_was(service, status, code, kind):
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
async def test_somebody_else_who_answers_is_not_believed(service, answer, kind):
    service.answer = answer
    with pytest.raises(kind, match="as Onbeat does"):
        await call(service, "stats.show", {})


async def test_nobody_there_is_unavailable_and_shows_no_password():
    with pytest.raises(Unavailable, match="did not answer: connection refused") as caught:
        await call(None, "stats.show", {}, url="http://u:canary@127.0.0.1:1")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://x", "http://", "x"])
async def test_a_server_must_be_a_url(url):
    with pytest.raises(Misconfigured, match="--server"):
        await call(None, "stats.show", {}, url=url)
