from datetime import timedelta

from engine.bench import Bench
from onbeat.engine import pruner as pruner_module
from onbeat.engine.pruner import PRUNE_PERIOD, Pruner
from onbeat.model.job import JobState
from onbeat.testing.build import DAY, NOW, a_job

KEEP, KEEP_FAILED = 7 * DAY, 30 * DAY


def ended(state, ago: timedelta):
    return a_job(state=state, finished_at=NOW - ago)


async def test_what_was_kept_long_enough_goes_and_nothing_else():
    async with Bench(work=lambda: None) as bench:
        pruner = Pruner(bench.store, bench.clock, bench.told, keep=KEEP, keep_failed=KEEP_FAILED)
        old = ended(JobState.SUCCEEDED, KEEP + DAY)
        kept = [
            ended(JobState.SUCCEEDED, KEEP - DAY),
            ended(JobState.FAILED, KEEP + DAY),
            a_job(due_at=NOW - 365 * DAY),
        ]
        await bench.store.enqueue([old, *kept])
        assert await pruner.prune_finished() == 1
        assert await bench.job(old) is None
        assert all([await bench.job(job) for job in kept])
        assert bench.told.of("pruned") == [(1,)]


async def test_batches_follow_each_other_until_nothing_is_left(monkeypatch):
    monkeypatch.setattr(pruner_module, "PRUNE_MAX", 2)
    async with Bench(work=lambda: None) as bench:
        pruner = Pruner(bench.store, bench.clock, bench.told, keep=KEEP, keep_failed=KEEP_FAILED)
        await bench.store.enqueue([ended(JobState.FAILED, KEEP_FAILED + DAY) for _ in range(5)])
        assert [await pruner.step() for _ in range(3)] == [0.0, 0.0, PRUNE_PERIOD]


async def test_nothing_to_do_is_not_worth_a_word():
    async with Bench(work=lambda: None) as bench:
        pruner = Pruner(bench.store, bench.clock, bench.told, keep=KEEP, keep_failed=KEEP_FAILED)
        assert await pruner.step() == PRUNE_PERIOD
        assert not bench.told.of("pruned")
