"""A proxy that loses answers: the request went through, and what came back did not."""

import asyncio
import itertools
from collections.abc import Callable

from transports.proxy import CHUNK, Proxy, both


class LossyProxy(Proxy):
    """Loses the answers that `loses` says, by the number of their request from 0.

    Requests of one connection come one after the other. An answer is lost with its connection, once
    it comes.
    """

    def __init__(self, port: int, loses: Callable[[int], bool]) -> None:
        super().__init__("127.0.0.1", port)
        self.loses = loses
        self.numbers = itertools.count()
        self.lost = 0

    async def carry(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        far_in, far_out = await asyncio.open_connection(self.host, self.port)
        is_answered, is_lost = True, False

        async def requests() -> None:
            nonlocal is_answered, is_lost
            while data := await near_in.read(CHUNK):
                if is_answered:
                    is_answered, is_lost = False, self.loses(next(self.numbers))
                far_out.write(data)
                await far_out.drain()

        async def answers() -> None:
            nonlocal is_answered
            while data := await far_in.read(CHUNK):
                if is_lost:
                    self.lost += 1
                    return
                is_answered = True
                near_out.write(data)
                await near_out.drain()

        try:
            await both(requests(), answers())
        finally:
            far_out.transport.abort()
