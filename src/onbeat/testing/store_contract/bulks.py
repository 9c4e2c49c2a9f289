"""Bulks: chunks that neither lose nor repeat, jobs that moved on, and the end."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.access import AuditFilter
from onbeat.model.bulk import Bulk, BulkAction, BulkId, BulkState
from onbeat.model.errors import Conflict, RequestInFlight
from onbeat.model.job import Job, JobState
from onbeat.model.limits import BULK_UNDO, BULK_UNDO_MIN, BULKS_MAX
from onbeat.model.page import Counted, JobFilter
from onbeat.ports.store import Store
from onbeat.rules.bulks import filter_of, new_bulk
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, an_id
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.steps import (
    FAILURE,
    claim_jobs,
    end,
    run_and_end,
    stored_job,
)

LATER = NOW + HOUR


def a_bulk(newest: Job, do: BulkAction = BulkAction.RETRY, counted: int = 1, **where: Any) -> Bulk:
    """A bulk of what there is up to the newest job."""
    filter = filter_of(do, JobFilter(**where), NOW)
    id = BulkId(an_id())
    return new_bulk(id, do, filter, newest.id, Counted(counted, more=False), "boss", NOW)


def a_rescheduling(newest: Job, run_at: datetime, counted: int) -> Bulk:
    bulk = a_bulk(newest, BulkAction.RESCHEDULE, counted)
    return replace(bulk, run_at=run_at)


async def failed_jobs(store: Store, count: int, **fields: Any) -> list[Job]:
    return [await run_and_end(store, a_job(**fields), FAILURE) for _ in range(count)]


async def run_to_end(store: Store, bulk: Bulk, limit: int = 2) -> tuple[Bulk, int]:
    """The ended bulk, and the number of its chunks."""
    now = bulk.next_at or LATER
    for chunks in range(1, 100):
        moved = await store.run_bulk(bulk.id, now, limit)
        assert moved is not None
        if moved.is_over:
            return moved, chunks
        assert moved.next_at is not None
        now = moved.next_at
    raise AssertionError("the bulk does not end")


async def audit_of(store: Store, bulk: Bulk) -> list[tuple[str, str, Any]]:
    found = await store.audit(AuditFilter(object=f"bulk/{bulk.id}", limit=100))
    return [(one.actor, one.outcome, msgspec.json.decode(one.summary)) for one in found]


class BulkContract:
    async def test_a_bulk_retries_all_that_match_in_chunks(self, store: Store) -> None:
        other = await run_and_end(store, a_job(queue="slow"), FAILURE)
        jobs = await failed_jobs(store, 5)
        bulk = a_bulk(jobs[-1], counted=5, queue="default")
        await store.add_bulk(bulk)
        assert await store.next_bulk() == bulk
        ended, chunks = await run_to_end(store, bulk)
        assert chunks == 3
        assert (ended.done, ended.skipped, ended.failed) == (5, 0, 0)
        assert (ended.state, ended.next_at) == (BulkState.DONE, None)
        states = {(await stored_job(store, job)).state for job in jobs}
        assert states == {JobState.WAITING}
        assert (await stored_job(store, other)).state is JobState.FAILED
        assert await store.next_bulk() is None
        assert await store.bulk(bulk.id) == ended

    async def test_a_bulk_cancels_waiting_jobs_and_stops_running_ones(self, store: Store) -> None:
        running, waiting = a_job(), a_job(due_at=LATER)
        await store.enqueue([running, waiting])
        await claim_jobs(store)
        bulk = a_bulk(waiting, BulkAction.CANCEL)
        await store.add_bulk(bulk)
        await run_to_end(store, bulk)
        cancelled = await stored_job(store, waiting)
        assert cancelled.state is JobState.CANCELLED
        assert bulk.id in (cancelled.reason or "")
        assert (await stored_job(store, running)).cancel_reason is None
        stop = a_bulk(waiting, BulkAction.CANCEL, state=JobState.RUNNING)
        await store.add_bulk(stop)
        ended, _ = await run_to_end(store, stop)
        assert ended.done == 1
        assert stop.id in ((await stored_job(store, running)).cancel_reason or "")

    async def test_jobs_that_moved_on_are_skipped_and_counted(self, store: Store) -> None:
        jobs = await failed_jobs(store, 4)
        bulk = a_bulk(jobs[-1], counted=4)
        await store.add_bulk(bulk)
        await store.retry([jobs[0].id, jobs[3].id], NOW)
        ended, _ = await run_to_end(store, bulk)
        assert (ended.done, ended.skipped) == (2, 2)

    async def test_what_came_later_is_left_alone(self, store: Store) -> None:
        jobs = await failed_jobs(store, 2)
        bulk = a_bulk(jobs[-1], counted=2)
        await store.add_bulk(bulk)
        (new,) = await failed_jobs(store, 1)
        ended, _ = await run_to_end(store, bulk)
        assert ended.done == 2
        assert (await stored_job(store, new)).state is JobState.FAILED

    async def test_what_failed_after_the_count_is_left_alone(self, store: Store) -> None:
        job, late = a_job(), a_job()
        await store.enqueue([job, late])
        for one in await claim_jobs(store):
            await end(store, one, FAILURE, NOW + (MINUTE if one.id == late.id else timedelta()))
        bulk = a_bulk(late)
        await store.add_bulk(bulk)
        ended, _ = await run_to_end(store, bulk)
        assert ended.done == 1
        assert (await stored_job(store, late)).state is JobState.FAILED

    async def test_named_jobs_are_changed_alone(self, store: Store) -> None:
        jobs = await failed_jobs(store, 4)
        ids = tuple(job.id for job in jobs[:3])
        bulk = a_bulk(jobs[-1], counted=3, ids=ids)
        await store.add_bulk(bulk)
        ended, chunks = await run_to_end(store, bulk)
        assert (ended.done, chunks) == (3, 2)
        assert (await stored_job(store, jobs[3])).state is JobState.FAILED

    async def test_a_sensitive_job_cannot_be_retried(self, store: Store) -> None:
        (kept,) = await failed_jobs(store, 1)
        (lost,) = await failed_jobs(store, 1, sensitive=True)
        bulk = a_bulk(lost, counted=2)
        await store.add_bulk(bulk)
        ended, _ = await run_to_end(store, bulk)
        assert (ended.done, ended.skipped) == (1, 1)
        assert (await stored_job(store, kept)).state is JobState.WAITING

    async def test_a_conflict_changes_nothing_until_it_is_left_out(self, store: Store) -> None:
        (blocked,) = await failed_jobs(store, 1, unique="key")
        (free,) = await failed_jobs(store, 1)
        await store.enqueue([a_job(unique="key")])
        bulk = a_bulk(free, counted=2)
        await store.add_bulk(bulk)
        with pytest.raises(Conflict):
            await store.run_bulk(bulk.id, NOW, 2)
        assert await store.bulk(bulk.id) == bulk
        assert (await stored_job(store, free)).state is JobState.FAILED
        first = await store.run_bulk(bulk.id, NOW, 1)
        assert first is not None
        assert (first.done, first.failed) == (1, 0)
        second = await store.run_bulk(bulk.id, LATER, 1, skip=True)
        assert second is not None
        assert (second.done, second.failed, second.state) == (1, 1, BulkState.DONE)
        assert (await stored_job(store, blocked)).state is JobState.FAILED

    async def test_each_chunk_waits_for_the_rate(self, store: Store) -> None:
        jobs = await failed_jobs(store, 3)
        bulk = a_bulk(jobs[-1], counted=3)
        await store.add_bulk(bulk)
        first = await store.run_bulk(bulk.id, NOW, 2)
        assert first is not None
        assert first.next_at == NOW + timedelta(milliseconds=1)
        assert await store.run_bulk(bulk.id, NOW, 2) == first

    async def test_a_large_bulk_can_be_stopped_before_it_begins(self, store: Store) -> None:
        (job,) = await failed_jobs(store, 1)
        bulk = a_bulk(job, counted=BULK_UNDO_MIN + 1)
        assert bulk.starts_at == NOW + BULK_UNDO
        await store.add_bulk(bulk)
        assert await store.run_bulk(bulk.id, NOW + BULK_UNDO - SECOND, 2) == bulk
        stopped = await store.stop_bulk(bulk.id, NOW)
        assert stopped == replace(bulk, state=BulkState.STOPPED, next_at=None, finished_at=NOW)
        assert await store.run_bulk(bulk.id, LATER, 2) == stopped
        assert await store.stop_bulk(bulk.id, LATER) == stopped
        assert (await stored_job(store, job)).state is JobState.FAILED

    async def test_a_bulk_is_one_entry_of_the_audit_log(self, store: Store) -> None:
        jobs = await failed_jobs(store, 3)
        bulk = a_bulk(jobs[-1], counted=3, task="work")
        await store.add_bulk(bulk)
        ((actor, outcome, _),) = await audit_of(store, bulk)
        assert (actor, outcome) == ("boss", "begun")
        await run_to_end(store, bulk)
        ((actor, outcome, summary),) = await audit_of(store, bulk)
        assert (actor, outcome) == ("boss", "done")
        assert (summary["do"], summary["done"], summary["skipped"]) == ("retry", 3, 0)
        assert summary["where"]["task"] == "work"

    async def test_processes_that_run_one_bulk_meet_each_job_once(self, store: Store) -> None:
        jobs = await failed_jobs(store, 8)
        bulk = a_bulk(jobs[-1], counted=8)
        await store.add_bulk(bulk)
        for later in range(4):
            now = LATER + later * SECOND
            await asyncio.gather(*(store.run_bulk(bulk.id, now, 2) for _ in range(3)))
        found = await store.bulk(bulk.id)
        assert found is not None
        ended, _ = (found, 0) if found.is_over else await run_to_end(store, found)
        assert (ended.done, ended.skipped) == (8, 0)
        for job in jobs:
            steps = await store.transitions(job.id)
            assert [step.to for step in steps].count("retried") == 1

    async def test_bulks_are_listed_newest_first(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        bulks = [a_bulk(job) for _ in range(3)]
        for bulk in bulks:
            await store.add_bulk(bulk)
        assert list(await store.bulks(None, 2)) == [bulks[2], bulks[1]]
        assert list(await store.bulks(bulks[1].id, 2)) == [bulks[0]]
        assert await store.bulk(BulkId(an_id())) is None
        assert await store.stop_bulk(BulkId(an_id()), NOW) is None
        assert await store.run_bulk(BulkId(an_id()), NOW, 1) is None

    async def test_there_are_only_so_many_bulks_at_once(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        bulks = [a_bulk(job) for _ in range(BULKS_MAX)]
        for bulk in bulks:
            await store.add_bulk(bulk)
        with pytest.raises(Conflict, match="stop one"):
            await store.add_bulk(a_bulk(job))
        await store.stop_bulk(bulks[0].id, NOW)
        await store.add_bulk(a_bulk(job))

    async def test_a_bulk_is_made_once_for_a_key(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        keyed = a_keyed_request("key")
        await store.add_bulk(a_bulk(job), keyed)
        with pytest.raises(RequestInFlight):
            await store.add_bulk(a_bulk(job), keyed)
        assert len(await store.bulks(None, 10)) == 1

    async def test_old_bulks_are_pruned(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        bulks = [a_bulk(job) for _ in range(3)]
        for bulk, at in zip(bulks, (NOW, NOW + DAY, None), strict=True):
            await store.add_bulk(bulk)
            if at is not None:
                await store.stop_bulk(bulk.id, at)
        ends = await store.prune_bulks(NOW + DAY, 10)
        assert ends == 1
        left = [bulk.id for bulk in await store.bulks(None, 10)]
        assert left == [bulks[2].id, bulks[1].id]

    async def test_a_bulk_gives_waiting_jobs_another_due_time(self, store: Store) -> None:
        jobs = [a_job(due_at=NOW + DAY), a_job(due_at=NOW + DAY), a_job()]
        soon = a_job(due_at=NOW + DAY, expires_at=LATER)
        await store.enqueue([*jobs, soon])
        (running,) = await claim_jobs(store)
        bulk = a_rescheduling(soon, LATER, counted=3)
        await store.add_bulk(bulk)
        ended, _ = await run_to_end(store, bulk)
        assert (ended.done, ended.skipped, ended.failed) == (2, 0, 1)
        assert (await stored_job(store, running)).state is JobState.RUNNING
        for job in jobs[:2]:
            assert (await stored_job(store, job)).due_at == LATER
            (step,) = await store.transitions(job.id)
            assert (step.to, step.cause) == ("rescheduled", f"with bulk {bulk.id}")
        assert (await stored_job(store, soon)).due_at == NOW + DAY
        assert {job.id for job in await claim_jobs(store, now=LATER)} == {
            one.id for one in jobs[:2]
        }
        ((_, _, summary),) = await audit_of(store, bulk)
        assert (summary["do"], summary["done"], summary["failed"]) == ("reschedule", 2, 1)
        assert summary["run_at"] == "2030-01-01T13:00:00Z"
