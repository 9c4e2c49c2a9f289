"""Conversion between records and rows."""

import msgspec

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.job import Job, JobSpec, JobState
from onbeat.model.schedule import Schedule, ScheduleSpec
from onbeat.model.target import lane_of
from onbeat.model.transition import Transition
from onbeat.stores.sql.dialect import Row
from onbeat.stores.sql.forms import (
    ATTEMPT_RECORDS,
    BY_FIRST,
    GREATEST,
    NEW_COLUMNS,
    SHARED_COLUMNS,
    Form,
    Forms,
    JobForm,
    JobTable,
    WaitingList,
)
from onbeat.stores.sql.specs import SpecForm
from onbeat.stores.sql.values import micros, micros_or_none, to_json

JOBS = msgspec.json.Decoder(list[Job])
NOTHING = msgspec.Raw()


class RawFields(msgspec.Struct, frozen=True):
    """The fields of a job that hold raw JSON."""

    result_json: msgspec.Raw = NOTHING
    cursor_json: msgspec.Raw = NOTHING


RAW_FIELDS = msgspec.json.Decoder(list[RawFields])


SPEC = SpecForm(JobSpec, ("id", "due_at", "start_by"))
"""The definition of a job but for what changes of it, which is in columns only."""


def spec_of(job: Job) -> str:
    return to_json(SPEC.pack(job))


def job_row(job: Job) -> Row:
    """The row of a new job, for `enqueue.INSERT`."""
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
        job.overlap.value,
        job.group,
        job.flow,
        spec_of(job),
    )


def plain_row(job: Job) -> Row:
    """The row of a new job without values that are rare, for `enqueue.insert_plain`."""
    lane = lane_of(job.target)
    return job.id, job.queue, job.priority, lane, micros(job.due_at), spec_of(job), 0


def read_jobs(text: str | None) -> list[Job]:
    """Read jobs from a JSON array of `record`s; a `text` of None has none."""
    if not text:
        return []
    jobs = JOBS.decode(text)
    # msgspec has no optional raw JSON, so such fields have other names and are decoded in a second
    # pass, which jobs without them do not need.
    if '_json":' in text:
        for place, result in enumerate(RAW_FIELDS.decode(text)):
            jobs[place] = with_raw_fields(jobs[place], result)
    return jobs


def with_raw_fields(job: Job, result: RawFields) -> Job:
    if result.result_json == result.cursor_json == NOTHING:
        return job
    return msgspec.structs.replace(
        job, result=copy_raw(result.result_json), cursor=copy_raw(result.cursor_json)
    )


def copy_raw(raw: msgspec.Raw) -> msgspec.Raw | None:
    """Copied, since a slice would keep the whole text in memory."""
    return None if raw == NOTHING else msgspec.Raw(bytes(raw))


DEAD_LETTER = msgspec.json.Decoder(DeadLetter)


def dead_letter_row(letter: DeadLetter) -> Row:
    return letter.id, micros(letter.at), letter.source, to_json(letter)


TRANSITION = msgspec.json.Decoder(Transition)


def transition_row(step: Transition) -> Row:
    return step.job_id, to_json(step)


SCHEDULE_SPEC = SpecForm(ScheduleSpec, ())


def schedule_spec(schedule: Schedule) -> str:
    return to_json(SCHEDULE_SPEC.pack(schedule))


def job_table(name: str, view: str, schedule_index: str) -> JobTable:
    """Only what was chosen is put together as records."""
    return JobTable(
        name=name,
        view=view,
        columns="record",
        schedule_index=schedule_index,
        select_first=f"""
            SELECT record
            FROM onbeat.{view}
            WHERE seq IN (SELECT seq FROM onbeat.{name}
                          WHERE {{where}} ORDER BY {{order}} LIMIT ?)
        """,  # noqa: S608  values are bound
    )


FORMS = Forms(
    wait_columns={"blocked_by": "integer"},
    waiting_lists=(
        WaitingList(
            index="jobs_due",
            where="ready",
            order=("queue", "priority", "lane", "grouped"),
            behind=f"(queue, priority, lane, grouped, due_at) > (?, ?, ?, ?, {GREATEST})",
        ),
        WaitingList(
            index="jobs_stuck",
            where="state = 'waiting' AND NOT ready",
            groups="queue, lane",
            may_be_blocked=True,
        ),
    ),
    schedule_spec=schedule_spec,
    dead_letter_reason="record ->> '$.reason'",
    attempts=ATTEMPT_RECORDS,
    dispositions=BY_FIRST,
    jobs=JobForm(
        live=job_table("jobs", "live_jobs", "jobs_of_schedule"),
        ended=job_table("finished", "ended_jobs", "finished_by_schedule"),
        states={
            # Written out, since SQLite takes a partial index only when it sees the value.
            JobState.WAITING: "state = 'waiting'",
            JobState.RUNNING: "state = 'running'",
            JobState.SUCCEEDED: "+state = 'succeeded'",  # by id: these are most of the table
            JobState.FAILED: "state = 'failed' AND state <> 'succeeded'",
            JobState.CANCELLED: "state = 'cancelled' AND state <> 'succeeded'",
        },
        read=lambda row: read_jobs(f"[{row[0]}]")[0],
        row=job_row,
        new=NEW_COLUMNS,
        shared=SHARED_COLUMNS,
        all_columns="record",
    ),
    transitions=Form(
        columns={"job_id": "text", "record": "text"},
        row=transition_row,
        read=lambda row: TRANSITION.decode(row[-1]),
    ),
    dead_letters=Form(
        columns={"id": "text", "at": "bigint", "source": "text", "record": "text"},
        row=dead_letter_row,
        read=lambda row: DEAD_LETTER.decode(row[-1]),
    ),
)
