"""Fan-out: jobs that running jobs send, stored with the cursors of their senders."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.ports.store import SentJobs
from onbeat.stores.sql.values import text_or_none, to_json
from onbeat.stores.sqlite.enqueue import NewJob, enqueue, new_job
from onbeat.stores.sqlite.transaction import Row, Transaction, json_array


class FanOutBatch(msgspec.Struct, frozen=True, gc=False):
    """The jobs that one job sends, prepared outside the transaction, to keep that short."""

    sender: JobId
    token: Token
    jobs: tuple[NewJob, ...]
    cursor: str | None
    progress: str | None


def prepare_batch(sent: SentJobs) -> FanOutBatch:
    return FanOutBatch(
        sent.sender,
        sent.token,
        tuple(map(new_job, sent.jobs)),
        text_or_none(sent.cursor),
        None if sent.progress is None else to_json(sent.progress),
    )


def enqueue_from(transaction: Transaction, sent: Sequence[FanOutBatch]) -> list[bool]:
    """Store the jobs of many senders; the last cursor of a sender counts."""
    valid = find_valid(transaction, sent)
    jobs = [job for one, holds in zip(sent, valid, strict=True) if holds for job in one.jobs]
    if jobs:
        enqueue(transaction, jobs)
    keep_place(transaction, latest(sent))
    return valid


def find_valid(transaction: Transaction, sent: Sequence[FanOutBatch]) -> list[bool]:
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM onbeat_jobs
                         WHERE id = value ->> 0 AND token = value ->> 1 AND state = 'running'))
        FROM json_each(?)
    """
    request = json_array((one.sender, one.token) for one in sent)
    return [bool(one) for one in transaction.values(sql, (request,))]


def latest(sent: Sequence[FanOutBatch]) -> list[Row]:
    """One row for each sender with a new cursor or progress."""
    rows: dict[tuple[JobId, Token], Row] = {}
    for one in sent:
        if one.cursor is None and one.progress is None:
            continue
        key = (one.sender, one.token)
        *_, cursor, progress = rows.get(key, (None, None))
        rows[key] = (*key, one.cursor or cursor, one.progress or progress)
    return list(rows.values())


def keep_place(transaction: Transaction, rows: Sequence[Row]) -> None:
    transaction.run_rows(
        """
        UPDATE onbeat_jobs
        SET cursor = coalesce(column3, cursor), progress = coalesce(column4, progress)
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running'
        """,
        rows,
    )
