"""Other due times of waiting jobs, and the last dispositions of a schedule."""

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobState
from onbeat.model.plan import Skip
from onbeat.ports.store import Store
from onbeat.testing.build import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    a_job,
    a_schedule,
    an_id,
    an_occurrence,
)
from onbeat.testing.store_contract.races import CALLERS, claim_all, in_threads
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
    stored_job,
)

JOBS = 100


class RescheduleContract:
    async def test_a_waiting_job_has_another_due_time(self, store: Store) -> None:
        job = a_job(labels={"a": "b"}, group="g", unique="key", created_at=NOW - DAY)
        await store.enqueue([job])
        moved = await store.reschedule(job.id, NOW + HOUR, NOW)
        assert moved is not None
        assert moved.due_at == NOW + HOUR
        assert await stored_job(store, job) == moved
        assert (moved.created_at, moved.labels, moved.unique) == (NOW - DAY, {"a": "b"}, "key")
        assert not await claim_jobs(store, now=NOW + HOUR - SECOND)
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [job.id]

    async def test_it_may_be_due_at_once(self, store: Store) -> None:
        job = a_job(due_at=NOW + DAY)
        await store.enqueue([job])
        await store.reschedule(job.id, NOW, NOW)
        assert ids_of(await claim_jobs(store)) == [job.id]

    async def test_its_history_tells(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        await store.reschedule(job.id, NOW + HOUR, NOW + SECOND)
        (step,) = await store.transitions(job.id)
        assert (step.at, step.to, step.cause) == (NOW + SECOND, "rescheduled", "by hand")

    async def test_a_retry_comes_at_another_time(self, store: Store) -> None:
        job = await end(store, await run_job(store, a_job(retry=IN_A_MINUTE)), PASSING_FAILURE)
        moved = await store.reschedule(job.id, NOW + HOUR, NOW)
        assert moved is not None
        assert (moved.attempt, moved.token) == (1, job.token)
        assert not await claim_jobs(store, now=NOW + MINUTE)
        (again,) = await claim_jobs(store, now=NOW + HOUR)
        assert again.attempt == 2

    async def test_a_job_that_has_lapsed_may_run_again(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule, NOW, start_by=NOW + SECOND)
        await add_planned(store, schedule, job)
        assert not await claim_jobs(store, now=NOW + MINUTE)
        await store.reschedule(job.id, NOW + HOUR, NOW + MINUTE)
        assert not await store.overdue_jobs(NOW + HOUR, 10)
        assert ids_of(await claim_jobs(store, now=NOW + HOUR)) == [job.id]

    async def test_an_expiry_stays(self, store: Store) -> None:
        job = a_job(start_by=NOW + HOUR, expires_at=NOW + HOUR)
        await store.enqueue([job])
        await store.reschedule(job.id, NOW + MINUTE, NOW)
        assert not await claim_jobs(store, now=NOW + HOUR + SECOND)
        assert ids_of(await store.overdue_jobs(NOW + HOUR + SECOND, 10)) == [job.id]

    async def test_a_blocked_job_stays_blocked(self, store: Store) -> None:
        first = a_job(due_at=NOW + DAY)
        last = a_job(after=(first.id,))
        await store.enqueue([first, last])
        await store.reschedule(last.id, NOW, NOW)
        assert not await claim_jobs(store)

    async def test_others_stay_as_they_are(self, store: Store) -> None:
        running = await run_job(store, a_job())
        ended = await run_and_end(store, a_job(), FAILURE)
        for job in (running, ended):
            assert await store.reschedule(job.id, NOW + HOUR, NOW) == job
            assert not await store.transitions(job.id)
        assert await store.reschedule(JobId(an_id()), NOW, NOW) is None

    async def test_beside_a_claim_one_of_both_counts(self, store: Store) -> None:
        jobs = [a_job() for _ in range(JOBS)]
        await store.enqueue(jobs)

        async def act(number: int) -> list[str]:
            if number % 2:
                return await claim_all(store, f"worker-{number}")
            moved = [await store.reschedule(job.id, NOW + DAY, NOW) for job in jobs]
            return [one.id for one in moved if one is not None and one.due_at == NOW + DAY]

        answers = await in_threads(act)
        claimed = {id for ids in answers[1::2] for id in ids}
        after = [await stored_job(store, job) for job in jobs]
        assert {job.id for job in after if job.state is JobState.RUNNING} == claimed
        assert all(is_where_it_should_be(job) for job in after)
        assert len(answers) == CALLERS

    async def test_the_last_dispositions_are_read_latest_first(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        jobs = [an_occurrence(schedule, NOW + at * HOUR) for at in (1, 5, 9)]
        skips = (Skip(NOW + 2 * HOUR, NOW + 4 * HOUR, "paused"), Skip(NOW, NOW, "misfire"))
        await add_planned(store, schedule, *jobs, skips=skips)
        await add_planned(store, other, an_occurrence(other, NOW))
        found = await store.latest_dispositions(schedule.id, NOW + DAY, 10)
        assert [(one.first - NOW) / HOUR for one in found] == [9, 5, 2, 1, 0]
        assert [one.reason for one in found] == [None, None, "paused", None, "misfire"]
        assert list(await store.latest_dispositions(schedule.id, NOW + DAY, 2)) == list(found[:2])
        before = await store.latest_dispositions(schedule.id, found[1].first, 10)
        assert list(before) == list(found[2:])
        within = await store.latest_dispositions(schedule.id, NOW + 3 * HOUR, 10)
        assert list(within) == list(found[3:])
        assert not await store.latest_dispositions(ScheduleId(an_id()), NOW + DAY, 10)


def is_where_it_should_be(job: Job) -> bool:
    """It runs, having been claimed as due; or it waits for the time that it was given."""
    if job.state is JobState.RUNNING:
        return job.due_at == NOW and job.token == 1
    return job.state is JobState.WAITING and job.due_at == NOW + DAY and job.token == 0
