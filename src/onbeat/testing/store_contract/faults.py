"""Failures by fault, and dead letters without their bodies."""

import asyncio
from typing import Any

from msgspec.structs import replace

from onbeat.model.fault import (
    HOURS_KEPT,
    OTHER,
    FaultChange,
    FaultJobs,
    FaultProcess,
    FaultRecord,
    OperatorNote,
)
from onbeat.model.ids import JobId, WorkerId
from onbeat.model.job import JobState
from onbeat.model.limits import FAULTS_MAX
from onbeat.model.outcome import Failed
from onbeat.model.page import JobFilter
from onbeat.ports.store import Store
from onbeat.rules.faults import hour_of
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import DAY, HOUR, NOW, SECOND, a_job, an_id
from onbeat.testing.store_contract.copy.jobs import copy
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    SUCCESS,
    claim_jobs,
    end,
    run_and_end,
    run_job,
    stored_job,
)

GREATEST = 2**63 - 1


def a_change(fault: int = GREATEST, **fields: Any) -> FaultChange:
    """One failed attempt at `NOW`."""
    change = FaultChange(
        fault=fault,
        task="work",
        queue="default",
        title="Größer: “it” broke \U0001f600",
        place="work.py in work",
        first_at=NOW,
        last_at=NOW,
        attempts=1,
        hours={hour_of(NOW): 1},
        sample_job=JobId(an_id()),
    )
    return replace(change, **fields)


async def stored_fault(store: Store, key: int = GREATEST) -> FaultRecord:
    record = await store.fault(key)
    assert record is not None, f"fault {key} is gone"
    return record


class JobFaultContract:
    async def test_a_failed_job_has_its_fault_until_it_succeeds(self, store: Store) -> None:
        failed = await run_and_end(store, a_job(), FAILURE)
        again = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        good = await run_and_end(store, a_job())
        assert failed.fault is not None
        assert (again.state, again.fault) == (JobState.WAITING, failed.fault)
        assert good.fault is None
        (claimed,) = await claim_jobs(store, now=NOW + HOUR)
        assert claimed.fault == failed.fault
        assert (await end(store, claimed, SUCCESS, NOW + HOUR)).fault is None

    async def test_a_job_keeps_its_fault_when_it_is_cancelled_and_retried(
        self, store: Store
    ) -> None:
        waiting = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        await store.cancel([waiting.id], "by hand", NOW)
        assert (await stored_job(store, waiting)).fault == waiting.fault
        await store.retry([waiting.id], NOW)
        again = await stored_job(store, waiting)
        assert (again.state, again.fault) == (JobState.WAITING, waiting.fault)

    async def test_a_copied_job_keeps_its_fault(self, store: Store) -> None:
        source = MemoryStore()
        jobs = [
            await run_and_end(source, a_job(), FAILURE),
            await run_and_end(source, a_job(retry=IN_A_MINUTE), PASSING_FAILURE),
        ]
        await copy(source, store)
        assert [(await stored_job(store, job)).fault for job in jobs] == [job.fault for job in jobs]
        (live,) = [one.job for one in await store.export_jobs(None, 10) if not one.job.is_final]
        assert live.fault == jobs[1].fault

    async def test_jobs_of_a_fault_are_listed_newest_first(self, store: Store) -> None:
        failed = [await run_and_end(store, a_job(), FAILURE) for _ in range(3)]
        other = await run_and_end(store, a_job(), Failed("another", retryable=False))
        waiting = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        gone = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        await store.cancel([gone.id], "by hand", NOW)
        await run_and_end(store, a_job())
        fault = failed[0].fault
        assert other.fault != fault

        async def listed(**fields: Any) -> list[JobId]:
            page = await store.jobs(JobFilter(fault=fault, **fields))
            return [job.id for job in page.items]

        newest = [gone.id, waiting.id, *(job.id for job in reversed(failed))]
        assert await listed() == newest
        assert await listed(limit=2) == newest[:2]
        assert await listed(before=waiting.id, limit=2) == newest[2:4]
        assert await listed(state=JobState.FAILED) == newest[2:]
        assert await listed(state=JobState.WAITING) == [waiting.id]
        assert await listed(queue="other") == []

    async def test_jobs_of_a_fault_are_counted_up_to_a_limit(self, store: Store) -> None:
        failed = [await run_and_end(store, a_job(), FAILURE) for _ in range(3)]
        waiting = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        await run_job(store, a_job())
        key = failed[0].fault or OTHER
        assert waiting.fault == key
        assert dict(await store.fault_jobs([key, 7], 10)) == {key: FaultJobs(3, 1), 7: FaultJobs()}
        assert dict(await store.fault_jobs([key], 2)) == {key: FaultJobs(2, 1)}
        assert dict(await store.fault_jobs([], 2)) == {}


