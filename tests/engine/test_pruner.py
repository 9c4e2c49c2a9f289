from datetime import timedelta
from typing import Any

import pytest

from engine.harness import EngineHarness
from onbeat.engine import pruner as pruner_module
from onbeat.engine.pruner import PRUNE_PERIOD, Pruner
from onbeat.model.access import AuditFilter, AuditRecord
from onbeat.model.event import EventVerdict
from onbeat.model.ids import EventSeq
from onbeat.model.job import Job, JobState
from onbeat.model.keep_rule import Keeping, KeepRule
from onbeat.model.route import Routing
from onbeat.ports.events import EventFilter
from onbeat.testing.build import DAY, HOUR, NOW, a_job, an_id
from onbeat.testing.store_contract.events import an_event
from onbeat.testing.store_contract.idempotency import a_keyed_request

KEEP, KEEP_FAILED = 7 * DAY, 30 * DAY
KEEPS = {
    "keeping": Keeping(after=KEEP, failed_after=KEEP_FAILED),
    "keep_audit": 365 * DAY,
    "keep_keys": DAY,
    "keep_events": KEEP,
}


def pruner_of(bench: EngineHarness, **keeps: Any) -> Pruner:
    return Pruner(bench.store, bench.clock, bench.told, **{**KEEPS, **keeps})


def ended(state: JobState, ago: timedelta, **fields: Any) -> Job:
    return a_job(state=state, finished_at=NOW - ago, **fields)


async def test_what_was_kept_long_enough_goes_and_nothing_else() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench)
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


async def test_batches_follow_each_other_until_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "PRUNE_MAX", 2)
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench)
        await bench.store.enqueue([ended(JobState.FAILED, KEEP_FAILED + DAY) for _ in range(5)])
        assert [await pruner.step() for _ in range(3)] == [0.0, 0.0, PRUNE_PERIOD]


async def test_nothing_to_do_is_not_worth_a_word() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench)
        assert await pruner.step() == PRUNE_PERIOD
        assert not bench.told.of("pruned")


async def test_old_audit_records_go_too() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench, keep_audit=DAY)
        old, kept = (
            AuditRecord(id=an_id(), at=NOW - age * DAY, actor="ops", action="a", object="b/c")
            for age in (2, 0.5)
        )
        await bench.store.put_audit(old)
        await bench.store.put_audit(kept)
        assert await pruner.step() == PRUNE_PERIOD
        assert list(await bench.store.audit(AuditFilter())) == [kept]


async def test_keys_go_after_a_day_in_batches_that_follow_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "PRUNE_MAX", 2)
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench)
        for number in range(5):
            request = a_keyed_request(str(number), made_at=NOW - DAY - timedelta(microseconds=1))
            await bench.store.enqueue([a_job()], request)
        kept = a_keyed_request("kept", made_at=NOW - DAY)
        await bench.store.enqueue([a_job()], kept)
        assert [await pruner.step() for _ in range(3)] == [0.0, 0.0, PRUNE_PERIOD]
        assert await bench.store.keyed_answer(kept.digest)
        assert not await bench.store.keyed_answer(a_keyed_request("4").digest)


async def test_keys_are_kept_as_long_as_the_setting_says() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench, keep_keys=2 * DAY)
        request = a_keyed_request("k", made_at=NOW - 2 * DAY)
        await bench.store.enqueue([a_job()], request)
        assert await pruner.forget_requests() == 0
        bench.clock.set(NOW + timedelta(microseconds=1))
        assert await pruner.forget_requests() == 1


async def test_events_are_kept_as_long_as_the_setting_says() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench, keep_events=2 * DAY)
        await bench.store.publish([an_event()], NOW - 2 * DAY)
        unrouted = await bench.store.unrouted_events(1)
        routed: dict[EventSeq, tuple[EventVerdict, ...]] = {one.seq: () for one in unrouted.events}
        await bench.store.route(Routing(verdicts=routed, at=NOW))
        assert await pruner.prune_events() == 0
        bench.clock.set(NOW + timedelta(microseconds=1))
        assert await pruner.step() == PRUNE_PERIOD
        assert not await bench.store.events(EventFilter(limit=1))


RULES = (
    KeepRule(queue="bulk", state=JobState.SUCCEEDED, after=HOUR),
    KeepRule(queue="payments", after=365 * DAY),
    KeepRule(state=JobState.FAILED, after=2 * DAY),
)
RULED = Keeping(after=KEEP, failed_after=KEEP_FAILED, rules=RULES)


async def test_rules_keep_jobs_for_less_and_for_longer() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        gone = [
            ended(JobState.SUCCEEDED, 2 * HOUR, queue="bulk"),
            ended(JobState.SUCCEEDED, 366 * DAY, queue="payments"),
            ended(JobState.FAILED, 3 * DAY),
            ended(JobState.CANCELLED, 8 * DAY),
        ]
        kept = [
            ended(JobState.CANCELLED, 2 * HOUR, queue="bulk"),
            ended(JobState.SUCCEEDED, 2 * HOUR),
            ended(JobState.FAILED, 300 * DAY, queue="payments"),
            ended(JobState.FAILED, DAY),
        ]
        await bench.store.enqueue([*gone, *kept])
        assert await pruner_of(bench, keeping=RULED).step() == PRUNE_PERIOD
        assert not any([await bench.job(job) for job in gone])
        assert all([await bench.job(job) for job in kept])


async def test_many_jobs_are_examined_in_batches_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruner_module, "PRUNE_MAX", 2)
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench, keeping=RULED)
        queues = ("other", "other", "other", "bulk", "bulk")
        jobs = [ended(JobState.SUCCEEDED, 2 * HOUR, queue=queue) for queue in queues]
        await bench.store.enqueue(jobs)
        assert [await pruner.step() for _ in range(3)] == [0.0, 0.0, PRUNE_PERIOD]
        left = [job.queue for job in jobs if await bench.job(job)]
        assert left == ["other"] * 3


async def test_what_arrives_with_an_old_end_goes_within_a_day() -> None:
    async with EngineHarness(work=lambda: None) as bench:
        pruner = pruner_of(bench, keeping=RULED)
        await pruner.step()
        late, old = (ended(JobState.SUCCEEDED, ago, queue="bulk") for ago in (HOUR * 1.05, DAY))
        await bench.store.enqueue([late, old])
        await pruner.step()
        assert await bench.job(late) is None
        assert await bench.job(old) is not None
        bench.clock.set(NOW + DAY)
        await pruner.step()
        assert await bench.job(old) is None
