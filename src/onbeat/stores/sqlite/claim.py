"""Claims of due jobs.

The index `onbeat_jobs_due` holds a ready list for each queue, priority and lane: the claimable jobs
in the order of their due times. A claim skips from list to list and takes the first jobs of those
it may, so its cost does not depend on the length of the lists.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

from onbeat.model.job import Job
from onbeat.ports.store import Claimed, ClaimRequest, Hint
from onbeat.stores.sql.dialect import Value
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.jobs import jobs_by_id
from onbeat.stores.sql.verbs.queues import store_buckets
from onbeat.stores.sqlite.limits import LimitedClaim
from onbeat.stores.sqlite.ready_lists import ReadyList, earliest, find_ready_lists
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.start import start_admitted
from onbeat.stores.sqlite.transaction import Transaction, finish, json_array

LAPSED_MAX = 20_000  # flagged by one claim; more would delay the others


async def claim(transaction: Transaction, request: ClaimRequest) -> Claimed:
    now = micros(request.now)
    flag_overdue(transaction, now)
    lines = find_ready_lists(transaction, request)
    due = [line for line in lines if line.due_at <= now]
    if any(line.limits is not None for line in due):
        return claim_within_limits(transaction, request, lines, due)
    jobs = take_by_priority(partial(take, transaction, request), due, request.limit)
    return Claimed(jobs=reread(transaction, jobs), next_due_at=earliest(lines))


def claim_within_limits(
    transaction: Transaction,
    request: ClaimRequest,
    ready_lists: Sequence[ReadyList],
    due: Sequence[ReadyList],
) -> Claimed:
    limited = LimitedClaim(transaction, request, due)
    jobs = take_by_priority(limited.take, due, request.limit)
    finish(store_buckets(transaction, limited.admission.drawn_buckets()))
    limited.keep_turns()
    return Claimed(jobs=reread(transaction, jobs), next_due_at=limited.next_due_at(ready_lists))


def take_by_priority(
    take: Callable[[Sequence[ReadyList], int], Iterator[Job]], due: Sequence[ReadyList], limit: int
) -> list[Job]:
    jobs: list[Job] = []
    for _, alike in groupby(due, key=attrgetter("priority")):
        jobs += take(list(alike), limit - len(jobs))
        if len(jobs) >= limit:
            break
    return jobs


def reread(transaction: Transaction, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """A later job of a claim may have requested an earlier one to stop."""
    if Hint.CANCELS not in transaction.hints:
        return tuple(jobs)
    stored_jobs = finish(jobs_by_id(transaction, [job.id for job in jobs]))
    return tuple(stored_jobs[job.id] for job in jobs)


def flag_overdue(transaction: Transaction, now: int) -> None:
    """Remove jobs that may no longer start from the index, so that claims see each only once.

    Clocks can be set back: jobs that have not lapsed by this clock return.
    """
    changed = transaction.value(
        """
        SELECT EXISTS (SELECT 1 FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                       WHERE lapsed = 0 AND start_by < :now AND start_by IS NOT NULL
                         AND state = 'waiting')
            OR EXISTS (SELECT 1 FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                       WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                         AND state = 'waiting')
        """,
        {"now": now},
    )
    if changed:
        transaction.run(
            """
            UPDATE onbeat_jobs
            SET lapsed = start_by < :now
            WHERE seq IN (
              SELECT * FROM (
                SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                WHERE lapsed = 0 AND start_by < :now AND start_by IS NOT NULL
                  AND state = 'waiting'
                LIMIT :limit)
              UNION ALL
              SELECT * FROM (
                SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                WHERE lapsed = 1 AND start_by >= :now AND start_by IS NOT NULL
                  AND state = 'waiting'
                LIMIT :limit))
            """,
            {"now": now, "limit": LAPSED_MAX},
        )


def take(
    transaction: Transaction, request: ClaimRequest, ready_lists: Sequence[ReadyList], limit: int
) -> Iterator[Job]:
    """Start due jobs of ready lists of one priority, in order, up to the limit."""
    while limit > 0:
        due = pick(transaction, ready_lists, micros(request.now), limit)
        admitted = start_admitted(transaction, request, due)
        yield from admitted
        if len(admitted) == len(due):
            return
        # Jobs that were not admitted have left the index; others may take their places.
        limit -= len(admitted)


def pick(
    transaction: Transaction, ready_lists: Sequence[ReadyList], now: int, limit: int
) -> list[Job]:
    if len(ready_lists) == 1:
        return pick_of_one(transaction, ready_lists[0], now, limit)
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT onbeat_live_jobs.record
          FROM json_each(:lines) AS lines
          CROSS JOIN json_each((
            SELECT json_group_array(seq)
            FROM (
              SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_due
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
          CROSS JOIN onbeat_live_jobs ON onbeat_live_jobs.seq = heads.value
          ORDER BY onbeat_live_jobs.due_at, onbeat_live_jobs.id
          LIMIT :limit
        )
    """
    bindings: dict[str, Value] = {"lines": json_array(ready_lists), "now": now, "limit": limit}
    return read_jobs(transaction.value(sql, bindings))


def pick_of_one(transaction: Transaction, ready_list: ReadyList, now: int, limit: int) -> list[Job]:
    """The case of most claims: one ready list, in index order."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM onbeat_live_jobs
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
        "queue": ready_list.queue,
        "priority": ready_list.priority,
        "lane": ready_list.lane,
        "grouped": ready_list.grouped,
        "now": now,
        "limit": limit,
    }
    return read_jobs(transaction.value(sql, bindings))
