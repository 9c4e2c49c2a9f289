"""Tasks that no live worker knows, for the answers of requests that add jobs and schedules."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import UNSET, UnsetType

from onbeat.model.errors import Unavailable
from onbeat.model.target import HandlerTarget, Target
from onbeat.operations.context import OperationContext
from onbeat.operations.seen_workers import SeenWorkers
from onbeat.wire.workers import seems_alive

KNOWN_FOR: Final = timedelta(seconds=30)
"""A task that was known so short a time ago is taken to be known."""

LOOK_AGAIN: Final = timedelta(seconds=1)
"""Workers are read at most so often for tasks that are unknown."""

LOOK_SECONDS_MAX: Final = 1.0
REST_AFTER_FAILURE: Final = timedelta(seconds=30)
"""Workers that could not be read are not read again for so long."""

SHOWN_MAX: Final = 20


async def unknown_tasks(
    context: OperationContext, targets: Iterable[Target | UnsetType]
) -> tuple[str, ...] | UnsetType:
    """The tasks of these targets that no live worker knows, the first `SHOWN_MAX` by name.

    UNSET where there is none, and where no worker is alive: then nothing runs, whatever its name.
    Also where workers are not read within `LOOK_SECONDS_MAX`, as one cell of several may be away:
    this is only a note, for which few requests are to wait.
    """
    tasks = {target.task for target in targets if isinstance(target, HandlerTarget)}
    foreign = {task for task in tasks if not await context.knows_task(task)}
    if not foreign:
        return UNSET
    seen, now = context.seen_workers, context.clock.now()
    if not seen.is_fresh(now, KNOWN_FOR if foreign <= seen.lanes else LOOK_AGAIN):
        if seen.has_failed(now, REST_AFTER_FAILURE):
            return UNSET
        try:
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                await look(context, seen, now)
        except (TimeoutError, Unavailable):
            seen.failed_at = now
            return UNSET
    missing = sorted(foreign - seen.lanes) if seen.alive else []
    return tuple(missing[:SHOWN_MAX]) or UNSET


async def look(context: OperationContext, seen: SeenWorkers, now: datetime) -> None:
    workers = [one for one in await context.store.workers() if seems_alive(one, now)]
    seen.lanes = frozenset(lane for worker in workers for lane in worker.lanes)
    seen.alive = any(worker.lanes for worker in workers)
    seen.read_at, seen.failed_at = now, None
