"""What is sent, and what each answer comes to."""

import asyncio
from asyncio.streams import StreamWriter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from onbeat.model.ids import ScheduleId
from onbeat.model.limits import CALLBACK_BYTES_KEPT_MAX, RETRY_AFTER_MAX
from onbeat.model.outcome import Failed, Succeeded
from onbeat.rules.urls import checked_secret
from targets.runs import CLOCK, JOB_ID, ARun, a_run, a_runner, outcome_at
from targets.scripted_http_server import Received, ScriptedServer, says

SECRET = checked_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


async def sent_by(run_of: Callable[..., Any] = a_run, **target: Any) -> Received:
    async with ScriptedServer() as sink, a_runner() as runner:
        outcome = await runner.run(run_of(sink.url("/hook?a=%7B1%7D"), **target))
    assert isinstance(outcome, Succeeded)
    return sink.received[0]


async def test_a_request_says_which_work_it_is() -> None:
    occurrence = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
    job = {"schedule_id": ScheduleId("s1"), "occurrence": occurrence, "attempt": 2, "token": 7}
    received = await sent_by(lambda url, **_: job_run(url, job))
    assert received.method == "GET"
    assert received.path == "/hook?a=%7B1%7D"
    assert received.lower["onbeat-job-id"] == JOB_ID
    assert received.lower["idempotency-key"] == JOB_ID
    assert received.lower["onbeat-schedule-id"] == "s1"
    assert received.lower["onbeat-occurrence"] == "2026-03-01T12:00:00Z"
    assert received.lower["onbeat-attempt"] == "2"
    assert received.lower["onbeat-token"] == "7"
    assert received.lower["accept-encoding"] == "identity"
    assert received.lower["user-agent"].startswith("Onbeat/")


def job_run(url: str, job: dict[str, Any]) -> ARun:
    run = a_run(url)
    return type(run)(msgspec.structs.replace(run.job, **job))


async def test_a_job_without_a_schedule_names_none() -> None:
    received = await sent_by()
    assert "onbeat-schedule-id" not in received.lower
    assert "onbeat-occurrence" not in received.lower


async def test_the_callers_headers_come_as_given_and_stand_before_ours() -> None:
    headers = {"X-One": "1", "authorization": "Bearer k", "User-Agent": "mine", "cookie": "a=b"}
    received = await sent_by(headers=headers)
    assert list(received.headers.items())[1:5] == list(headers.items())
    assert "content-type" not in received.lower


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_each_method_is_sent(method: str) -> None:
    async with ScriptedServer(says("204 No Content")) as sink:
        outcome = await outcome_at(sink.url(), run={"method": method})
    assert sink.received[0].method == method
    assert outcome == Succeeded(msgspec.Raw(b'{"status":204,"body":""}'))


@pytest.mark.parametrize("body", ["", "{}", '{ "a" : "ü€😀" }\n', "\x00\r\n\t", "x" * 262_144])
async def test_a_body_arrives_byte_for_byte(body: str) -> None:
    received = await sent_by(method="POST", body=body)
    assert received.body == body.encode()
    assert received.lower["content-length"] == str(len(body.encode()))
    assert received.lower["content-type"] == "text/plain; charset=utf-8"


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.text(st.characters(codec="utf-8")))
def test_any_body_arrives_byte_for_byte_and_signed(body: str) -> None:
    received = asyncio.run(sent_by(method="PUT", body=body, secret=SECRET))
    assert received.body == body.encode()
    Webhook(SECRET).verify(received.body, received.lower, json_parse=False)


async def test_the_callers_content_type_stands() -> None:
    received = await sent_by(method="POST", body="{}", headers={"content-type": "application/json"})
    assert received.lower["content-type"] == "application/json"


async def test_a_request_without_a_body_has_no_content_type() -> None:
    received = await sent_by(method="POST")
    assert "content-type" not in received.lower
    assert received.body == b""


async def test_a_signature_covers_id_time_and_body() -> None:
    received = await sent_by(method="POST", body='{"a": 1}', secret=SECRET)
    assert received.lower["webhook-id"] == JOB_ID
    assert received.lower["webhook-timestamp"] == str(int(CLOCK.at.timestamp()))
    assert Webhook(SECRET).verify(received.body, received.lower) == {"a": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(received.body + b" ", received.lower)


async def test_a_request_without_a_body_is_signed_as_an_empty_one() -> None:
    received = await sent_by(secret=SECRET)
    Webhook(SECRET).verify(b"", received.lower, json_parse=False)


async def test_a_target_without_a_secret_is_not_signed() -> None:
    received = await sent_by()
    assert not [name for name in received.lower if name.startswith("webhook-")]


@pytest.mark.parametrize(
    "status", ["200 OK", "201 Created", "202 Accepted", "206 Partial", "299 X"]
)
async def test_any_2xx_is_success_and_keeps_the_answer(status: str) -> None:
    async with ScriptedServer(says(status, "grüß 😀".encode())) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Succeeded)
    assert msgspec.json.decode(outcome.result) == {"status": int(status[:3]), "body": "grüß 😀"}


