"""Pruning by age."""

from datetime import UTC, datetime
from typing import Final

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.keep_rule import EndPlace, Sweep, Swept
from onbeat.stores.memory.tables import Tables

AT_FIRST: Final[EndPlace] = (datetime.min.replace(tzinfo=UTC), JobId(""))


def prune(tables: Tables, finished_before: datetime, failed_before: datetime, limit: int) -> int:
    bounds = {
        JobState.SUCCEEDED: finished_before,
        JobState.CANCELLED: finished_before,
        JobState.FAILED: failed_before,
    }
    past = sorted(
        key for state, bound in bounds.items() for key in ended_before(tables, state, bound)
    )
    for _, id in past[:limit]:
        tables.remove_job(id)
    tables.dispositions.prune(failed_before, tables.is_live)
    prune_dead_letters(tables, failed_before)
    prune_meters(tables, finished_before)
    return len(past[:limit])


def sweep(tables: Tables, sweep: Sweep, limit: int) -> Swept:
    since = sweep.place or AT_FIRST
    past = sorted(ended_before(tables, sweep.state, sweep.before))
    examined = [place for place in past if place > since][:limit]
    chosen = [id for _, id in examined if sweep.takes(tables.jobs[id].queue)]
    for id in chosen:
        tables.remove_job(id)
    is_last = len(examined) < limit
    return Swept(deleted=len(chosen), place=None if is_last else examined[-1])


def ended_before(tables: Tables, state: JobState, bound: datetime) -> list[tuple[datetime, JobId]]:
    return list(tables.ended[state].before((bound, JobId(""))))


def prune_dead_letters(tables: Tables, before: datetime) -> None:
    for letter in tuple(tables.dead_letters.values()):
        if letter.at < before:
            del tables.dead_letters[letter.id]


def prune_meters(tables: Tables, before: datetime) -> None:
    """A full bucket is equivalent to none."""
    for place, full_at in tuple(tables.meters.items()):
        if full_at <= before:
            del tables.meters[place]
