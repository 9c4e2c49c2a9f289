"""A program with a task that does nothing, for `onbeat load`: `onbeat up onbeat.testing.load`."""

from typing import Final

from onbeat.app.client import Onbeat

TASK: Final = "onbeat.load"

beat = Onbeat()


@beat.task(TASK)
async def nothing(payload: str = "") -> None:
    """Take the payload, and do nothing with it."""
