"""What carries claimed jobs from dispatcher to worker."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from onbeat.model.job import Job


class Transport(Protocol):
    """The channel of one process: jobs are handed over as they are.

    A claimed job that gets lost on the way comes back when its worker is given up.
    """

    def room(self) -> int:
        """How many more jobs may be sent just now; full is an answer, not an error."""
        ...

    async def send(self, jobs: Sequence[Job]) -> None: ...

    async def receive(self) -> Sequence[Job]:
        """The next jobs, at least one; waits for them."""
        ...


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message as it is published. `id` is the broker's message id, where it has one.

    A `fleeting` one need not outlast a restart of the broker: it is sent again where it is missed.
    """

    body: bytes
    id: str
    headers: dict[str, str] = {}
    key: str | None = None
    fleeting: bool = False


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An envelope as it came in; `receipt` is what the broker wants back at its acknowledgement."""

    body: bytes
    headers: dict[str, str]
    receipt: object
    id: str = ""


class Inbox(Protocol):
    """One consumer of one queue. What was received and not acknowledged is delivered again."""

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Up to `limit` messages that are there; waits up to `wait` seconds for the first.

        Raises `Unavailable` when the broker is away; the next call tries to reach it again. What
        was received before that may come again, and its receipts may be void.
        """
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """These are done with. A void receipt is no error: the message will come once more."""
        ...

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """They are being worked on: do not deliver them to others yet. Nothing, where the broker
        waits for as long as the consumer lives.
        """
        ...


class Broker(Protocol):
    """A message broker, as far as all of them are alike.

    Every message may be lost, doubled, late or out of order without harm: the store alone decides.
    So a broker has to be quick, bounded in memory, and honest about being away. Queues are made
    when they are first used, durable, under the names given (a name with a character that the
    broker does not allow is changed in one fixed way). May be used from one event loop.
    """

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        ...

    async def open(self) -> None:
        """Get ready, without waiting for a broker that is away. Raises `Misconfigured`."""
        ...

    async def close(self) -> None:
        """End all connections. May be called twice."""
        ...

    async def ping(self) -> None:
        """Raises `Unavailable` unless the broker answers."""
        ...

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Returns when the broker has confirmed all of them, as durable as it keeps anything but
        what is fleeting.

        Raises `Unavailable` where it did not; some may have got through. Raises `TooLarge`, before
        any is sent, for one that the broker would not take.
        """
        ...

    def inbox(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Inbox]:
        """A consumer that is handed at most `prefetch` messages without acknowledging them.

        Entering does not wait for a broker that is away. Leaving gives back what was not
        acknowledged.
        """
        ...

    async def depth(self, queue: str) -> int | None:
        """Messages that wait in the queue, roughly; None where the broker cannot tell."""
        ...

    async def purge(self, queue: str) -> None:
        """Drop what waits in the queue; for tests and for an operator's clean-up."""
        ...
