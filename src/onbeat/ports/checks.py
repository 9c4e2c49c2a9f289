"""Checks of this process and what it depends on, as `onbeat doctor` makes them."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import msgspec

from onbeat.ports.store import Finding


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and when."""

    at: datetime
    findings: tuple[Finding, ...]


Examine = Callable[[], Awaitable[Checkup | None]]
"""The newest checkup; None while the first one has not ended."""


async def no_checkup() -> Checkup | None:
    return None