FAULTS = [
    ("400 Bad Request", False),
    ("401 Unauthorized", False),
    ("403 Forbidden", False),
    ("404 Not Found", False),
    ("409 Conflict", False),
    ("410 Gone", False),
    ("418 I'm a teapot", False),
    ("422 Unprocessable Entity", False),
    ("451 Unavailable For Legal Reasons", False),
    ("499 Whatever", False),
    ("300 Multiple Choices", False),
    ("301 Moved Permanently", False),
    ("302 Found", False),
    ("303 See Other", False),
    ("304 Not Modified", False),
    ("307 Temporary Redirect", False),
    ("308 Permanent Redirect", False),
    ("408 Request Timeout", True),
    ("425 Too Early", True),
    ("429 Too Many Requests", True),
    ("500 Internal Server Error", True),
    ("501 Not Implemented", True),
    ("502 Bad Gateway", True),
    ("503 Service Unavailable", True),
    ("504 Gateway Timeout", True),
    ("599 Whatever", True),
    ("600 Whatever", True),
    ("999 Whatever", True),
    ("099 Whatever", True),
]


@pytest.mark.parametrize(("status", "retryable"), FAULTS)
async def test_any_other_status_fails_and_says_so(status: str, retryable: bool) -> None:
    async with ScriptedServer(says(status)) as sink:
        outcome = await outcome_at(sink.url("/hook?key=s3cret"))
    assert isinstance(outcome, Failed)
    assert outcome.retryable == retryable
    assert outcome.error.startswith(f"GET {sink.url('/hook')} answered {int(status[:3])}")
    assert "s3cret" not in outcome.error
    assert len(sink.received) == 1


async def test_a_failure_quotes_the_beginning_of_the_answer_on_one_line() -> None:
    body = ("no\r\n such\tthing \x00\x1b[31m" + "x" * 1000).encode() + b"\xff"
    async with ScriptedServer(says("404 Nope, secret phrase", body)) as sink:
        outcome = await outcome_at(sink.url("/a"))
    assert isinstance(outcome, Failed)
    start = f"GET {sink.url('/a')} answered 404 Not Found: "
    assert outcome.error == (start + "no such thing [31m" + "x" * 1000)[: len(start) + 200]


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "500 X"])
@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", timedelta()),
        ("7", timedelta(seconds=7)),
        ("120", timedelta(minutes=2)),
        ("99999999", RETRY_AFTER_MAX),
        ("9999999999", RETRY_AFTER_MAX),
        ("99999999999999999999", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("Fri, 99 Foo 2026 25:61:61 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", timedelta()),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", timedelta()),
        ("Wed, 21 Oct 9999 07:28:00 GMT", RETRY_AFTER_MAX),
        ("Fri, 31 Dec 9999 23:59:59 -2300", RETRY_AFTER_MAX),
    ],
)
async def test_the_wait_that_was_asked_for_is_passed_on_within_bounds(
    status: str, text: str, wait: timedelta | None
) -> None:
    async with ScriptedServer(says(status, b"", f"Retry-After: {text}")) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Failed)
    assert outcome.retryable
    assert outcome.retry_after == wait


async def test_a_wait_until_a_date_counts_from_now() -> None:
    at = CLOCK.at.replace(microsecond=0) + timedelta(seconds=90)
    header = f"Retry-After: {format_datetime(at, usegmt=True)}"
    async with ScriptedServer(says("429 Too Many Requests", b"", header)) as sink:
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Failed)
    assert outcome.retry_after == at - CLOCK.at


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("http://169.254.169.254/latest/meta-data", "http://169.254.169.254/latest/meta-data"),
        ("https://u:s3cret@other.example/x?k=s3cret#s3cret", "https://other.example/x"),
        ("/relative?s3cret", "/relative"),
        ("//other.example/x", "//other.example/x"),
    ],
)
async def test_a_redirect_is_a_final_failure_that_says_where_to(location: str, shown: str) -> None:
    async with ScriptedServer(says("302 Found", b"", f"Location: {location}")) as sink:
        outcome = await outcome_at(sink.url("/a"))
    assert outcome == Failed(
        f"GET {sink.url('/a')} answered 302 Found and pointed to {shown};"
        " redirects are not followed",
        retryable=False,
    )
    assert len(sink.received) == 1


