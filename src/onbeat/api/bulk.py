"""Limits how many large bodies are held in memory at once."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from onbeat.model.errors import Unavailable
from onbeat.model.limits import BULK_BODIES_MAX, REQUEST_BYTES_MAX

Take = Callable[[], None]
"""Takes a slot, once, before more of a body is read. Raises `Unavailable` when none is free."""


class BulkSlots:
    """Slots for bodies over `REQUEST_BYTES_MAX`."""

    def __init__(self, most: int = BULK_BODIES_MAX) -> None:
        self.most = most
        self.free = most

    @contextmanager
    def slot(self) -> Generator[Take]:
        """A function that takes a slot, which is released at the end."""
        taken = False

        def take() -> None:
            nonlocal taken
            if taken:
                return
            if not self.free:
                raise Unavailable(
                    f"{self.most} bodies over {REQUEST_BYTES_MAX} bytes are being taken in, which"
                    " is the most at once; send it again in a moment, or in smaller parts"
                )
            self.free -= 1
            taken = True

        try:
            yield take
        finally:
            self.free += taken
