"""What stands behind `memory://NAME`: queues that live and end with this process."""

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
MESSAGE_BYTES: Final = 1 << 10  # about what one costs beside its body and headers


class Bell:
    """Wakes one who waits in the event loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            self._loop.call_soon_threadsafe(self._rung.set)

    def hush(self) -> None:
        self._rung.clear()

    async def wait(self, until: float) -> None:
        """Until it rings, or that instant of the loop's time."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._rung.wait()


class Consumer:
    """An inbox as the server knows it; `held` is what it was given and has not acknowledged."""

    def __init__(self, queue: str, prefetch: int, bell: Bell) -> None:
        self.queue = queue
        self.prefetch = prefetch
        self.bell = bell
        self.held: dict[object, Envelope] = {}


class MemoryServer:
    """Shared by all brokers of one name, in any thread.

    As a server elsewhere does, it can stop and start again: its consumers then lose what they
    hold, and no message is lost.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, deque[Envelope]] = defaultdict(deque)
        self._consumers: defaultdict[str, set[Consumer]] = defaultdict(set)
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
                consumer.bell.ring()

    def answer(self) -> None:
        """Raises `Unavailable` while it is stopped."""
        if self._is_stopped:
            raise Unavailable(f"{self.url} is stopped")

    def put(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """All of them or none. Raises `Unavailable`."""
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

    def take(self, consumer: Consumer, limit: int) -> list[Delivery]:
        """What waits, within the limit and the consumer's prefetch. Raises `Unavailable`."""
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

    def drop(self, consumer: Consumer, receipts: Sequence[object]) -> None:
        """The consumer is done with these; a receipt of what it does not hold means nothing."""
        with self._lock:
            done = [consumer.held.pop(one) for one in receipts if one in consumer.held]
            self._bytes -= sum(map(size_of, done))
        consumer.bell.ring()

    def join(self, consumer: Consumer) -> None:
        with self._lock:
            self._consumers[consumer.queue].add(consumer)

    def take_back(self, consumer: Consumer) -> None:
        """What it holds waits again."""
        with self._lock:
            self._take_back(consumer)

    def part(self, consumer: Consumer) -> None:
        """The consumer is gone."""
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

    def _all_consumers(self) -> list[Consumer]:
        return [one for consumers in self._consumers.values() for one in consumers]

    def _take_back(self, consumer: Consumer) -> None:
        """In front, in the order in which it was given."""
        if consumer.held:
            self._waiting[consumer.queue].extendleft(reversed(consumer.held.values()))
            consumer.held.clear()
            self._wake(consumer.queue)

    def _wake(self, queue: str) -> None:
        for consumer in self._consumers.get(queue, ()):
            consumer.bell.ring()


def size_of(envelope: Envelope) -> int:
    texts = (*envelope.headers.keys(), *envelope.headers.values())
    return MESSAGE_BYTES + len(envelope.body) + sum(map(len, texts))


def delivery(receipt: object, envelope: Envelope) -> Delivery:
    return Delivery(
        body=envelope.body, headers=dict(envelope.headers), receipt=receipt, id=envelope.id
    )


SERVERS: Final[dict[str, MemoryServer]] = {}


def server_named(name: str) -> MemoryServer:
    """The one of this process under that name, for as long as the process lives."""
    return SERVERS.setdefault(name, MemoryServer(f"memory://{name}"))
