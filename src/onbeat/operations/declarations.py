"""The start of a program: its declared schedules, and those that it no longer declares."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.errors import NotFound
from onbeat.model.owner import Owner
from onbeat.model.schedule import Schedule
from onbeat.operations import schedules
from onbeat.operations.audit import note_change
from onbeat.operations.context import OperationContext
from onbeat.rules.declarations import (
    is_older,
    newest_release,
    orphan_event,
    orphaned,
    paused_as_orphan,
)
from onbeat.wire.schedules import ScheduleDraft

Declared = Sequence[tuple[str, ScheduleDraft]]


async def declare_all(context: OperationContext, declared: Declared, owner: Owner) -> None:
    """Store the declared schedules, by key, and pause those that the owner no longer declares.

    Nothing changes where a newer release of the program has started before: so old and new replicas
    may start in any order. Without releases the last start counts.
    """
    owned = await schedules_of(context, owner)
    newest = newest_release(owned)
    if is_older(owner.release, newest):
        if context.telemetry is not None:
            context.telemetry.older_release(owner, newest or "")
        return
    for key, draft in declared:
        put = await schedules.declare(context, key, draft, owner=owner)
        if put.changed:
            await note_change(context, "schedule.put", f"schedule/{key}")
    keys = {key for key, _ in declared}
    for schedule in orphaned(owned, keys):
        await pause_orphan(context, schedule, owner)


async def schedules_of(context: OperationContext, owner: Owner) -> Sequence[Schedule]:
    return [] if owner.name is None else await context.store.schedules_of_owner(owner.name)


async def delete_doubles(context: OperationContext, keys: Sequence[str]) -> None:
    """Delete declared schedules over cells that the cell of their key has, too."""
    for double in await context.store.doubles_of(keys):
        if double.owner is None or not await context.store.delete_schedule(
            double.id, context.clock.now()
        ):
            continue
        await note_change(context, "schedule.delete", f"schedule/{double.id}")
        if context.telemetry is not None:
            context.telemetry.doubled(double)


async def pause_orphan(context: OperationContext, found: Schedule, owner: Owner) -> None:
    """Pause the schedule, unless somebody else has paused, taken or deleted it meanwhile."""

    def pause(_: OperationContext, schedule: Schedule, now: datetime) -> Schedule:
        is_still = schedule.owner == owner.name and orphaned([schedule], ())
        return paused_as_orphan(schedule, owner, now) if is_still else schedule

    try:
        paused = await schedules.edit(context, found.id, pause, orphan_event)
    except NotFound:
        return
    if paused is not None:
        await note_change(context, "schedule.pause", f"schedule/{paused.key}")
        if context.telemetry is not None:
            context.telemetry.orphaned(paused)
