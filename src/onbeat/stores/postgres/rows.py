"""Conversion between records and rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId, JobId, Token, WorkerId
from onbeat.model.job import FINAL_STATES, Job, JobSpec, JobState
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import (
    NO_ARGS,
    NO_KWARGS,
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
    lane_of,
)
from onbeat.ports.access import TargetChange
from onbeat.stores.postgres.ready_lists import GROUPED, LOOSE
from onbeat.stores.sql.forms import (
    ATTEMPT,
    BY_FIRST,
    NEW_COLUMNS,
    SHARED_COLUMNS,
    TRANSITION_COLUMNS,
    AttemptForm,
    Form,
    Forms,
    JobForm,
    WaitingList,
    plain_table,
)
from onbeat.stores.sql.jobs import DEFINITION, HISTORY_AT, HISTORY_END, IN_COLUMNS, build_job
from onbeat.stores.sql.specs import SpecForm
from onbeat.stores.sql.values import (
    ENCODER,
    instant,
    micros,
    micros_or_none,
    overlap_text,
    to_json,
)

Row = tuple[Any, ...]
Value = TypeVar("Value")


class SpecParts(msgspec.Struct, frozen=True):
    """Fields in a form of their own: the name of a task is in the lane.

    Values equal to a default are omitted, so the spec of most jobs is empty.
    """

    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS
    http: HttpTarget | None = None
    message: MessageTarget | None = None
    notify: NotifyTarget | None = None
    command: CommandTarget | None = None
    retry: RetryPolicy = RetryPolicy()


SPEC = SpecForm(JobSpec, (*IN_COLUMNS, "target", "created_at", "retry"), SpecParts)
EMPTY = "{}"
KINDS = ("http", "message", "notify", "command")
PLAIN = SpecParts()

CLAIMED_COLUMNS = f"""
    jobs.id, {DEFINITION}, token, attempt, lost, released, reason, cancel_reason, result, error,
    fault, cursor, suspicion, lane, created_at, spec
"""
LIVE_COLUMNS = f"""
    {CLAIMED_COLUMNS}, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, blocked_by,
    worker, lease_until, started_at, NULL::bigint AS finished_at, progress,
    NULL::uuid AS cause_id
"""
ENDED_COLUMNS = f"""
    finished.id, {DEFINITION}, token, coalesce(attempt, token) AS attempt,
    coalesce(lost, 0::smallint) AS lost, coalesce(released, 0::smallint) AS released, reason,
    cancel_reason, result, error, fault, NULL::text AS cursor, NULL::text AS suspicion, lane,
    coalesce(created_at, due_at) AS created_at, spec, state, 0 AS blocked_by, NULL::text AS worker,
    NULL::bigint AS lease_until, started_at, finished_at, progress, cause_id
