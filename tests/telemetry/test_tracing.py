"""Spans of a program that has set a tracer provider, and what it passes on without one."""

import asyncio
import contextlib
import contextvars
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from conditions import eventually
from engine.harness import Scripted
from interfaces.rest_client import RestClient
from onbeat import HttpOptions, Onbeat, Options, Retry, Snooze, message
from onbeat.api.asgi import build_api
from onbeat.app.brokers import open_broker
from onbeat.app.stores import open_store
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.ports.target import HandedOver, UnleasedRun
from onbeat.ports.tracing import ACTIVE, active_ids, active_trace
from onbeat.ports.transport import Envelope
from onbeat.targets.traced_runner import TracedRunner
from onbeat.telemetry.tracing import OtelTracing
from operations.harness import StoppedClock
from telemetry.collector import receiving
from telemetry.jobs import SECOND, a_job

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "shop@here=a b,other=1"
TRACE = CALLER.split("-")[1]
ONCE = Retry(1)


class Spans:
    """The spans of a provider that is not the one of the process."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = OtelTracing(self.provider)
        self.tracer = self.provider.get_tracer("program")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def the(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


def trace_of(span: Any) -> str:
    return format_trace_id(span.get_span_context().trace_id)


def id_of(span: Any) -> str:
    return format_span_id(span.get_span_context().span_id)


def traceparent_of(span: Any) -> str:
    return f"00-{trace_of(span)}-{id_of(span)}-01"


@pytest.fixture
def spans() -> Iterator[Spans]:
    yield Spans()
    ACTIVE.read = None


class Program:
    """Some tasks, traced by the spans."""

    def __init__(self, spans: Spans, **options: Any) -> None:
        self.beat = beat = Onbeat("memory://", options=Options(retry=ONCE, **options))
        beat.backend.tracing = spans.tracing

        @beat.task("work")
        async def work(n: int = 0) -> int:
            return n

        @beat.task("block")
        async def block() -> None:
            await asyncio.Event().wait()

        @beat.task("later")
        async def later() -> None:
            raise Snooze("1h")

        @beat.task("yields")
        async def yields() -> AsyncIterator[Any]:
            yield work.call(1)

        self.work, self.block, self.later, self.yields = work, block, later, yields

    async def stored(self, id: Any) -> Job:
        job = await self.beat.backend.store.job(id)
        assert job is not None
        return job


@pytest.fixture
def program(spans: Spans) -> Program:
    return Program(spans)


async def span_of(spans: Spans, name: str, count: int = 1) -> list[ReadableSpan]:
    return await eventually(
        lambda: found if len(found := spans.named(name)) >= count else None, f"{count} of {name}"
    )


async def test_a_job_is_sent_and_runs_in_the_trace_of_its_sender(
    program: Program, spans: Spans
) -> None:
    async with program.beat:
        with spans.tracer.start_as_current_span("request") as request:
            job = await program.work.asend(3)
        assert await job.aresult(30) == 3
        (process,) = await span_of(spans, "process work")
    send = spans.the("send work")
    assert id_of(request) == format_span_id(send.parent.span_id)
    assert {trace_of(send), trace_of(process)} == {trace_of(request)}
    assert process.parent.span_id == send.get_span_context().span_id
    (link,) = process.links
    assert link.context.span_id == send.get_span_context().span_id
    assert (await job.ainfo()).traceparent == traceparent_of(send)
    assert send.attributes["messaging.message.id"] == job.id


async def test_loops_that_were_started_within_a_span_do_not_run_jobs_in_it(
    program: Program, spans: Spans
) -> None:
    with spans.tracer.start_as_current_span("start") as start:
        await program.beat.start()
    assert await (await program.work.asend(1)).aresult(30) == 1
    (process,) = await span_of(spans, "process work")
    await program.beat.aclose()
    assert trace_of(process) != trace_of(start)


async def test_jobs_that_are_sent_together_have_one_sender(program: Program, spans: Spans) -> None:
    await program.beat.asend([program.work.call(1), program.later.call()])
    await program.beat.abatch(
        [program.work.call(1), program.work.call(2)], then=program.work.call()
    )
    assert spans.the("send").attributes["messaging.batch.message_count"] == 2
    assert spans.the("send work").attributes["messaging.batch.message_count"] == 3
    await program.beat.aclose()


def test_plain_code_passes_its_span_on(program: Program, spans: Spans) -> None:
    with spans.tracer.start_as_current_span("request") as request:
        program.work.send(1)
    assert trace_of(spans.the("send work")) == trace_of(request)
    program.beat.close()


async def test_a_job_in_a_transaction_has_the_active_span(spans: Spans, tmp_path: Path) -> None:
    program = Program(spans)
    program.beat.backend.store = open_store(f"sqlite:///{tmp_path}/onbeat.db")
    await program.beat.backend.open()
    connection = apsw.Connection(str(tmp_path / "onbeat.db"))
    active = spans.tracer.start_as_current_span("request")
    with contextlib.closing(connection), connection, active as request:
        job = program.beat.in_transaction(connection).send(program.work.call(1))
    assert (await program.stored(job.id)).traceparent == traceparent_of(request)
    await program.beat.aclose()


async def test_a_call_that_a_task_yields_has_the_attempt_as_its_sender(
    program: Program, spans: Spans
) -> None:
    async with program.beat:
        await (await program.yields.asend()).aresult(30)
        (process,) = await span_of(spans, "process work")
    parent = spans.the("process yields")
    assert process.parent.span_id == parent.get_span_context().span_id
    assert trace_of(process) == trace_of(parent)


async def test_a_snooze_is_no_error_and_a_stop_is_none(program: Program, spans: Spans) -> None:
    async with program.beat:
        await program.later.asend()
        (later,) = await span_of(spans, "process later")
        job = await program.block.asend()
        await eventually(lambda: program.beat._running.runtime.worker.running, "it runs")
        await program.beat.jobs.acancel(job.id)
        (block,) = await span_of(spans, "process block")
    assert (later.attributes["onbeat.outcome"], later.status.is_ok, later.events) == (
        "snoozed", True, (),
    )  # fmt: skip
    assert (block.attributes["onbeat.outcome"], block.status.is_ok) == ("stopped", True)


async def test_a_timeout_is_an_error(program: Program, spans: Spans) -> None:
    async with program.beat:
        await program.block.options(timeout=0.05).asend()
        (block,) = await span_of(spans, "process block")
    assert (block.attributes["onbeat.outcome"], block.status.is_ok) == ("failed", False)
    assert block.attributes["error.type"] == "TimeoutError"
    assert [event.name for event in block.events] == ["exception"]


async def test_a_refused_send_is_an_error_without_its_words(program: Program, spans: Spans) -> None:
    async with serving(program) as client:
        refused = await client.post("/api/jobs", {"task": "work", "queue": "a/canary"})
    assert refused.status == 422
    send = spans.the("send")
    assert (send.status.is_ok, send.attributes["error.type"]) == (False, "Invalid")
    assert "canary" not in send.to_json()
    assert send.events == ()


@contextlib.asynccontextmanager
async def serving(program: Program) -> AsyncIterator[RestClient]:
    await program.beat.backend.open()
    yield RestClient(build_api(program.beat.backend.context))
    await program.beat.aclose()


async def test_a_repeated_request_may_come_with_another_trace(
    program: Program, spans: Spans
) -> None:
    body = {"task": "work", "unique": "one"}
    async with serving(program) as client:
        key = {"Idempotency-Key": "same"}
        first = await client.post("/api/jobs", body, traceparent=CALLER, **key)
        again = await client.post("/api/jobs", body, traceparent=CALLER.replace("0a", "0b"), **key)
        other = await client.post("/api/jobs", body)
        job = await program.stored(first.json["id"])
    assert (again.status, again.json) == (first.status, first.json)
    assert (other.json["id"], other.json["created"]) == (first.json["id"], False)
    assert job.traceparent.split("-")[1] == TRACE


async def test_a_trace_that_is_not_sampled_stays_so() -> None:
    spans = Spans(sampler=ALWAYS_OFF)
    program = Program(spans)
    job = await program.work.asend(1)
    assert (await program.stored(job.id)).traceparent[-3:] == "-00"
    assert spans.exporter.get_finished_spans() == ()
    await program.beat.aclose()
    ACTIVE.read = None


@pytest.fixture
def untraced() -> None:
    ACTIVE.read = None


async def test_an_attempt_that_its_receiver_took_on_is_no_error(spans: Spans) -> None:
    clock = StoppedClock()

    async def take_on(_run: Any) -> Outcome:
        raise HandedOver(clock.now())

    runner = TracedRunner(Scripted(take_on), spans.tracing, clock)
    with pytest.raises(HandedOver):
        await runner.run(UnleasedRun(a_job()))
    (span,) = spans.exporter.get_finished_spans()
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())


@pytest.mark.usefixtures("untraced")
async def test_without_a_tracer_the_trace_of_a_request_goes_on_to_the_callback() -> None:
    beat = Onbeat("memory://", options=Options(retry=ONCE, http=HttpOptions(private_allowed=True)))
    async with beat:
        client = RestClient(build_api(beat.backend.context))
        with receiving() as (url, received):
            job = {"target": {"http": {"url": url, "method": "POST"}}}
            sent = await client.post("/api/jobs", job, traceparent=CALLER, tracestate=STATE)
            assert sent.status == 201
            await eventually(lambda: received, "the callback")
            stored = await beat.jobs.aget(sent.json["id"])
            assert (stored.traceparent, stored.tracestate) == (CALLER, STATE)
            job["target"]["http"]["url"] += "/untraced"
            assert (await client.post("/api/jobs", job)).status == 201
            await eventually(lambda: len(received) == 2, "the other callback")
    assert (received[0]["traceparent"], received[0]["tracestate"]) == (CALLER, STATE)
    assert not {"traceparent", "tracestate"} & {*received[1]}
    assert (active_trace(), active_ids()) == (None, {})


@pytest.mark.usefixtures("untraced")
async def test_without_a_tracer_a_notice_passes_the_trace_on() -> None:
    with receiving() as (url, received):
        hook = url.replace("http://", "webhook+http://")
        options = Options(channels={"hook": hook}, http=HttpOptions(private_allowed=True))
        beat = Onbeat("memory://", options=options)
        async with beat:
            client = RestClient(build_api(beat.backend.context))
            notice = {"channel": "hook", "text": "hello"}
            sent = await client.post("/api/notifications", notice, traceparent=CALLER)
            assert sent.status < 300, sent.json
            await eventually(lambda: received, "the notice")
    assert received[0]["traceparent"] == CALLER


async def test_messages_carry_the_trace_in_both_directions(spans: Spans) -> None:
    """From a message that submits a job, to the call of a worker elsewhere and to a message."""
    program = Program(
        spans,
        transport="memory://traced",
        remote_tasks=("export",),
        connections={"here": "memory://traced"},
    )
    broker = open_broker("memory://traced")
    await broker.open()
    async with program.beat:
        for task, id in (("export", "1"), ("work", "2")):
            call = {"jsonrpc": "2.0", "method": f"submit:{task}", "params": {}}
            headers = {"traceparent": CALLER, "tracestate": STATE}
            body = msgspec.json.encode(call)
            await broker.publish("onbeat.submit", [Envelope(body=body, id=id, headers=headers)])
        (process,) = await span_of(spans, "process work")
        (send,) = await span_of(spans, "send export")
        work = await received_from(broker, "onbeat.work.default")
        await program.beat.asend(message("here", "news", {"a": 1}))
        (publish,) = await span_of(spans, "process @message:here")
        news = await received_from(broker, "news")
    await broker.close()
    assert {trace_of(process), trace_of(send)} == {TRACE}
    assert work.headers["traceparent"] == traceparent_of(send)
    assert work.headers["tracestate"] == process.context.trace_state.to_header() == STATE
    assert news.headers["traceparent"] == traceparent_of(publish)
    assert "tracestate" not in news.headers, "nobody gave one to that job"


async def received_from(broker: Any, queue: str) -> Any:
    async with broker.consumer(queue, 1) as consumer:

        async def first() -> Any:
            return next(iter(await consumer.receive(1, 1.0)), None)

        delivery = await eventually(first, f"a message on {queue}")
        await consumer.acknowledge([delivery])
        return delivery


@pytest.mark.parametrize("header", ["", "nonsense", f"{CALLER}-more"])
async def test_a_malformed_trace_of_a_message_is_as_none(
    spans: Spans, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    caplog.set_level("DEBUG")
    program = Program(spans, transport="memory://malformed")
    broker = open_broker("memory://malformed")
    await broker.open()
    async with program.beat:
        body, headers = b'{"jsonrpc": "2.0", "method": "submit:work"}', {"traceparent": header}
        await broker.publish("onbeat.submit", [Envelope(body=body, id="1", headers=headers)])
        (send,) = await span_of(spans, "send work")
    await broker.close()
    assert send.parent is None
    assert any("message.traceparent_ignored" in record.message for record in caplog.records)


async def test_an_attempt_that_is_closed_from_outside_ends_its_span(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    async def attempt() -> None:
        with spans.tracing.attempt(a_job(), SECOND):
            await asyncio.Event().wait()

    running = attempt()
    contextvars.copy_context().run(running.send, None)
    running.close()
    (span,) = await span_of(spans, "process mail.welcome")
    assert span.attributes["error.type"] == "GeneratorExit"
    assert span.attributes["onbeat.lateness_seconds"] == 1
    assert caplog.records == []


LIBRARY = """
import asyncio, sys
from onbeat import Onbeat
beat = Onbeat("memory://")

