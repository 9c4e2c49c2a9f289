"""Message brokers, which carry claimed jobs from dispatchers to workers."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message to publish. `id` is the broker's message id, where it has one.

    A `fleeting` message need not survive a restart of the broker: it is sent again when it is
    missed. A `direct` one answers a delivery: it goes to the queue `reply_to` of that, whose reader
    has made it, and is dropped where there is none. `correlation_id` is that of the delivery.
    """

    body: bytes
    id: str
    headers: dict[str, str] = {}
    key: str | None = None
    fleeting: bool = False
    direct: bool = False
    correlation_id: str = ""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A received envelope; `receipt` is what the broker requires for its acknowledgement.

    `reply_to` is where its sender waits for an answer, in the broker's own way; "" where the broker
    has none.
    """

    body: bytes
    headers: dict[str, str]
    receipt: object
    id: str = ""
    reply_to: str = ""
    correlation_id: str = ""


class Consumer(Protocol):
    """One consumer of one queue. Messages received but not acknowledged are delivered again."""

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        """Up to `limit` available messages; waits up to `wait` seconds for the first.

        Raises `Unavailable` when the broker is away; the next call reconnects. Messages received
        before that may be delivered again, and their receipts may be void.
        """
        ...

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledge messages. A void receipt is no error: the message will be delivered again."""
        ...

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Extend the visibility timeout of messages in progress. No-op for brokers without one."""
        ...


class Broker(Protocol):
    """The common interface of message brokers.

    Every message may be lost, doubled, late or out of order without harm: only the store decides. A
    broker only has to be fast, bounded in memory, and report when it is away. Queues are created on
    first use, durable, under the given names (characters that the broker does not allow are always
    replaced in the same way). May be used from one event loop.
    """

    @property
    def url(self) -> str:
        """The URL, without secrets."""
        ...

    async def open(self) -> None:
        """Prepare for use, without waiting for a broker that is away. Raises `Misconfigured`."""
        ...

    async def close(self) -> None:
        """Close all connections. May be called twice."""
        ...

    async def ping(self) -> None:
        """Raises `Unavailable` unless the broker answers."""
        ...

    async def publish(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Returns when the broker has confirmed all messages, durably except for fleeting ones.

        Raises `Unavailable` where it did not confirm; some may have been published. Raises
        `TooLarge`, before any is sent, for a message over the broker's limit.
        """
        ...

    def consumer(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        """A consumer with at most `prefetch` unacknowledged messages.

        Entering does not wait for a broker that is away. Leaving returns unacknowledged messages.
        """
        ...

    async def depth(self, queue: str) -> int | None:
        """The approximate number of waiting messages; None where the broker cannot tell."""
        ...

    async def purge(self, queue: str) -> None:
        """Drop all messages waiting in the queue; for tests and for an operator's clean-up."""
        ...
