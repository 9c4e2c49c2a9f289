"""Mistakes that the simulation must find: in the model of the store, and in the engine."""

from collections.abc import Callable, Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from onbeat.engine import rescuer
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.rescuer import Rescuer
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job
from onbeat.model.retry import RetryPolicy
from onbeat.model.worker import WorkerRecord
from onbeat.rules.liveness import Sign, Watch
from onbeat.stores.memory.tables import Tables
from onbeat.testing.simulation import (
    Guard,
    ModelStore,
    SimulationOptions,
    draw_options,
    run_histories,
)
from onbeat.testing.simulation.swarm import shrink


def without(guard: Guard) -> type[ModelStore]:
    """A store whose schema does not enforce this."""

    class Unguarded(ModelStore):
        guards = frozenset(Guard) - {guard}

    return Unguarded


def found(
    within: int,
    store: type[ModelStore] = ModelStore,
    options_of: Callable[[int], SimulationOptions] = draw_options,
) -> frozenset[str]:
    """The invariants that the first failing history breaks; none if there is no such history."""
    report = run_histories(range(within), make_store=store, options_of=options_of, failures_max=1)
    return report.failures[0].broken if report.failures else frozenset()


@pytest.mark.parametrize(
    ("guard", "within", "invariants"),
    [
        (Guard.OCCURRENCE, 3, {"I3", "I17"}),
        (Guard.UNIQUE_KEY, 20, {"I8", "I2", "I18"}),
        (Guard.FENCE, 60, {"I4", "I6", "I7"}),
        (Guard.RECHECK, 3, {"I4", "I6"}),
        (Guard.CANCEL_LOCK, 20, {"I10"}),
    ],
)
def test_a_guard_that_is_missing_in_the_schema_is_missed(
    guard: Guard, within: int, invariants: set[str]
) -> None:
    assert found(within, without(guard)) & invariants


def test_check_and_insert_looks_right_where_verbs_are_atomic() -> None:
    def serial(seed: int) -> SimulationOptions:
        return replace(draw_options(seed), serial=True)

    assert not found(10, without(Guard.OCCURRENCE), serial)


def test_a_slot_that_a_rescue_does_not_free_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(_tables: Tables, _job: Job) -> None: ...

    monkeypatch.setattr(Tables, "count_out", forget)
    assert found(3) & {"I2", "I18"}


def failing(seed: int) -> SimulationOptions:
    """Most attempts fail, and there are no other faults."""
    return SimulationOptions(jobs=30, handler_failures=0.7, longest=0.05 + seed / 1_000)


def test_retries_that_are_not_dispersed_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(policy: RetryPolicy, failures: int, _chance: float) -> timedelta:
        return policy.full_delay_after(failures)

    assert not found(2, options_of=failing)
    monkeypatch.setattr(RetryPolicy, "delay_after", full)
    assert found(2, options_of=failing) == {"I12"}


def test_a_retry_beyond_the_delay_of_its_policy_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(policy: RetryPolicy, failures: int, chance: float) -> timedelta:
        return policy.full_delay_after(failures + 1) * chance

    monkeypatch.setattr(RetryPolicy, "delay_after", late)
    assert found(2, options_of=failing) == {"I12"}


def with_late_answers(_seed: int) -> SimulationOptions:
    """Claims on their way while their worker stands still for longer than its lease."""
    return SimulationOptions(
        jobs=40, lease=2.0, pauses=6, workers=3, late_answers=0.3, longest=0.5, concurrency=2
    )


def test_a_claim_that_is_answered_after_its_leases_ended_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not found(30, options_of=with_late_answers)
    monkeypatch.setattr(LeaseGuard, "on_claimed", lambda *_: None)
    assert found(30, options_of=with_late_answers) & {"I4"}


def careless(watch: Watch, workers: Iterable[WorkerRecord], monotonic: float, **_: bool) -> Watch:
    """Counts the silence of workers through outages, and believes that the store took writes."""
    gap = 0.0 if watch.read_at is None else monotonic - watch.read_at
    signs: dict[WorkerId, Sign] = {}
    for worker in workers:
        before = watch.signs.get(worker.id)
        is_silent = before is not None and before.beat == worker.beat
        silence = before.silence + gap if before is not None and is_silent else 0.0
        signs[worker.id] = Sign(worker.beat, worker.lease_seconds, silence)
    return Watch(signs=signs, read_at=monotonic, is_proven=True)


def with_outages(seed: int) -> SimulationOptions:
    """Heartbeats arrive, but for outages; jobs run for long."""
    return SimulationOptions(outages=3, read_only=2, longest=20.0, lease=3.0 + seed % 5)


def test_a_watch_that_does_not_begin_again_after_an_outage_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rescuer, "observe", careless)
    monkeypatch.setattr(Rescuer, "rescue_expired", Rescuer.rescue_round)
    assert "R3" in found(20, options_of=with_outages)


def test_a_failing_history_is_made_small() -> None:
    """Not each can be cut in time: what breaks in it may need all of it."""
    store = without(Guard.RECHECK)
    histories = run_histories(range(3), make_store=store, failures_max=3).failures
    assert len(histories) == 3
    shrunk = [shrink(history, store) for history in histories]
    shorter = 0
    for history, small in zip(histories, shrunk, strict=True):
        assert small.broken & history.broken
        assert len(small.options.fault_classes) < len(history.options.fault_classes)
        assert small.options.horizon <= history.options.horizon
        shorter += small.options.horizon < history.options.horizon
    assert shorter > 0
