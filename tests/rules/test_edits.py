from msgspec.structs import replace

from onbeat.model.ids import ScheduleId
from onbeat.model.schedule import Overlap
from onbeat.model.target import HandlerTarget
from onbeat.rules.plans import follow_schedule
from onbeat.testing.build import NOW, a_job, a_schedule


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
