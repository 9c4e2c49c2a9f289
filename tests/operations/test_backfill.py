"""What is made up for by hand runs now, whatever its schedule says of lateness."""

from datetime import timedelta

from onbeat.model.page import JobFilter
from onbeat.operations.tables.schedules import SCHEDULE_BACKFILL, SCHEDULE_CREATE, SCHEDULE_PAUSE
from operations.harness import NOON, OperationsHarness

HOURLY = {"name": "hourly", "cron": "0 * * * *", "target": {"task": "tick"}, "expires_after": "5m"}


async def test_made_up_occurrences_are_due_now_and_do_not_expire() -> None:
    office = OperationsHarness()
    answer = await office.ask(SCHEDULE_CREATE, HOURLY)
    await office.ask(SCHEDULE_PAUSE, id=answer["id"])

    span = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-01T02:00:00Z"}
    assert await office.ask(SCHEDULE_BACKFILL, span, id=answer["id"]) == {"jobs": 3}

    made = [
        job
        for job in (await office.store.jobs(JobFilter())).items
        if job.occurrence is not None and job.occurrence < NOON - timedelta(hours=1)
    ]
    assert len(made) == 3
    assert {(job.due_at, job.start_by, job.expires_at) for job in made} == {(NOON, None, None)}
