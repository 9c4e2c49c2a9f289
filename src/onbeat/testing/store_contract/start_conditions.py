"""What must hold before a job starts is stored with it, and bounds how long it is put off."""

from datetime import timedelta

import msgspec

from onbeat.model.condition import Condition, Window
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Snoozed
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.ports.store import Store
from onbeat.testing.build import MINUTE, NOW, a_job, a_schedule
from onbeat.testing.store_contract.steps import add_planned, end, run_job, stored_job

ASK = HandlerTarget("flag", args=msgspec.Raw(b'["otp"]'))
CONDITIONS = (
    Condition(text="answer.enabled && job.queue == 'a'", ask=ASK, postpone=5 * MINUTE),
    Condition(text="answer.status == 200", ask=HttpTarget("https://example.com/", "POST")),
    Condition(predicate="shop.is_open"),
)
WINDOWS = (
    Window(start=540, end=1080, timezone="Europe/Berlin", days=(0, 1, 2, 3, 4)),
    Window(start=1320, end=360, timezone="UTC"),
)


class StartConditionContract:
    async def test_a_job_keeps_what_must_hold(self, store: Store) -> None:
        for condition in CONDITIONS:
            job = a_job(condition=condition, window=WINDOWS, sensitive=True)
            assert (await run_job(store, job)).condition == condition
            stored = await stored_job(store, job)
            assert (stored.condition, stored.window) == (condition, WINDOWS)
            assert stored.sensitive
            assert (await end(store, stored)).window == WINDOWS

    async def test_a_schedule_keeps_what_must_hold(self, store: Store) -> None:
        schedule = a_schedule(condition=CONDITIONS[0], window=WINDOWS, sensitive=True)
        await add_planned(store, schedule)
        assert await store.schedule(schedule.id) == schedule

    async def test_a_job_that_is_put_off_before_it_starts_expires(self, store: Store) -> None:
        job = await run_job(store, a_job(expires_at=NOW + MINUTE, start_by=NOW + MINUTE))
        again = await put_off(store, job)
        assert (again.state, again.start_by) == (JobState.WAITING, NOW + MINUTE)
        (overdue,) = await store.overdue_jobs(NOW + 2 * MINUTE, 10)
        assert overdue.id == job.id


async def put_off(store: Store, job: Job) -> Job:
    return await end(store, job, Snoozed(timedelta(hours=1), "it is closed", unstarted=True))
