"""How many jobs of each state match a filter, at a bounded cost however many have ended."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from onbeat.model.job import FINAL_STATES, JobState
from onbeat.model.limits import (
    COUNTED_JOBS_MAX,
    COUNTED_LOOK_MAX,
    COUNTED_LOOK_MIN,
    COUNTED_SEARCH_MAX,
    COUNTED_SECONDS_MAX,
)
from onbeat.model.page import JobFilter
from onbeat.model.pulse import Gauges
from onbeat.operations.context import OperationContext
from onbeat.rules.pulses import FINEST
from onbeat.wire.requests import StateCount

FEW_FIRST: Final = (
    JobState.RUNNING, JobState.FAILED, JobState.CANCELLED, JobState.WAITING, JobState.SUCCEEDED,
)  # fmt: skip


async def count_states(
    context: OperationContext, filter: JobFilter
) -> Mapping[JobState, StateCount]:
    """Exact up to `COUNTED_JOBS_MAX`; above it as the newest sample says, where that knows.

    A filter that no index answers is looked for in fewer jobs, and in still fewer once the counts
    have taken their time; the states with few jobs come first.
    """
    sample = await context.store.newest_sample(FINEST)
    found: dict[JobState, StateCount] = {}
    clock = context.clock
    until = clock.monotonic() + COUNTED_SECONDS_MAX
    for state in FEW_FIRST:
        known = sampled(sample, filter, state)
        if known > COUNTED_JOBS_MAX:
            found[state] = StateCount(count=known, about=True)
            continue
        chosen = replace(filter, state=state, before=None)
        look = look_of(filter, is_late=clock.monotonic() >= until)
        counted = await context.store.count_jobs(chosen, COUNTED_JOBS_MAX, look=look)
        found[state] = StateCount(count=counted.count, more=counted.more)
    return {state: found[state] for state in JobState}


def look_of(filter: JobFilter, *, is_late: bool) -> int:
    """How many jobs of a state a count looks at."""
    is_narrow = filter.is_search or any((filter.fault, filter.flow, filter.schedule_id))
    if is_late and is_narrow:
        return COUNTED_LOOK_MIN
    return COUNTED_SEARCH_MAX if filter.is_search else COUNTED_LOOK_MAX


def sampled(sample: Gauges | None, filter: JobFilter, state: JobState) -> int:
    """How many jobs the sample has for it; 0 where it has not counted these alone."""
    plain = JobFilter(queue=filter.queue, limit=filter.limit, before=filter.before)
    if sample is None or replace(filter, state=None) != plain:
        return 0
    if state in FINAL_STATES:
        ended = None if filter.queue else sample.ended
        return 0 if ended is None else ended.jobs.get(state, 0)
    depth = sample.total if filter.queue is None else sample.queues.get(filter.queue)
    if depth is None:
        return 0
    return depth.running if state is JobState.RUNNING else depth.waiting
