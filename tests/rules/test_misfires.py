"""Events about occurrences that came too late."""

from datetime import timedelta
from typing import Any

import msgspec

from onbeat.model.plan import Plan
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp
from onbeat.rules.expiry import judge_overdue
from onbeat.rules.plans import plan, replan
from onbeat.testing.build import NOW, a_schedule, an_id, an_occurrence

HOUR = timedelta(hours=1)
HOURLY = RecurrenceSpec(kind="cron", text="0 * * * *")


def told(made: Plan) -> list[Any]:
    given = [*(skip.event for skip in made.skips), *(drop.event for drop in made.dropped)]
    return [msgspec.json.decode(one.data or b"") for one in given if one is not None]


def ids(count: int) -> list[str]:
    return [an_id() for _ in range(count)]


def test_late_occurrences_share_one_event() -> None:
    schedule = a_schedule(recurrence=HOURLY, planned_through=NOW - 4 * HOUR)
    (misfire,) = told(plan(schedule, NOW, HOUR, ids))
    assert (misfire["first"], misfire["last"], misfire["job"]) == (
        "2030-01-01T09:00:00Z",
        "2030-01-01T11:00:00Z",
        None,
    )


def test_what_is_replanned_or_in_time_is_no_misfire() -> None:
    schedule = a_schedule(recurrence=HOURLY, planned_through=NOW - 4 * HOUR)
    assert told(replan(schedule, NOW, HOUR, ids, "schedule was paused")) == []
    assert told(plan(a_schedule(recurrence=HOURLY, planned_through=NOW), NOW, HOUR, ids)) == []


def test_a_job_that_waited_for_too_long_has_its_own_and_an_expired_one_has_none() -> None:
    schedule = a_schedule(recurrence=HOURLY, catch_up=CatchUp.NONE)
    late = an_occurrence(schedule, NOW - HOUR)
    expired = an_occurrence(schedule, NOW - HOUR, expires_at=NOW - HOUR)
    (misfire,) = told(judge_overdue(schedule, [late, expired], NOW))
    assert (misfire["job"], misfire["first"]) == (late.id, "2030-01-01T11:00:00Z")