"""
"""The columns for `read_job`, from `jobs` and from `finished`; a claim knows the last eight."""

CLAIMED_COUNT = 24
SPEC_AT = 21
FIRST_OPTION, FIRST_NOTE = 4, 14
"""Where the columns begin that are NULL in most rows: from `start_by`, and from `reason` on."""
NO_OPTIONS = (None,) * (HISTORY_AT - FIRST_OPTION)
NO_NOTES = (None,) * (HISTORY_END - FIRST_NOTE)


def spec_of(job: Job) -> str:
    return spec_json(job).decode()


def spec_json(job: Job) -> bytes:
    target, retry = job.target, or_default(job.retry, PLAIN.retry)
    match target:
        case HandlerTarget():
            args = or_default(target.args, NO_ARGS)
            kwargs = or_default(target.kwargs, NO_KWARGS)
            spec = SPEC.pack(job, args, kwargs, None, None, None, None, retry)
        case HttpTarget():
            spec = SPEC.pack(job, NO_ARGS, NO_KWARGS, target, None, None, None, retry)
        case MessageTarget():
            spec = SPEC.pack(job, NO_ARGS, NO_KWARGS, None, target, None, None, retry)
        case NotifyTarget():
            spec = SPEC.pack(job, NO_ARGS, NO_KWARGS, None, None, target, None, retry)
        case CommandTarget():
            spec = SPEC.pack(job, NO_ARGS, NO_KWARGS, None, None, None, target, retry)
    return ENCODER.encode(spec)


def read_spec(text: str, lane: str) -> dict[str, Any]:
    """The fields of a job in its spec."""
    if text == EMPTY:
        return {"target": HandlerTarget(lane)}
    fields: dict[str, Any] = SPEC.decode(text)
    args, kwargs = fields.pop("args", NO_ARGS), fields.pop("kwargs", NO_KWARGS)
    target: Target = HandlerTarget(lane, args, kwargs)
    if fields:  # most jobs have arguments and nothing else
        for kind in KINDS:
            if kind in fields:
                target = fields.pop(kind)
    fields["target"] = target
    return fields


def with_job_target(text: str, change: TargetChange) -> str | None:
    """The text with the new target; None if its target has changed since it was read."""
    if read_spec(text, lane_of(change.before))["target"] != change.before:
        return None
    spec, target = SPEC.spec(**SPEC.decode(text)), change.after
    match target:
        case HandlerTarget():
            spec = msgspec.structs.replace(spec, args=target.args, kwargs=target.kwargs)
        case HttpTarget():
            spec = msgspec.structs.replace(spec, http=target)
        case MessageTarget():
            spec = msgspec.structs.replace(spec, message=target)
        case NotifyTarget():
            spec = msgspec.structs.replace(spec, notify=target)
        case CommandTarget():
            spec = msgspec.structs.replace(spec, command=target)
    return to_json(spec)


def or_default(value: Value, default: Value) -> Value:
    """The shared default for an equal value: msgspec omits it only by identity."""
    return default if value == default else value


def job_row(job: Job) -> Row:
    """The row of a new job, for `enqueue.insert`."""
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
        job.group or None,
        job.flow,
        spec_of(job),
        micros(job.created_at),
    )


def columns(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Transpose the rows, at least one, into one array for each parameter."""
    return list(zip(*rows, strict=True))


def read_claimed(
    row: Sequence[Any], worker: WorkerId, started_at: datetime, lease_until: datetime | None
) -> Job:
    """Read a job from the row that a claim returned when it started the job.

    Most rows have few values, and thousands are read per second.
    """
    if row[FIRST_OPTION:HISTORY_AT] != NO_OPTIONS or row[FIRST_NOTE:HISTORY_END] != NO_NOTES:
        run = ("running", 0, worker, None, None, None, None, None)
        job = build_job(fields_of(row), row, run)
        return msgspec.structs.replace(job, started_at=started_at, lease_until=lease_until)
    id, queue, priority, due_at = row[:FIRST_OPTION]
    token, attempt, lost, released = row[HISTORY_AT:FIRST_NOTE]
    lane, created_at, text = row[SPEC_AT:CLAIMED_COUNT]
    options = read_spec(text, lane)
    # Not with these as further keywords: merging them takes longer than making the record.
    job = Job(
        id=JobId(str(id)),
        target=options.pop("target"),
        created_at=instant(created_at),
        due_at=instant(due_at),
        queue=queue,
        priority=priority,
        token=token,
        attempt=attempt,
        lost=lost,
        released=released,
        state=JobState.RUNNING,
        worker=worker,
        lease_until=lease_until,
        started_at=started_at,
    )
    return msgspec.structs.replace(job, **options) if options else job


def read_job(row: Sequence[Any]) -> Job:
    return build_job(fields_of(row), row, row[CLAIMED_COUNT:])


def fields_of(row: Sequence[Any]) -> dict[str, Any]:
    lane, created_at, text = row[SPEC_AT:CLAIMED_COUNT]
    fields = read_spec(text, lane)
    fields["created_at"] = instant(created_at)
    return fields


