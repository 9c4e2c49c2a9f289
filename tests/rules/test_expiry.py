from typing import Any

from onbeat.model.job import Job
from onbeat.model.plan import Dropped
from onbeat.model.schedule import CatchUp, Schedule
from onbeat.rules.expiry import EXPIRED, judge_overdue
from onbeat.rules.plans import MISFIRED
from onbeat.testing.build import SECOND, TICK, a_job, a_schedule, an_occurrence
from rules.instants import at, reading, untold

READ = reading(at(10), at(20), at(30), at(90))


def lapsed_jobs(schedule: Schedule, *seconds: int, **fields: Any) -> list[Job]:
    return [
        an_occurrence(schedule, at(second), start_by=at(second + 1), **fields) for second in seconds
    ]


def test_under_latest_only_the_newest_occurrence_may_still_run() -> None:
    schedule = a_schedule(catch_up=CatchUp.LATEST)
    first, second, third = jobs = lapsed_jobs(schedule, 10, 20, 30)
    made = judge_overdue(schedule, jobs, at(60), READ)
    assert made.allowed_late == (third.id,)
    assert made.decided_at == at(60)
    assert untold(made.dropped) == (Dropped(first.id, MISFIRED), Dropped(second.id, MISFIRED))


def test_under_latest_nothing_runs_late_when_a_newer_occurrence_is_due() -> None:
    schedule = a_schedule(catch_up=CatchUp.LATEST)
    (job,) = jobs = lapsed_jobs(schedule, 20)
    made = judge_overdue(schedule, jobs, at(30), READ)
    assert untold(made.dropped) == (Dropped(job.id, MISFIRED),)
    assert judge_overdue(schedule, jobs, at(30) - TICK, READ).allowed_late == (job.id,)


def test_under_none_nothing_late_may_run() -> None:
    schedule = a_schedule(catch_up=CatchUp.NONE)
    (job,) = jobs = lapsed_jobs(schedule, 30)
    made = judge_overdue(schedule, jobs, at(60), READ)
    assert untold(made.dropped) == (Dropped(job.id, MISFIRED),)


def test_under_all_everything_late_may_run() -> None:
    schedule = a_schedule(catch_up=CatchUp.ALL)
    jobs = lapsed_jobs(schedule, 10, 20, 30)
    made = judge_overdue(schedule, jobs, at(60), READ)
    assert made.allowed_late == tuple(job.id for job in jobs)
    assert made.dropped == ()


def test_an_expired_job_is_dropped_whatever_the_catch_up() -> None:
    for catch_up in CatchUp:
        schedule = a_schedule(catch_up=catch_up)
        (job,) = jobs = lapsed_jobs(schedule, 30, expires_at=at(31))
        assert judge_overdue(schedule, jobs, at(60), READ).dropped == (Dropped(job.id, EXPIRED),)


def test_a_job_is_not_expired_at_the_very_instant() -> None:
    schedule = a_schedule(catch_up=CatchUp.ALL)
    (job,) = jobs = lapsed_jobs(schedule, 30, expires_at=at(60))
    assert judge_overdue(schedule, jobs, at(60), READ).allowed_late == (job.id,)


def test_a_job_by_hand_that_lapsed_may_still_run_under_latest() -> None:
    schedule = a_schedule(catch_up=CatchUp.LATEST)
    job = a_job(schedule_id=schedule.id, start_by=at(1))
    assert judge_overdue(schedule, [job], at(60), READ).allowed_late == (job.id,)


def test_judging_changes_nothing_of_the_schedule_itself() -> None:
    schedule = a_schedule(planned_through=at(90), plan_at=at(80))
    made = judge_overdue(schedule, lapsed_jobs(schedule, 10), at(60) + SECOND, READ)
    assert (made.planned_through, made.plan_at, made.version) == (at(90), at(80), schedule.version)
    assert not made.finished
    assert (made.jobs, made.skips) == ((), ())
