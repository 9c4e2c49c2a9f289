"""Listings: filters, order and pages."""

from operator import attrgetter

import pytest

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, ScheduleFilter
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.target import HttpTarget
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, a_job, a_schedule, an_id, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    add_planned,
    claim_jobs,
    end,
    ids_of,
    run_and_end,
    run_job,
)


class JobListingContract:
    async def test_jobs_are_listed_newest_first(self, store: Store) -> None:
        jobs = [a_job(), a_job(), a_job()]
        await store.enqueue(jobs)
        page = await store.jobs(JobFilter())
        assert ids_of(page.items) == ids_of(jobs[::-1])

    async def test_jobs_of_all_states_are_listed_together(self, store: Store) -> None:
        jobs = [
            await run_and_end(store, a_job()),
            await run_and_end(store, a_job(), FAILURE),
            await run_job(store, a_job()),
        ]
        waiting = a_job()
        await store.enqueue([waiting])
        page = await store.jobs(JobFilter())
        assert list(page.items) == [waiting, *jobs[::-1]]

    @pytest.mark.parametrize("state", list(JobState))
    async def test_jobs_are_listed_by_state(self, store: Store, state: JobState) -> None:
        cancelled = a_job()
        await store.enqueue([cancelled])
        await store.cancel([cancelled.id], "by hand", NOW)
        by_state = {
            JobState.CANCELLED: cancelled.id,
            JobState.SUCCEEDED: (await run_and_end(store, a_job())).id,
            JobState.FAILED: (await run_and_end(store, a_job(), FAILURE)).id,
            JobState.RUNNING: (await run_job(store, a_job())).id,
        }
        waiting = a_job()
        await store.enqueue([waiting])
        by_state[JobState.WAITING] = waiting.id
        page = await store.jobs(JobFilter(state=state))
        assert ids_of(page.items) == [by_state[state]]

    async def test_jobs_are_listed_by_queue(self, store: Store) -> None:
        job = a_job(queue="slow")
        await store.enqueue([a_job(), job])
        page = await store.jobs(JobFilter(queue="slow"))
        assert ids_of(page.items) == [job.id]

    async def test_jobs_are_listed_by_task(self, store: Store) -> None:
        job = a_job("rare")
        await store.enqueue([a_job(), job, a_job(target=HttpTarget("https://example.org/"))])
        page = await store.jobs(JobFilter(task="rare"))
        assert ids_of(page.items) == [job.id]

    async def test_jobs_are_listed_by_schedule(self, store: Store) -> None:
        schedule = a_schedule()
        job = an_occurrence(schedule)
        await add_planned(store, schedule, job)
        await store.enqueue([a_job()])
        page = await store.jobs(JobFilter(schedule_id=schedule.id))
        assert ids_of(page.items) == [job.id]

    async def test_filters_narrow_each_other(self, store: Store) -> None:
        job = a_job("rare", queue="slow")
        await store.enqueue([job, a_job("rare"), a_job(queue="slow")])
        page = await store.jobs(JobFilter(task="rare", queue="slow", state=JobState.WAITING))
        assert ids_of(page.items) == [job.id]

    async def test_pages_walk_through_all_jobs_once(self, store: Store) -> None:
        jobs = [await run_and_end(store, a_job()) for _ in range(3)]
        waiting = [a_job() for _ in range(4)]
        await store.enqueue(waiting)
        seen: list[str] = []
        before: JobId | None = None
        while True:
            page = await store.jobs(JobFilter(limit=3, before=before))
            seen += ids_of(page.items)
            if page.cursor is None:
                break
            before = JobId(page.cursor)
        assert seen == ids_of([*jobs, *waiting][::-1])

    async def test_a_page_that_holds_all_has_no_next(self, store: Store) -> None:
        await store.enqueue([a_job(), a_job()])
        page = await store.jobs(JobFilter(limit=2))
        assert page.cursor is None

    async def test_a_page_goes_on_after_its_cursor(self, store: Store) -> None:
        jobs = [a_job(), a_job(), a_job()]
        await store.enqueue(jobs)
        page = await store.jobs(JobFilter(limit=2))
        assert page.cursor == jobs[1].id

    async def test_a_total_counts_all_that_match(self, store: Store) -> None:
        jobs = [a_job() for _ in range(5)]
        await store.enqueue([*jobs, a_job(queue="other")])
        page = await store.jobs(JobFilter(queue="default", limit=2, before=jobs[3].id))
        assert page.total in (5, None)

    async def test_nothing_is_known_of_an_unknown_job(self, store: Store) -> None:
        id = JobId(an_id())
        assert await store.job(id) is None
        assert list(await store.attempts(id)) == []
        assert list(await store.transitions(id)) == []


