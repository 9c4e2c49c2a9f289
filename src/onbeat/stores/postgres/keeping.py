"""What the store does for its tables from time to time: days ahead, and days that are over."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from onbeat.model.errors import OnbeatError
from onbeat.stores.postgres import days, prune
from onbeat.stores.postgres.site import Site
from onbeat.stores.postgres.transaction import Transaction

Asked = TypeVar("Asked")


async def add_missing_days(site: Site) -> None:
    """Without a partition of its own a day's jobs go to `finished_rest`, so there is no hurry."""
    missing = await site.ask(days.missing_days, None)
    if missing:
        await unless_hindered(site, days.add_days, missing)


async def prune_finished(site: Site, bounds: days.Bounds) -> int:
    """Whole days first: at most one in a call, since it locks everybody out for a moment."""
    await add_missing_days(site)
    gone = 0
    for day in await site.ask(days.past_days, bounds):
        gone = await unless_hindered(site, days.drop_day, (day, bounds))
        if gone:
            break
    return gone + await site.transact(prune.prune_rest, bounds)


async def unless_hindered(
    site: Site, run: Callable[[Transaction, Asked], Awaitable[int]], asked: Asked
) -> int:
    try:
        return await site.transact(run, asked)
    except OnbeatError as error:
        if isinstance(error.__cause__, days.HINDRANCES):
            return 0
        raise
