"""Runs of schedules within a span of time."""

from datetime import datetime

from msgspec.structs import replace

from onbeat.model.job import Job, JobState
from onbeat.model.plan import Skip
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, TICK, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    add_planned,
    claim_jobs,
    end,
    stored_job,
)

BEFORE = NOW - HOUR
AFTER = NOW + HOUR


async def run_of(store: Store, job: Job) -> JobRun:
    job = await stored_job(store, job)
    assert job.schedule_id is not None
    return JobRun(
        id=job.id,
        schedule_id=job.schedule_id,
        state=job.state,
        due_at=job.due_at,
        occurrence=job.occurrence,
        started_at=job.started_at,
        finished_at=job.finished_at,
        attempt=job.attempt,
        reason=job.reason,
    )


def occurrences(schedule: Schedule, *times: datetime) -> list[Job]:
    return [an_occurrence(schedule, at) for at in times]


async def add_runs(store: Store, schedule: Schedule) -> list[Job]:
    """In order of their times: failed, succeeded, running, waiting."""
    times = (NOW - 30 * MINUTE, NOW - 20 * MINUTE, NOW - 10 * MINUTE, NOW + 10 * MINUTE)
    jobs = occurrences(schedule, *times)
    await add_planned(store, schedule, *jobs)
    claimed = {job.id: job for job in await claim_jobs(store)}
    await end(store, claimed[jobs[0].id], FAILURE)
    await end(store, claimed[jobs[1].id])
    return jobs


class TimelineContract:
    async def test_runs_of_a_span_are_live_and_ended_ones(self, store: Store) -> None:
        jobs = await add_runs(store, schedule := a_schedule())
        await add_runs(store, a_schedule())
        runs = await store.runs_between([schedule.id], BEFORE, AFTER, 10)
        assert list(runs) == [await run_of(store, job) for job in reversed(jobs)]
        assert [run.state for run in reversed(runs)] == [
            "failed",
            "succeeded",
            "running",
            "waiting",
        ]
        assert runs[-1].finished_at == NOW

    async def test_a_span_begins_with_its_first_instant_and_ends_before_its_last(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        jobs = occurrences(schedule, BEFORE - TICK, BEFORE, AFTER - TICK, AFTER)
        await add_planned(store, schedule, *jobs)
        runs = await store.runs_between([schedule.id], BEFORE, AFTER, 10)
        assert [run.id for run in runs] == [jobs[2].id, jobs[1].id]

    async def test_each_schedule_has_its_latest_runs(self, store: Store) -> None:
        first, second = a_schedule(), a_schedule()
        jobs = await add_runs(store, first)
        others = await add_runs(store, second)
        ids = [second.id, first.id, a_schedule().id]
        for limit in (1, 3):
            runs = await store.runs_between(ids, BEFORE, AFTER, limit)
            kept = [*jobs[-limit:][::-1], *others[-limit:][::-1]]
            assert [run.id for run in runs] == [job.id for job in kept]
        assert list(await store.runs_between([], BEFORE, AFTER, 10)) == []

    async def test_runs_are_counted_by_state_in_spans_of_time(self, store: Store) -> None:
        await add_runs(store, schedule := a_schedule())
        for width, starts in ((HOUR, (0, 0, 0, 1)), (25 * MINUTE, (1, 1, 2, 2))):
            counts = await store.run_counts([schedule.id], BEFORE, AFTER, width, 10)
            states = ("failed", "succeeded", "running", "waiting")
            expected = {
                (BEFORE + start * width, state) for start, state in zip(starts, states, strict=True)
            }
            assert {(one.at, one.state) for one in counts} == expected
            assert {one.count for one in counts} == {1}

    async def test_equal_runs_are_one_count_and_the_limit_keeps_the_latest(
        self, store: Store
    ) -> None:
        schedule = a_schedule()
        times = [NOW + number * SECOND for number in range(7)]
        await add_planned(store, schedule, *occurrences(schedule, *times))
        ids = [schedule.id]

        def count(at: datetime, count: int, first: int = 0) -> RunCount:
            state, first_at = JobState.WAITING, NOW + first * SECOND
            return RunCount(
                schedule_id=schedule.id, at=at, state=state, count=count, first_at=first_at
            )

        assert list(await store.run_counts(ids, NOW, AFTER, HOUR, 10)) == [count(NOW, 7)]
        assert list(await store.run_counts(ids, NOW, AFTER, HOUR, 4)) == [count(NOW, 4, 3)]
        latest = await store.run_counts(ids, NOW, AFTER, 5 * SECOND, 3)
        assert sorted(latest, key=lambda one: one.at) == [
            count(NOW, 1, 4),
            count(NOW + 5 * SECOND, 2, 5),
        ]
        assert list(await store.run_counts([], NOW, AFTER, HOUR, 10)) == []

    async def test_skips_that_overlap_a_span_are_told_with_their_reason(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        at = [BEFORE + number * MINUTE for number in range(-9, 9)]
        skips = (
            Skip(at[0], at[1], "long before"),
            Skip(at[7], at[10], "around the start"),
            Skip(at[12], at[12], "an overlap"),
            Skip(at[15], at[15], "after the end"),
        )
        job = an_occurrence(schedule, at[11])
        await add_planned(store, schedule, job, skips=skips)
        await add_planned(store, other, skips=(replace(skips[2], reason="of the other"),))

        async def found(limit: int = 10) -> list[SkippedSpan]:
            ids = [other.id, schedule.id]
            spans = await store.skips_between(ids, BEFORE, at[13], limit)
            return sorted(spans, key=lambda span: (span.schedule_id, span.first))

        expected = [
            SkippedSpan(schedule_id=id, first=one.first, last=one.last, reason=reason)
            for id, one, reason in (
                (schedule.id, skips[1], "around the start"),
                (schedule.id, skips[2], "an overlap"),
                (other.id, skips[2], "of the other"),
            )
        ]
        assert await found() == expected
        assert await found(limit=1) == expected[1:]

    async def test_occurrences_whose_jobs_were_deleted_are_told(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = occurrences(schedule, NOW - 30 * MINUTE, NOW - 20 * MINUTE, NOW - 10 * MINUTE)
        skip = Skip(NOW - 25 * MINUTE, NOW - 25 * MINUTE, "an overlap")
        await add_planned(store, schedule, *jobs, skips=(skip,))
        claimed = {job.id: job for job in await claim_jobs(store)}
        await end(store, claimed[jobs[0].id])
        await end(store, claimed[jobs[1].id], FAILURE)
        ids = [schedule.id, a_schedule().id]
        assert list(await store.forgotten_between(ids, BEFORE, AFTER, 10)) == []

        assert await store.prune(finished_before=NOW + TICK, failed_before=BEFORE, limit=10) == 1

        assert jobs[0].occurrence is not None
        gone = ForgottenRun(schedule_id=schedule.id, at=jobs[0].occurrence)
        assert list(await store.forgotten_between(ids, BEFORE, AFTER, 10)) == [gone]
        assert list(await store.forgotten_between(ids, gone.at, gone.at, 10)) == [gone]
        assert list(await store.forgotten_between(ids, gone.at + TICK, AFTER, 10)) == []
        assert list(await store.forgotten_between(ids, BEFORE, AFTER, 1)) == []
