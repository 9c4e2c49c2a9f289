"""Queues and their live jobs, as they were sampled where there are too many to be counted."""

from collections.abc import Sequence

from onbeat.model.pulse import Gauges
from onbeat.model.queue import Queue
from onbeat.operations.context import OperationContext
from onbeat.rules.pulses import WHOLE, sampled_live


async def sample_of(context: OperationContext) -> Gauges | None:
    """The sample that stands for a count of live jobs; None where these are to be counted."""
    return sampled_live(await context.store.newest_sample(WHOLE), context.clock.now())


async def queues_now(context: OperationContext) -> Sequence[Queue]:
    """By name. Paused queues, limits and running jobs are always those of now."""
    return await context.store.queues(context.clock.now(), await sample_of(context))
