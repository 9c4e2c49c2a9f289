"""The event behind the job that runs here, for what its handler sends."""

from contextvars import ContextVar
from typing import Final

from onbeat.model.event import EventCause

CAUSE: Final = ContextVar[EventCause | None]("onbeat_cause", default=None)
"""Threads and tasks that a handler starts in the usual ways have it too."""


def running_cause() -> EventCause | None:
    """The cause of a job that is sent here and now; None outside of handlers."""
    return CAUSE.get()


class caused_by:  # noqa: N801  a `with` reads as a sentence
    """What is sent within has this cause. No generator: each attempt pays for it."""

    __slots__ = ("before", "cause")

    def __init__(self, cause: EventCause | None) -> None:
        self.cause = cause

    def __enter__(self) -> None:
        self.before = CAUSE.get()
        CAUSE.set(self.cause)

    def __exit__(self, *_: object) -> None:
        # Not by a token, which only the context that it came from takes: a coroutine may be closed
        # from outside.
        CAUSE.set(self.before)
