"""Publishes messages to brokers that the configuration names."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome, Snoozed, Succeeded
from onbeat.model.target import NO_BODY, MessageTarget
from onbeat.model.trace_context import trace_context
from onbeat.ports.target import Run
from onbeat.ports.tracing import active_trace
from onbeat.ports.transport import Broker, Envelope
from onbeat.rules.shortage import shortage_in
from onbeat.targets.breaker import Breakers, GuardedCall
from onbeat.targets.descriptors import LOADING_DESCRIPTORS, check_descriptors
from onbeat.wire.cloud_events import delivered

JOB_HEADER: Final = "onbeat-job-id"
ATTEMPT_HEADER: Final = "onbeat-attempt"
SCHEDULE_HEADER: Final = "onbeat-schedule-id"
OCCURRENCE_HEADER: Final = "onbeat-occurrence"
CONTENT_TYPE: Final = "content-type"


ANSWER_SECONDS: Final = 1.0
"""How long messages wait for a broker that has not answered since its last failure. Connecting
continues in the background; the messages give back their slots in the worker.
"""


class BrokerConnection:
    """A broker connection; however many messages wait for it, it connects once."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.is_proven = False
        self.asking: asyncio.Task[None] | None = None

    async def publish(self, queue: str, envelope: Envelope) -> None:
        """Raises `Unavailable`, soon if the broker is unavailable, and `TooLarge`."""
        if not self.is_proven:
            await self.ping_once()
        try:
            await self.broker.publish(queue, [envelope])
        except Unavailable:
            self.is_proven = False
            raise

    async def ping_once(self) -> None:
        asking = self.asking = self.asking or asyncio.create_task(self.broker.ping())
        done, _ = await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        if not done:
            raise Unavailable(f"{self.broker.url}: no answer within {ANSWER_SECONDS:g} s")
        if self.asking is asking:
            self.asking = None
        asking.result()
        self.is_proven = True

    async def close(self) -> None:
        if self.asking is not None:
            self.asking.cancel()
            await asyncio.gather(self.asking, return_exceptions=True)
        await self.broker.close()


class MessageRunner:
    """A job succeeds when the broker has confirmed its message.

    The message's id is the job's, the same at every attempt, so that receivers can drop duplicates.
    A connection is opened for its first message. Each connection has a circuit breaker: while the
    broker seems unavailable, messages are postponed at no cost of an attempt.
    """

    def __init__(
        self, urls: Mapping[str, str], connect: Callable[[str], Broker], breakers: Breakers
    ) -> None:
        self.urls = urls
        self.connect = connect
        self.breakers = breakers
        self.connections: dict[str, BrokerConnection] = {}
        self.opening = asyncio.Lock()

    async def open(self) -> None:
        """Does nothing: a connection is opened for its first message."""

    async def close(self) -> None:
        connections, self.connections = self.connections, {}
        for connection in connections.values():
            await connection.close()

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, MessageTarget), "runs messages only"
        if target.to not in self.urls:
            return Failed(f"this worker has no connection named {target.to!r}")
        call = self.breakers.call(f"connection {target.to!r}", run.job)
        if isinstance(call, Snoozed):
            return call
        with call:
            return await self.publish(envelope(run.job, target, run.events), target, call)

    async def publish(self, message: Envelope, target: MessageTarget, call: GuardedCall) -> Outcome:
        try:
            connection = await self.connection(target.to)
            await connection.publish(target.queue, message)
        except TooLarge as error:
            call.succeed()
            return Failed(str(error), retryable=False)
        except Unavailable as error:
            if shortage_in(error) is not None:
                raise
            check_descriptors()  # not every client reports why it could not connect
            call.fail(str(error))
            return Failed(str(error))
        call.succeed()
        return Succeeded()

    async def connection(self, name: str) -> BrokerConnection:
        if name not in self.connections:
            async with self.opening:
                if name not in self.connections:
                    check_descriptors(LOADING_DESCRIPTORS)
                    broker = self.connect(self.urls[name])
                    await broker.open()
                    self.connections[name] = BrokerConnection(broker)
        return self.connections[name]


def envelope(job: Job, target: MessageTarget, events: Sequence[Event] = ()) -> Envelope:
    """The message; without a body of its own, its body are the events."""
    body, headers = body_of(target.body), target.headers
    if events and target.body == NO_BODY:
        body, kind = delivered(events)
        headers = {CONTENT_TYPE: kind} | headers
    return Envelope(body=body, id=job.id, headers=headers | own_headers(job), key=job.group)


def body_of(body: msgspec.Raw) -> bytes:
    """A text is sent as it is, any other value as JSON."""
    text = bytes(body)
    return msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text


def own_headers(job: Job) -> dict[str, str]:
    headers = {JOB_HEADER: job.id, ATTEMPT_HEADER: str(job.attempt)}
    if job.schedule_id is not None:
        headers[SCHEDULE_HEADER] = job.schedule_id
    trace = active_trace() or trace_context(job.traceparent, job.tracestate)
    if trace is not None:
        headers |= trace.headers()
    if job.occurrence is not None:
        headers[OCCURRENCE_HEADER] = msgspec.to_builtins(job.occurrence)
    return headers
