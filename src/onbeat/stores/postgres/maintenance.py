"""Maintenance of partitions: adds days ahead and drops past days."""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec

from onbeat.model.errors import OnbeatError
from onbeat.stores.postgres import partitions, prune
from onbeat.stores.postgres.loop_connections import LoopConnections
from onbeat.stores.postgres.transaction import Transaction

P = ParamSpec("P")


async def add_missing_days(connections: LoopConnections) -> None:
    """Not urgent: jobs of a day without a partition go to `finished_rest`."""
    missing = await connections.run(partitions.missing_days)
    if missing:
        await run_unless_locked(connections, partitions.add_days, missing)


async def prune_finished(
    connections: LoopConnections, finished_before: int, failed_before: int, limit: int
) -> int:
    """Whole days first: at most one in a call, since it blocks all other access for a moment."""
    await add_missing_days(connections)
    gone = 0
    for day in await connections.run(partitions.past_days, finished_before):
        gone = await run_unless_locked(
            connections, partitions.drop_day, day, finished_before, failed_before
        )
        if gone:
            break
    return gone + await connections.transact(
        prune.prune_rest, finished_before, failed_before, limit
    )


async def run_unless_locked(
    connections: LoopConnections,
    verb: Callable[Concatenate[Transaction, P], Awaitable[int]],
    *args: P.args,
    **options: P.kwargs,
) -> int:
    try:
        return await connections.transact(verb, *args, **options)
    except OnbeatError as error:
        if isinstance(error.__cause__, partitions.HINDRANCES):
            return 0
        raise
