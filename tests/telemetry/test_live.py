"""What the engine reports reaches those who watch, and nobody else."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.ids import WorkerId
from onbeat.model.job import JobState
from onbeat.model.outcome import (
    Cancelled,
    Failed,
    Lost,
    Outcome,
    Released,
    Snoozed,
    Succeeded,
)
from onbeat.rules.live_feed import LiveFeed
from onbeat.telemetry.composite import CompositeTelemetry, cause_of, no_clock
from onbeat.testing.build import NOW, a_job

OVER = timedelta(seconds=1)


def test_starts_and_ends_are_told_while_somebody_reads() -> None:
    feed = LiveFeed()
    telemetry = CompositeTelemetry(live=feed, now=lambda: NOW)
    running = replace(a_job(), state=JobState.RUNNING, attempt=1)
    ended = replace(running, state=JobState.SUCCEEDED)
    waiting = replace(running, state=JobState.WAITING)
    telemetry.started(running, 1.0)
    here = feed.open_here()
    telemetry.made([a_job()])
    telemetry.started(running, 1.0)
    telemetry.ended(ended, Succeeded(), 1.0)
    telemetry.rescued(waiting, WorkerId("w1"))
    batch = here.take()
    assert [(event.before, event.to, event.at) for event in batch.events] == [
        (None, "waiting", NOW),
        ("waiting", "running", NOW),
        ("running", "succeeded", NOW),
        ("running", "waiting", NOW),
    ]
    assert batch.events[-1].cause == "its worker was lost"
    assert (batch.counts.started, batch.counts.succeeded) == (1, 1)
    feed.close_here()
    telemetry.ended(ended, Succeeded(), 1.0)
    assert feed.open_here().take().events == ()


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        (Succeeded(), None),
        (Failed("Traceback: secret"), "failed"),
        (Snoozed(OVER, "the breaker is open"), "the breaker is open"),
        (Cancelled("by hand"), "by hand"),
        (Lost("its worker died"), "its worker died"),
        (Released(), "released"),
    ],
)
def test_a_cause_says_why_without_the_error(outcome: Outcome, cause: str | None) -> None:
    job = a_job()
    assert cause_of(job, outcome) == cause
    assert cause_of(replace(job, reason="too late"), outcome) == "too late"


def test_a_feed_of_its_own_has_no_time() -> None:
    telemetry = CompositeTelemetry()
    telemetry.made([a_job()])
    assert not telemetry.live.is_read
    assert no_clock().tzinfo is not None
