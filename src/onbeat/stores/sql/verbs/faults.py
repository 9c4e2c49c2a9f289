"""Failures by fault, and dead letters by group."""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from onbeat.model.fault import (
    OTHER,
    DeadLetterHead,
    FaultChange,
    FaultJobs,
    FaultProcess,
    FaultRecord,
    OperatorNote,
)
from onbeat.model.ids import DeadLetterId, JobId
from onbeat.model.job import JobState
from onbeat.model.limits import FAULTS_MAX
from onbeat.rules.faults import as_other, joined, with_change
from onbeat.stores.sql.dialect import Argument, Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, instant_or_none, micros, to_json

HOURS: Final = msgspec.json.Decoder(tuple[int, ...])
COUNTED: Final[Columns] = {
    "queue": "text",
    "first_at": "bigint",
    "last_at": "bigint",
    "attempts": "bigint",
    "hours": "text",
    "sample_job": "uuid",
}
"""What changes with each failure."""
KEY: Final[Columns] = {"fault": "bigint"}
FIXED: Final[Columns] = {"task": "text", "title": "text", "frame": "text", "process": "text"}
NAMES: Final = ", ".join((*KEY, *FIXED, *COUNTED, "silenced_until", "note", "operator_note"))
PROCESS: Final = msgspec.json.Decoder(FaultProcess)
NOTE: Final = msgspec.json.Decoder(OperatorNote)


def read_fault(row: Sequence[Any]) -> FaultRecord:
    (fault, task, title, place, process, queue, first_at, last_at, attempts, *rest) = row
    hours, sample, until, note, operator_note = rest
    return FaultRecord(
        fault=fault,
        task=task,
        queue=queue,
        title=title,
        place=place,
        first_at=instant(first_at),
        last_at=instant(last_at),
        attempts=attempts,
        hours=HOURS.decode(hours),
        sample_job=None if sample is None else JobId(str(sample)),
        silenced_until=instant_or_none(until),
        note=note,
        process=None if process is None else PROCESS.decode(process),
        operator_note=None if operator_note is None else NOTE.decode(operator_note),
    )


def counted_row(record: FaultRecord) -> Row:
    return (
        record.queue,
        micros(record.first_at),
        micros(record.last_at),
        record.attempts,
        to_json(record.hours),
        record.sample_job,
    )


async def note_faults(session: Session, changes: Sequence[FaultChange]) -> None:
    """Rows are added and locked in order of their keys, so that processes never wait in a ring."""
    by_key = {change.fault: change for change in changes}
    known = await lock_faults(session, by_key)
    unknown = sorted(by_key.keys() - known.keys())
    if unknown:
        by_key = await with_room(session, by_key, unknown)
        known = await lock_faults(session, by_key)
    records = [
        with_change(known[key], change) for key, change in sorted(by_key.items()) if key in known
    ]
    rows = [(record.fault, *counted_row(record)) for record in records]
    await session.update_rows("faults", KEY, COUNTED, rows)


async def with_room(
    session: Session, by_key: Mapping[int, FaultChange], unknown: Sequence[int]
) -> dict[int, FaultChange]:
    """Add rows for new faults while there is room, and count the rest as others."""
    ((count,),) = await session.select(
        "total", "FROM (SELECT count(*) AS total FROM onbeat.faults) AS kept"
    )
    room = max(0, FAULTS_MAX - count)
    changes = {key: by_key[key] for key in by_key if key not in unknown[room:]}
    for key in unknown[room:]:
        other = as_other(by_key[key])
        changes[OTHER] = joined(changes[OTHER], other) if OTHER in changes else other
    new = {key: changes[key] for key in sorted(changes) if key in unknown or key == OTHER}
    columns: Columns = {**KEY, **FIXED, **COUNTED}
    ending = session.dialect.unless_there("fault")
    await session.insert_rows("faults", columns, [new_row(one) for one in new.values()], ending)
    return changes


def new_row(change: FaultChange) -> Row:
    """A row without any attempts yet: they are added to it, whoever made it."""
    at, last_at = micros(change.first_at), micros(change.last_at)
    process = None if change.process is None else to_json(change.process)
    fixed = (change.fault, change.task, change.title, change.place, process)
    return (*fixed, change.queue, at, last_at, 0, "[]", change.sample_job)


async def lock_faults(session: Session, keys: Collection[int]) -> dict[int, FaultRecord]:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.faults
        WHERE {dialect.in_list("fault", "bigint")}
        ORDER BY fault
        {dialect.for_update}
    """
    records = map(read_fault, await session.select(NAMES, rest, tuple(sorted(keys))))
    return {record.fault: record for record in records}


async def faults(session: Session) -> Sequence[FaultRecord]:
    rows = await session.select(NAMES, "FROM onbeat.faults ORDER BY fault")
    return list(map(read_fault, rows))


async def fault(session: Session, key: int) -> FaultRecord | None:
    rows = await session.select(NAMES, "FROM onbeat.faults WHERE fault = ?", key)
    return read_fault(rows[0]) if rows else None


async def silence_fault(session: Session, key: int, until: int | None, note: str | None) -> bool:
    found = await lock_faults(session, [key])
    columns: Columns = {"silenced_until": "bigint", "note": "text"}
    await session.update_rows("faults", KEY, columns, [(one, until, note) for one in found])
    return bool(found)


async def write_fault_note(session: Session, key: int, note: OperatorNote | None) -> bool:
    found = await lock_faults(session, [key])
    text = None if note is None else to_json(note)
    columns: Columns = {"operator_note": "text"}
    await session.update_rows("faults", KEY, columns, [(one, text) for one in found])
    return bool(found)


async def fault_jobs(
    session: Session, keys: Collection[int], limit: int
) -> Mapping[int, FaultJobs]:
    form, dialect = session.forms.jobs, session.dialect
    tables = (
        ("finished", form.states[JobState.FAILED]),
        ("jobs", form.states[JobState.WAITING]),
    )
    failed, waiting = (
        f"""
        (SELECT count(*) FROM (SELECT 1 FROM onbeat.{table} {dialect.use_index(f"{table}_of_fault")}
                               WHERE fault = ? AND {state} LIMIT ?) AS counted_{table})
        """  # noqa: S608  values are bound
        for table, state in tables
    )
    result: dict[int, FaultJobs] = {}
    for key in sorted(keys):
        rest = f"FROM (SELECT {failed} AS failed, {waiting} AS waiting) AS counted"
        ((one, other),) = await session.select("failed, waiting", rest, key, limit, key, limit)
        result[key] = FaultJobs(one, other)
    return result


async def prune_faults(session: Session, before: int) -> int:
    return await session.execute("DELETE FROM onbeat.faults WHERE last_at < ?", before)


async def dead_letter_heads(
    session: Session, before: DeadLetterId | None, limit: int
) -> Sequence[DeadLetterHead]:
    bounds: dict[str, Argument] = {} if before is None else {"id < ?": before}
    rest = f"""
        FROM (SELECT id, at, source, {session.forms.dead_letter_reason} AS reason
              FROM onbeat.dead_letters {session.dialect.use_index("PRIMARY")}
              WHERE {next(iter(bounds), "TRUE")}
              ORDER BY id DESC
              LIMIT ?) AS heads
    """  # noqa: S608  values are bound
    rows = await session.select("id, at, source, reason", rest, *bounds.values(), limit)
    heads = [
        DeadLetterHead(id=str(id), at=instant(at), source=source, reason=reason)
        for id, at, source, reason in rows
    ]
    return sorted(heads, key=attrgetter("id"), reverse=True)
