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
from onbeat.transports.attempts import Attempts, Fraction
from onbeat.transports.redis.entries import GROUP, delivery, ids_of
from onbeat.transports.redis.group import make_group, sweep_consumers
from onbeat.transports.redis.place import Place
from onbeat.transports.redis.wire import Command, Reply, Wire, good, is_error

BLOCK_SECONDS: Final = 0.5  # of one read; leaving waits for the end of one
SWEEP_SECONDS: Final = 1.0  # between looks for what others have left
IDS_MAX: Final = 1_000  # in one command

# A reply is held as it came until all of it is read, and nobody knows before how large it will be.
READ_MESSAGES: Final = 10  # of one reply
READ_BYTES: Final = 4 << 20  # after which no further reply is asked for

LEFT: Final = "onbeat:left"
"""The consumer that holds what others gave back; nobody reads as it."""

LEFT_IDLE: Final = 30 * 86_400_000
"""Milliseconds; longer than anybody's visibility, so that others may claim it at once."""


class RedisInbox:
    """Reads what is asked for and no more, so that nothing waits here while another has time."""

    def __init__(
        self, place: Place, wire: Wire, key: str, prefetch: int, fraction: Fraction
    ) -> None:
        self._place = place
        self._wire = wire
        self._key = key
        self._prefetch = max(1, prefetch)
        self._name = f"{place.name}:{secrets.token_hex(8)}"
        self._waiting: deque[Delivery] = deque()
        self._held: dict[object, float] = {}
        self._freed = asyncio.Event()
        self._reading = Attempts(self._read, fraction)
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
            # The read goes on when nobody waits for it any more: what it brings would be lost.
            if not await self._reading.made(until):
                return ()
            if not self._waiting and now() >= until:
                return ()
        return self._taken(limit)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """What cannot be told to a server that is away comes once more."""
        for one in deliveries:
            self._held.pop(one.receipt, None)
        self._freed.set()
        for ids in parts(ids_of(self._key, deliveries)):
            # Not one without the other: what is acknowledged and not deleted is never seen again.
            await self._tell(
                ("MULTI",),
                ("XACK", self._key, GROUP, *ids),
                ("XDEL", self._key, *ids),
                ("EXEC",),
            )

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        self._held |= {one.receipt: now() for one in deliveries if one.receipt in self._held}
        for ids in parts(ids_of(self._key, deliveries)):
            await self._tell(("XCLAIM", self._key, GROUP, self._name, 0, *ids, "JUSTID"))

    async def leave(self) -> None:
        """Gives everything back at once; without the server it is claimed after its time."""
        await self._end_reading()
        self._waiting.clear()
        self._held.clear()
        if not self._joined:
            return
        try:
            while ids := await self._pending():
                await self._wire.ask(
                    ("XCLAIM", self._key, GROUP, LEFT, 0, *ids, "IDLE", LEFT_IDLE, "JUSTID")
                )
            await self._wire.ask(("XGROUP", "DELCONSUMER", self._key, GROUP, self._name))
        except Unavailable:
            return

    async def _end_reading(self) -> None:
        """A read that is cut off may still take messages for a reader who is gone."""
        try:
            await self._reading.rest()
        finally:
            await self._reading.end()

    async def _pending(self) -> list[bytes]:
        (listed,) = await self._wire.ask(
            ("XPENDING", self._key, GROUP, "-", "+", IDS_MAX, self._name)
        )
        # Without the stream or the group there is nothing to give back.
        return [] if isinstance(listed, ResponseError) else [entry[0] for entry in listed]

    @property
    def _room(self) -> int:
        return self._prefetch - len(self._held)

    def _taken(self, limit: int) -> list[Delivery]:
        count = min(limit, self._room, len(self._waiting))
        taken = [self._waiting.popleft() for _ in range(count)]
        self._held |= dict.fromkeys((one.receipt for one in taken), now())
        return taken

    async def _has_room(self, until: float) -> bool:
        """Waits for it; what was held for too long is another's by now and takes no room here."""
        while self._room <= 0:
            lost_at = min(self._held.values()) + self._place.visibility
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until, lost_at)):
                    await self._freed.wait()
            since = now() - self._place.visibility
            self._held = {receipt: at for receipt, at in self._held.items() if at > since}
            if self._room <= 0 and now() >= until:
                return False
        return True

    async def _tell(self, *commands: Command) -> None:
        try:
            await self._wire.ask(*commands)
        except Unavailable:
            return

    async def _read(self) -> None:
        if not self._joined:
            await make_group(self._wire, self._key, self._place.url)
            await sweep_consumers(self._wire, self._key, kept=LEFT)
            self._joined = True
        if now() >= self._sweep_at:
            await self._claim()
            self._sweep_at = now() + (SWEEP_SECONDS if self._cursor == b"0-0" else 0.0)
        block = 0.0 if self._waiting else min(BLOCK_SECONDS, self._until - now())
        while (count := self._lacking()) and await self._read_new(count, block) == count:
            block = 0.0

    def _lacking(self) -> int:
        """How many messages the next reply may have; none when what waits here is enough."""
        if sum(len(one.body) for one in self._waiting) >= READ_BYTES:
            return 0
        return min(READ_MESSAGES, self._wanted - len(self._waiting))

    async def _claim(self) -> None:
        """Takes over what others hold for too long, or have given back."""
        idle = int(self._place.visibility * 1000)
        (answer,) = await self._wire.ask(
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
            self._cursor, entries = good(answer, self._place.url)[:2]
            await self._take(entries)

    async def _read_new(self, count: int, block: float) -> int:
        """How many came; waits for the first of them."""
        milliseconds = int(block * 1000)
        waits = ("BLOCK", milliseconds) if milliseconds > 0 else ()
        (answer,) = await self._wire.ask(
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
        entries = [entry for _, some in good(answer, self._place.url) or () for entry in some]
        await self._take(entries)
        return len(entries)

    def _without_group(self, answer: Reply) -> bool:
        """The stream was deleted, or the server has forgotten everything: start anew."""
        if is_error(answer, "NOGROUP", "UNBLOCKED"):
            self._joined = False
        return not self._joined

    async def _take(self, entries: Sequence[Reply]) -> None:
        self._waiting += [delivery(self._key, entry) for entry in entries if entry[1]]
        # An older server hands out what was deleted while somebody held it.
        if gone := [entry[0] for entry in entries if not entry[1]]:
            await self._tell(("XACK", self._key, GROUP, *gone))


def now() -> float:
    return asyncio.get_running_loop().time()


def parts(ids: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(ids), IDS_MAX):
        yield ids[start : start + IDS_MAX]
