"""Kept connections: what one request leaves behind must not meet the next one."""

import asyncio
from asyncio.streams import StreamWriter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest

from conditions import PATIENCE
from onbeat.model.outcome import Failed, Succeeded
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_request import request_url
from targets import scripted_http_server as sinks
from targets.runs import CLOCK, SOON, a_run, a_runner, outcome_at
from targets.scripted_http_server import Received, ScriptedServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def writes(*answers: bytes) -> Callable[..., Any]:
    """Answers each request with the next one of these bytes, the last one for ever."""
    left = list(answers)

    async def behave(writer: StreamWriter, _: Received) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        await writer.drain()

    return behave


async def body_of(runner: HttpRunner, url: str, **target: Any) -> bytes:
    outcome = await runner.run(a_run(url, **target))
    assert isinstance(outcome, Succeeded), outcome
    return bytes(outcome.result or b"")


ENDS_ITS_CONNECTION = {
    "more than the answer": OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    "a body that is longer than it says": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay",
    "a body where there is none": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
    "more than the last chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\n",
    "a wish to close": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
    "an old version": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
}


@pytest.mark.parametrize("answer", ENDS_ITS_CONNECTION.values(), ids=ENDS_ITS_CONNECTION.keys())
async def test_a_connection_with_an_unclear_end_carries_no_other_request(answer: bytes) -> None:
    async with ScriptedServer(writes(answer, OK)) as sink, a_runner() as runner:
        assert b"evil" not in await body_of(runner, sink.url())
        assert b'"ok"' in await body_of(runner, sink.url())
    assert [received.connection for received in sink.received] == [1, 2]


async def test_an_answer_to_head_has_no_body_and_one_that_comes_is_no_answer() -> None:
    async with ScriptedServer(writes(OK[:-2], OK, OK)) as sink, a_runner() as runner:
        for _ in range(2):
            assert b'"body":""' in await body_of(runner, sink.url(), method="HEAD")
        assert b'"ok"' in await body_of(runner, sink.url())
    assert [received.connection for received in sink.received] == [1, 1, 2]


