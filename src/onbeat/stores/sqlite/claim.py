"""Giving out due jobs.

`jobs_due` keeps, for each queue, priority and lane, the jobs that may be claimed in the order in
which they are due. A claim hops from one such group to the next, so that it costs nothing that
other groups are long, and takes the heads of those that it may.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter

import msgspec

from onbeat.model.ids import Token
from onbeat.model.job import Job, JobState
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Claimed, ClaimRequest, Hint
from onbeat.stores.sqlite.jobs import jobs_by_id
from onbeat.stores.sqlite.overlap import admit
from onbeat.stores.sqlite.rows import instant, micros, read_jobs
from onbeat.stores.sqlite.transaction import Transaction, Value, listed

LAPSED_MAX = 20_000  # set aside by one claim; more would hold up the others


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Jobs of one queue, priority and lane: when the first is due, and the first after now."""

    queue: str
    priority: int
    lane: str
    due_at: int
    next_due_at: int | None


def claim(transaction: Transaction, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    set_lapsed_aside(transaction, now)
    groups = find_groups(transaction, request, now)
    jobs: list[Job] = []
    for _, due in groupby(
        sorted((group for group in groups if group.due_at <= now), key=attrgetter("priority")),
        key=attrgetter("priority"),
    ):
        jobs += take(transaction, request, list(due), request.limit - len(jobs))
        if len(jobs) >= request.limit:
            break
    return Claimed(jobs=as_they_are(transaction, jobs), next_due_at=earliest(groups))


def as_they_are(transaction: Transaction, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """A later job of a claim may have asked an earlier one to stop."""
    if Hint.CANCELS not in transaction.hints:
        return tuple(jobs)
    found = jobs_by_id(transaction, [job.id for job in jobs])
    return tuple(found[job.id] for job in jobs)


def earliest(groups: Sequence[Group]) -> datetime | None:
    following = [group.next_due_at for group in groups if group.next_due_at is not None]
    return instant(min(following)) if following else None


def set_lapsed_aside(transaction: Transaction, now: int) -> None:
    """Keep jobs that may no longer start out of the index, so that each is met once.

    Clocks can be set back: what lapsed by a later present than this returns.
    """
    changed = transaction.value(
        """
        SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_bounded
                       WHERE lapsed = 0 AND start_by < :now AND start_by IS NOT NULL
                         AND state = 'waiting' AND token = 0)
            OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_bounded
                       WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                         AND state = 'waiting' AND token = 0)
        """,
        {"now": now},
    )
    if changed:
        transaction.run(
            """
            UPDATE jobs
            SET lapsed = start_by < :now
            WHERE seq IN (
              SELECT * FROM (
                SELECT seq FROM jobs INDEXED BY jobs_bounded
                WHERE lapsed = 0 AND start_by < :now AND start_by IS NOT NULL
                  AND state = 'waiting' AND token = 0
                LIMIT :limit)
              UNION ALL
              SELECT * FROM (
                SELECT seq FROM jobs INDEXED BY jobs_bounded
                WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                  AND state = 'waiting' AND token = 0
                LIMIT :limit))
            """,
            {"now": now, "limit": LAPSED_MAX},
        )


def find_groups(transaction: Transaction, request: ClaimRequest, now: int) -> list[Group]:
    sql = """
        WITH RECURSIVE heads (head) AS (
          SELECT (SELECT seq FROM jobs INDEXED BY jobs_due WHERE ready
                  ORDER BY queue, priority, lane, due_at, id LIMIT 1)
          UNION ALL
          SELECT coalesce(
            (SELECT next.seq FROM jobs AS next INDEXED BY jobs_due
             WHERE next.ready
               AND next.queue = here.queue
               AND next.priority = here.priority
               AND next.lane > here.lane
             ORDER BY next.lane, next.due_at, next.id LIMIT 1),
            (SELECT next.seq FROM jobs AS next INDEXED BY jobs_due
             WHERE next.ready AND next.queue = here.queue AND next.priority > here.priority
             ORDER BY next.priority, next.lane, next.due_at, next.id LIMIT 1),
            (SELECT next.seq FROM jobs AS next INDEXED BY jobs_due
             WHERE next.ready AND next.queue > here.queue
             ORDER BY next.queue, next.priority, next.lane, next.due_at, next.id LIMIT 1))
          FROM heads
          CROSS JOIN jobs AS here ON here.seq = head
        )
        SELECT json_group_array(json_array(
                 queue, priority, lane, due_at,
                 iif(due_at > :now, due_at,
                     (SELECT due_at FROM jobs AS later INDEXED BY jobs_due
                      WHERE later.ready
                        AND later.queue = jobs.queue
                        AND later.priority = jobs.priority
                        AND later.lane = jobs.lane
                        AND later.due_at > :now
                      ORDER BY later.due_at LIMIT 1))))
        FROM heads
        CROSS JOIN jobs ON jobs.seq = head
        WHERE lane IN (SELECT value FROM json_each(:lanes))
          AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
          AND queue NOT IN (SELECT name FROM queues WHERE paused)
    """
    bindings: dict[str, Value] = {
        "now": now,
        "lanes": listed(request.lanes),
        "queues": None if request.queues is None else listed(request.queues),
    }
    return msgspec.convert(transaction.values(sql, bindings), list[Group])


def take(
    transaction: Transaction, request: ClaimRequest, groups: Sequence[Group], limit: int
) -> Iterator[Job]:
    """Start due jobs of groups of one priority, in order, until the limit or until none is left."""
    while limit > 0:
        due = pick(transaction, groups, micros(request.now), limit)
        admitted = start_admitted(transaction, request, due)
        yield from admitted
        if len(admitted) == len(due):
            return
        # Those not admitted have left the index; others may take their places.
        limit -= len(admitted)


def pick(transaction: Transaction, groups: Sequence[Group], now: int, limit: int) -> list[Job]:
    if len(groups) == 1:
        return pick_of_one(transaction, groups[0], now, limit)
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM json_each(:groups) AS groups
          CROSS JOIN json_each((
            SELECT json_group_array(seq)
            FROM (
              SELECT seq FROM jobs INDEXED BY jobs_due
              WHERE ready
                AND queue = groups.value ->> 0
                AND priority = groups.value ->> 1
                AND lane = groups.value ->> 2
                AND due_at <= :now
                AND (start_by IS NULL OR start_by >= :now OR token > 0)
              ORDER BY due_at, id
              LIMIT :limit
            )
          )) AS heads
          CROSS JOIN live_jobs ON live_jobs.seq = heads.value
          ORDER BY live_jobs.due_at, live_jobs.id
          LIMIT :limit
        )
    """
    bindings: dict[str, Value] = {"groups": listed(groups), "now": now, "limit": limit}
    return read_jobs(transaction.value(sql, bindings))


def pick_of_one(transaction: Transaction, group: Group, now: int, limit: int) -> list[Job]:
    """Most claims find one group, whose index has its jobs in order already."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM live_jobs
          WHERE ready
            AND queue = :queue
            AND priority = :priority
            AND lane = :lane
            AND due_at <= :now
            AND (start_by IS NULL OR start_by >= :now OR token > 0)
          ORDER BY due_at, id
          LIMIT :limit
        )
    """
    bindings: dict[str, Value] = {
        "queue": group.queue,
        "priority": group.priority,
        "lane": group.lane,
        "now": now,
        "limit": limit,
    }
    return read_jobs(transaction.value(sql, bindings))


def start_admitted(
    transaction: Transaction, request: ClaimRequest, due: Sequence[Job]
) -> list[Job]:
    """Start what no overlap rule holds back; each sees those before it running."""
    admitted: list[Job] = []
    pending: list[Job] = []
    for job in due:
        if job.overlap is not Overlap.ALLOW and job.schedule_id is not None:
            start(transaction, request, pending)
            pending = []
            if not admit(transaction, job, micros(request.now)):
                continue
        pending.append(job)
        admitted.append(job)
    start(transaction, request, pending)
    return [started(job, request) for job in admitted]


def start(transaction: Transaction, request: ClaimRequest, jobs: Sequence[Job]) -> None:
    if jobs:
        transaction.run(
            """
            UPDATE jobs
            SET state = 'running', worker = :worker, token = token + 1, attempt = attempt + 1,
                started_at = :now, progress = NULL
            WHERE id IN (SELECT value FROM json_each(:ids))
            """,
            {
                "worker": request.worker,
                "now": micros(request.now),
                "ids": listed(job.id for job in jobs),
            },
        )


def started(job: Job, request: ClaimRequest) -> Job:
    return msgspec.structs.replace(
        job,
        state=JobState.RUNNING,
        worker=request.worker,
        token=Token(job.token + 1),
        attempt=job.attempt + 1,
        started_at=request.now,
        progress=None,
    )
