"""The operation of statistics."""

from onbeat.operations.context import OperationContext
from onbeat.operations.depths import sample_of
from onbeat.rules.pulses import FINEST, sampled_ended
from onbeat.wire.requests import NoParams
from onbeat.wire.stats import StatsAnswer, stats_answer


async def show_stats(context: OperationContext, _request: NoParams) -> StatsAnswer:
    """Counts over the whole store; many jobs are those of the newest samples."""
    now, store = context.clock.now(), context.store
    ended = sampled_ended(await store.newest_sample(FINEST), now)
    sampled = await sample_of(context)
    stats = await store.stats(now, None if ended is None else ended.jobs, sampled)
    return stats_answer(
        stats, None if ended is None else ended.at, None if sampled is None else sampled.at
    )
