"""Conversion between records and rows."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.job import Job, JobSpec, JobState
from onbeat.model.target import lane_of
from onbeat.stores.sql.dialect import Row, Value
from onbeat.stores.sql.forms import (
    ATTEMPT_RECORDS,
    BY_LAST,
    NEW_COLUMNS,
    SHARED_COLUMNS,
    TRANSITION_COLUMNS,
    Form,
    Forms,
    JobForm,
    WaitingList,
    plain_table,
)
from onbeat.stores.sql.jobs import DEFINITION, IN_COLUMNS, build_job
from onbeat.stores.sql.specs import SpecForm
from onbeat.stores.sql.values import instant, micros, micros_or_none, overlap_text, to_json

GROUP_CHARS_MAX = 200  # the width of the column


SPEC = SpecForm(JobSpec, IN_COLUMNS)

# The columns of both tables of jobs, in the order of all statements.
SHARED = (
    "id, queue, priority, lane, due_at, start_by, unique_key, schedule_id, occurrence, overlap, "
    "token, attempt, lost, released, started_at, reason, cancel_reason, result, error, fault, "
    "progress, flow, spec"
)
NAMES = tuple(SHARED.split(", "))

LIVE_COLUMNS = f"""
    id, {DEFINITION}, token, attempt, lost, released, reason, cancel_reason, result, error,
    fault, cursor_text, suspicion, spec, IF(running, 'running', 'waiting') AS state, blocked_by,
    worker, lease_until, started_at, NULL AS finished_at, progress, NULL AS cause_id
"""
ENDED_COLUMNS = f"""
    id, {DEFINITION}, token, attempt, lost, released, reason, cancel_reason, result, error,
    fault, NULL AS cursor_text, NULL AS suspicion, spec, state, 0 AS blocked_by, NULL AS worker,
    NULL AS lease_until, started_at, finished_at, progress, cause_id
"""
"""The columns for `read_job`, from `jobs` and from `finished`."""

SPEC_AT = 21
RUN_AT = 22


def spec_of(job: Job) -> str:
    return to_json(SPEC.pack(job))


def job_row(job: Job) -> Row:
    """The row of a new job, in the order of `NEW_COLUMNS`."""
    return (
        job.id,
        job.queue,
        job.priority,
        lane_of(job.target),
        micros(job.due_at),
        micros_or_none(job.start_by),
        job.unique,
        job.schedule_id,
        micros_or_none(job.occurrence),
        overlap_text(job.overlap),
        group_key(job.group),
        job.flow,
        spec_of(job),
    )


def group_key(group: str | None) -> str | None:
    """The key of the group in indexes, which limit the length of text."""
    if group is None or len(group) <= GROUP_CHARS_MAX:
        return group or None
    return group[:100] + hashlib.sha256(group.encode()).hexdigest()


def by_column(row: Row) -> dict[str, Any]:
    """The columns of both tables of jobs, by name."""
    return dict(zip(NAMES, row, strict=False))


def read_job(row: Sequence[Any]) -> Job:
    return build_job(SPEC.decode(row[SPEC_AT]), row, row[RUN_AT:])


def read_jobs(rows: Iterable[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]


def finished_row(
    stored: Mapping[str, Any], *, state: str, finished_at: int, last_attempt: str | None = None
) -> Row:
    """The values of `INSERT_FINISHED`."""
    return (*(stored[name] for name in NAMES), state, finished_at, last_attempt)


INSERT_FINISHED = f"""
    INSERT INTO finished ({SHARED}, state, finished_at, last_attempt)
    VALUES ({", ".join(["%s"] * (len(NAMES) + 3))})
"""  # noqa: S608  no value in it


HEADERS = msgspec.json.Decoder(dict[str, str])


def dead_letter_row(letter: DeadLetter) -> Row:
    headers = to_json(letter.headers)
    return letter.id, micros(letter.at), letter.source, letter.reason, letter.body, headers


def read_dead_letter(row: Sequence[Any]) -> DeadLetter:
    id, at, source, reason, body, headers = row
    return DeadLetter(
        id=id,
        at=instant(at),
        source=source,
        reason=reason,
        body=bytes(body),
        headers=HEADERS.decode(headers),
    )


def lines_of(queue: str) -> tuple[str, tuple[Value, ...]]:
    """The condition for the ready lists of a queue: a digit follows its name, and no colon."""
    prefix = f"{len(queue):03}{queue}"
    return "line > ? AND line < ?", (prefix, f"{prefix}:")


FORMS = Forms(
    wait_columns={"blocked_by": "integer"},
    waiting_lists=(
        WaitingList(
            index="jobs_due",
            where="line IS NOT NULL",
            groups="line",
            # The length of the queue, the queue, five digits of priority, a flag, and the lane.
            queue="SUBSTR(line, 4, LEFT(line, 3))",
            lane="SUBSTR(line, 10 + LEFT(line, 3))",
            of_queue=lines_of,
            order=("line",),
            behind="line > ?",
        ),
        WaitingList(
            index="jobs_due",
            where="line IS NULL AND running = 0",
            groups="queue, lane",
            may_be_blocked=True,
        ),
    ),
    has_rules="apart = 1",
    attempts=ATTEMPT_RECORDS,
    dispositions=BY_LAST,
    jobs=JobForm(
        live=plain_table("jobs", LIVE_COLUMNS, "jobs_of_schedule"),
        ended=plain_table("finished", ENDED_COLUMNS, "finished_of_schedule"),
        states={
            JobState.WAITING: "running = 0",
            JobState.RUNNING: "running = 1 AND worker IS NOT NULL",
            JobState.SUCCEEDED: "state = 'succeeded'",
            JobState.FAILED: "bad_state = 'failed'",
            JobState.CANCELLED: "bad_state = 'cancelled'",
        },
        read=read_job,
        row=job_row,
        new=NEW_COLUMNS,
        cursor="cursor_text",
        shared=SHARED_COLUMNS,
    ),
    transitions=TRANSITION_COLUMNS,
    schedule_key="name_key",
    dead_letters=Form(
        columns={
            "id": "text",
            "at": "bigint",
            "source": "text",
            "reason": "text",
            "body": "bytea",
            "headers": "text",
        },
        row=dead_letter_row,
        read=read_dead_letter,
    ),
)
