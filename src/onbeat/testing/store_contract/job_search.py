"""Searches of jobs by what no index knows, and how far they look."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import Raw

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Failed
from onbeat.model.page import Counted, JobFilter
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_schedule, an_id
from onbeat.testing.store_contract.steps import add_planned, end, ids_of, run_job

TIMEOUT = Failed("Traceback\nGatewayTimeout: no answer from 10.0.0.7", retryable=False)
REFUSED = Failed("Traceback\nCardRefused: 100 %_ Ärger", retryable=False)


async def found(store: Store, **filters: Any) -> list[str]:
    return ids_of((await store.jobs(JobFilter(**filters))).items)


async def ended(store: Store, at: Any, **fields: Any) -> Job:
    job = await run_job(store, a_job(**fields))
    return await end(store, job, TIMEOUT, at)


class JobSearchContract:
    async def test_a_task_with_a_star_stands_for_all_that_begin_so(self, store: Store) -> None:
        names = ("billing.charge", "billing", "billing.refund", "xbilling.charge", "Billing.charge")
        jobs = [a_job(name) for name in names]
        await store.enqueue(jobs)
        assert await found(store, task="billing.*") == [jobs[2].id, jobs[0].id]
        assert await found(store, task="billing") == [jobs[1].id]
        assert await found(store, task="*") == ids_of(jobs[::-1])

    async def test_a_label_is_found_whole(self, store: Store) -> None:
        labels = (
            {"run": "2026-11"},
            {"run": "2026-1"},
            {"rerun": "2026-11"},
            {"a": "b", "run": "2026-11", "z": "y"},
            {"run:2026": "11"},
            {"run": "2026:11"},
        )
        jobs = [a_job(labels=one) for one in labels]
        alike = a_job(target=HandlerTarget("work", kwargs=Raw(b'{"run":"2026-11"}')))
        await store.enqueue([*jobs, alike])
        assert await found(store, label=("run:2026-11",)) == [jobs[3].id, jobs[0].id]
        assert await found(store, label=("run:2026:11",)) == [jobs[5].id, jobs[4].id]
        assert await found(store, label=("run:2026-11", "a:b")) == [jobs[3].id]
        assert await found(store, label=("run:",)) == []

    @pytest.mark.parametrize("value", ['say "hi"', "back\\slash", "Ärger", "a:b", "", "100 %_"])
    async def test_any_label_is_found(self, store: Store, value: str) -> None:
        job = a_job(labels={"who": value})
        await store.enqueue([job, a_job(labels={"who": "else"})])
        assert await found(store, label=(f"who:{value}",)) == [job.id]

    async def test_a_part_of_the_error_is_found_in_any_case(self, store: Store) -> None:
        late = await end(store, await run_job(store, a_job()), TIMEOUT)
        refused = await end(store, await run_job(store, a_job()), REFUSED)
        await end(store, await run_job(store, a_job()))
        assert await found(store, error="gatewaytimeout: NO") == [late.id]
        assert await found(store, error="traceback") == [refused.id, late.id]
        assert await found(store, error="100 %_ Ärger") == [refused.id]
        assert await found(store, error="100 __ Ärger") == []
        assert await found(store, error="Traceback", state=JobState.SUCCEEDED) == []

    async def test_time_is_when_a_job_ended_or_else_is_due(self, store: Store) -> None:
        early = await ended(store, NOW + MINUTE)
        late = await ended(store, NOW + HOUR)
        waits = a_job(due_at=NOW + HOUR)
        await store.enqueue([waits])
        assert await found(store, since=NOW + HOUR) == [waits.id, late.id]
        assert await found(store, until=NOW + HOUR) == [early.id]
        assert await found(store, since=NOW + MINUTE, until=NOW + HOUR) == [early.id]
        assert await found(store, since=NOW + HOUR, state=JobState.WAITING) == [waits.id]

    async def test_all_filters_hold_together(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        match = a_job("mail", queue="slow", labels={"a": "b"}, schedule_id=schedule.id)
        others = [
            a_job("mail", queue="slow", labels={"a": "b"}),
            a_job("mail", queue="slow", labels={"a": "c"}, schedule_id=schedule.id),
            a_job("mail", queue="fast", labels={"a": "b"}, schedule_id=schedule.id),
            a_job("post", queue="slow", labels={"a": "b"}, schedule_id=schedule.id),
        ]
        await store.enqueue([match, *others])
        page = await found(
            store, task="mail", queue="slow", label=("a:b",), schedule_id=schedule.id, since=NOW
        )
        assert page == [match.id]

    async def test_a_unique_key_is_found_whole(self, store: Store) -> None:
        past = await ended(store, NOW + MINUTE, unique="mail:7")
        jobs = [a_job(unique=key) for key in ("mail:7", "Mail:7", "mail:7 ", "mail:77")]
        await store.enqueue([*jobs, a_job()])
        assert await found(store, unique="mail:7") == [jobs[0].id, past.id]
        assert await found(store, unique="mail:7", state=JobState.WAITING) == [jobs[0].id]
        assert await found(store, unique="mail:") == []
        assert (await store.count_jobs(JobFilter(unique="mail:7"), 10)).count == 2

    async def test_named_jobs_are_judged_too(self, store: Store) -> None:
        jobs = [a_job(), a_job(), a_job(queue="slow")]
        await store.enqueue(jobs)
        ids = (jobs[2].id, jobs[0].id, JobId(an_id()))
        assert await found(store, ids=ids) == [jobs[2].id, jobs[0].id]
        assert await found(store, ids=ids, queue="slow") == [jobs[2].id]
        assert await found(store, ids=ids, before=jobs[2].id) == [jobs[0].id]
        assert await found(store, ids=()) == []

    async def test_a_search_says_how_far_it_looked_and_goes_on(self, store: Store) -> None:
        wanted = a_job(queue="rare", created_at=NOW)
        rest = [a_job(created_at=NOW + n * SECOND) for n in range(1, 8)]
        await store.enqueue([wanted, *rest])
        first = await store.jobs(JobFilter(queue="rare", look=5))
        assert first.items == ()
        assert first.searched == 5
        assert first.searched_to == rest[2].created_at
        assert first.cursor == rest[2].id
        assert first.cursor is not None
        on = JobFilter(queue="rare", look=5, before=JobId(first.cursor))
        second = await store.jobs(on)
        assert ids_of(second.items) == [wanted.id]
        assert (second.cursor, second.searched_to) == (None, None)

    async def test_a_full_page_is_no_early_end(self, store: Store) -> None:
        jobs = [a_job(queue="slow") for _ in range(6)]
        await store.enqueue(jobs)
        pages: list[str] = []
        before = None
        for _ in range(3):
            page = await store.jobs(JobFilter(queue="slow", limit=2, before=before, look=5))
            assert page.searched_to is None
            pages += ids_of(page.items)
            before = JobId(page.cursor) if page.cursor else None
        assert pages == ids_of(jobs[::-1])
        assert before is None

    async def test_matches_are_counted_up_to_a_bound(self, store: Store) -> None:
        await store.enqueue([a_job(labels={"a": "b"}, queue="slow") for _ in range(4)])
        await store.enqueue([a_job(labels={"a": "c"}) for _ in range(2)])
        waiting = JobFilter(state=JobState.WAITING)
        for filter in (JobFilter(queue="slow"), JobFilter(label=("a:b",)), waiting):
            expected = 6 if filter is waiting else 4
            assert await store.count_jobs(filter, 10) == Counted(expected, more=False)
            assert await store.count_jobs(filter, expected) == Counted(expected, more=False)
            assert await store.count_jobs(filter, expected - 1) == Counted(expected - 1, more=True)

    async def test_counting_ends_after_so_many_jobs(self, store: Store) -> None:
        await store.enqueue([a_job() for _ in range(5_001)])
        rare = JobFilter(state=JobState.WAITING, queue="slow")
        assert await store.count_jobs(rare, 10, look=5_000) == Counted(0, more=True)
        assert await store.count_jobs(rare, 10, look=10_000) == Counted(0, more=False)

    async def test_errors_and_named_jobs_are_counted(self, store: Store) -> None:
        failed = await ended(store, NOW + timedelta(seconds=1))
        other = await end(store, await run_job(store, a_job()), REFUSED)
        assert (await store.count_jobs(JobFilter(error="NO answer"), 10)).count == 1
        assert (await store.count_jobs(JobFilter(error="Ärger"), 10)).count == 1
        ids = (failed.id, other.id)
        assert (await store.count_jobs(JobFilter(ids=ids, error="trace"), 10)).count == 2