class ScheduleListingContract:
    async def test_schedules_are_listed_newest_first(self, store: Store) -> None:
        schedules = [a_schedule() for _ in range(3)]
        for schedule in schedules:
            await add_planned(store, schedule)
        page = await store.schedules(ScheduleFilter())
        assert list(page.items) == schedules[::-1]

    async def test_schedules_are_listed_by_status(self, store: Store) -> None:
        paused = a_schedule(status=ScheduleStatus.PAUSED)
        await add_planned(store, a_schedule())
        await add_planned(store, paused)
        page = await store.schedules(ScheduleFilter(status=ScheduleStatus.PAUSED))
        assert (list(page.items), page.total) == ([paused], 1)

    async def test_a_page_of_schedules_begins_at_the_offset(self, store: Store) -> None:
        schedules = [a_schedule() for _ in range(5)]
        for schedule in schedules:
            await add_planned(store, schedule)
        page = await store.schedules(ScheduleFilter(limit=2, offset=1))
        assert (list(page.items), page.total) == ([schedules[3], schedules[2]], 5)

    async def test_a_page_past_the_end_is_empty(self, store: Store) -> None:
        await add_planned(store, a_schedule())
        page = await store.schedules(ScheduleFilter(offset=5))
        assert (page.items, page.total) == ((), 1)

    @pytest.mark.parametrize("q", ["nightly", "NIGHT", "ly Rep", "billing/", "BILLING", ""])
    async def test_a_text_is_found_in_name_or_key_in_any_case(self, store: Store, q: str) -> None:
        schedule = a_schedule(name="Nightly report", key="billing/7")
        await add_planned(store, schedule)
        page = await store.schedules(ScheduleFilter(q=q))
        assert list(page.items) == [schedule]

    @pytest.mark.parametrize("q", ["ärger", "ÄRGER", "ЖУРНАЛ", "журнал"])
    async def test_any_case_holds_beyond_ascii(self, store: Store, q: str) -> None:
        schedule = a_schedule(name="Ärger, Журнал")
        await add_planned(store, schedule)
        page = await store.schedules(ScheduleFilter(q=q))
        assert list(page.items) == [schedule]

    @pytest.mark.parametrize("q", ["%", "_", "n%t", "n_ghtly", "*", "\\", "'", "[a-z]"])
    async def test_signs_of_patterns_stand_for_themselves(self, store: Store, q: str) -> None:
        await add_planned(store, a_schedule(name="nightly", key="key"))
        literal = a_schedule(name=f"so {q} it is")
        await add_planned(store, literal)
        page = await store.schedules(ScheduleFilter(q=q))
        assert list(page.items) == [literal]

    async def test_a_text_does_not_reach_from_name_to_key(self, store: Store) -> None:
        await add_planned(store, a_schedule(name="ab", key="cd"))
        page = await store.schedules(ScheduleFilter(q="bc"))
        assert (page.items, page.total) == ((), 0)

    async def test_an_edit_is_found_by_its_new_name(self, store: Store) -> None:
        await add_planned(store, old := a_schedule(name="old"))
        new = a_schedule(id=old.id, name="new", version=2)
        await store.update_schedule(new, None, NOW)
        assert (await store.schedules(ScheduleFilter(q="old"))).items == ()
        assert (await store.schedules(ScheduleFilter(q="new"))).items == (new,)


class OccurrenceListingContract:
    async def test_jobs_still_to_end_are_listed_latest_first(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in (2, 1, 3)]
        await add_planned(store, schedule, *jobs)
        page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule.id, ended=False))
        assert ids_of(page.items) == ids_of([jobs[2], jobs[0], jobs[1]])

    async def test_running_jobs_are_still_to_end(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule.id, ended=False))
        assert page.items == (job,)

    async def test_ended_jobs_are_listed_by_themselves(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(
            store, schedule, an_occurrence(schedule), an_occurrence(schedule, NOW + HOUR)
        )
        (job,) = await claim_jobs(store)
        settled = await end(store, job)
        page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule.id, ended=True))
        assert page.items == (settled,)

    async def test_jobs_of_other_schedules_are_not_listed(self, store: Store) -> None:
        schedule, other = a_schedule(), a_schedule()
        await add_planned(store, other, an_occurrence(other))
        page = await store.occurrence_jobs(OccurrenceFilter(schedule_id=schedule.id, ended=False))
        assert page.items == ()

    async def test_a_page_of_occurrences_begins_at_the_offset(self, store: Store) -> None:
        schedule = a_schedule()
        jobs = [an_occurrence(schedule, NOW + number * HOUR) for number in range(5)]
        await add_planned(store, schedule, *jobs)
        filter = OccurrenceFilter(schedule_id=schedule.id, ended=False, limit=2, offset=1)
        page = await store.occurrence_jobs(filter)
        assert ids_of(page.items) == ids_of([jobs[3], jobs[2]])

    @pytest.mark.parametrize("ended", [False, True])
    async def test_occurrences_are_listed_by_run_time_whenever_they_are_due(
        self, store: Store, *, ended: bool
    ) -> None:
        schedule = a_schedule()
        late = [(0, 9), (2, 2), (4, 9), (1, 9), (3, 3)]  # a backfill, or another try, is due later
        jobs = [
            an_occurrence(schedule, NOW + at * HOUR, due_at=NOW + due * HOUR) for at, due in late
        ]
        by_hand = [
            an_occurrence(schedule, occurrence=None, due_at=NOW + minutes * MINUTE)
            for minutes in (90, 90, 600)
        ]
        await add_planned(store, schedule, *jobs)
        await store.enqueue(by_hand)
        if ended:
            for job in await claim_jobs(store, now=NOW + 10 * HOUR):
                await end(store, job, now=NOW + 10 * HOUR)
        low, high = sorted(by_hand[:2], key=attrgetter("id"))
        wanted = [by_hand[2], jobs[2], jobs[4], jobs[1], high, low, jobs[3], jobs[0]]
        for limit in (1, 3, 8, 9):
            pages = [
                await store.occurrence_jobs(
                    OccurrenceFilter(
                        schedule_id=schedule.id, ended=ended, limit=limit, offset=offset
                    )
                )
                for offset in range(0, 9, limit)
            ]
            assert ids_of([job for page in pages for job in page.items]) == ids_of(wanted)
