"""How everything leaves for another store, and comes in from one."""

from collections.abc import Collection, Sequence
from itertools import islice

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.schedule import Schedule
from onbeat.ports.store import Carton, Hint
from onbeat.stores.arriving import arrived, edited_of, is_further, newer_of
from onbeat.stores.memory.ending import end
from onbeat.stores.memory.enqueueing import holder_of, still_awaited
from onbeat.stores.memory.planning import following
from onbeat.stores.memory.tables import Tables


def schedules_after(tables: Tables, after: ScheduleId | None, limit: int) -> Sequence[Schedule]:
    ids = sorted(id for id in tables.schedules if after is None or id > after)
    return tuple(tables.schedules[id] for id in ids[:limit])


def cartons_after(tables: Tables, after: JobId | None, limit: int) -> Sequence[Carton]:
    ids = tables.ids if after is None else tables.ids.after(after)
    return tuple(carton_of(tables, id) for id in islice(ids, limit))


def carton_of(tables: Tables, id: JobId) -> Carton:
    return Carton(
        job=tables.jobs[id],
        attempts=tuple(tables.attempts.get(id, ())),
        transitions=tuple(tables.transitions.get(id, ())),
    )


def restore_schedules(tables: Tables, schedules: Sequence[Schedule]) -> int:
    newer = newer_of(schedules, tables.schedules)
    edited = edited_of(newer, tables.schedules)
    refuse_taken_keys(tables, newer.values())
    for schedule in newer.values():
        tables.put_schedule(schedule)
        tables.hints.add(Hint.SCHEDULES)
    for schedule in edited:
        forget_planned(tables, schedule.id)
        for job in tables.waiting_jobs(schedule.id):
            tables.put_job(following(job, schedule))
    return len(newer)


def forget_planned(tables: Tables, id: ScheduleId) -> None:
    """What was planned by an older form, and never started, comes anew as far as it still holds."""
    for job in tables.waiting_jobs(id):
        if job.occurrence is not None and job.token == 0 and job.id not in tables.awaited_by:
            tables.unblock(job.id)
            tables.remove_job(job.id)
    tables.ledger.keep_started(id, lambda job: job in tables.jobs and tables.jobs[job].token > 0)


def refuse_taken_keys(tables: Tables, schedules: Collection[Schedule]) -> None:
    holders = dict(tables.schedule_keys)
    for schedule in schedules:
        here = tables.schedules.get(schedule.id)
        if here is not None and here.key is not None:
            del holders[here.key]
        if schedule.key is None:
            continue
        if schedule.key in holders:
            holder = holders[schedule.key]
            raise Conflict(f"schedule {holder} has the key {schedule.key!r} already")
        holders[schedule.key] = schedule.id


def restore_jobs(tables: Tables, cartons: Sequence[Carton]) -> int:
    """First all are stored, then those that have ended free others, then those that wait wait."""
    ids = [carton.job.id for carton in cartons if unpack(tables, carton)]
    for job in [tables.jobs[id] for id in ids]:
        if job.finished_at is not None:
            end(tables, job, job.finished_at)
    for job in [tables.jobs[id] for id in ids]:
        if not job.is_final:
            tables.put_job(tables.block(job, still_awaited(tables, job)))
    return len(ids)


def unpack(tables: Tables, carton: Carton) -> bool:
    """Store the job of the carton, if that is further on, as one that waits for no other."""
    job = arrived(carton).job
    here = carton_of(tables, job.id) if job.id in tables.jobs else None
    if not is_further(carton, here):
        return False
    if not job.is_final and holder_of(tables, job) not in (None, job.id):
        return False
    tables.unblock(job.id)
    tables.put_job(job)
    tables.attempts[job.id] = list(carton.attempts)
    tables.transitions[job.id] = list(carton.transitions)
    return True
