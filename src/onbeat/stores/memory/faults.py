"""Failures by fault, and dead letters by group."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from onbeat.model.fault import (
    OTHER,
    DeadLetterHead,
    FaultChange,
    FaultJobs,
    FaultRecord,
    OperatorNote,
)
from onbeat.model.ids import DeadLetterId
from onbeat.model.job import JobState
from onbeat.model.limits import FAULTS_MAX
from onbeat.rules.faults import as_other, with_change
from onbeat.stores.memory.dead_letters import newest_dead_letters
from onbeat.stores.memory.tables import Tables


def note_faults(tables: Tables, changes: Sequence[FaultChange]) -> None:
    for change in sorted(changes, key=attrgetter("fault")):
        has_room = len(tables.ends.faults.keys() - {OTHER}) < FAULTS_MAX
        kept = change if has_room or change.fault in tables.ends.faults else as_other(change)
        tables.ends.faults[kept.fault] = with_change(tables.ends.faults.get(kept.fault), kept)


def silence_fault(tables: Tables, key: int, until: datetime | None, note: str | None) -> bool:
    record = tables.ends.faults.get(key)
    if record is None:
        return False
    tables.ends.faults[key] = replace(record, silenced_until=until, note=note)
    return True


def write_fault_note(tables: Tables, key: int, note: OperatorNote | None) -> bool:
    record = tables.ends.faults.get(key)
    if record is None:
        return False
    tables.ends.faults[key] = replace(record, operator_note=note)
    return True


def faults(tables: Tables) -> Sequence[FaultRecord]:
    return [record for _, record in sorted(tables.ends.faults.items())]


def fault_jobs(tables: Tables, keys: Collection[int], limit: int) -> Mapping[int, FaultJobs]:
    counts = {key: {JobState.FAILED: 0, JobState.WAITING: 0} for key in keys}
    for job in tables.jobs.values():
        states = counts.get(job.fault or OTHER, {})
        if states.get(job.state, limit) < limit:
            states[job.state] += 1
    return {key: FaultJobs(*states.values()) for key, states in counts.items()}


def prune_faults(tables: Tables, before: datetime) -> int:
    old = [key for key, record in tables.ends.faults.items() if record.last_at < before]
    for key in old:
        del tables.ends.faults[key]
    return len(old)


def dead_letter_heads(
    tables: Tables, before: DeadLetterId | None, limit: int
) -> Sequence[DeadLetterHead]:
    return [
        DeadLetterHead(id=one.id, at=one.at, source=one.source, reason=one.reason)
        for one in newest_dead_letters(tables, before, limit, None)
    ]
