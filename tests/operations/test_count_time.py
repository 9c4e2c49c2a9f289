"""Counts beside a list take a bounded time, whatever the filter."""

from typing import Any

import pytest

from onbeat.model.job import JobState
from onbeat.model.limits import COUNTED_LOOK_MIN, COUNTED_SEARCH_MAX, COUNTED_SECONDS_MAX
from onbeat.model.page import Counted, JobFilter
from onbeat.operations.job_counts import count_states
from operations.harness import OperationsHarness


async def test_slow_counts_look_at_fewer_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = OperationsHarness()
    looks: dict[JobState, int] = {}

    async def slow(filter: JobFilter, _most: int, *, look: int) -> Counted:
        assert filter.state is not None
        looks[filter.state] = look
        if filter.state is JobState.FAILED:
            harness.move(seconds=COUNTED_SECONDS_MAX)
        return Counted(3, more=False)

    store: Any = harness.store
    monkeypatch.setattr(store, "count_jobs", slow)
    counts = await count_states(harness.context, JobFilter(task="none"))
    assert list(counts) == list(JobState), "in their usual order"
    assert looks == {
        JobState.RUNNING: COUNTED_SEARCH_MAX,
        JobState.FAILED: COUNTED_SEARCH_MAX,
        JobState.CANCELLED: COUNTED_LOOK_MIN,
        JobState.WAITING: COUNTED_LOOK_MIN,
        JobState.SUCCEEDED: COUNTED_LOOK_MIN,
    }
