"""How what has been kept long enough goes."""

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
    tables.ledger.prune(failed_before, tables.is_live)
    forget_letters(tables, failed_before)
    forget_full_meters(tables, finished_before)
    return len(past[:limit])


def ended_before(tables: Tables, state: JobState, bound: datetime) -> list[tuple[datetime, JobId]]:
    return list(tables.ended[state].before((bound, JobId(""))))


def forget_letters(tables: Tables, before: datetime) -> None:
    for letter in tuple(tables.letters.values()):
        if letter.at < before:
            del tables.letters[letter.id]


def forget_full_meters(tables: Tables, before: datetime) -> None:
    """A bucket that is full is as one that was never used."""
    for place, full_at in tuple(tables.meters.items()):
        if full_at <= before:
            del tables.meters[place]
