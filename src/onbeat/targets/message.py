"""Publishes messages to brokers that the configuration names."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from onbeat.model.errors import TooLarge, Unavailable
from onbeat.model.job import Job
from onbeat.model.outcome import Failed, Outcome, Succeeded
from onbeat.model.target import MessageTarget
from onbeat.ports.target import Run
from onbeat.ports.transport import Broker, Envelope

JOB_HEADER: Final = "onbeat-job-id"
ATTEMPT_HEADER: Final = "onbeat-attempt"
SCHEDULE_HEADER: Final = "onbeat-schedule-id"
OCCURRENCE_HEADER: Final = "onbeat-occurrence"


class MessageRunner:
    """A job succeeds when the broker has confirmed its message.

    The message's id is the job's, the same at every attempt: receivers drop repeats by it. A
    connection is made when the first message needs it.
    """

    def __init__(self, urls: Mapping[str, str], connect: Callable[[str], Broker]) -> None:
        self.urls = urls
        self.connect = connect
        self.brokers: dict[str, Broker] = {}
        self.opening = asyncio.Lock()

    async def open(self) -> None:
        """Nothing is opened before a message needs it."""

    async def close(self) -> None:
        brokers, self.brokers = self.brokers, {}
        for broker in brokers.values():
            await broker.close()

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, MessageTarget), "runs messages only"
        if target.to not in self.urls:
            return Failed(f"this worker has no connection named {target.to!r}")
        try:
            broker = await self.broker(target.to)
            await broker.publish(target.queue, [envelope(run.job, target)])
        except TooLarge as error:
            return Failed(str(error), retryable=False)
        except Unavailable as error:
            return Failed(str(error))
        return Succeeded()

    async def broker(self, name: str) -> Broker:
        if name not in self.brokers:
            async with self.opening:
                if name not in self.brokers:
                    broker = self.connect(self.urls[name])
                    await broker.open()
                    self.brokers[name] = broker
        return self.brokers[name]


def envelope(job: Job, target: MessageTarget) -> Envelope:
    return Envelope(
        body=body_of(target.body),
        id=job.id,
        headers=target.headers | own_headers(job),
        key=job.group,
    )


def body_of(body: msgspec.Raw) -> bytes:
    """A text is sent as it is, everything else as JSON."""
    text = bytes(body)
    return msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text


def own_headers(job: Job) -> dict[str, str]:
    headers = {JOB_HEADER: job.id, ATTEMPT_HEADER: str(job.attempt)}
    if job.schedule_id is not None:
        headers[SCHEDULE_HEADER] = job.schedule_id
    if job.occurrence is not None:
        headers[OCCURRENCE_HEADER] = msgspec.to_builtins(job.occurrence)
    return headers
