"""What a target's policy makes of answers, redirects, slow connections and later results."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from aiohttp import web
from msgspec.structs import replace

from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Succeeded
from onbeat.ports.target import HandedOver
from onbeat.rules.ip_policy import parse_allowed
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.notify.post import PostRun
from targets.runs import CLOCK, LONG, SOON, FakeNames, a_run, a_runner, outcome_at
from targets.scripted_http_server import ScriptedServer, silent

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ADDRESS = "https://jobs.example.com/api/reports/1?seal=x"


class Endpoint:
    """A server that answers `/STATUS/PATH…` with that status and a location of the rest."""

    def __init__(self) -> None:
        self.seen: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(request)
        self.bodies.append(await request.read())
        status, _, rest = request.path_qs[1:].partition("/")
        headers = {"Location": f"/{rest}"} if rest else {}
        if "later" in request.query:
            headers["Onbeat-Async"] = "true"
        if "to" in request.query:
            headers["Location"] = request.query["to"]
        return web.Response(status=int(status.partition("?")[0]), headers=headers, text="ok")


@asynccontextmanager
async def serving() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", endpoint.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.port = runner.addresses[0][1]
    try:
        yield endpoint
    finally:
        await runner.cleanup()


# Success.


@pytest.mark.parametrize(
    ("status", "success", "succeeds"),
    [
        (200, (), True),
        (200, ("404",), False),
        (404, ("2xx", "404"), True),
        (302, ("3xx",), True),
        (503, ("any",), True),
        (500, ("2xx", "404"), False),
    ],
)
async def test_success_is_what_the_target_says(
    status: int, success: tuple[str, ...], succeeds: bool
) -> None:
    async with serving() as endpoint:
        outcome = await outcome_at(f"{endpoint.base}/{status}", run={"success": success})
    assert isinstance(outcome, Succeeded) is succeeds
    if isinstance(outcome, Succeeded):
        assert outcome.result is not None
        assert b'"body":"ok"' in bytes(outcome.result)


# Redirects.


async def test_redirects_are_followed_as_far_as_the_target_allows() -> None:
    async with serving() as endpoint:
        url = f"{endpoint.base}/302/307/200"
        outcome = await outcome_at(url, run={"redirects": 2})
        assert isinstance(outcome, Succeeded)
        assert [request.path for request in endpoint.seen] == ["/302/307/200", "/307/200", "/200"]
        outcome = await outcome_at(url, run={"redirects": 1})
    assert isinstance(outcome, Failed)
    assert outcome.error == (
        f"GET {endpoint.base}/307/200, redirected from GET {url}, answered 307 Temporary Redirect "
        "and pointed to /200; redirects followed are at most 1, by `redirects`"
    )
    assert not outcome.retryable


async def test_the_default_follows_none() -> None:
    async with serving() as endpoint:
        outcome = await outcome_at(f"{endpoint.base}/302/200")
        assert len(endpoint.seen) == 1
    assert isinstance(outcome, Failed)
    assert outcome.error.endswith("pointed to /200; redirects are not followed")


async def test_the_body_goes_along_where_the_method_stays() -> None:
    async with serving() as endpoint:
        run = {"method": "POST", "body": "hello", "redirects": 3, "secret": SECRET}
        assert isinstance(await outcome_at(f"{endpoint.base}/308/303/200", run=run), Succeeded)
        methods = [request.method for request in endpoint.seen]
        assert methods == ["POST", "POST", "GET"]
        assert endpoint.bodies == [b"hello", b"hello", b""]
        signed = ["webhook-signature" in request.headers for request in endpoint.seen]
        assert signed == [True, True, False]


async def test_another_origin_gets_neither_credentials_nor_the_address_for_reports() -> None:
    async with serving() as first, serving() as second, reporting_runner() as runner:
        run = a_run(
            f"{first.base}/307?to={second.base}/200",
            method="POST",
            body="hello",
            headers={"Authorization": "Bearer abc", "X-Kind": "plain"},
            secret=SECRET,
            redirects=1,
        )
        assert isinstance(await runner.run(run), Succeeded)
        assert second.bodies == [b"hello"]
    rights = ("Authorization", "webhook-signature", "Onbeat-Report-Url")
    assert [name in first.seen[0].headers for name in rights] == [True, True, True]
    assert [name in second.seen[0].headers for name in rights] == [False, False, False]
    assert second.seen[0].headers["X-Kind"] == "plain"
    assert second.seen[0].headers["Idempotency-Key"] == run.job.id


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:1/x", "http://private.test/x", "http://169.254.169.254/latest"]
)
async def test_a_redirect_to_a_private_address_is_refused(place: str) -> None:
    """The first host is allowed by its name; each hop is judged by its own address."""
    names = FakeNames(hook_test=[["127.0.0.1"]], private_test=[["10.0.0.1"]])
    async with serving() as endpoint:
        outcome = await outcome_at(
            f"http://hook.test:{endpoint.port}/302?to={place}",
            run={"redirects": 5},
            lookup=names,
            private_allowed=False,
            allowed=parse_allowed(("hook.test",)),
        )
        assert len(endpoint.seen) == 1
    assert isinstance(outcome, Failed)
    assert "was not sent: the host is a" in outcome.error
    assert outcome.error.startswith(f"GET {place}, redirected from GET http://hook.test")
    assert not outcome.retryable


@pytest.mark.parametrize("place", ["ftp://x/", "http://user:word@x/", "http://[::1"])
async def test_a_location_that_cannot_be_called_fails_the_job(place: str) -> None:
    async with serving() as endpoint:
        outcome = await outcome_at(f"{endpoint.base}/302?to={place}", run={"redirects": 1})
    assert isinstance(outcome, Failed)
    assert "answered 302 Found with a location that cannot be called" in outcome.error
    assert not outcome.retryable


async def test_a_redirect_to_a_server_that_is_down_does_not_count_against_the_first() -> None:
    async with serving() as endpoint, a_runner() as runner:
        run = a_run(f"{endpoint.base}/302?to=http://127.0.0.1:1/", redirects=1)
        for _ in range(20):
            outcome = await runner.run(run)
            assert isinstance(outcome, Failed)
            assert outcome.error.endswith("failed: no connection could be made")
        assert len(endpoint.seen) == 20


# Deadlines.


@asynccontextmanager
async def full_backlog() -> AsyncIterator[str]:
    """A socket that listens but accepts no more: connections to it hang."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting: list[socket.socket] = []
        try:
            for _ in range(8):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(listener.getsockname())
                waiting.append(one)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            for one in waiting:
                one.close()


