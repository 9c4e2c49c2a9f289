"""What is kept for those who watch, and that nothing is while nobody does."""

from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.job import Job, JobState
from onbeat.model.live import LiveBatch, LiveCounts, LiveEvent, event_of
from onbeat.rules import live_feed
from onbeat.rules.live_feed import (
    EVENTS_HERE_MAX,
    EVENTS_SENT_MAX,
    LATENESS_STEPS,
    LiveFeed,
    Outlet,
    add_counts,
    moved,
    percentile,
)
from onbeat.testing.build import NOW, SECOND, a_job

EVENT = LiveEvent(kind="queue", id="mail", at=NOW, to="paused")


def test_nobody_reads_at_first() -> None:
    feed = LiveFeed()
    assert not feed.is_read
    feed.on_reader()
    feed.note(EVENT)
    feed.made([a_job()], NOW)
    assert feed.open_here().take() == LiveBatch()


def test_a_feed_is_read_here_and_elsewhere() -> None:
    feed, came = LiveFeed(), list[int]()
    feed.on_reader = lambda: came.append(1)
    here = feed.open_here()
    assert feed.is_read
    assert came == [1]
    feed.open_away()
    away = feed.away
    feed.open_away()
    assert feed.away is away is not None
    feed.note(EVENT)
    assert here.take().events == away.take().events == (EVENT,)
    feed.close_here()
    assert feed.is_read
    feed.close_away()
    assert not feed.is_read
    feed.open_away()
    assert feed.is_read
    feed.open_here()
    feed.close_away()
    assert feed.is_read
    feed.close_here()
    assert not feed.is_read


def test_starts_and_ends_are_events_and_counts() -> None:
    feed = LiveFeed()
    here = feed.open_here()
    job = a_job(queue="mail", schedule_id="s", labels={"a": "b"}, flow="f")
    running = replace(job, state=JobState.RUNNING, attempt=2)
    feed.made([job], NOW)
    feed.started(running, NOW, 0.4)
    feed.ended(replace(running, state=JobState.WAITING), NOW + SECOND, "failed")
    feed.ended(replace(running, state=JobState.FAILED), NOW + SECOND, None)
    feed.ended(replace(running, state=JobState.SUCCEEDED), NOW + SECOND, None)
    batch = here.take()
    assert [(one.before, one.to, one.attempt, one.cause) for one in batch.events] == [
        (None, "waiting", None, None),
        ("waiting", "running", 2, None),
        ("running", "waiting", 2, "failed"),
        ("running", "failed", 2, None),
        ("running", "succeeded", 2, None),
    ]
    (event, *_) = batch.events
    assert (event.id, event.queue, event.schedule_id, event.flow, event.labels) == (
        job.id,
        "mail",
        "s",
        "f",
        {"a": "b"},
    )
    counts = batch.counts
    assert (counts.started, counts.succeeded, counts.failed) == (1, 1, 1)
    assert sum(counts.lateness) == 1
    assert here.take() == LiveBatch()


@pytest.mark.parametrize("most", [EVENTS_HERE_MAX, EVENTS_SENT_MAX])
def test_an_outlet_keeps_the_newest_and_counts_the_others(most: int) -> None:
    outlet = Outlet(most)
    for _ in range(most):
        outlet.note(EVENT)
    assert outlet.take().missed == 0
    for number in range(most + 3):
        outlet.note(replace(EVENT, id=str(number)))
    batch = outlet.take()
    assert (len(batch.events), batch.missed) == (most, 3)
    assert batch.events[-1].id == str(most + 2)
    assert outlet.take().missed == 0


def test_a_drain_makes_no_events_that_nobody_can_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start and end is counted; other changes are kept beside them."""
    made: list[str] = []

    def counted(job: Job, *args: Any, **named: Any) -> LiveEvent:
        made.append(job.id)
        return event_of(job, *args, **named)

    monkeypatch.setattr(live_feed, "event_of", counted)
    feed = LiveFeed()
    outlet = feed.open_here()
    job = a_job()
    for _ in range(EVENTS_HERE_MAX):
        feed.started(job, NOW, 1.0)
        feed.ended(replace(job, state=JobState.SUCCEEDED), NOW, None)
    assert len(made) == EVENTS_HERE_MAX
    feed.note(replace(EVENT, kind="alert"))
    batch = outlet.take()
    assert (batch.counts.started, batch.counts.succeeded) == (EVENTS_HERE_MAX, EVENTS_HERE_MAX)
    assert (len(batch.events), batch.events[-1].kind) == (EVENTS_HERE_MAX, "alert")
    assert batch.missed == EVENTS_HERE_MAX + 1
    feed.started(job, NOW, 1.0)
    assert len(outlet.take().events) == 1, "there is room again"


def test_what_another_process_saw_is_added() -> None:
    outlet = Outlet(2)
    outlet.note_start(0.0)
    lateness = (1,) * (len(LATENESS_STEPS) + 5)
    counts = LiveCounts(1, 2, 3, lateness)
    outlet.bring(LiveBatch((EVENT, EVENT, EVENT), counts, missed=4))
    batch = outlet.take()
    assert (len(batch.events), batch.missed) == (2, 6), "its own start was counted alone"
    assert (batch.counts.started, batch.counts.succeeded, batch.counts.failed) == (2, 2, 3)
    assert batch.counts.lateness == (2, *(1,) * len(LATENESS_STEPS))


def test_counts_are_added_up() -> None:
    one, other = LiveCounts(1, 2, 3, (1, 2)), LiveCounts(4, 5, 6)
    assert add_counts(one, other) == add_counts(other, one) == LiveCounts(5, 7, 9, (1, 2))
    assert moved(one)
    assert moved(LiveCounts(failed=1))
    assert not moved(LiveCounts())


@pytest.mark.parametrize(
    ("seconds", "share", "found"),
    [
        ([], 0.5, None),
        ([0.0], 0.5, 0.0005),
        ([0.0], 1.0, 0.001),
        ([0.0015] * 4, 0.5, 0.0015),
        ([0.0] * 9 + [60.0], 0.9, 0.001),
        ([0.0] * 9 + [60.0], 0.95, 40.0),
        ([10**6], 0.95, LATENESS_STEPS[-1]),
    ],
)
def test_percentiles_are_read_from_the_buckets(
    seconds: list[float], share: float, found: float | None
) -> None:
    outlet = Outlet(1)
    for one in seconds:
        outlet.note_start(one)
    assert percentile(outlet.take().counts.lateness, share) == found


def test_a_share_beyond_all_is_the_last_bound() -> None:
    assert percentile((1, 0), 1.5) == LATENESS_STEPS[-1]


def test_of_very_many_new_jobs_the_rest_is_counted() -> None:
    feed = LiveFeed()
    here = feed.open_here()
    feed.made([a_job()] * (EVENTS_HERE_MAX + 7), NOW)
    batch = here.take()
    assert (len(batch.events), batch.missed) == (EVENTS_HERE_MAX, 7)
