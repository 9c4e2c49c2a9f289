"""A proxy that loses answers: the request went through, and what came back did not."""

import asyncio
import itertools
from collections.abc import Callable

from transports.proxy import Proxy


class LossyProxy(Proxy):
    """Ends the connections that `loses` says, by their number from 0, once an answer comes."""

    def __init__(self, port: int, loses: Callable[[int], bool]) -> None:
        super().__init__("127.0.0.1", port)
        self.loses = loses
        self.numbers = itertools.count()
        self.lost = 0

    async def carry(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        if not self.loses(next(self.numbers)):
            await super().carry(near_in, near_out)
            return
        far_in, far_out = await asyncio.open_connection(self.host, self.port)
        sending = asyncio.create_task(self.pass_on(near_in, far_out))
        try:
            if await far_in.read(1):
                self.lost += 1
        finally:
            sending.cancel()
            far_out.transport.abort()
