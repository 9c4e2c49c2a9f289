"""Bulk inserts of new jobs, by COPY.

The server writes one WAL record for all rows added to a page, and works on the first rows while the
others are still being packed here.
"""

import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Final

from asyncpg.pgproto.pgproto import UUID

from onbeat.model.errors import Conflict, Invalid
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap
from onbeat.model.target import lane_of
from onbeat.ports.store import Hint
from onbeat.stores.postgres.rows import spec_json
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros

COPIED_MIN: Final = 100
"""With fewer, the round trips of a transaction cost more than COPY saves."""
PIECE = 250  # jobs sent while the next ones are packed
ENDED_MAX = 100  # ids of ended jobs that are compared here

COLUMNS: Final = (
    "id", "created_at", "due_at", "queue", "priority", "lane", "start_by", "grp", "spec"
)  # fmt: skip
# Each value follows its length; the length of NULL is -1.
BEGIN: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END: Final = struct.pack(">h", -1)
NULL: Final = struct.pack(">i", -1)
FIRST: Final = struct.Struct(">hi16siqiq")
PRIORITY: Final = struct.Struct(">ih")
INSTANT: Final = struct.Struct(">iq")
LENGTH: Final = struct.Struct(">i")


def may_be_copied(jobs: Sequence[Job]) -> bool:
    """Whether the jobs are many, and none depends on another job or a schedule."""
    return len(jobs) >= COPIED_MIN and all(map(is_plain, jobs))


def is_plain(job: Job) -> bool:
    return (
        job.unique is None
        and job.schedule_id is None
        and not job.after
        and job.flow is None
        and job.occurrence is None
        and job.overlap is Overlap.ALLOW
    )


async def copy_new(transaction: Transaction, jobs: Sequence[Job]) -> int:
    """Add jobs that are probably all new; raises `Conflict` if one exists or has ended.

    Ended jobs are looked for after the insert: from then on no other transaction can add or end one
    of them, and the insert has waited for those that were ending one.
    """
    added = await transaction.copy("jobs", COLUMNS, pieces(jobs))
    if await any_ended(transaction, [job.id for job in jobs]):
        raise Conflict("some of the jobs have ended")
    transaction.hints.add(Hint.JOBS)
    return added


async def any_ended(transaction: Transaction, ids: Sequence[str]) -> bool:
    """New ids lie so close together that few other jobs have ids between them."""
    sql = "SELECT id FROM finished WHERE id BETWEEN $1 AND $2 LIMIT $3"
    between = await transaction.column(sql, min(ids), max(ids), ENDED_MAX)
    if len(between) < ENDED_MAX:
        return not {str(id) for id in between}.isdisjoint(ids)
    sql = """
        SELECT EXISTS (
          SELECT 1
          FROM unnest($1::uuid[]) AS new (id)
          WHERE (SELECT 1 FROM finished WHERE finished.id = new.id) = 1)
    """
    return bool(await transaction.value(sql, ids))


async def pieces(jobs: Sequence[Job]) -> AsyncIterator[bytes]:
    pack = RowPacker()
    yield BEGIN
    for start in range(0, len(jobs), PIECE):
        yield pack.rows(jobs[start : start + PIECE])
    yield END


class RowPacker:
    """Packs rows in the binary format of COPY; values that jobs share are packed once."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, int, str], bytes] = {}
        self.at: datetime | None = None
        self.micros = 0

    def rows(self, jobs: Iterable[Job]) -> bytes:
        try:
            return b"".join(map(self.row, jobs))
        except (ValueError, struct.error) as error:
            raise Invalid(f"this cannot be stored: {error}") from error

    def row(self, job: Job) -> bytes:
        spec = spec_json(job)
        created_at = self.instant(job.created_at)
        due_at = created_at if job.due_at == job.created_at else micros(job.due_at)
        first = FIRST.pack(len(COLUMNS), 16, UUID(job.id).bytes, 8, created_at, 8, due_at)
        return first + self.line(job) + self.pack_rare_fields(job) + LENGTH.pack(len(spec)) + spec

    def instant(self, at: datetime) -> int:
        """Cached, as most jobs of one call have the same instant."""
        if at is not self.at:
            self.at, self.micros = at, micros(at)
        return self.micros

    def line(self, job: Job) -> bytes:
        key = (job.queue, job.priority, lane_of(job.target))
        result = self.lines.get(key)
        if result is None:
            queue, priority, lane = key
            result = pack_text(queue) + PRIORITY.pack(2, priority) + pack_text(lane)
            self.lines[key] = result
        return result

    def pack_rare_fields(self, job: Job) -> bytes:
        if job.start_by is None and not job.group:
            return NULL + NULL
        bound = NULL if job.start_by is None else INSTANT.pack(8, micros(job.start_by))
        return bound + (pack_text(job.group) if job.group else NULL)


def pack_text(text: str) -> bytes:
    value = text.encode()
    return LENGTH.pack(len(value)) + value
