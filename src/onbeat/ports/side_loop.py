"""The port to an event loop beside the main one, which no handler can block."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

Main = Callable[[], Coroutine[Any, Any, None]]


class SideLoop(Protocol):
    """Runs one coroutine function in an event loop of its own."""

    def start(self, main: Main) -> None:
        """Begin to run `main`. Called once."""
        ...

    async def join(self) -> None:
        """Wait until `main` has returned. The caller has asked it to return."""
        ...


OpenSideLoop = Callable[[], SideLoop]
