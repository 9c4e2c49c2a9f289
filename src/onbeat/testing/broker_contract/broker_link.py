"""The traits of the broker under test, and the link to its server."""

from typing import Final, Protocol

import msgspec

SLICE: Final = 0.5
"""Seconds that a test waits in one call of `receive`."""


class BrokerLink(Protocol):
    """The link from the broker under test to its server.

    A proxy between them that can be cut is best; a server that restarts with all its data is
    enough.
    """

    async def disconnect(self) -> None:
        """Close all connections over the link and refuse new ones."""
        ...

    async def reconnect(self) -> None:
        """Allow connections again. Does nothing on a connected link."""
        ...


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in which brokers may differ."""

    too_large: int
    """The size in bytes of a body that the broker refuses."""

    visibility: float = 1.0
    """Seconds after which a message without `extend` goes to another inbox.

    Keep the default for a broker that waits as long as the consumer lives.
    """

    visibility_ends: bool = True
    """Whether visibility ends; False if a broker waits as long as the consumer lives."""

    timeout: float = 3.0
    """Seconds within which a publish is confirmed or fails, as configured in `broker`."""

    patience: float = 20.0
    """Seconds to wait for expected messages, including redelivery after a death."""
