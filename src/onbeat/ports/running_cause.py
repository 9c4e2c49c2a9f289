"""The event behind the job that runs here, for what its handler sends."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from onbeat.model.event import EventCause

CAUSE: Final = ContextVar[EventCause | None]("onbeat_cause", default=None)
"""Threads and tasks that a handler starts in the usual ways have it too."""


def running_cause() -> EventCause | None:
    """The cause of a job that is sent here and now; None outside of handlers."""
    return CAUSE.get()


@contextmanager
def caused_by(cause: EventCause | None) -> Generator[None, None, None]:
    """What is sent within has this cause."""
    before = CAUSE.get()
    CAUSE.set(cause)
    try:
        yield
    finally:
        # Not by a token, which only the context that it came from takes: a coroutine may be closed
        # from outside.
        CAUSE.set(before)
