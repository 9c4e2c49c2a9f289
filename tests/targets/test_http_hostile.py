"""Servers that mean no good, or are broken: an attempt ends, in time and within its bounds."""

import asyncio
import gzip
import random
import tracemalloc
from asyncio.streams import StreamWriter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conditions import PATIENCE
from onbeat.model.limits import (
    CALLBACK_BYTES_KEPT_MAX,
    CALLBACK_BYTES_READ_MAX,
    CALLBACK_INTERIM_ANSWERS_MAX,
    CALLBACK_INTERIM_BYTES_MAX,
    CALLBACK_RESPONSE_HEADERS_MAX,
    RESULT_BYTES_MAX,
)
from onbeat.model.outcome import Failed, Succeeded
from targets import scripted_http_server as sinks
from targets.runs import CLOCK, SOON, a_run, a_runner, outcome_at
from targets.scripted_http_server import Received, ScriptedServer, says

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

SLOW = {
    "never answers": sinks.silent,
    "drips a header": sinks.drips(b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    "drips headers": sinks.drips(b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
    "drips the status line": sinks.drips(b"HTTP/1.1 200 ", b"O"),
    "drips interim answers": sinks.drips(b"HTTP/1.1 103 E\r\n", b"X: a\r\n"),
    "drips a body": sinks.drips(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n", b"a"),
    "drips an endless body": sinks.drips(b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
    "drips chunks": sinks.drips(CHUNKED, b"1\r\na\r\n"),
    "drips a chunk's size": sinks.drips(CHUNKED, b"0"),
    "drips a failure": sinks.drips(b"HTTP/1.1 500 No\r\nContent-Length: 999\r\n\r\n", b"a"),
    "says less than it promised": says(body=b"half", length=1000),
}


@pytest.mark.parametrize("behaviour", SLOW.values(), ids=SLOW.keys())
async def test_one_deadline_ends_any_slowness(behaviour: Callable[..., Any]) -> None:
    async with ScriptedServer(behaviour) as sink:
        outcome = await outcome_at(sink.url("/a?b"), timeout=SOON)
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    # A line that grows without end may reach its bound before the deadline does.
    assert outcome.error.startswith(f"GET {sink.url('/a')} ")
    assert "within 0.3 s" in outcome.error


async def test_the_attempts_own_deadline_counts_if_it_is_nearer() -> None:
    async with ScriptedServer(sinks.silent) as sink, a_runner() as runner:
        outcome = await runner.run(a_run(sink.url(), deadline=CLOCK.at + SOON))
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error


async def test_a_jobs_own_timeout_stands_in_for_the_default() -> None:
    async with ScriptedServer(sinks.silent) as sink, a_runner() as runner:
        outcome = await runner.run(a_run(sink.url(), job={"timeout": SOON}))
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error


async def test_nothing_is_sent_once_the_deadline_has_passed() -> None:
    async with ScriptedServer() as sink, a_runner() as runner:
        await runner.run(a_run(sink.url()))
        outcome = await runner.run(a_run(sink.url(), deadline=CLOCK.at - SOON))
    assert isinstance(outcome, Failed)
    assert "no time was left" in outcome.error
    assert len(sink.received) == 1


async def test_a_slow_lookup_falls_under_the_deadline() -> None:
    async def never(_host: str, _port: int) -> None:
        await asyncio.Event().wait()

    outcome = await outcome_at("http://slow.example/", lookup=never, timeout=SOON)
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error


async def test_a_tls_handshake_that_hangs_falls_under_the_deadline() -> None:
    # A server without TLS waits for a line of HTTP that a handshake never brings.
    async with ScriptedServer() as sink:
        url = sink.url().replace("http:", "https:")
        outcome = await outcome_at(url, timeout=SOON)
    assert isinstance(outcome, Failed)
    assert "within 0.3 s" in outcome.error


BROKEN = {
    "hangs up": (sinks.hang_up, "closed before an answer"),
    "resets": (sinks.reset, "connection"),
    "breaks off in the headers": (sinks.break_off_in_headers, "connection"),
    "breaks off in the body": (sinks.break_off_in_body, "broke off"),
    "breaks off in a chunk": (sinks.drips(CHUNKED + b"zz\r\n", b""), "broke off|proper HTTP"),
    "does not speak HTTP": (sinks.drips(b"SSH-2.0-x\r\n", b""), "proper HTTP"),
    "sends ten thousand headers": (
        sinks.drips(b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 10_000 + b"\r\n", b""),
        "headers|proper HTTP",
    ),
    "sends endless headers": (sinks.pours(b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"), "proper HTTP"),
    "sends an endless header": (sinks.pours(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 999), "proper HTTP"),
    "sends an endless line": (sinks.pours(b"HTTP/1.1 200 ", b"a" * 999), "proper HTTP"),
    "sends one header too many": (
        says("200 OK", b"", *["X-A: a"] * CALLBACK_RESPONSE_HEADERS_MAX),
        "headers|proper HTTP",
    ),
    "sends large headers": (says("200 OK", b"", *["X-A: " + "a" * 8000] * 5), "headers"),
}


@pytest.mark.parametrize(("behaviour", "why"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_answer_is_a_failure_that_may_pass(
    behaviour: Callable[..., Any], why: str
) -> None:
    async with ScriptedServer(behaviour) as sink:
        outcome = await outcome_at(sink.url("/a?b"), run={"method": "POST"})
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert any(words in outcome.error for words in why.split("|")), outcome.error
    assert len(sink.received) == 1


INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def whole(answer: bytes, size: int | None = None) -> Callable[..., Any]:
    """Answers with these bytes, at once or in parts of a size."""

    async def behave(writer: StreamWriter, _received: Received) -> None:
        for at in range(0, len(answer), size or len(answer)):
            writer.write(answer[at : at + (size or len(answer))])
            await writer.drain()

    return behave


@pytest.mark.parametrize("size", [None, 7])
async def test_so_many_interim_answers_pass_and_one_more_does_not(size: int | None) -> None:
    most = CALLBACK_INTERIM_ANSWERS_MAX
    async with ScriptedServer(whole(INTERIM * most + FINAL, size)) as sink, a_runner() as runner:
        for _ in range(2):  # on the same connection, so that it counts anew for each request
            assert isinstance(await runner.run(a_run(sink.url())), Succeeded)
        assert sink.connections == 1
        sink.behaviour = whole(INTERIM * (most + 1) + FINAL, size)
        outcome = await runner.run(a_run(sink.url()))
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert "not proper HTTP" in outcome.error


async def test_so_many_bytes_of_interim_answers_pass_and_more_do_not() -> None:
    line = b"HTTP/1.1 103 Early Hints\r\n"
    field = b"X: " + b"a" * 8_000 + b"\r\n"
    # It is noticed where the next part begins.
    for more, kind in ((b"", Succeeded), (b"X: " + b"a" * 5_500 + b"\r\n", Failed)):
        interim = line + field * 4 + more + b"\r\n"
        assert (len(interim) > CALLBACK_INTERIM_BYTES_MAX) is bool(more)
        async with ScriptedServer(whole(interim + FINAL)) as sink:
            outcome = await outcome_at(sink.url())
        assert isinstance(outcome, kind), outcome


FLOODS = {
    "of 100 Continue": sinks.pours(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
    "of 103": sinks.pours(b"", b"HTTP/1.1 103 E\r\n\r\n" * 2_000),
    "of 103 with headers": sinks.pours(b"", INTERIM * 2_000),
    "of headers of one": sinks.pours(b"HTTP/1.1 103 E\r\n", b"X: a\r\n" * 8_000),
    "of one header of one": sinks.pours(b"HTTP/1.1 103 E\r\nX: ", b"a" * 65_536),
    "of cookies": sinks.pours(b"HTTP/1.1 200 OK\r\n", b"Set-Cookie: a=b\r\n" * 5_000),
    "in the reason": sinks.pours(b"HTTP/1.1 200 ", b"a" * 65_536),
    "in the extension of a chunk": sinks.pours(CHUNKED + b"5;", b"a" * 65_536),
    "of chunks of one byte": sinks.pours(CHUNKED, b"1\r\na\r\n" * 10_000),
    "of trailers": sinks.pours(CHUNKED + b"0\r\n", b"X: a\r\n" * 8_000),
}


@pytest.mark.parametrize("behaviour", FLOODS.values(), ids=FLOODS.keys())
async def test_a_flood_before_or_round_the_body_ends_the_attempt_early(
    behaviour: Callable[..., Any],
) -> None:
    # To trace memory makes small chunks slow; the deadline is not what ends them.
    timeout = timedelta(minutes=5)
    async with ScriptedServer(behaviour) as sink, a_runner(timeout=timeout) as runner:
        tracemalloc.start()
        outcome = await runner.run(a_run(sink.url()))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert "not proper HTTP" in outcome.error, outcome.error
    assert peak < 3_000_000


PIECES = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 302 Found\r\n",
    b"HTTP/1.1 429 Slow\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n",
    b"HTTP/1.1 099 X\r\n",
    b"HTTP/1.1 1000 X\r\n",
    b"HTTP/2 200\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\x00",
    b"\xff\xfe",
    b"Content-Length: 5\r\n",
    b"Content-Length: 3\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"Set-Cookie: \xff=\xfe\r\n",
    b"Location: \xff\r\n",
    b"Retry-After: \xff\r\n",
    b"Content-Type: \xff; charset=\xfe\r\n",
    b": x\r\n",
    b" folded\r\n",
    b"hello",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"zz\r\n",
    b"ffffffffffffffffff\r\n",
    b"\x1f\x8b\x08",
    b"a" * 70_000,
]


async def test_no_mixture_of_proper_and_broken_pieces_escapes_as_an_error() -> None:
    chance = random.Random(20261120)

    async def mix(writer: StreamWriter, _received: Received) -> None:
        first = chance.choice(PIECES[:10])
        writer.write(b"".join([first, *chance.choices(PIECES, k=chance.randint(0, 7))]))
        await writer.drain()
        writer.close()

    async with ScriptedServer(mix) as sink, a_runner() as runner:
        for _ in range(500):
            run = a_run(sink.url(), method=chance.choice(["GET", "HEAD", "POST"]))
            assert isinstance(await runner.run(run), Succeeded | Failed)


async def test_a_closed_port_is_a_failure_that_may_pass() -> None:
    async with ScriptedServer() as sink:
        url = sink.url("/a")
    outcome = await outcome_at(url)
    assert outcome == Failed(f"GET {url} failed: no connection could be made")


HUGE = {
    "with its length": sinks.pours(
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"a" * 65_536
    ),
    "without end": sinks.pours(b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65_536),
    "in chunks": sinks.pours(CHUNKED, b"8000\r\n" + b"a" * 0x8000 + b"\r\n"),
}


@pytest.mark.parametrize("behaviour", HUGE.values(), ids=HUGE.keys())
async def test_of_a_huge_answer_the_beginning_is_kept(behaviour: Callable[..., Any]) -> None:
    async with ScriptedServer(behaviour) as sink, a_runner() as runner:
        tracemalloc.start()
        outcome = await runner.run(a_run(sink.url()))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(outcome, Succeeded)
        kept = {"status": 200, "body": "a" * CALLBACK_BYTES_KEPT_MAX, "truncated": True}
        assert msgspec.json.decode(outcome.result) == kept
        # A connection with an unread rest must not carry another request.
        sink.behaviour = says()
        assert isinstance(await runner.run(a_run(sink.url())), Succeeded)
    assert sink.connections == 2
    assert peak < 20_000_000


async def test_an_answer_within_what_is_read_leaves_its_connection_usable() -> None:
    async with (
        ScriptedServer(says(body=b"a" * (CALLBACK_BYTES_READ_MAX - 1))) as sink,
        a_runner() as runner,
    ):
        for _ in range(2):
            outcome = await runner.run(a_run(sink.url()))
    assert isinstance(outcome, Succeeded)
    assert msgspec.json.decode(outcome.result)["truncated"]
    assert sink.connections == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_answer_is_never_unpacked(encoding: str) -> None:
    bomb = gzip.compress(bytes(10_000_000), mtime=0)
    async with ScriptedServer(says("200 OK", bomb, f"Content-Encoding: {encoding}")) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Succeeded)
    body = msgspec.json.decode(outcome.result)["body"]
    assert body == bomb.decode(errors="replace")


@pytest.mark.parametrize("body", [b"\x00" * 65_536, b"\xff" * 65_536, b'"\\' * 32_768])
async def test_a_result_stays_within_its_bound_as_json(body: bytes) -> None:
    async with ScriptedServer(says(body=body)) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Succeeded)
    assert outcome.result is not None
    assert len(bytes(outcome.result)) <= RESULT_BYTES_MAX
    assert msgspec.json.decode(outcome.result)["status"] == 200


async def test_a_character_cut_in_two_by_the_bound_is_left_off() -> None:
    async with ScriptedServer(says(body="€".encode() * 30_000)) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Succeeded)
    kept = msgspec.json.decode(outcome.result)
    assert kept["body"] == "€" * (CALLBACK_BYTES_KEPT_MAX // 3)
    assert kept["truncated"]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
async def test_a_kept_connection_that_closes_as_the_request_goes_out_costs_no_attempt(
    method: str,
) -> None:
    async def close_on_second(writer: StreamWriter, received: Received) -> None:
        on_this = [each for each in sink.received if each.connection == received.connection]
        if len(on_this) > 1:
            writer.close()
        else:
            await says(body=b"ok")(writer, received)

    async with ScriptedServer(close_on_second) as sink, a_runner() as runner:
        for _ in range(3):
            outcome = await runner.run(a_run(sink.url(), method=method, body="same"))
            assert isinstance(outcome, Succeeded)
    assert {received.body for received in sink.received} == {b"same"}
    assert {received.lower["onbeat-attempt"] for received in sink.received} == {"1"}


async def test_a_server_that_closes_after_each_answer_is_served_every_time() -> None:
    async with ScriptedServer(sinks.answer_then_hang_up) as sink, a_runner() as runner:
        outcomes = [await runner.run(a_run(sink.url(), method="POST")) for _ in range(20)]
    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)


async def test_a_fresh_connection_that_closes_is_not_tried_again_within_the_attempt() -> None:
    async with ScriptedServer(sinks.hang_up) as sink:
        outcome = await outcome_at(sink.url(), run={"method": "POST"})
    assert isinstance(outcome, Failed)
    assert len(sink.received) == 1


async def test_a_cancelled_attempt_ends_its_request() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def drip_until_gone(writer: StreamWriter, received: Received) -> None:
        arrived.set()
        try:
            await sinks.drips(b"HTTP/1.1 200 OK\r\n\r\n", b"a")(writer, received)
        finally:
            gone.set()

    async with ScriptedServer(drip_until_gone) as sink, a_runner() as runner:
        task = asyncio.create_task(runner.run(a_run(sink.url())))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), PATIENCE)


async def test_a_long_timeout_is_not_rounded_away() -> None:
    async with a_runner(timeout=timedelta(days=1)) as runner:
        assert runner.timeout_of(a_run("http://example.com/"), CLOCK.at) == timedelta(days=1)