def read_jobs(rows: Sequence[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]


class DeadLetterRecord(msgspec.Struct, frozen=True, array_like=True):
    """What no query needs of a dead letter."""

    reason: str
    headers: dict[str, str]


RECORD = msgspec.json.Decoder(DeadLetterRecord)


def dead_letter_row(letter: DeadLetter) -> Row:
    record = to_json(DeadLetterRecord(letter.reason, letter.headers))
    return letter.id, micros(letter.at), letter.source, record, letter.body


def read_dead_letter(row: Sequence[Any]) -> DeadLetter:
    id, at, source, text, body = row
    record = RECORD.decode(text)
    return DeadLetter(
        id=DeadLetterId(str(id)),
        at=instant(at),
        source=source,
        reason=record.reason,
        body=body,
        headers=record.headers,
    )


OUTCOMES = {
    "succeeded": OutcomeName.SUCCEEDED,
    "failed": OutcomeName.FAILED,
    "cancelled": OutcomeName.CANCELLED,
}
"""The outcome of an attempt that brought a job to each state, unless `last_attempt` says more."""


def is_implied_by(job: Job, attempt: Attempt) -> bool:
    """Whether the row of the ended job implies the whole record of its last attempt."""
    return (
        attempt.worker is not None
        and attempt.outcome is OUTCOMES.get(job.state.value)
        and attempt.number == job.attempt
        and attempt.error == job.error
        and attempt.started_at == job.started_at
        and attempt.finished_at == job.finished_at
    )


def ending_row(job: Job, last: Attempt | None) -> Row:
    """The worker of the last attempt, or the record of one that says more than the job's row."""
    if last is not None and is_implied_by(job, last):
        return last.worker, None
    return None, None if last is None else to_json(last)


def read_attempt(row: Sequence[Any]) -> Attempt:
    id, token, record, worker, state, number, started_at, finished_at, error = row
    if record is not None:
        return ATTEMPT.decode(record)
    return Attempt(
        job_id=JobId(str(id)),
        token=Token(token),
        number=number,
        worker=worker,
        started_at=instant(started_at),
        finished_at=instant(finished_at),
        outcome=OUTCOMES[state],
        error=error,
    )


FORMS = Forms(
    attempts=AttemptForm(
        columns="job_id, token, record, worker, state, attempt, started_at, finished_at, error",
        kept="""
            job_id, token, record, NULL AS worker, NULL AS state, 0 AS attempt,
            NULL::bigint AS started_at, NULL::bigint AS finished_at, NULL AS error
        """,
        ending="""
            id, token, last_attempt, last_worker, state, coalesce(attempt, token), started_at,
            finished_at, error
        """,
        has_ending="(last_attempt IS NOT NULL OR last_worker IS NOT NULL)",
        read=read_attempt,
        end_columns={"last_worker": "text", "last_attempt": "text"},
        end_row=ending_row,
    ),
    dispositions=BY_FIRST,
    jobs=JobForm(
        live=plain_table("jobs", LIVE_COLUMNS, "jobs_of_schedule"),
        ended=plain_table("finished", ENDED_COLUMNS, "finished_by_schedule"),
        states={
            JobState.WAITING: "NOT running",
            JobState.RUNNING: "running",
            **{state: f"state = '{state.value}'" for state in FINAL_STATES},
        },
        read=read_job,
        row=job_row,
        new={**NEW_COLUMNS, "created_at": "bigint"},
        shared={**SHARED_COLUMNS, "created_at": "bigint"},
    ),
    waiting_lists=(
        WaitingList(index="jobs_due", where=LOOSE),
        WaitingList(index="jobs_due_grouped", where=GROUPED),
        WaitingList(
            index="jobs_stuck",
            where="NOT running AND (blocked_by <> 0 OR held OR lapsed)",
            groups="queue, lane",
            may_be_blocked=True,
        ),
    ),
    wait_columns={"blocked_by": "integer", "awaited": "boolean"},
    transitions=TRANSITION_COLUMNS,
    dead_letter_reason="record::json ->> 0",
    with_job_target=with_job_target,
    limit_assignments="""
        limits = ?::text,
        limited_at = CASE WHEN ?::text IS NOT NULL THEN coalesce(limited_at, now()) END,
        is_counted = is_counted AND ?::text IS NOT NULL
    """,
    dead_letters=Form(
        columns={"id": "uuid", "at": "bigint", "source": "text", "record": "text", "body": "bytea"},
        row=dead_letter_row,
        read=read_dead_letter,
    ),
)
