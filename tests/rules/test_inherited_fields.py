"""What jobs of a schedule have of it, whether an instant or an event makes them."""

from onbeat.model.job import INHERITED
from onbeat.model.schedule import ScheduleSpec


def test_no_job_of_a_schedule_has_a_unique_key() -> None:
    """So the router never meets a key that is taken: its jobs are told apart by their ids."""
    assert "unique" not in ScheduleSpec.__struct_fields__
    assert not {"unique", "unique_for"} & {*INHERITED}
