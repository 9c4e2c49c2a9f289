"""The server behind `memory://NAME`: queues that live as long as this process."""

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery, Envelope

BYTES_MAX: Final = 256 << 20
MESSAGE_BYTES: Final = 1 << 10  # approximate overhead of a message


class LoopWakeup:
    """Wakes a waiter in the event loop in which it was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def wake(self) -> None:
        """Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended: nothing waits
            self._loop.call_soon_threadsafe(self._rung.set)

    def clear(self) -> None:
        self._rung.clear()

    async def wait(self, until: float) -> None:
        """Returns after `wake`, or at that instant of the loop's time."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._rung.wait()


class Subscription:
    """The server's view of a consumer; `held` are its unacknowledged messages."""

    def __init__(self, queue: str, prefetch: int, bell: LoopWakeup) -> None:
        self.queue = queue
        self.prefetch = prefetch
        self.wakeup = bell
        self.held: dict[object, Envelope] = {}


class MemoryServer:
    """Shared by all brokers of one name, across threads.

    Like a remote server it can stop and start again: its consumers then lose the messages that they
    hold, and no message is lost.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[Envelope]] = defaultdict(deque)
        self._consumers: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._bytes = 0
        self._receipts = count(1)
        self._is_stopped = False

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            for consumer in self._all_consumers():
                self._take_back(consumer)

    def start(self) -> None:
        with self._lock:
            self._is_stopped = False
            for consumer in self._all_consumers():
                consumer.wakeup.wake()

    def answer(self) -> None:
        """Raises `Unavailable` while it is stopped."""
        if self._is_stopped:
            raise Unavailable(f"{self.url} is stopped")

    def put(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Add all messages or none. Raises `Unavailable`."""
        size = sum(map(size_of, envelopes))
        with self._lock:
            self.answer()
            if self._bytes + size > BYTES_MAX:
                raise Unavailable(
                    f"{self.url} is full: what waits in it would be over {BYTES_MAX:,} bytes"
                )
            self._bytes += size
            self._waiting[queue].extend(envelopes)
            self._wake(queue)

    def take(self, consumer: Subscription, limit: int) -> list[Delivery]:
        """Waiting messages, within the limit and the consumer's prefetch. Raises `Unavailable`."""
        with self._lock:
            self.answer()
            room = min(limit, consumer.prefetch - len(consumer.held))
            waiting = self._waiting.get(consumer.queue, deque())
            taken = [
                (next(self._receipts), waiting.popleft()) for _ in range(min(room, len(waiting)))
            ]
            consumer.held |= taken
            if not waiting:
                self._waiting.pop(consumer.queue, None)
        return [delivery(receipt, envelope) for receipt, envelope in taken]

    def drop(self, consumer: Subscription, receipts: Sequence[object]) -> None:
        """Acknowledges messages; receipts that the consumer does not hold are ignored."""
        with self._lock:
            done = [consumer.held.pop(receipt) for receipt in receipts if receipt in consumer.held]
            self._bytes -= sum(map(size_of, done))
        consumer.wakeup.wake()

    def join(self, consumer: Subscription) -> None:
        with self._lock:
            self._consumers[consumer.queue].add(consumer)

    def take_back(self, consumer: Subscription) -> None:
        """Requeues the messages that the consumer holds."""
        with self._lock:
            self._take_back(consumer)

    def part(self, consumer: Subscription) -> None:
        """Removes the consumer."""
        with self._lock:
            self._take_back(consumer)
            self._consumers[consumer.queue].discard(consumer)
            if not self._consumers[consumer.queue]:
                del self._consumers[consumer.queue]

    def depth(self, queue: str) -> int:
        with self._lock:
            self.answer()
            return len(self._waiting.get(queue, ()))

    def purge(self, queue: str) -> None:
        with self._lock:
            self.answer()
            self._bytes -= sum(map(size_of, self._waiting.pop(queue, ())))

    def _all_consumers(self) -> list[Subscription]:
        return [consumer for consumers in self._consumers.values() for consumer in consumers]

    def _take_back(self, consumer: Subscription) -> None:
        """Requeues at the front, in the original order."""
        if consumer.held:
            self._waiting[consumer.queue].extendleft(reversed(consumer.held.values()))
            consumer.held.clear()
            self._wake(consumer.queue)

    def _wake(self, queue: str) -> None:
        for consumer in self._consumers.get(queue, ()):
            consumer.wakeup.wake()


def size_of(envelope: Envelope) -> int:
    texts = (*envelope.headers.keys(), *envelope.headers.values())
    return MESSAGE_BYTES + len(envelope.body) + sum(map(len, texts))


def delivery(receipt: object, envelope: Envelope) -> Delivery:
    return Delivery(
        body=envelope.body, headers=dict(envelope.headers), receipt=receipt, id=envelope.id
    )


SERVERS: Final[dict[str, MemoryServer]] = {}


def server_named(name: str) -> MemoryServer:
    """The server of that name in this process; it is kept as long as the process lives."""
    return SERVERS.setdefault(name, MemoryServer(f"memory://{name}"))