async def test_cookies_are_not_kept() -> None:
    async with (
        ScriptedServer(says("200 OK", b"", "Set-Cookie: a=b; Path=/")) as sink,
        a_runner() as runner,
    ):
        await runner.run(a_run(sink.url()))
        await runner.run(a_run(sink.url()))
    assert "cookie" not in sink.received[1].lower


async def test_a_connection_is_used_again() -> None:
    async with ScriptedServer(says(body=b"ok")) as sink, a_runner() as runner:
        for _ in range(5):
            assert isinstance(await runner.run(a_run(sink.url())), Succeeded)
    assert sink.connections == 1
    assert len(sink.received) == 5


async def test_proxies_and_credentials_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password s3cret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with ScriptedServer() as proxy, ScriptedServer() as sink:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        outcome = await outcome_at(sink.url())
    assert isinstance(outcome, Succeeded)
    assert proxy.received == []
    assert "authorization" not in sink.received[0].lower


async def test_a_url_that_no_check_has_seen_is_refused_at_the_run() -> None:
    for url in ("foo:bar", "http://127.0.0.1\\@example.com/", "http://2130706433/", "/x", ""):
        outcome = await outcome_at(url)
        assert isinstance(outcome, Failed)
        assert not outcome.retryable


async def test_a_runner_opens_again_after_it_was_closed() -> None:
    async with ScriptedServer() as sink, a_runner() as runner:
        await runner.close()
        await runner.open()
        assert isinstance(await runner.run(a_run(sink.url())), Succeeded)


async def test_a_thousand_callbacks_are_in_flight_at_once() -> None:
    everyone = asyncio.Event()

    async def wait_for_all(writer: StreamWriter, received: Received) -> None:
        if len(sink.received) == 1000:
            everyone.set()
        await everyone.wait()
        await says()(writer, received)

    async with ScriptedServer(wait_for_all) as sink, a_runner() as runner:
        outcomes = await asyncio.gather(*(runner.run(a_run(sink.url())) for _ in range(1000)))
    assert all(isinstance(outcome, Succeeded) for outcome in outcomes)
    assert sink.connections == 1000


OTHER_SECRET = checked_secret("whsec_" + "B" * 40)


async def test_each_of_two_secrets_verifies_a_request() -> None:
    received = await sent_by(method="POST", body="{}", secret=(OTHER_SECRET, SECRET))
    assert received.lower["webhook-signature"].count(" ") == 1
    for secret in (SECRET, OTHER_SECRET):
        assert Webhook(secret).verify(received.body, received.lower) == {}
    first = received.lower["webhook-signature"].split()[0]
    alone = received.lower | {"webhook-signature": first}
    Webhook(OTHER_SECRET).verify(received.body, alone)


ECHOED = {
    "headers": {"Authorization": "Bearer canary-1", "X-Api-Key": 'canary "2"'},
    "secret": (SECRET, OTHER_SECRET),
}
ECHO = msgspec.json.encode(["canary-1", 'canary "2"', "canary 3", "kept", SECRET, OTHER_SECRET])


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "500 Internal Server Error"])
async def test_no_credential_that_an_endpoint_echoes_is_kept(status: str) -> None:
    async with ScriptedServer(says(status, ECHO, "Location: /?k=canary-1")) as sink:
        outcome = await outcome_at(sink.url("/?sig=canary+3"), run=ECHOED)
    kept = bytes(outcome.result).decode() if isinstance(outcome, Succeeded) else outcome.error
    assert "***" in kept
    assert "kept" in kept
    for text in ("canary", SECRET, OTHER_SECRET):
        assert text not in kept


async def test_a_credential_that_the_bound_cuts_in_two_is_not_kept() -> None:
    body = b"x" * (CALLBACK_BYTES_KEPT_MAX - 10) + b"canary-with-a-long-tail"
    async with ScriptedServer(says("200 OK", body)) as sink:
        outcome = await outcome_at(sink.url(), run={"headers": {"Token": body[-23:].decode()}})
    assert isinstance(outcome, Succeeded)
    assert b"canary" not in bytes(outcome.result)
    assert b'***","truncated":true' in bytes(outcome.result)
