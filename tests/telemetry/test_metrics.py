"""What a scrape shows, parsed back as Prometheus would."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.limits import COUNTED_MAX, SERIES_MAX
from onbeat.model.outcome import Cancelled, Failed, Lost, Released, Snoozed, Succeeded
from onbeat.model.pulse import EndedCounts, Gauges, Totals
from onbeat.model.queue import Queue
from onbeat.model.target import HttpTarget
from onbeat.model.transition import Stats
from onbeat.telemetry.composite import CompositeTelemetry, NullTelemetry
from onbeat.telemetry.counters import QUEUES_MAX, Counters
from onbeat.telemetry.metrics import FRESH_SECONDS, Metrics
from telemetry.jobs import NOON, SECOND, a_job


class Store:
    def __init__(
        self,
        queues: list[Queue] | tuple[Any, ...] = (),
        stats: Stats | None = None,
        error: Unavailable | None = None,
    ) -> None:
        self.readings = 0
        self.found = queues
        self.sample: Gauges | None = None
        self.error = error
        self.counted = stats or Stats(jobs={}, schedules={}, workers=0, oldest_due_seconds=0.0)

    async def queues(
        self, now: datetime, sampled: Gauges | None = None
    ) -> list[Queue] | tuple[Any, ...]:
        self.readings += 1
        if self.error:
            raise self.error
        return self.found

    async def newest_sample(self, resolution: int) -> Gauges | None:
        return self.sample

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats:
        return replace(self.counted, jobs={**self.counted.jobs, **(ended or {})})


def scrape(metrics: Metrics) -> dict[str, Any]:
    """Samples by name and labels, as Prometheus writes them."""
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    return {
        sample.name + str(dict(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def sample(metrics: Metrics, name: str, **labels: Any) -> float:
    return scrape(metrics)[name + str(dict(sorted(labels.items())))]


@pytest.fixture
def counts() -> Counters:
    return Counters(seconds=lambda: 1234.5)


@pytest.fixture
def metrics(counts: Counters) -> Metrics:
    return Metrics(counts, monotonic=lambda: 0.0)


def test_starts_and_lateness_are_counted_by_queue_and_task(
    counts: Counters, metrics: Metrics
) -> None:
    for lateness in (0.0005, 0.003, 0.2, 7200):
        counts.started(a_job(queue="mail"), lateness)
    labels = {"queue": "mail", "task": "mail.welcome"}
    assert sample(metrics, "onbeat_job_starts_total", **labels) == 4
    assert sample(metrics, "onbeat_job_lateness_seconds_count", **labels) == 4
    assert sample(metrics, "onbeat_job_lateness_seconds_sum", **labels) == pytest.approx(7200.2035)
    for bound, count in (("0.001", 1), ("0.005", 2), ("0.25", 3), ("3600.0", 3), ("7200.0", 4)):
        assert sample(metrics, "onbeat_job_lateness_seconds_bucket", **labels, le=bound) == count


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (Succeeded(), "succeeded"),
        (Failed("x"), "failed"),
        (Snoozed(SECOND), "snoozed"),
        (Cancelled("x"), "cancelled"),
        (Lost("x"), "lost"),
        (Released(), "released"),
    ],
)
def test_outcomes_are_counted_by_name(
    counts: Counters, metrics: Metrics, outcome: Any, name: str
) -> None:
    counts.ended(a_job(), outcome, 1.0)
    labels = {"queue": "default", "task": "mail.welcome"}
    assert sample(metrics, "onbeat_job_outcomes_total", **labels, outcome=name) == 1
    assert sample(metrics, "onbeat_job_duration_seconds_bucket", **labels, le="1.0") == 1
    assert sample(metrics, "onbeat_job_duration_seconds_bucket", **labels, le="0.5") == 0


def test_callbacks_are_one_task(counts: Counters, metrics: Metrics) -> None:
    counts.started(a_job(target=HttpTarget("http://a/1")), 1.0)
    counts.started(a_job(target=HttpTarget("http://b/2")), 1.0)
    assert sample(metrics, "onbeat_job_starts_total", queue="default", task="@http") == 2


def test_the_loops_are_counted(counts: Counters, metrics: Metrics) -> None:
    counts.planned(5, 2)
    counts.lease_lost(a_job())
    counts.rescued(a_job(), WorkerId("w1"))
    counts.pruned(7)
    counts.unplannable(None, ValueError())
    counts.loop_failed("planner", ValueError())
    counts.loop_beat("planner")
    result = scrape(metrics)
    assert result["onbeat_planned_jobs_total{}"] == 5
    assert result["onbeat_skipped_occurrences_total{}"] == 2
    assert result["onbeat_leases_lost_total{}"] == 1
    assert result["onbeat_jobs_rescued_total{}"] == 1
    assert result["onbeat_jobs_pruned_total{}"] == 7
    assert result["onbeat_unplannable_schedules_total{}"] == 1
    assert result["onbeat_loop_failures_total{'loop': 'planner'}"] == 1
    assert result["onbeat_loop_last_round_timestamp_seconds{'loop': 'planner'}"] == 1234.5


def test_breakers_are_counted_as_they_open_and_while_they_are_open(
    counts: Counters, metrics: Metrics
) -> None:
    counts.breaker_changed("http://a:80", is_open=True)
    counts.breaker_changed("http://b:80", is_open=True)
    counts.breaker_changed("http://a:80", is_open=False)
    result = scrape(metrics)
    assert result["onbeat_breakers_opened_total{}"] == 2
    assert result["onbeat_breakers_open{}"] == 1


def test_attempts_put_off_for_want_of_means_are_counted(counts: Counters, metrics: Metrics) -> None:
    counts.ran_short("open files")
    counts.ran_short("open files")
    assert scrape(metrics)["onbeat_shortages_total{'means': 'open files'}"] == 2


def test_connections_and_what_was_refused_are_there(counts: Counters, metrics: Metrics) -> None:
    counts.connections.open, counts.connections.limit = 3, 40
    counts.connections.refused["full"] = 2
    result = scrape(metrics)
    assert result["onbeat_api_connections{}"] == 3
    assert result["onbeat_api_connections_max{}"] == 40
    assert result["onbeat_api_refused_total{'reason': 'full'}"] == 2


def test_steps_of_the_clock_are_counted_in_both_directions(
    counts: Counters, metrics: Metrics
) -> None:
    counts.clock_stepped(3_600.0)
    counts.clock_stepped(-3_600.0)
    assert scrape(metrics)["onbeat_clock_steps_total{}"] == 2


def test_a_loops_silence_is_told_by_the_clock_that_its_beats_were_noted_by() -> None:
    shown = [100.0]
    counts = Counters(lambda: shown[0])
    counts.loop_beat("planner")
    shown[0] = 130.0
    counts.loop_beat("rescuer")
    assert counts.silences() == {"planner": 30.0, "rescuer": 0.0}


def test_the_process_itself_is_measured(metrics: Metrics) -> None:
    result = scrape(metrics)
    assert result["process_cpu_seconds_total{}"] > 0


def test_names_of_callers_cannot_make_more_than_so_many_series(
    counts: Counters, metrics: Metrics
) -> None:
    for n in range(SERIES_MAX * 3):
        counts.started(a_job(f"task-{n}", queue=f"queue-{n % (QUEUES_MAX * 3)}"), 1.0)
    assert len(counts.series) <= SERIES_MAX + QUEUES_MAX + 1
    result = scrape(metrics)
    starts = {name: n for name, n in result.items() if name.startswith("onbeat_job_starts_total")}
    assert sum(starts.values()) == SERIES_MAX * 3
    assert "onbeat_job_starts_total{'queue': 'other', 'task': 'other'}" in starts


async def test_queues_and_figures_are_read_from_the_store(metrics: Metrics) -> None:
    mail = Queue(name="mail", waiting=5, due=2, running=1, oldest_due_at=NOON - 3 * SECOND)
    stats = Stats(
        jobs={"waiting": 5, "failed": 1},
        schedules={"active": 2},
        workers=3,
        oldest_due_seconds=3.0,
        unknown_tasks={"lost": 4},
    )
    await metrics.refresh(Store([mail, Queue(name="idle", paused=True)], stats), NOON)
    result = scrape(metrics)
    assert result["onbeat_queue_depth{'queue': 'mail', 'state': 'waiting'}"] == 5
    assert result["onbeat_queue_depth{'queue': 'mail', 'state': 'due'}"] == 2
    assert result["onbeat_queue_depth{'queue': 'mail', 'state': 'running'}"] == 1
    assert result["onbeat_queue_oldest_due_seconds{'queue': 'mail'}"] == 3
    assert result["onbeat_queue_oldest_due_seconds{'queue': 'idle'}"] == 0
    assert result["onbeat_queue_paused{'queue': 'idle'}"] == 1
    assert result["onbeat_jobs{'state': 'failed'}"] == 1
    assert result["onbeat_schedules{'status': 'active'}"] == 2
    assert result["onbeat_workers{}"] == 3
    assert result["onbeat_unknown_task_jobs{'task': 'lost'}"] == 4
    assert result["onbeat_store_up{}"] == 1


async def test_a_reading_is_shared_while_it_is_fresh(counts: Counters) -> None:
    now = [0.0]
    metrics = Metrics(counts, monotonic=lambda: now[0])
    store = Store()
    await metrics.refresh(store, NOON)
    await metrics.refresh(store, NOON)
    assert store.readings == 1
    now[0] = FRESH_SECONDS
    await metrics.refresh(store, NOON)
    assert store.readings == 2


async def test_a_store_that_is_away_shows_and_breaks_nothing(metrics: Metrics) -> None:
    await metrics.refresh(Store(error=Unavailable()), NOON)
    assert sample(metrics, "onbeat_store_up") == 0


async def test_the_emptiest_queues_are_shown_as_one(metrics: Metrics) -> None:
    queues = [Queue(name=f"q{n}", waiting=n, oldest_due_at=NOON) for n in range(QUEUES_MAX + 3)]
    await metrics.refresh(Store(queues), NOON + SECOND)
    assert sample(metrics, "onbeat_queue_depth", queue="other", state="waiting") == 0 + 1 + 2
    assert sample(metrics, "onbeat_queue_oldest_due_seconds", queue="other") == 1


def test_the_standard_telemetry_counts_and_the_silent_one_does_not(
    caplog: pytest.LogCaptureFixture, counts: Counters
) -> None:
    caplog.set_level("ERROR")
    for telemetry in (CompositeTelemetry(counts), NullTelemetry()):
        telemetry.started(a_job(), 1.0)
        telemetry.ended(a_job(), Succeeded(), 1.0)
        telemetry.lease_lost(a_job())
        telemetry.planned(1, 1)
        telemetry.rescued(a_job(), WorkerId("w1"))
        telemetry.pruned(1)
        telemetry.loop_failed("planner", ValueError())
        telemetry.loop_beat("planner")
    (series,) = counts.series.values()
    assert (series.starts, counts.planned_jobs, counts.leases_lost) == (1, 1, 1)
    assert (counts.rescued_jobs, counts.pruned_jobs, counts.loop_failures) == (1, 1, {"planner": 1})
    assert [record.msg.event for record in caplog.records if record.name == "onbeat.loops"] == [
        "loop.failed"
    ]


async def test_many_ended_jobs_are_those_of_the_sample(metrics: Metrics) -> None:
    store = Store(stats=Stats(jobs={"waiting": 1}, schedules={}, workers=0, oldest_due_seconds=0.0))
    ended = EndedCounts(at=NOON, took=1.0, jobs={"succeeded": COUNTED_MAX})
    store.sample = Gauges(at=NOON, ended=ended)
    await metrics.refresh(store, NOON)
    samples = scrape(metrics)
    assert samples["onbeat_jobs{'state': 'succeeded'}"] == COUNTED_MAX
    assert samples["onbeat_jobs{'state': 'waiting'}"] == 1


def test_the_state_of_all_series_is_told_for_the_history(counts: Counters) -> None:
    counts.started(a_job(), 1.0)
    counts.ended(a_job(), Failed("no"), 1.0)
    (totals,) = counts.take_state().values()
    assert totals == Totals(1, (0, 1), (*[0] * 9, 1), (*[0] * 6, 1), (), 1.0)
    counts.started(a_job(), 1.0)
    assert totals.starts == 1, "it does not change with the counters"


def test_the_history_has_fine_counts_of_late_starts_and_the_latest_of_each_slot(
    counts: Counters,
) -> None:
    for late in (0.0005, 45, 400, 9_000):
        counts.started(a_job(), late)
    (totals,) = counts.take_state().values()
    assert totals.lateness == (1, *[0] * 11, 1, 1, 1)
    assert totals.late == (1, 0, 0, 1, 0, 0, 0, 0, 1)
    assert totals.latest == 9_000
    counts.started(a_job(), 45)
    (totals,) = counts.take_state().values()
    assert (totals.late[0], totals.latest) == (2, 45)


async def test_the_reference_page_names_each_metric(counts: Counters, metrics: Metrics) -> None:
    counts.started(a_job(), 1.0)
    await metrics.refresh(Store(), NOON)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    ours = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in families
        if family.name.startswith("onbeat_")
    }
    assert ours == set(re.findall(r"^\| `(onbeat_\w+)`", page, re.MULTILINE))
