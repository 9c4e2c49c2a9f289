"""Jobs from rows of PostgreSQL and MySQL, which keep them in the same columns.

A field is set only where its column has a value: fewer keywords make a record faster.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from onbeat.model.job import Job, Progress, Suspicion
from onbeat.stores.sql.values import OVERLAPS, STATES, instant

PROGRESS: Final = msgspec.json.Decoder(Progress)
SUSPICION: Final = msgspec.json.Decoder(Suspicion)

IN_COLUMNS: Final = (
    *("id", "queue", "priority", "due_at", "start_by", "unique", "schedule_id", "occurrence"),
    *("overlap", "flow"),
)
"""The fields of `JobSpec` that have columns."""

DEFINITION: Final = (
    "queue, priority, due_at, start_by, unique_key, schedule_id, occurrence, overlap, flow"
)
HISTORY_AT: Final = 10
HISTORY_END: Final = 21
"""Where the columns of `add_history` begin and end in a row."""

Fields = dict[str, Any]


def build_job(fields: Fields, row: Sequence[Any], run: Sequence[Any]) -> Job:
    """The job with the `fields` of its spec.

    The row begins with the id, `DEFINITION` and the columns of `add_history`; `run` has the columns
    of `add_run`.
    """
    add_definition(fields, row[:HISTORY_AT])
    add_history(fields, row[HISTORY_AT:HISTORY_END])
    add_run(fields, run)
    return Job(**fields)


def read_progress(text: str) -> Progress | None:
    """None for what is no number: earlier versions stored whatever a handler reported."""
    try:
        return PROGRESS.decode(text)
    except msgspec.ValidationError:
        return None


def add_definition(fields: Fields, columns: Sequence[Any]) -> None:
    id, queue, priority, due_at, start_by, unique, schedule_id, occurrence, overlap, flow = columns
    fields["id"] = str(id)
    fields["queue"] = queue
    fields["priority"] = priority
    fields["due_at"] = instant(due_at)
    if start_by is not None:
        fields["start_by"] = instant(start_by)
    if unique is not None:
        fields["unique"] = unique
    if schedule_id is not None:
        fields["schedule_id"] = str(schedule_id)
    if occurrence is not None:
        fields["occurrence"] = instant(occurrence)
    if overlap is not None:
        fields["overlap"] = OVERLAPS[overlap]
    if flow is not None:
        fields["flow"] = str(flow)


def add_history(fields: Fields, columns: Sequence[Any]) -> None:
    (
        token,
        attempt,
        lost,
        released,
        reason,
        cancel_reason,
        result,
        error,
        fault,
        cursor,
        suspicion,
    ) = columns
    fields["token"] = token
    fields["attempt"] = attempt
    fields["lost"] = lost
    fields["released"] = released
    if reason is not None:
        fields["reason"] = reason
    if cancel_reason is not None:
        fields["cancel_reason"] = cancel_reason
    if result is not None:
        fields["result"] = msgspec.Raw(result.encode())
    if error is not None:
        fields["error"] = error
    if fault is not None:
        fields["fault"] = fault
    if cursor is not None:
        fields["cursor"] = msgspec.Raw(cursor.encode())
    if suspicion is not None:
        fields["suspicion"] = SUSPICION.decode(suspicion)


def add_run(fields: Fields, columns: Sequence[Any]) -> None:
    state, blocked_by, worker, lease_until, started_at, finished_at, progress, cause_id = columns
    fields["state"] = STATES[state]
    fields["blocked_by"] = blocked_by
    if worker is not None:
        fields["worker"] = worker
    if lease_until is not None:
        fields["lease_until"] = instant(lease_until)
    if started_at is not None:
        fields["started_at"] = instant(started_at)
    if finished_at is not None:
        fields["finished_at"] = instant(finished_at)
    if progress is not None:
        fields["progress"] = read_progress(progress)
    if cause_id is not None:
        fields["cause_id"] = str(cause_id)
