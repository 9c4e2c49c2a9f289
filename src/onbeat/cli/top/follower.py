"""Asks for pictures while the terminal is open, and goes on where the store is away."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from onbeat.app.backend import Backend
from onbeat.app.remote_backend import RemoteBackend
from onbeat.app.service_stream import events_of
from onbeat.cli.top.answers import Asker, may_operate
from onbeat.cli.top.picture import picture_of
from onbeat.cli.top.records import Picture
from onbeat.model.errors import OnbeatError, RateLimited, Unavailable

Connect = Callable[[], contextlib.AbstractAsyncContextManager[Backend]]

EVERY: Final = 2.0
"""Seconds between two pictures, and between two tries."""
EVERY_STREAMED: Final = 5.0
"""The same while a stream tells of changes: ages grow without one."""
EVERY_MIN: Final = 1.0
KINDS: Final = "changed,pulse"
PASSING: Final = (Unavailable, RateLimited)


class Follower:
    """Shows a picture whenever something may have changed.

    `on_picture` is given each one, `on_away` the error of each try that failed. `backend` is the
    one that is asked, None until the store is open. `is_streamed` says whether a stream tells of
    changes; else it asks again every two seconds.
    """

    def __init__(
        self,
        connect: Connect,
        on_picture: Callable[[Picture], None],
        on_away: Callable[[OnbeatError], None],
    ) -> None:
        self.connect = connect
        self.on_picture = on_picture
        self.on_away = on_away
        self.backend: Backend | None = None
        self.may_change = False
        self.is_streamed = False
        self.woken = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled. Raises an `OnbeatError` that no further try would mend."""
        while True:
            try:
                async with self.connect() as backend:
                    self.may_change = await may_operate(backend)
                    self.backend = backend
                    await self.follow(backend)
            except PASSING as error:
                self.on_away(error)
                await asyncio.sleep(EVERY)
            finally:
                self.backend = None

    async def follow(self, backend: Backend) -> None:
        asker, listener = Asker(backend), None
        if isinstance(backend, RemoteBackend):
            listener = asyncio.create_task(self.listen(backend))
        try:
            while True:
                self.woken.clear()
                try:
                    self.on_picture(picture_of(await asker.ask()))
                except PASSING as error:
                    self.on_away(error)
                await self.wait()
        finally:
            if listener is not None:
                listener.cancel()

    async def wait(self) -> None:
        """Until something may have changed; many changes at once are one."""
        await asyncio.sleep(EVERY_MIN)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY_STREAMED if self.is_streamed else EVERY):
                await self.woken.wait()

    def look_again(self) -> None:
        self.woken.set()

    async def listen(self, backend: RemoteBackend) -> None:
        """A service without a stream, or one that is away, is asked every two seconds."""
        while True:
            with contextlib.suppress(OnbeatError):
                async for _ in events_of(backend.client, KINDS):
                    self.is_streamed = True
                    self.woken.set()
            self.is_streamed = False
            await asyncio.sleep(EVERY)
