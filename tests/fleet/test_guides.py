"""What the pages on brokers say, tried with a real one and with other people's clients."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiormq
import msgspec
import pytest
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from conditions import eventually
from docs.pages import ROOT, blocks
from docs.services import service
from fleet.conftest import Fleet, Outside, rabbitmq_url, redis_url
from onbeat.app.brokers import EXTRAS
from onbeat.app.health import LOOP_SILENT_MAX
from onbeat.engine.broker.dead_letters import COPY_BYTES_MAX, HEADER_CHARS_MAX
from onbeat.engine.broker.dispatcher import JOBS_PER_MESSAGE, PATIENCE, PATIENCE_MAX
from onbeat.engine.broker.fallback import PATIENCE as AWAY_PATIENCE
from onbeat.engine.broker.inbound import PREFETCH
from onbeat.engine.broker.job_consumer import HOPS_MAX
from onbeat.engine.broker.remote import PAYLOAD_BYTES_SENT_MAX
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LOST_MAX, RPC_BATCH_MAX
from onbeat.testing.build import a_job
from onbeat.wire import broker_messages as protocol
from onbeat.wire.broker_messages import ANNOUNCED_MAX, announcement, read_announcement, work_call
from onbeat.wire.cloud_events import read_published
from onbeat.wire.worker_results import read_response
from transports.redis.server import client

PROTOCOL = ROOT / "docs" / "reference" / "wire-protocol.md"
BROKER = ROOT / "docs" / "guides" / "use-a-broker.md"
WORKERS = ROOT / "docs" / "guides" / "workers-in-any-language.md"


def said(page: Path) -> str:
    return " ".join(page.read_text("utf-8").split())


def messages(page: Path) -> list[Any]:
    """The JSON on the page, without events."""
    return [one for one in json_of(page) if "type" not in one]


def json_of(page: Path) -> list[Any]:
    return [json.loads(block.text) for block in blocks(page, "json")]


@contextmanager
def running(*command: Any) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def exported(fleet: Fleet, outside: Outside, count: int) -> list[Job]:
    for number in range(count):
        call = {"jsonrpc": "2.0", "method": "submit:export", "params": {"objectID": number}}
        await outside.say(protocol.SUBMIT, call)

    async def all_ended() -> list[Job] | None:
        jobs = await fleet.jobs()
        done = [job for job in jobs if job.state is JobState.SUCCEEDED]
        return done if len(done) == count else None

    return await eventually(all_ended, "all have ended")


def prefix_of(url: str) -> str:
    return parse_qs(urlsplit(url).query)["prefix"][0]


def without_options(url: str) -> str:
    return urlsplit(url)._replace(query="").geturl()


@pytest.mark.parametrize("transport", [redis_url], indirect=True)
async def test_the_worker_over_redis_works_as_printed(
    make_fleet: Callable[..., Any], outside: Outside, transport: str, tmp_path: Path
) -> None:
    (block,) = blocks(WORKERS, "py")
    script = tmp_path / "worker.py"
    script.write_text(block.text)
    async with make_fleet() as fleet:
        with running(script, without_options(transport), prefix_of(transport)):
            jobs = await exported(fleet, outside, 5)
        assert await outside.broker.depth(protocol.work_queue("default")) == 0
    results = {json.loads(bytes(job.result))["file"] for job in jobs}
    assert results == {f"{n}.csv" for n in range(5)}


@pytest.mark.parametrize("transport", [rabbitmq_url], indirect=True)
async def test_the_worker_over_rabbitmq_works_as_it_lies_there(
    make_fleet: Callable[..., Any], outside: Outside, transport: str
) -> None:
    script = ROOT / "examples" / "workers" / "rabbitmq_worker.py"
    async with make_fleet() as fleet:
        with running(script, without_options(transport), prefix_of(transport)):
            jobs = await exported(fleet, outside, 5)
    results = {json.loads(bytes(job.result))["file"] for job in jobs}
    assert results == {f"{n}.csv" for n in range(5)}


# The forms, by clients that know nothing of Onbeat.


@pytest.mark.parametrize("transport", [redis_url], indirect=True)
async def test_a_stream_entry_by_hand_is_a_submission(
    make_fleet: Callable[..., Any], transport: str, outside: Outside
) -> None:
    prefix = prefix_of(transport)
    async with make_fleet() as fleet:
        with client(without_options(transport)) as db:
            body = json.dumps(messages(PROTOCOL)[0])
            for _ in range(2):
                db.xadd(f"{prefix}onbeat.submit", {"id": "order-7", "body": body})
            job = await fleet.the_job(lambda job: job.attempt == 1, "its first attempt")
            await eventually(lambda: db.xlen(f"{prefix}onbeat.work.default"), "the call")
            ((_, fields),) = db.xrange(f"{prefix}onbeat.work.default")
        assert len(await fleet.jobs()) == 1
    check_call(job, fields[b"body"], fields[b"id"].decode(), json.loads(fields[b"headers"]))


@pytest.mark.parametrize("transport", [rabbitmq_url], indirect=True)
async def test_a_plain_amqp_message_is_a_submission(
    make_fleet: Callable[..., Any], transport: str, outside: Outside
) -> None:
    prefix = prefix_of(transport)
    got: list[DeliveredMessage] = []

    async def note(message: DeliveredMessage) -> None:
        got.append(message)

    async with make_fleet() as fleet:
        await outside.say(protocol.SUBMIT, messages(PROTOCOL)[0], id="order-7")
        connection = await aiormq.connect(without_options(transport))
        channel = await connection.channel()
        properties = Basic.Properties(message_id="order-7", reply_to=f"{prefix}onbeat.replies")
        body = json.dumps(messages(PROTOCOL)[0]).encode()
        await channel.basic_publish(
            body, routing_key=f"{prefix}onbeat.submit", properties=properties
        )
        job = await fleet.the_job(lambda job: job.attempt == 1, "its first attempt")
        await eventually(lambda: is_sent(outside), "the call is sent")
        await channel.basic_consume(f"{prefix}onbeat.work.default", note)
        await eventually(lambda: got, "the call")
        await connection.close()
        assert len(await fleet.jobs()) == 1
    (message,) = got
    headers = message.header.properties.headers
    check_call(job, message.body, message.header.properties.message_id, headers)


async def is_sent(outside: Outside) -> bool:
    return await outside.broker.depth(protocol.work_queue("default")) == 1


def check_call(job: Job, body: bytes, id: str, headers: dict[str, Any]) -> None:
    """As the page prints it."""
    printed = messages(PROTOCOL)[3]
    assert json.loads(body) == printed | {"id": job.id}
    assert id == f"{job.id}.{job.token}"
    assert headers.keys() == {"onbeat-token", "onbeat-attempt", "onbeat-deadline"}
    number, _, seal = headers["onbeat-token"].partition(".")
    assert (number, len(seal), headers["onbeat-attempt"]) == ("1", 22, "1")


# The pages, held against the code.


def test_the_examples_of_the_protocol_are_what_is_read_and_written() -> None:
    submission, keyed, answered, call, result, error, final, announced, wrong = messages(PROTOCOL)
    assert submission["method"] == keyed["method"] == "submit:export"
    assert answered["id"] == keyed["id"]
    job = a_job(id=call["id"])
    assert work_call(job).keys() == call.keys()
    for one, retryable in ((error, True), (final, False)):
        report = read_response(json.dumps(one).encode(), has_token=True).report
        assert (report.outcome.retryable, report.attempt) == (retryable, 1)
    read = read_response(json.dumps(result).encode(), has_token=True)
    assert (read.id, read.report.attempt) == (call["id"], 1)
    jobs = read_announcement(json.dumps(announced).encode())
    assert [(one.task, one.token) for one in jobs] == [("mail.welcome", 1)] * 2
    assert json.loads(announcement([job])).keys() == announced[0].keys()
    assert wrong["method"] != "submit:export"


def test_the_events_of_the_protocol_are_what_is_read() -> None:
    structured, plain = (one for one in json_of(PROTOCOL) if "type" in one)
    for event in (structured, plain):
        read = read_published(json.dumps(event).encode(), {})
        assert isinstance(read.data, msgspec.Raw)
        assert (read.type, json.loads(bytes(read.data))) == (event["type"], event["data"])


def test_queues_and_headers_are_named_as_they_are() -> None:
    shown = said(PROTOCOL)
    values = {value for name, value in vars(protocol).items() if name.endswith("_HEADER")}
    queues = {protocol.SUBMIT, protocol.RESULTS, protocol.REPLIES, protocol.DEAD}
    queues |= {protocol.work_queue("<queue>"), protocol.run_queue("<queue>")}
    assert not [name for name in values | queues if f"`{name}`" not in shown]


def test_figures_are_as_they_are() -> None:
    shown, guide = said(PROTOCOL), said(BROKER)
    assert f"several (up to {JOBS_PER_MESSAGE}) are an array" in shown
    assert f"passed on, {HOPS_MAX} times at most" in shown
    assert f"announced again after {PATIENCE:g} s" in shown
    assert f"announced again after {PATIENCE:g} s" in guide
    assert PATIENCE_MAX == 60
    assert f"more than {PAYLOAD_BYTES_SENT_MAX >> 10} KiB" in shown
    assert f"cut after {COPY_BYTES_MAX >> 10} KiB" in shown
    assert f"why it is a dead letter ({HEADER_CHARS_MAX} characters)" in shown
    assert f"{PREFETCH} submissions, {PREFETCH} results" in shown
    assert f"A batch** of up to {RPC_BATCH_MAX:,} calls" in shown
    assert f"| announcement | {ANNOUNCED_MAX:,} jobs, 1 MiB" in shown
    assert f"after {AWAY_PATIENCE:g} s dispatchers give back" in guide
    assert (LOST_MAX, LOOP_SILENT_MAX) == (3, 60)


def test_every_broker_has_its_extra() -> None:
    shown = said(BROKER)
    assert not [extra for extra in set(EXTRAS.values()) if f", `{extra}` |" not in shown]


def test_the_schedule_that_publishes_is_taken_by_the_service(tmp_path: Path) -> None:
    (command,) = [
        block.text for block in blocks(BROKER, "sh") if block.text.startswith("curl -X POST")
    ]
    (tmp_path / "onbeat.yaml").write_text("connections:\n  events: redis://127.0.0.1/0\n")
    body = command.partition("-d '")[2].rpartition("'")[0]
    with service(tmp_path) as port:
        done = subprocess.run(
            [sys.executable, "-c", POST, f"http://127.0.0.1:{port}/api/schedules", body],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout.startswith("201 "), done.stdout + done.stderr


POST = """
import sys, urllib.request
url, body = sys.argv[1:]
headers = {"Content-Type": "application/json"}
with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)) as answer:
    print(answer.status, answer.read().decode())
"""
