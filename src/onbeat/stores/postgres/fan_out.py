"""Fan-out: jobs that running jobs send, fenced by the sender's lease."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.ports.store import Hint, SentJobs
from onbeat.stores.postgres.enqueue import (
    NewJob,
    in_key_order,
    insert_statement,
    new_job,
)
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import to_json
from onbeat.stores.sql.verbs.dependents import wait_for_others
from onbeat.stores.sql.verbs.schedules import hold_schedules

ROWS_MAX = 5_000  # added in one statement; larger ones gain nothing

UNLESS_LIVE = "AND (SELECT 1 FROM jobs AS live WHERE live.id = new.id) IS NULL"

Lease = tuple[JobId, Token]


class FanOutBatch(msgspec.Struct, frozen=True, gc=False):
    """The jobs that one job sends, prepared outside the transaction, to keep that short."""

    lease: Lease
    jobs: Sequence[NewJob]
    cursor: str | None
    progress: str | None


def prepare_batch(sent: SentJobs) -> FanOutBatch:
    return FanOutBatch(
        (sent.sender, sent.token),
        list(map(new_job, sent.jobs)),
        None if sent.cursor is None else bytes(sent.cursor).decode(),
        None if sent.progress is None else to_json(sent.progress),
    )


async def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    valid = await keep_cursors(transaction, sendings)
    first: dict[JobId, NewJob] = {}
    for sending in sendings:
        if sending.lease in valid:
            for job in sending.jobs:
                first.setdefault(job.id, job)
    await add(transaction, list(first.values()))
    return [sending.lease in valid for sending in sendings]


async def keep_cursors(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> set[Lease]:
    """Store the senders' cursors; returns the valid leases, which stay valid until the commit.

    The last cursor of a sender counts. Rows are locked in the order of ids.
    """
    answer: dict[Lease, tuple[str | None, str | None]] = {}
    for sending in sendings:
        cursor, progress = answer.get(sending.lease, (None, None))
        answer[sending.lease] = (sending.cursor or cursor, sending.progress or progress)
    sql = """
        UPDATE jobs
        SET cursor = coalesce(told.cursor, jobs.cursor),
            progress = coalesce(told.progress, jobs.progress)
        FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
             AS told (id, token, cursor, progress)
        WHERE jobs.id = told.id
          AND jobs.token = told.token
          AND jobs.running IS NOT DISTINCT FROM TRUE
        RETURNING jobs.id, jobs.token
    """
    rows = [(*lease, *answer[lease]) for lease in sorted(answer)]
    found_rows = await transaction.rows(sql, *columns(rows))
    return {(JobId(str(id)), Token(token)) for id, token in found_rows}


async def add(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Store the jobs that do not exist and whose unique key is free."""
    await hold_schedules(transaction, {job.schedule_id for job in jobs if job.schedule_id})
    created: set[JobId] = set()
    for start in range(0, len(jobs), ROWS_MAX):
        created |= await insert_new(transaction, jobs[start : start + ROWS_MAX])
    if created:
        transaction.hints.add(Hint.JOBS)
    waiting = [job for job in jobs if job.after and job.id in created]
    if waiting:
        await wait_for_others(transaction, waiting, created)


async def insert_new(transaction: Transaction, jobs: Sequence[NewJob]) -> set[JobId]:
    """Returns the ids of the added jobs.

    No other transaction adds jobs with these ids: they derive from the ids of senders that we hold
    locked. Only unique keys may conflict, so only rows with one take ON CONFLICT.
    """
    created: set[JobId] = set()
    for keyed in (False, True):
        rows = in_key_order([job for job in jobs if (job.unique is not None) is keyed])
        if rows:
            sql, values = insert_statement(rows)
            unless = "ON CONFLICT DO NOTHING" if keyed else UNLESS_LIVE
            found_rows = await transaction.column(f"{sql} {unless} RETURNING jobs.id", *values)
            created.update(JobId(str(id)) for id in found_rows)
    return created