@beat.task("work")
def work() -> str:
    from onbeat.ports.tracing import active_trace
    return str(getattr(active_trace(), "parent", None))

async def main() -> None:
    async with beat:
        print(await (await work.asend()).aresult(30))
"""
TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda s: s.name + "\\n")))
trace.set_tracer_provider(provider)
asyncio.run(main())
"""
WITHIN_TRANSACTIONS = """
import apsw
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from onbeat import Onbeat

async def store() -> None:
    async with Onbeat("sqlite:///shop.db"):
        pass

import asyncio
asyncio.run(store())
trace.set_tracer_provider(TracerProvider())
beat = Onbeat("sqlite:///shop.db")

@beat.task("work")
def work() -> None: ...

with apsw.Connection("shop.db") as connection:
    with trace.get_tracer("shop").start_as_current_span("request") as span:
        job = beat.in_transaction(connection).send(work.call())
    print(format(span.get_span_context().trace_id, "032x"))
print(str(beat.jobs.get(job.id).traceparent).split("-")[1])
beat.close()
"""
UNTRACED = """
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def output_of(folder: Path, program: str) -> list[str]:
    (folder / "program.py").write_text(program)
    environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    ran = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_provider_that_a_program_has_set_is_used(tmp_path: Path) -> None:
    lines = output_of(tmp_path, LIBRARY + TRACED)
    assert {"send work", "process work"} <= {*lines}
    assert any(line.startswith("00-") for line in lines)


def test_a_program_that_only_sends_in_its_transactions_is_traced(tmp_path: Path) -> None:
    lines = output_of(tmp_path, WITHIN_TRANSACTIONS)
    assert lines[0] == lines[1] != "None"


def test_a_program_without_one_imports_nothing_of_it(tmp_path: Path) -> None:
    assert output_of(tmp_path, LIBRARY + UNTRACED) == ["None", "[]"]
