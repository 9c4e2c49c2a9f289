"""Tells a service outside, again and again, that all is well; its silence is the alarm."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from onbeat.model.errors import OnbeatError
from onbeat.telemetry.structured_log import Log

if TYPE_CHECKING:
    import aiohttp

TIMEOUT_SECONDS: Final = 10
STATUS_REFUSED: Final = 400

log = Log("onbeat.watchdog")

WhatIsWrong = Callable[[], Awaitable[str | None]]
"""Why not all is well, in words; None if it is. May raise an `OnbeatError` instead."""


class Watchdog:
    """Calls `url` by GET each `interval` while nothing is wrong.

    The URL is never logged, as whoever knows it could pretend that all is well.
    """

    def __init__(self, url: str, interval: timedelta, what_is_wrong: WhatIsWrong) -> None:
        self.url = url
        self.interval = interval.total_seconds()
        self.what_is_wrong = what_is_wrong
        self.silent_for: str | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        import aiohttp  # noqa: PLC0415  only with this setting

        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                self.note(await self.reason() or await self.tell(session))
                await asyncio.sleep(self.interval)

    async def reason(self) -> str | None:
        try:
            return await self.what_is_wrong()
        except OnbeatError as error:
            return str(error)

    async def tell(self, session: "aiohttp.ClientSession") -> str | None:
        """Why it could not be told; None if it was."""
        import aiohttp  # noqa: PLC0415  as above

        try:
            async with session.get(self.url, allow_redirects=False) as answer:
                refused = answer.status >= STATUS_REFUSED
                return f"the watchdog answered {answer.status}" if refused else None
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"the watchdog could not be reached: {type(error).__name__}"

    def note(self, reason: str | None) -> None:
        """Log when it becomes silent, with the first reason, and when it is told again."""
        if reason is not None and self.silent_for is None:
            log.warning("watchdog.silent", reason=reason)
        elif reason is None and self.silent_for is not None:
            log.info("watchdog.heard_again")
        self.silent_for = reason