async def test_a_slow_connection_ends_at_its_own_deadline() -> None:
    async with full_backlog() as url:
        outcome = await outcome_at(url, run={"connect_timeout": SOON}, timeout=timedelta(hours=1))
    assert outcome == Failed(f"GET {url} got no connection within 0.3 s, its connect_timeout")


async def test_the_total_deadline_ends_a_slow_connection_too() -> None:
    async with full_backlog() as url:
        outcome = await outcome_at(url, run={"connect_timeout": timedelta(minutes=1)}, timeout=SOON)
    assert outcome == Failed(f"GET {url} did not finish within 0.3 s")


async def test_a_slow_answer_is_no_slow_connection() -> None:
    async with ScriptedServer(silent) as server:
        slow = {"connect_timeout": timedelta(minutes=1)}
        outcome = await outcome_at(server.url(), run=slow, timeout=SOON)
    assert outcome == Failed(f"GET {server.url()} did not finish within 0.3 s")


# Later results.


@asynccontextmanager
async def reporting_runner() -> AsyncIterator[HttpRunner]:
    asked: list[tuple[Job, datetime]] = []

    async def address(job: Job, until: datetime) -> str:
        asked.append((job, until))
        return ADDRESS

    runner = HttpRunner(CLOCK, HttpOptions(timeout=LONG), report_address=address)
    await runner.open()
    try:
        yield runner
    finally:
        await runner.close()
    assert all(until == CLOCK.at + LONG for _, until in asked)


async def test_a_receiver_that_takes_the_job_on_may_report_until_the_deadline() -> None:
    async with serving() as endpoint, reporting_runner() as runner:
        with pytest.raises(HandedOver) as later:
            await runner.run(a_run(f"{endpoint.base}/202?later"))
        assert endpoint.seen[0].headers["Onbeat-Report-Url"] == ADDRESS
    assert later.value.until == CLOCK.at + LONG


@pytest.mark.parametrize("path", ["202", "200?later", "204?later"])
async def test_other_answers_end_the_attempt(path: str) -> None:
    async with serving() as endpoint, reporting_runner() as runner:
        assert isinstance(await runner.run(a_run(f"{endpoint.base}/{path}")), Succeeded)


async def test_without_an_address_a_later_result_is_refused() -> None:
    async with serving() as endpoint:
        outcome = await outcome_at(f"{endpoint.base}/202?later")
        assert "Onbeat-Report-Url" not in endpoint.seen[0].headers
    assert isinstance(outcome, Failed)
    assert "had no address to report to: set api.public_url" in outcome.error
    assert not outcome.retryable


async def test_a_question_is_answered_at_once() -> None:
    async with serving() as endpoint, reporting_runner() as runner:
        run = a_run(f"{endpoint.base}/202?later")
        run.is_question = True
        assert isinstance(await runner.run(run), Failed)
        assert "Onbeat-Report-Url" not in endpoint.seen[0].headers


async def test_a_channel_is_given_no_address() -> None:
    async with serving() as endpoint, reporting_runner() as runner:
        run = a_run(f"{endpoint.base}/200")
        assert isinstance(await runner.run(PostRun(run, run.job)), Succeeded)
        assert "Onbeat-Report-Url" not in endpoint.seen[0].headers


async def test_the_deadline_of_the_job_bounds_the_report() -> None:
    async with serving() as endpoint, a_runner() as runner:
        deadlines: list[datetime] = []

        async def address(_: Job, until: datetime) -> str:
            deadlines.append(until)
            return ADDRESS

        runner.report_address = address
        deadline = CLOCK.at + timedelta(hours=3)
        run = a_run(f"{endpoint.base}/202?later", deadline=deadline)
        run.job = replace(run.job, timeout=timedelta(hours=3))
        with pytest.raises(HandedOver) as later:
            await runner.run(run)
    assert (later.value.until, deadlines) == (deadline, [deadline])
