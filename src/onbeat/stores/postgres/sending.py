"""Jobs that running jobs send, behind the fence of the sender."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.ports.store import Hint, Sent
from onbeat.stores.postgres.enqueue import (
    NewJob,
    hold_schedules,
    in_key_order,
    insertion,
    new_job,
    wait_for_others,
)
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import to_json

ROWS_MAX = 5_000  # added by one statement; more would only be larger

UNLESS_LIVE = "AND (SELECT 1 FROM jobs AS live WHERE live.id = new.id) IS NULL"

Lease = tuple[JobId, Token]


class Sending(msgspec.Struct, frozen=True, gc=False):
    """What was sent, made ready outside the transaction, to keep that short."""

    lease: Lease
    jobs: Sequence[NewJob]
    cursor: str | None
    progress: str | None


def sending(sent: Sent) -> Sending:
    return Sending(
        (sent.sender, sent.token),
        list(map(new_job, sent.jobs)),
        None if sent.cursor is None else bytes(sent.cursor).decode(),
        None if sent.progress is None else to_json(sent.progress),
    )


async def send_from(transaction: Transaction, sendings: Sequence[Sending]) -> list[bool]:
    valid = await keep_cursors(transaction, sendings)
    first: dict[JobId, NewJob] = {}
    for one in sendings:
        if one.lease in valid:
            for job in one.jobs:
                first.setdefault(job.id, job)
    await add(transaction, list(first.values()))
    return [one.lease in valid for one in sendings]


async def keep_cursors(transaction: Transaction, sendings: Sequence[Sending]) -> set[Lease]:
    """Note how far the senders are; answers with the leases that are valid, until the commit.

    What is told last stands. Rows are locked in the order of their ids.
    """
    told: dict[Lease, tuple[str | None, str | None]] = {}
    for one in sendings:
        cursor, progress = told.get(one.lease, (None, None))
        told[one.lease] = (one.cursor or cursor, one.progress or progress)
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
    rows = [(*lease, *told[lease]) for lease in sorted(told)]
    found = await transaction.rows(sql, *columns(rows))
    return {(JobId(str(id)), Token(token)) for id, token in found}


async def add(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Store those that do not exist and whose unique key is free."""
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
    """Answers with those that were added.

    Nobody else adds jobs with these ids meanwhile: they are made from those of senders that we hold
    locked. So only unique keys may be in conflict, and only rows with one are written as if.
    """
    created: set[JobId] = set()
    for keyed in (False, True):
        rows = in_key_order([job for job in jobs if (job.unique is not None) is keyed])
        if rows:
            sql, values = insertion(rows)
            unless = "ON CONFLICT DO NOTHING" if keyed else UNLESS_LIVE
            found = await transaction.column(f"{sql} {unless} RETURNING jobs.id", *values)
            created.update(JobId(str(id)) for id in found)
    return created
