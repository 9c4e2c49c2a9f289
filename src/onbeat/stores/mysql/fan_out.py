"""Fan-out: jobs that running jobs send, fenced by the sender's lease."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.ports.store import SentJobs
from onbeat.stores.mysql.enqueue import (
    NewJob,
    find_stored,
    insert_new,
    new_job,
)
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.values import text_or_none, to_json
from onbeat.stores.sql.verbs.dependents import wait_for_others
from onbeat.stores.sql.verbs.schedules import hold_schedules


class FanOutBatch(msgspec.Struct, frozen=True):
    """The jobs that one job sends, prepared outside the transaction, to keep that short."""

    sender: JobId
    token: Token
    jobs: Sequence[NewJob]
    cursor: str | None
    progress: str | None


def prepare_batch(sent: SentJobs) -> FanOutBatch:
    return FanOutBatch(
        sender=sent.sender,
        token=sent.token,
        jobs=list(map(new_job, sent.jobs)),
        cursor=text_or_none(sent.cursor),
        progress=None if sent.progress is None else to_json(sent.progress),
    )


async def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    await hold_schedules(
        transaction,
        {job.schedule_id for sending in sendings for job in sending.jobs if job.schedule_id},
    )
    tokens = await lock_tokens(transaction, sendings)
    answers = [tokens.get(sending.sender) == sending.token for sending in sendings]
    fitting = [sending for sending, fits in zip(sendings, answers, strict=True) if fits]
    jobs: dict[JobId, NewJob] = {}
    for sending in fitting:
        for job in sending.jobs:
            jobs.setdefault(job.id, job)
    await add_missing(transaction, list(jobs.values()))
    await transaction.run_each(
        """
        UPDATE jobs
        SET cursor_text = COALESCE(%s, cursor_text), progress = COALESCE(%s, progress)
        WHERE id = %s
        """,
        [(sending.cursor, sending.progress, sending.sender) for sending in fitting],
    )
    return answers


async def lock_tokens(
    transaction: Transaction, sendings: Sequence[FanOutBatch]
) -> dict[JobId, Token]:
    """The tokens of running senders. None is settled or claimed again before the commit."""
    if not sendings:
        return {}
    sql = """
        SELECT id, token
        FROM jobs FORCE INDEX (PRIMARY)
        WHERE id IN %s AND running = 1
        ORDER BY id
        FOR UPDATE
    """
    return dict(await transaction.rows(sql, (tuple({sending.sender for sending in sendings}),)))


async def add_missing(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Jobs sent before are not changed: the jobs that they waited for may be deleted since."""
    there = await find_stored(transaction, [job.id for job in jobs])
    new = [job for job in jobs if job.id not in there]
    if not new:
        return
    ids = [job.id for job in new]
    whole = await insert_new(transaction, new) == len(new)
    created = set(ids) if whole else await find_stored(transaction, ids)
    if any(job.after for job in new):
        await wait_for_others(transaction, new, created)