async def test_what_comes_between_two_requests_is_no_answer() -> None:
    conversations: list[Any] = []

    class Conversation(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.Transport", transport)
            self.is_over = asyncio.Event()
            conversations.append(self)

        def data_received(self, data: bytes) -> None:
            self.transport.write(OK)

        def connection_lost(self, exc: Exception | None) -> None:
            self.is_over.set()

    server = await asyncio.get_running_loop().create_server(Conversation, "127.0.0.1", 0)
    async with server, a_runner() as runner:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(2):
            assert b'"ok"' in await body_of(runner, url)
        (first,) = conversations
        first.transport.write(OK.replace(b"ok", b"no"))
        await asyncio.wait_for(first.is_over.wait(), PATIENCE)
        assert b'"ok"' in await body_of(runner, url)
    assert len(conversations) == 2


async def test_what_comes_before_any_request_is_no_answer() -> None:
    async def talk_first(_reader: asyncio.StreamReader, writer: StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk_first, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with a_runner() as runner:
            outcomes = [await runner.run(a_run(f"http://127.0.0.1:{port}/")) for _ in range(5)]
    # Whether it comes before the request or just after it is up to the network.
    assert all(isinstance(outcome, Succeeded | Failed) for outcome in outcomes)


BODY = "x" * 262_144  # more than a socket takes at once


async def test_an_endpoint_may_answer_before_it_has_read_the_request() -> None:
    """Its answer counts. The rest of the request must not go before another one."""
    heads: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await done.wait()
        writer.close()

    done = asyncio.Event()
    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1_000)
    async with server, a_runner() as runner:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(2):
            run = a_run(url, method="POST", body=BODY * 32)
            outcome = await runner.run(run)
            assert isinstance(outcome, Failed)
            assert "answered 413" in outcome.error
        done.set()
    assert len(heads) == 2
    assert all(head.startswith(b"POST / HTTP/1.1\r\n") for head in heads)


async def test_an_endpoint_that_reads_nothing_holds_nothing_after_the_deadline() -> None:
    gone = asyncio.Event()

    async def never_read(reader: asyncio.StreamReader, writer: StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await ended.wait()
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        writer.close()
        gone.set()

    ended = asyncio.Event()
    server = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1_000)
    async with server, a_runner(timeout=SOON) as runner:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        outcome = await runner.run(a_run(url, method="POST", body=BODY * 32))
        assert isinstance(outcome, Failed)
        assert "within 0.3 s" in outcome.error
        ended.set()
        await asyncio.wait_for(gone.wait(), PATIENCE)


# A kept connection that ends as a request goes out.

BEGUN = {
    "with a part of the head": b"HTTP/1.1 200 OK\r\nContent-",
    "with an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "with a part of the body": OK[:-1],
}


@pytest.mark.parametrize("answer", BEGUN.values(), ids=BEGUN.keys())
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_whose_answer_had_begun_is_not_sent_again(
    method: str, answer: bytes
) -> None:
    async def begin_on_second(writer: StreamWriter, _: Received) -> None:
        writer.write(OK if len(sink.received) == 1 else answer)
        await writer.drain()
        if len(sink.received) > 1:
            writer.close()

    async with ScriptedServer(begin_on_second) as sink, a_runner() as runner:
        await body_of(runner, sink.url())
        outcome = await runner.run(a_run(sink.url(), method=method))
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert len(sink.received) == 2


@pytest.mark.parametrize("end", [sinks.hang_up, sinks.reset])
async def test_a_request_without_a_byte_of_an_answer_is_sent_once_more_on_a_new_connection(
    end: Callable[..., Any],
) -> None:
    async def end_all_but_the_first(writer: StreamWriter, received: Received) -> None:
        if len(sink.received) == 1:
            writer.write(OK)
        else:
            await end(writer, received)

    async with ScriptedServer(end_all_but_the_first) as sink, a_runner() as runner:
        await body_of(runner, sink.url())
        outcome = await runner.run(a_run(sink.url(), method="POST", body="x"))
    assert isinstance(outcome, Failed)
    assert [received.connection for received in sink.received] == [1, 1, 2]


async def test_a_server_that_hangs_up_at_once_is_a_failure() -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server, a_runner() as runner:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(5):
            outcome = await runner.run(a_run(url))
            assert isinstance(outcome, Failed)
            assert outcome.retryable
            assert "connection" in outcome.error


# Deadlines.


async def test_each_request_on_a_connection_has_its_own_deadline() -> None:
    async with ScriptedServer(writes(OK)) as sink, a_runner() as runner:
        assert await body_of(runner, sink.url())  # with the timer of a long one
        sink.behaviour = sinks.silent
        outcome = await runner.run(a_run(sink.url(), job={"timeout": SOON}))
        assert isinstance(outcome, Failed)
        assert "within 0.3 s" in outcome.error
        assert sink.connections == 1


async def test_an_earlier_deadline_does_not_end_a_later_request() -> None:
    soon_over, may_answer = asyncio.Event(), asyncio.Event()

    async def wait(writer: StreamWriter, _: Received) -> None:
        if len(sink.received) > 1:
            soon_over.set()
            await may_answer.wait()
        writer.write(OK)
        await writer.drain()

    async with ScriptedServer(wait) as sink, a_runner() as runner:
        assert await runner.run(a_run(sink.url(), job={"timeout": SOON}))
        later = asyncio.create_task(runner.run(a_run(sink.url())))
        await soon_over.wait()
        # One timer serves both; it must come and go before the answer does.
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * SOON.total_seconds(), passed.set)
        await passed.wait()
        may_answer.set()
        assert isinstance(await later, Succeeded)
    assert sink.connections == 1


async def test_a_request_after_a_failed_one_has_a_fresh_connection() -> None:
    async with ScriptedServer(sinks.silent) as sink, a_runner() as runner:
        assert isinstance(await runner.run(a_run(sink.url(), job={"timeout": SOON})), Failed)
        sink.behaviour = writes(OK)
        assert b'"ok"' in await body_of(runner, sink.url())
    assert sink.connections == 2


async def test_an_answer_that_is_refused_counts_for_its_endpoint() -> None:
    async with ScriptedServer(writes(b"HTTP/1.1 200 OK\n\n")) as sink, a_runner() as runner:
        for _ in range(30):
            outcome = await runner.run(a_run(sink.url()))
            assert isinstance(outcome, Failed)
            assert "not proper HTTP" in outcome.error
        assert not runner.breakers.breaker(f"http://127.0.0.1:{sink.port}").is_open


