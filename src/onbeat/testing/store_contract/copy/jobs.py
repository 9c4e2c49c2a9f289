"""Copies of all records from the tested store into another, and from another into it."""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Lost, Succeeded
from onbeat.model.page import JobFilter
from onbeat.model.plan import Skip
from onbeat.model.schedule import Overlap, Schedule, ScheduleStatus
from onbeat.model.target import HttpTarget
from onbeat.model.worker import carrier_id
from onbeat.ports.store import DispositionExport, Hint, JobExport, SentJobs, Store
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    TICK,
    a_job,
    a_plan,
    a_schedule,
    an_occurrence,
)
from onbeat.testing.store_contract.enqueue import ODD_TEXTS, a_full_job
from onbeat.testing.store_contract.hints import expect_hint
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    OTHER_WORKER,
    PASSING_FAILURE,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    limit,
    run_and_end,
    run_job,
    slow_jobs,
    stored_job,
)

BATCH = 3
"""Rows in one batch, few so that a copy takes several batches."""

MANY = 1_000

Row = TypeVar("Row")
Key = TypeVar("Key")


class CopyDirection(Enum):
    """Whether the tested store is the target or the source of a copy."""

    INTO_IT = auto()
    OUT_OF_IT = auto()


both_ways = pytest.mark.parametrize("way", list(CopyDirection), ids=lambda way: way.name.lower())


def source_and_target(store: Store, way: CopyDirection) -> tuple[Store, Store]:
    other = MemoryStore()
    return (other, store) if way is CopyDirection.INTO_IT else (store, other)


async def all_of(
    export: Callable[[Key | None, int], Awaitable[Sequence[Row]]],
    key_of: Callable[[Row], Key],
    batch: int = BATCH,
) -> list[Row]:
    rows: list[Row] = []
    while more := await export(key_of(rows[-1]) if rows else None, batch):
        assert len(more) <= batch
        assert more[0] not in rows, "a row was exported twice"
        rows += more
    return rows


async def all_schedules(store: Store) -> list[Schedule]:
    return await all_of(store.export_schedules, lambda schedule: schedule.id)


async def all_dispositions(store: Store) -> list[DispositionExport]:
    return await all_of(
        store.export_dispositions, lambda rows: (rows.schedule_id, rows.disposition.first)
    )


async def all_exports(store: Store) -> list[JobExport]:
    return await all_of(store.export_jobs, lambda export: export.job.id)


async def everything(
    store: Store,
) -> tuple[list[Schedule], list[DispositionExport], list[JobExport]]:
    return await all_schedules(store), await all_dispositions(store), await all_exports(store)


def batches(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]


async def copy(source: Store, target: Store) -> int:
    """Copy the whole source; returns the number of changed records."""
    schedules, dispositions, exports = await everything(source)
    changed = [
        *[await target.import_schedules(some) for some in batches(schedules)],
        *[await target.import_dispositions(some) for some in batches(dispositions)],
        *[await target.import_jobs(some) for some in batches(exports)],
    ]
    return sum(changed)


async def export_of(store: Store, job: Job) -> JobExport:
    """The store's export of one job."""
    (export,) = [export for export in await all_exports(store) if export.job.id == job.id]
    return export


async def fill(store: Store) -> None:
    """Fill the store with records of every kind, except running jobs."""
    schedule = a_schedule(key="every-hour", labels={"team": "blue"})
    skip = Skip(NOW - DAY, NOW - 2 * HOUR, "misfire")
    jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in (-1, 0, 1)]
    await add_planned(store, schedule, *jobs, skips=(skip,))
    await add_planned(store, a_schedule(status=ScheduleStatus.PAUSED, overlap=Overlap.WAIT))
    await store.enqueue([a_full_job(a_job(due_at=NOW + HOUR))])
    for job in await claim_jobs(store):
        await end(store, job, Succeeded(msgspec.Raw(b'{"answer":42}')))
    await run_and_end(store, a_job(), FAILURE)
    await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
    cancelled = a_job(target=HttpTarget("https://example.org/", "POST", {"X-A": "1"}, "{}"))
    await store.enqueue([cancelled])
    await store.cancel([cancelled.id], "by hand", NOW)
    first = a_job(due_at=NOW + DAY)
    await store.enqueue([first, a_job(after=(first.id,)), a_job(after=(first.id,))])


