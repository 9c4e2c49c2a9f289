"""Giving out due jobs.

`jobs_due` keeps, for each queue, priority and lane, the jobs that may be claimed in the order in
which they are due. A claim hops from one such line to the next, so that it costs nothing that
other lines are long, and takes the heads of those that it may.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from onbeat.model.job import Job
from onbeat.ports.store import Claimed, ClaimRequest, Hint
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.admission import Admission
from onbeat.stores.sqlite.jobs import jobs_by_id
from onbeat.stores.sqlite.lines import Line, earliest, find_lines
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.starting import start_admitted
from onbeat.stores.sqlite.transaction import Transaction, Value, listed

LAPSED_MAX = 20_000  # set aside by one claim; more would hold up the others


def claim(transaction: Transaction, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    set_lapsed_aside(transaction, now)
    lines = find_lines(transaction, request)
    due = [line for line in lines if line.due_at <= now]
    if any(line.limits is not None for line in due):
        return claim_within_limits(transaction, request, lines, due)
    jobs = take_by_priority(partial(take, transaction, request), due, request.limit)
    return Claimed(jobs=as_they_are(transaction, jobs), next_due_at=earliest(lines))


def claim_within_limits(
    transaction: Transaction, request: ClaimRequest, lines: Sequence[Line], due: Sequence[Line]
) -> Claimed:
    admission = Admission(transaction, request, due)
    jobs = take_by_priority(admission.take, due, request.limit)
    admission.keep_meters()
    admission.keep_turns()
    return Claimed(jobs=as_they_are(transaction, jobs), next_due_at=admission.next_due_at(lines))


def take_by_priority(
    take: Callable[[Sequence[Line], int], Iterator[Job]], due: Sequence[Line], limit: int
) -> list[Job]:
    jobs: list[Job] = []
    for _, alike in groupby(due, key=attrgetter("priority")):
        jobs += take(list(alike), limit - len(jobs))
        if len(jobs) >= limit:
            break
    return jobs


def as_they_are(transaction: Transaction, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """A later job of a claim may have asked an earlier one to stop."""
    if Hint.CANCELS not in transaction.hints:
        return tuple(jobs)
    found = jobs_by_id(transaction, [job.id for job in jobs])
    return tuple(found[job.id] for job in jobs)


def set_lapsed_aside(transaction: Transaction, now: int) -> None:
    """Keep jobs that may no longer start out of the index, so that each is met once.

    Clocks can be set back: what lapsed by a later present than this returns.
    """
    changed = transaction.value(
        """
        SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_bounded
                       WHERE lapsed = 0 AND start_by < :now AND start_by IS NOT NULL
                         AND state = 'waiting')
            OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_bounded
                       WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                         AND state = 'waiting')
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
                  AND state = 'waiting'
                LIMIT :limit)
              UNION ALL
              SELECT * FROM (
                SELECT seq FROM jobs INDEXED BY jobs_bounded
                WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                  AND state = 'waiting'
                LIMIT :limit))
            """,
            {"now": now, "limit": LAPSED_MAX},
        )


def take(
    transaction: Transaction, request: ClaimRequest, lines: Sequence[Line], limit: int
) -> Iterator[Job]:
    """Start due jobs of lines of one priority, in order, until the limit or until none is left."""
    while limit > 0:
        due = pick(transaction, lines, micros(request.now), limit)
        admitted = start_admitted(transaction, request, due)
        yield from admitted
        if len(admitted) == len(due):
            return
        # Those not admitted have left the index; others may take their places.
        limit -= len(admitted)


def pick(transaction: Transaction, lines: Sequence[Line], now: int, limit: int) -> list[Job]:
    if len(lines) == 1:
        return pick_of_one(transaction, lines[0], now, limit)
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM json_each(:lines) AS lines
          CROSS JOIN json_each((
            SELECT json_group_array(seq)
            FROM (
              SELECT seq FROM jobs INDEXED BY jobs_due
              WHERE ready
                AND queue = lines.value ->> 0
                AND priority = lines.value ->> 1
                AND lane = lines.value ->> 2
                AND grouped = lines.value ->> 3
                AND due_at <= :now
                AND (start_by IS NULL OR start_by >= :now)
              ORDER BY due_at, id
              LIMIT :limit
            )
          )) AS heads
          CROSS JOIN live_jobs ON live_jobs.seq = heads.value
          ORDER BY live_jobs.due_at, live_jobs.id
          LIMIT :limit
        )
    """
    bindings: dict[str, Value] = {"lines": listed(lines), "now": now, "limit": limit}
    return read_jobs(transaction.value(sql, bindings))


def pick_of_one(transaction: Transaction, line: Line, now: int, limit: int) -> list[Job]:
    """Most claims find one line, whose index has its jobs in order already."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM live_jobs
          WHERE ready
            AND queue = :queue
            AND priority = :priority
            AND lane = :lane
            AND grouped = :grouped
            AND due_at <= :now
            AND (start_by IS NULL OR start_by >= :now)
          ORDER BY due_at, id
          LIMIT :limit
        )
    """
    bindings: dict[str, Value] = {
        "queue": line.queue,
        "priority": line.priority,
        "lane": line.lane,
        "grouped": line.grouped,
        "now": now,
        "limit": limit,
    }
    return read_jobs(transaction.value(sql, bindings))
