"""One consumer of one queue."""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from redis.exceptions import ResponseError

from onbeat.model.errors import Unavailable
from onbeat.ports.transport import Delivery
from onbeat.transports.reconnect import Fraction, Reconnector
from onbeat.transports.redis.config import RedisConfig
from onbeat.transports.redis.connection import Command, Connection, Reply, checked_reply, is_error
from onbeat.transports.redis.group import make_group, sweep_consumers
from onbeat.transports.redis.messages import GROUP, delivery, ids_of

BLOCK_SECONDS: Final = 0.5  # of one read; closing waits for its end
SWEEP_SECONDS: Final = 1.0  # between checks for messages that other consumers have left
IDS_MAX: Final = 1_000  # in one command

# A reply is kept in memory until all of it is read, and its size is unknown in advance.
READ_MESSAGES: Final = 10  # of one reply
READ_BYTES: Final = 4 << 20  # after which no further reply is requested

LEFT: Final = "onbeat:left"
"""The consumer that holds messages that were given back; it is never read from."""

LEFT_IDLE: Final = 30 * 86_400_000
"""Milliseconds; longer than any visibility, so that others may claim the messages at once."""


class RedisConsumer:
    """Reads only as many messages as requested, so that none waits here while others are free."""

    def __init__(
        self,
        config: RedisConfig,
        connection: Connection,
        key: str,
        prefetch: int,
        fraction: Fraction,
    ) -> None:
        self._config = config
        self._connection = connection
        self._key = key
        self._prefetch = max(1, prefetch)
        self._name = f"{config.name}:{secrets.token_hex(8)}"
        self._waiting: deque[Delivery] = deque()
        self._held: dict[object, float] = {}
        self._freed = asyncio.Event()
        self._reading = Reconnector(self._read, fraction)
        self._wanted = 0
        self._until = 0.0
        self._sweep_at = 0.0
        self._cursor: bytes = b"0-0"
        self._joined = False

    async def receive(self, limit: int, wait: float) -> Sequence[Delivery]:
        until = now() + wait
        while not self._waiting:
            if not await self._has_room(until):
                return ()
            self._wanted, self._until = max(1, min(limit, self._room)), until
            # The read continues after its caller stops waiting: its messages would be lost.
            if not await self._reading.succeeds_by(until):
                return ()
            if not self._waiting and now() >= until:
                return ()
        return self._take_waiting(limit)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """If the server is unavailable, unacknowledged messages are delivered again."""
        for one in deliveries:
            self._held.pop(one.receipt, None)
        self._freed.set()
        for ids in batches_of_ids(ids_of(self._key, deliveries)):
            # One transaction: an entry that is acknowledged but not deleted would never be read
            # again.
            await self._run_ignoring_loss(
                ("MULTI",),
                ("XACK", self._key, GROUP, *ids),
                ("XDEL", self._key, *ids),
                ("EXEC",),
            )

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        self._held |= {one.receipt: now() for one in deliveries if one.receipt in self._held}
        for ids in batches_of_ids(ids_of(self._key, deliveries)):
            await self._run_ignoring_loss(
                ("XCLAIM", self._key, GROUP, self._name, 0, *ids, "JUSTID")
            )

    async def close(self) -> None:
        """Gives back all messages; without the server they are claimed after `visibility`."""
        await self._end_reading()
        self._waiting.clear()
        self._held.clear()
        if not self._joined:
            return
        try:
            while ids := await self._pending():
                await self._connection.run(
                    ("XCLAIM", self._key, GROUP, LEFT, 0, *ids, "IDLE", LEFT_IDLE, "JUSTID")
                )
            await self._connection.run(("XGROUP", "DELCONSUMER", self._key, GROUP, self._name))
        except Unavailable:
            return

    async def _end_reading(self) -> None:
        """Waits for the read to end: a cancelled read could still take messages."""
        try:
            await self._reading.wait_until_idle()
        finally:
            await self._reading.cancel()

    async def _pending(self) -> list[bytes]:
        (listed,) = await self._connection.run(
            ("XPENDING", self._key, GROUP, "-", "+", IDS_MAX, self._name)
        )
        # Without the stream or the group there is nothing to give back.
        return [] if isinstance(listed, ResponseError) else [entry[0] for entry in listed]

    @property
    def _room(self) -> int:
        return self._prefetch - len(self._held)

    def _take_waiting(self, limit: int) -> list[Delivery]:
        count = min(limit, self._room, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._held |= dict.fromkeys((one.receipt for one in taken), now())
        return taken

    async def _has_room(self, until: float) -> bool:
        """Waits for room. A message held for longer than `visibility` belongs to others by then."""
        while self._room <= 0:
            lost_at = min(self._held.values()) + self._config.visibility
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, lost_at)):
                    await self._freed.wait()
            since = now() - self._config.visibility
            self._held = {receipt: at for receipt, at in self._held.items() if at > since}
            if self._room <= 0 and now() >= until:
                return False
        return True

    async def _run_ignoring_loss(self, *commands: Command) -> None:
        try:
            await self._connection.run(*commands)
        except Unavailable:
            return

    async def _read(self) -> None:
        if not self._joined:
            await make_group(self._connection, self._key, self._config.url)
            await sweep_consumers(self._connection, self._key, kept=LEFT)
            self._joined = True
        if now() >= self._sweep_at:
            await self._claim()
            self._sweep_at = now() + (SWEEP_SECONDS if self._cursor == b"0-0" else 0.0)
        block = 0.0 if self._waiting else min(BLOCK_SECONDS, self._until - now())
        while (count := self._lacking()) and await self._read_new(count, block) == count:
            block = 0.0

    def _lacking(self) -> int:
        """How many messages the next reply may have; 0 when enough are waiting here."""
        if sum(len(one.body) for one in self._waiting) >= READ_BYTES:
            return 0
        return min(READ_MESSAGES, self._wanted - len(self._waiting))

    async def _claim(self) -> None:
        """Takes over messages that others have held for too long, or given back."""
        idle = int(self._config.visibility * 1000)
        (answer,) = await self._connection.run(
            (
                "XAUTOCLAIM",
                self._key,
                GROUP,
                self._name,
                idle,
                self._cursor,
                "COUNT",
                min(READ_MESSAGES, self._wanted),
            )
        )
        if not self._without_group(answer):
            self._cursor, entries = checked_reply(answer, self._config.url)[:2]
            await self._take(entries)

    async def _read_new(self, count: int, block: float) -> int:
        """Returns how many messages arrived; waits for the first."""
        milliseconds = int(block * 1000)
        waits = ("BLOCK", milliseconds) if milliseconds > 0 else ()
        (answer,) = await self._connection.run(
            (
                "XREADGROUP",
                "GROUP",
                GROUP,
                self._name,
                "COUNT",
                count,
                *waits,
                "STREAMS",
                self._key,
                ">",
            ),
            block=max(block, 0.001),
        )
        if self._without_group(answer):
            return 0
        entries = [
            entry for _, some in checked_reply(answer, self._config.url) or () for entry in some
        ]
        await self._take(entries)
        return len(entries)

    def _without_group(self, answer: Reply) -> bool:
        """Whether the stream was deleted, or the server has lost its data: join again."""
        if is_error(answer, "NOGROUP", "UNBLOCKED"):
            self._joined = False
        return not self._joined

    async def _take(self, entries: Sequence[Reply]) -> None:
        self._waiting += [delivery(self._key, entry) for entry in entries if entry[1]]
        # Older servers deliver entries that were deleted while they were held.
        if gone := [entry[0] for entry in entries if not entry[1]]:
            await self._run_ignoring_loss(("XACK", self._key, GROUP, *gone))


def now() -> float:
    return asyncio.get_running_loop().time()


def batches_of_ids(ids: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(ids), IDS_MAX):
        yield ids[start : start + IDS_MAX]