class CopyContract:
    @both_ways
    async def test_of_nothing_nothing_is_copied(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        assert await copy(source, target) == 0
        assert await everything(target) == ([], [], [])

    @both_ways
    async def test_all_that_is_kept_is_copied(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        await fill(source)
        schedules, dispositions, exports = await everything(source)
        count = len(schedules) + len(dispositions) + len(exports)
        assert await copy(source, target) == count
        assert await everything(target) == (schedules, dispositions, exports)

    @both_ways
    async def test_copying_changes_nothing_in_the_source(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        await fill(source)
        await run_job(source, a_job())
        before = await everything(source)
        await copy(source, target)
        assert await everything(source) == before

    @both_ways
    async def test_copying_twice_changes_nothing(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        await fill(source)
        await run_job(source, a_job())
        await copy(source, target)
        before = await everything(target)
        assert await copy(source, target) == 0
        assert await everything(target) == before

    @both_ways
    async def test_what_was_copied_is_counted_and_listed(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        await fill(source)
        await copy(source, target)
        assert await target.stats(NOW) == await source.stats(NOW)
        assert list(await target.queues(NOW)) == list(await source.queues(NOW))
        answer = await target.jobs(JobFilter(limit=100))
        assert answer.items == (await source.jobs(JobFilter(limit=100))).items

    async def test_a_copy_that_comes_back_is_the_same(self, store: Store) -> None:
        await fill(store)
        before = await everything(store)
        other = MemoryStore()
        await copy(store, other)
        assert await copy(other, store) == 0
        assert await everything(store) == before

    async def test_rows_are_told_in_order_and_at_most_the_limit(self, store: Store) -> None:
        await fill(store)
        exports = await all_of(store.export_jobs, lambda export: export.job.id, batch=MANY)
        assert [export.job.id for export in exports] == sorted(export.job.id for export in exports)
        assert await all_exports(store) == exports
        (first,) = await store.export_jobs(None, 1)
        assert list(await store.export_jobs(first.job.id, 2)) == exports[1:3]
        assert list(await store.export_jobs(exports[-1].job.id, 2)) == []

    async def test_a_thousand_jobs_come_in_one_call(self, store: Store) -> None:
        jobs = [a_job(group=f"group-{number % 7}") for number in range(MANY)]
        exports = [JobExport(job=job) for job in jobs]
        assert await store.import_jobs(exports) == MANY
        assert list(await store.export_jobs(None, MANY)) == exports
        assert ids_of(await claim_jobs(store, limit=MANY)) == ids_of(jobs)

    async def test_nothing_restored_changes_nothing(self, store: Store) -> None:
        assert await store.import_schedules([]) == 0
        assert await store.import_dispositions([]) == 0
        assert await store.import_jobs([]) == 0


class CopiedJobContract:
    @both_ways
    @pytest.mark.parametrize("text", ODD_TEXTS)
    async def test_odd_text_is_copied_as_it_is(
        self, store: Store, way: CopyDirection, text: str
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job(labels={"label": text, text: "key"}, unique=text or None, group=text or None)
        await source.enqueue([job])
        await source.cancel([job.id], text, NOW)
        await copy(source, target)
        assert await export_of(target, job) == await export_of(source, job)

    @both_ways
    async def test_the_whole_history_is_copied(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        job = await run_and_end(source, a_job(), Lost("the worker died"))
        (job,) = await claim_jobs(source)
        await source.note_progress([(job.id, job.token, Progress(1, 2))])
        await end(source, job, FAILURE)
        await source.retry([job.id], NOW)
        (job,) = await claim_jobs(source, worker=OTHER_WORKER)
        await source.note_progress([(job.id, job.token, Progress(2, 2))])
        await source.cancel([job.id], "too late", NOW)
        await end(source, job, Succeeded(msgspec.Raw(b"[1]")), NOW + MINUTE)
        await copy(source, target)
        assert await stored_job(target, job) == await stored_job(source, job)
        assert list(await target.attempts(job.id)) == list(await source.attempts(job.id))
        assert len(await target.attempts(job.id)) == 3
        assert list(await target.transitions(job.id)) == list(await source.transitions(job.id))
        assert await target.transitions(job.id)

    @both_ways
    async def test_suspicion_is_copied(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        job = await run_and_end(source, a_job(), Lost("the worker died", company=9))
        assert job.suspicion is not None
        await copy(source, target)
        assert await stored_job(target, job) == job

    @both_ways
    async def test_a_job_that_waits_for_another_try_goes_on(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job(retry=IN_A_MINUTE))
        cursor = msgspec.Raw(b'{"page":7}')
        await source.enqueue_from(
            [SentJobs(sender=job.id, token=job.token, jobs=(), cursor=cursor)]
        )
        await end(source, job, PASSING_FAILURE)
        await copy(source, target)
        assert await claim_jobs(target) == ()
        (again,) = await claim_jobs(target, now=NOW + MINUTE)
        assert (again.id, again.attempt, again.cursor) == (job.id, 2, cursor)
        assert again.token > job.token
        await end(target, again)
        numbers = [attempt.number for attempt in await target.attempts(job.id)]
        assert numbers == [1, 2]

    @both_ways
    async def test_a_running_job_arrives_waiting(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job(start_by=NOW), lease=MINUTE)
        await source.note_progress([(job.id, job.token, Progress(1))])
        await copy(source, target)
        assert await stored_job(target, job) == replace(
            job, state=JobState.WAITING, worker=None, lease_until=None, start_by=None
        )

    @both_ways
    async def test_a_job_on_its_way_to_a_worker_still_has_to_start_in_time(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job(start_by=NOW), worker=carrier_id("1"))
        await copy(source, target)
        assert (await stored_job(target, job)).start_by == NOW
        assert await claim_jobs(target, now=NOW + TICK) == ()

    @both_ways
    async def test_the_fence_of_a_running_job_holds_in_both_stores(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await copy(source, target)
        assert list(await target.settle([a_settlement(job)])) == [False]
        (again,) = await claim_jobs(target, worker=OTHER_WORKER)
        assert again.token > job.token
        assert list(await target.settle([a_settlement(job)])) == [False]
        assert await stored_job(target, job) == again
        assert list(await source.settle([a_settlement(job)])) == [True]

    @both_ways
    async def test_a_running_job_is_held_by_nobody_in_the_target(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        assert job.worker is not None
        await copy(source, target)
        assert list(await target.held_leases(job.worker)) == []
        assert list(await target.abandoned_jobs([job.worker], NOW + DAY, 10)) == []

    @both_ways
    async def test_a_running_job_asked_to_stop_stays_asked(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_job(source, a_job())
        await source.cancel([job.id], "by hand", NOW)
        await copy(source, target)
        (again,) = await claim_jobs(target)
        assert again.cancel_reason == "by hand"

    @both_ways
    async def test_a_job_waits_for_those_that_it_waited_for(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        done, first = await run_and_end(source, a_job()), await run_job(source, a_job())
        second = a_job(after=(done.id, first.id), due_at=NOW - HOUR)
        await source.enqueue([second])
        await copy(source, target)
        assert (await stored_job(target, second)).blocked_by == 1
        (runs,) = await claim_jobs(target)
        assert runs.id == first.id
        await end(target, runs)
        assert ids_of(await claim_jobs(target)) == [second.id]

    @both_ways
    async def test_a_job_ends_with_what_it_waits_for(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        first = a_job()
        second = a_job(after=(first.id,))
        third = a_job(after=(second.id,))
        await source.enqueue([first, second, third])
        await copy(source, target)
        await end(target, (await claim_jobs(target))[0], FAILURE)
        states = [(await stored_job(target, job)).state for job in (second, third)]
        assert states == [JobState.CANCELLED, JobState.CANCELLED]

    async def test_a_job_waits_for_one_that_comes_later_in_the_same_call(
        self, store: Store
    ) -> None:
        first = a_job()
        second = a_job(after=(first.id,), blocked_by=1)
        await store.import_jobs([JobExport(job=second), JobExport(job=first)])
        assert (await stored_job(store, second)).blocked_by == 1
        assert ids_of(await claim_jobs(store)) == [first.id]

    async def test_a_job_does_not_wait_for_what_is_not_there(self, store: Store) -> None:
        first = a_job()
        second = a_job(after=(first.id,))
        await store.import_jobs([JobExport(job=second)])
        assert ids_of(await claim_jobs(store)) == [second.id]

    @both_ways
    async def test_a_hand_freed_job_stays_free(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        first = await run_and_end(source, a_job(), FAILURE)
        second = a_job(after=(first.id,))
        await source.enqueue([second])
        await source.retry([second.id], NOW)
        await copy(source, target)
        assert ids_of(await claim_jobs(target)) == [second.id]

    @both_ways
    async def test_a_wait_by_overlap_is_made_anew(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule(overlap=Overlap.WAIT)
        earlier, later = an_occurrence(schedule, NOW - HOUR), an_occurrence(schedule)
        await add_planned(source, schedule, earlier, later)
        await claim_jobs(source)
        assert (await stored_job(source, later)).blocked_by == 1
        await copy(source, target)
        assert (await stored_job(target, later)).blocked_by == 0
        (runs,) = await claim_jobs(target)
        assert runs.id == earlier.id
        assert await claim_jobs(target) == ()
        await end(target, runs)
        assert ids_of(await claim_jobs(target)) == [later.id]

    @both_ways
    async def test_what_has_lapsed_is_not_given_out(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW - HOUR, start_by=NOW - TICK)
        await add_planned(source, schedule, job)
        await claim_jobs(source)
        await copy(source, target)
        assert await claim_jobs(target) == ()
        assert list(await target.overdue_jobs(NOW, 10)) == [job]
        excused = a_plan(schedule, planned_through=NOW, allowed_late=(job.id,))
        await target.apply_plans([excused])
        assert ids_of(await claim_jobs(target)) == [job.id]

    @both_ways
    async def test_a_unique_key_is_held_in_the_target(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = a_job(unique="key")
        await source.enqueue([job])
        await copy(source, target)
        (answer,) = await target.enqueue([a_job(unique="key")])
        assert (answer.id, answer.created) == (job.id, False)

    async def test_a_live_job_whose_unique_key_is_held_is_left_out(self, store: Store) -> None:
        holder, left_out, other = a_job(unique="key"), a_job(unique="key"), a_job()
        await store.enqueue([holder])
        assert await store.import_jobs([JobExport(job=left_out), JobExport(job=other)]) == 1
        assert await store.job(left_out.id) is None
        assert await stored_job(store, other) == other

    async def test_an_ended_job_holds_no_unique_key(self, store: Store) -> None:
        await store.enqueue([a_job(unique="key")])
        source = MemoryStore()
        done = await run_and_end(source, a_job(unique="key"))
        assert await copy(source, store) == 1
        assert await stored_job(store, done) == done

    @both_ways
    async def test_limits_hold_for_what_was_copied(self, store: Store, way: CopyDirection) -> None:
        source, target = source_and_target(store, way)
        jobs = [*slow_jobs(3, group="a"), *slow_jobs(3, group="b")]
        await source.enqueue(jobs)
        await claim_jobs(source, limit=2)
        await limit(target, group_concurrency=1)
        await copy(source, target)
        assert ids_of(await claim_jobs(target)) == [jobs[0].id, jobs[3].id]

    @both_ways
    async def test_an_ended_job_can_be_tried_again_by_hand(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        job = await run_and_end(source, a_job(), FAILURE)
        await copy(source, target)
        await target.retry([job.id], NOW)
        (again,) = await claim_jobs(target)
        assert (again.id, again.token > job.token) == (job.id, True)

    async def test_a_retry_by_hand_begins_anew_whatever_was_copied(self, store: Store) -> None:
        job = await run_and_end(MemoryStore(), a_job(), FAILURE)
        await store.import_jobs([JobExport(job=replace(job, cursor=msgspec.Raw(b"7")))])
        await store.retry([job.id], NOW)
        (again,) = await claim_jobs(store)
        assert again.cursor is None

    @both_ways
    async def test_what_was_copied_is_pruned_in_time(
        self, store: Store, way: CopyDirection
    ) -> None:
        source, target = source_and_target(store, way)
        await fill(source)
        await copy(source, target)
        bounds = {"finished_before": NOW + DAY, "failed_before": NOW + DAY}
        pruned = await source.prune(**bounds, limit=100)
        assert await target.prune(**bounds, limit=100) == pruned
        assert await all_exports(target) == await all_exports(source)

    async def test_restored_jobs_are_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.JOBS):
            await store.import_jobs([JobExport(job=a_job())])
