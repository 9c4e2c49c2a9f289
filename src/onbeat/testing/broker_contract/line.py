"""What the contract has to know of the broker under test, and how it takes it away."""

from typing import Final, Protocol

import msgspec

SLICE: Final = 0.5
"""Seconds for which a test waits in one call of `receive`."""


class Line(Protocol):
    """The way from the broker under test to its server.

    A proxy between them that can be cut is best; a server that can be stopped and started again
    with all that it keeps will do.
    """

    async def cut(self) -> None:
        """Ends all connections over it and lets no new one through."""
        ...

    async def mend(self) -> None:
        """Lets connections through again. Harmless on a line that is whole."""
        ...


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers may differ."""

    too_large: int
    """Bytes of a body that the broker does not take."""

    visibility: float = 1.0
    """Seconds after which it gives a message to another inbox that nobody extends. One that waits
    for as long as its consumer lives may leave this as it is.
    """

    visibility_ends: bool = True
    """Whether it does; False where it waits for as long as the consumer lives."""

    timeout: float = 3.0
    """Seconds within which a publish is confirmed or fails, as `broker` was told."""

    patience: float = 20.0
    """Seconds within which what has to come must have come, with redelivery after a death."""
