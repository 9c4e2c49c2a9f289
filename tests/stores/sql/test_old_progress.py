"""Progress as earlier versions stored it: whatever a handler reported."""

import pytest

from onbeat.model.job import Progress
from onbeat.stores.sql.jobs import read_progress


@pytest.mark.parametrize("text", ["[null,null]", '["0.5",null]', "[null]", "7"])
def test_progress_that_is_no_number_is_none(text: str) -> None:
    """Its row must not keep others from being read: a rescuer reads those of all dead workers."""
    assert read_progress(text) is None
    assert read_progress("[1,null]") == Progress(1)
