import pytest
from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Overlap
from onbeat.model.target import HandlerTarget
from onbeat.rules.plans import follow_schedule
from onbeat.testing.build import HOUR, MINUTE, NOW, a_job, a_schedule


def test_a_waiting_job_follows_its_schedule_and_keeps_its_times():
    job = a_job(schedule_id=ScheduleId("s"), occurrence=NOW, due_at=NOW, start_by=NOW)
    edited = replace(
        a_schedule(),
        target=HandlerTarget("other"),
        queue="slow",
        priority=7,
        overlap=Overlap.SKIP,
        labels={"a": "b"},
    )
    followed = follow_schedule(job, edited)
    assert (followed.target, followed.queue, followed.priority) == (edited.target, "slow", 7)
    assert (followed.overlap, followed.labels) == (Overlap.SKIP, {"a": "b"})
    assert (followed.id, followed.occurrence, followed.due_at) == (job.id, NOW, NOW)
    assert followed.start_by == NOW


@pytest.mark.parametrize(
    ("times", "expires_at"),
    [
        ({}, NOW + HOUR),
        ({"expires_at": NOW + MINUTE}, NOW + MINUTE),
        ({"started_at": NOW - MINUTE}, None),
    ],
)
def test_a_waiting_job_expires_where_an_edited_condition_puts_it_off(times, expires_at):
    puts_off = Condition(text="false", postpone=MINUTE)
    edited = replace(a_schedule(), condition=puts_off, expires_after=HOUR)
    job = a_job(schedule_id=ScheduleId("s"), due_at=NOW, **times)
    followed = follow_schedule(job, edited)
    assert (followed.start_by, followed.expires_at) == (None, expires_at)
