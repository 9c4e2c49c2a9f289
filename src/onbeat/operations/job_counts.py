"""How many jobs of each state match a filter, at a bounded cost however many have ended."""

from collections.abc import Mapping

from msgspec.structs import replace

from onbeat.model.job import FINAL_STATES, JobState
from onbeat.model.limits import COUNTED_JOBS_MAX, COUNTED_LOOK_MAX
from onbeat.model.page import JobFilter
from onbeat.model.pulse import Gauges
from onbeat.operations.context import OperationContext
from onbeat.rules.pulses import FINEST
from onbeat.wire.requests import StateCount


async def count_states(
    context: OperationContext, filter: JobFilter
) -> Mapping[JobState, StateCount]:
    """Exact up to `COUNTED_JOBS_MAX`; above it as the newest sample says, where that knows."""
    sample = await context.store.newest_sample(FINEST)
    found: dict[JobState, StateCount] = {}
    for state in JobState:
        known = sampled(sample, filter, state)
        if known > COUNTED_JOBS_MAX:
            found[state] = StateCount(count=known, about=True)
            continue
        chosen = replace(filter, state=state, before=None)
        counted = await context.store.count_jobs(chosen, COUNTED_JOBS_MAX, look=COUNTED_LOOK_MAX)
        found[state] = StateCount(count=counted.count, more=counted.more)
    return found


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
