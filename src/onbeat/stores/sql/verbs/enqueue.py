"""Adds jobs."""

from collections.abc import Awaitable, Callable, Sequence

from onbeat.model.errors import Unavailable
from onbeat.ports.store import Enqueued


async def until_stored(
    add: Callable[[], Awaitable[Sequence[Enqueued | None]]], tries_max: int
) -> list[Enqueued]:
    """Repeat `add` while a unique key is held by a job that ends before it can be read.

    Repeating is harmless for the jobs stored already.
    """
    for _ in range(tries_max):
        answers = await add()
        stored = [answer for answer in answers if answer is not None]
        if len(stored) == len(answers):
            return stored
    raise Unavailable("the unique key changes hands too often; try again")
