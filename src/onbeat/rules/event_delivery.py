"""Which jobs read events, and what becomes of one whose events are gone."""

from typing import Final

from msgspec.structs import replace

from onbeat.model.event import Event, EventCause
from onbeat.model.job import Job
from onbeat.model.outcome import Failed
from onbeat.rules.job_events import DEPTH

GONE: Final = Failed(
    "the events that it was made for are deleted; they are kept for `prune.events_after`",
    retryable=False,
)
"""The outcome of an attempt that finds none of its events."""


def reads_events(job: Job) -> bool:
    """Whether the job was made for events, which its target gets."""
    return job.cause is not None and job.cause.carried


def with_depth(event: Event, cause: EventCause | None) -> Event:
    """The event as published by a handler whose job has this cause: as deep as that."""
    if cause is None or cause.depth == 0:
        return event
    return replace(event, extensions={**event.extensions, DEPTH: cause.depth})


def inherited_cause(cause: EventCause | None) -> EventCause | None:
    """The cause of jobs that a job with this cause sends: the same events, which they do not read.

    So the bound of events that cause each other holds for them, too.
    """
    return None if cause is None else replace(cause, carried=False)