# What is sent.


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rX-Evil: 1", "a\0"])
@pytest.mark.parametrize("is_name", [True, False])
async def test_a_header_that_no_check_has_seen_adds_no_line(value: str, is_name: bool) -> None:
    headers = {value: "x"} if is_name else {"X": value}
    async with ScriptedServer() as sink:
        outcome = await outcome_at(sink.url(), run={"headers": headers})
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert sink.received == []


@pytest.mark.parametrize(
    "name",
    ["Content-Length", "content-length", "Transfer-Encoding", "Content-Length: 5 X", "a b", "a:"],
)
async def test_no_name_of_a_header_that_no_check_has_seen_says_where_a_request_ends(
    name: str,
) -> None:
    async with ScriptedServer() as sink:
        outcome = await outcome_at(sink.url(), run={"headers": {name: "1"}, "body": "hello"})
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert sink.received == []


@pytest.mark.parametrize("method", ["GET\r\nX: y", "GET / HTTP/1.1\r\n\r\nGET", "GET x", ""])
async def test_a_method_that_no_check_has_seen_adds_nothing(method: str) -> None:
    async with ScriptedServer() as sink:
        outcome = await outcome_at(sink.url(), run={"method": method})
    assert isinstance(outcome, Failed)
    assert not outcome.retryable
    assert sink.received == []


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("GET", None, None),
        ("HEAD", None, None),
        ("OPTIONS", None, None),
        ("POST", None, "0"),
        ("PUT", None, "0"),
        ("PATCH", None, "0"),
        ("DELETE", None, "0"),
        ("GET", "", "0"),
        ("GET", "é", "2"),
        ("POST", "é", "2"),
    ],
)
async def test_a_request_says_its_length_where_it_may_have_a_body(
    method: str, body: str | None, length: str | None
) -> None:
    async with ScriptedServer(writes(OK[:-2] if method == "HEAD" else OK)) as sink:
        await outcome_at(sink.url(), run={"method": method, "body": body})
    received = sink.received[0]
    assert received.lower.get("content-length") == length
    assert received.body == (body or "").encode()
    assert received.lower["host"] == f"127.0.0.1:{sink.port}"
    assert received.lower["accept"] == "*/*"
    assert "connection" not in received.lower
    assert "transfer-encoding" not in received.lower


async def test_the_callers_accept_stands() -> None:
    async with ScriptedServer() as sink:
        await outcome_at(sink.url(), run={"headers": {"accept": "text/csv"}})
    assert sink.received[0].lower["accept"] == "text/csv"
    assert "Accept" not in sink.received[0].headers


def test_a_default_port_and_the_last_dot_of_a_name_are_left_out_of_the_host() -> None:
    for url in ("http://example.com:80/a", "http://example.com/a", "http://example.com./a"):
        assert request_url(url).start == " /a HTTP/1.1\r\nHost: example.com\r\n"


async def test_many_requests_share_few_connections_where_that_is_the_limit() -> None:
    async with ScriptedServer(writes(OK)) as sink, a_runner(connections_max=3) as runner:
        outcomes = await asyncio.gather(*(runner.run(a_run(sink.url())) for _ in range(50)))
    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
    assert sink.connections <= 3


async def test_a_wait_for_a_free_connection_falls_under_the_deadline() -> None:
    arrived = asyncio.Event()

    async def hold(_writer: StreamWriter, _received: Received) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with ScriptedServer(hold) as sink, a_runner(connections_max=1) as runner:
        holds = asyncio.create_task(runner.run(a_run(sink.url())))
        await arrived.wait()
        outcome = await runner.run(a_run(sink.url(), deadline=CLOCK.at + SOON))
        assert isinstance(outcome, Failed)
        assert "within 0.3 s" in outcome.error
        limited = a_run(sink.url(), connect_timeout=timedelta(seconds=0.2))
        outcome = await runner.run(limited)
        assert isinstance(outcome, Failed)
        assert "got no connection within 0.2 s" in outcome.error
        holds.cancel()
        assert len(sink.received) == 1