class FaultContract:
    async def test_failed_attempts_are_added_up(self, store: Store) -> None:
        change = a_change()
        await store.note_faults([change])
        assert await stored_fault(store) == FaultRecord(
            fault=GREATEST,
            task="work",
            queue="default",
            title=change.title,
            place="work.py in work",
            first_at=NOW,
            last_at=NOW,
            attempts=1,
            hours=(1,),
            sample_job=change.sample_job,
        )
        later = NOW + 2 * HOUR
        more = a_change(
            queue="late", first_at=NOW, last_at=later, attempts=5, hours={hour_of(later): 5}
        )
        await store.note_faults([more])
        record = await stored_fault(store)
        assert (record.attempts, record.hours) == (6, (1, 0, 5))
        assert (record.first_at, record.last_at) == (NOW, later)
        assert (record.queue, record.sample_job) == ("late", more.sample_job)
        await store.note_faults([])
        assert list(await store.faults()) == [record]

    async def test_what_comes_late_counts_in_its_own_hour(self, store: Store) -> None:
        await store.note_faults([newest := a_change()])
        past = NOW - 3 * HOUR
        await store.note_faults([a_change(first_at=past, last_at=past, hours={hour_of(past): 2})])
        record = await stored_fault(store)
        assert record.hours == (2, 0, 0, 1)
        assert (record.first_at, record.last_at) == (past, NOW)
        assert record.sample_job == newest.sample_job

    async def test_only_the_hours_of_a_week_are_kept(self, store: Store) -> None:
        await store.note_faults([a_change()])
        later = NOW + (HOURS_KEPT - 1) * HOUR
        await store.note_faults([a_change(last_at=later, hours={hour_of(later): 1})])
        assert len((await stored_fault(store)).hours) == HOURS_KEPT
        await store.note_faults([a_change(last_at=later + HOUR, hours={hour_of(later + HOUR): 1})])
        assert (await stored_fault(store)).hours == (1, 1)

    async def test_processes_that_count_together_lose_nothing(self, store: Store) -> None:
        keys = [*range(1, 6)]
        orders = [keys, keys[::-1], keys[2:] + keys[:2]] * 3
        await asyncio.gather(
            *(store.note_faults([a_change(key) for key in order]) for order in orders)
        )
        assert [(one.fault, one.attempts) for one in await store.faults()] == [
            (key, len(orders)) for key in keys
        ]

    async def test_beyond_the_limit_faults_are_counted_as_others(self, store: Store) -> None:
        keys = range(1, FAULTS_MAX + 1)
        await store.note_faults([a_change(key) for key in keys])
        assert await store.fault(OTHER) is None
        await store.note_faults([a_change(FAULTS_MAX + key) for key in (1, 2)] + [a_change(5)])
        await store.note_faults([a_change(FAULTS_MAX + 3)])
        faults = await store.faults()
        assert len(faults) == FAULTS_MAX + 1
        assert (faults[0].fault, faults[0].attempts, faults[0].hours) == (OTHER, 3, (3,))
        assert (await stored_fault(store, 5)).attempts == 2

    async def test_a_fault_is_silenced_and_counts_on(self, store: Store) -> None:
        assert not await store.silence_fault(GREATEST, NOW, None)
        await store.note_faults([a_change()])
        assert await store.silence_fault(GREATEST, NOW + DAY, "known: größer")
        await store.note_faults([a_change()])
        record = await stored_fault(store)
        assert (record.silenced_until, record.note) == (NOW + DAY, "known: größer")
        assert record.attempts == 2
        assert await store.silence_fault(GREATEST, None, None)
        record = await stored_fault(store)
        assert (record.silenced_until, record.note) == (None, None)

    async def test_a_fault_has_a_note_and_the_process_that_told_first(self, store: Store) -> None:
        first = FaultProcess(id=WorkerId("w"), host="größer", pid=7, started_at=NOW, release="4.2")
        note = OperatorNote(text="known: “größer” \U0001f600", by="ada", at=NOW)
        assert not await store.write_fault_note(GREATEST, note)
        await store.note_faults([a_change(process=first)])
        other = replace(first, id=WorkerId("v"), release=None)
        await store.note_faults([a_change(process=other), a_change(5)])
        assert await store.write_fault_note(GREATEST, note)
        record = await stored_fault(store)
        assert (record.process, record.operator_note) == (first, note)
        unknown = await stored_fault(store, 5)
        assert (unknown.process, unknown.operator_note) == (None, None)
        assert await store.write_fault_note(GREATEST, None)
        assert (await stored_fault(store)).operator_note is None

    async def test_old_faults_are_pruned_by_their_last_failure(self, store: Store) -> None:
        await store.note_faults([a_change(1), a_change(2, last_at=NOW + SECOND)])
        assert await store.prune_faults(NOW) == 0
        assert await store.prune_faults(NOW + SECOND) == 1
        assert [one.fault for one in await store.faults()] == [2]

    async def test_dead_letters_are_told_without_their_bodies(self, store: Store) -> None:
        letters = [a_dead_letter(reason=f'“no” "{n}"', body=b"\xff") for n in range(3)]
        await store.add_dead_letters(letters)
        heads = await store.dead_letter_heads(None, 2)
        assert [(one.id, one.at, one.source, one.reason) for one in heads] == [
            (letter.id, letter.at, letter.source, letter.reason) for letter in letters[:0:-1]
        ]
        (last,) = await store.dead_letter_heads(letters[1].id, 2)
        assert last.id == letters[0].id
