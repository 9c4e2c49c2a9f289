"""Exports for another store, in the order of ids."""

from collections.abc import Sequence
from itertools import islice

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import JobExport
from onbeat.stores.memory.tables import Tables


def export_schedules(tables: Tables, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
    ids = sorted(id for id in tables.schedules if after is None or id > after)
    return tuple(tables.schedules[id] for id in ids[:limit])


def export_jobs(tables: Tables, after: JobId | None, limit: int) -> Sequence[JobExport]:
    ids = tables.ids if after is None else tables.ids.after(after)
    return tuple(export_of(tables, id) for id in islice(ids, limit))


def export_of(tables: Tables, id: JobId) -> JobExport:
    return JobExport(
        job=tables.jobs[id],
        attempts=tuple(tables.attempts.get(id, ())),
        transitions=tuple(tables.transitions.get(id, ())),
    )
