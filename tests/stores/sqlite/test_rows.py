"""That no field of a record is forgotten on its way into a row."""

from onbeat.model.job import Job
from onbeat.model.schedule import Schedule
from onbeat.stores.sqlite.rows import SCHEDULE_SPEC, SPEC

IN_COLUMNS_OF_JOBS = {
    *("id", "due_at", "start_by", "state", "reason", "blocked_by", "token", "worker", "attempt"),
    *("lost", "released", "started_at", "finished_at", "cancel_reason", "result", "error", "fault"),
    *("progress", "lease_until", "cursor", "suspicion", "cause_id"),
}
IN_COLUMNS_OF_SCHEDULES = {"planned_through", "plan_at", "status", "version"}


def test_every_field_of_a_job_has_one_place() -> None:
    assert {*SPEC.names} | IN_COLUMNS_OF_JOBS == {*Job.__struct_fields__}
    assert not {*SPEC.names} & IN_COLUMNS_OF_JOBS


def test_every_field_of_a_schedule_has_one_place() -> None:
    fields = {*SCHEDULE_SPEC.names}
    assert fields | IN_COLUMNS_OF_SCHEDULES == {*Schedule.__struct_fields__}
    assert not fields & IN_COLUMNS_OF_SCHEDULES
