"""The operation of statistics."""

from onbeat.operations.context import OperationContext
from onbeat.wire.requests import NoParams
from onbeat.wire.stats import StatsAnswer, stats_answer


async def show_stats(context: OperationContext, _request: NoParams) -> StatsAnswer:
    """Counts over the whole store."""
    return stats_answer(await context.store.stats(context.clock.now()))
