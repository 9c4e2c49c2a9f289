"""Pruning by age."""

from datetime import datetime

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.stores.memory.tables import Tables


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
