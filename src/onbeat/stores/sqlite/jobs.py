"""Jobs one by one and in pages, and what a caller does to them."""

from collections.abc import Iterable, Sequence

import apsw
import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.page import JobFilter, OccurrenceFilter, Page
from onbeat.ports.store import Hint
from onbeat.stores.sqlite.ends import block, cancel_waiting
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.overlap import ask_to_stop
from onbeat.stores.sqlite.rows import read_jobs, spec_of
from onbeat.stores.sqlite.transaction import Transaction, Value, listed


def job(transaction: Transaction, id: JobId) -> Job | None:
    return jobs_by_id(transaction, [id]).get(id)


def jobs_by_id(transaction: Transaction, ids: Iterable[JobId]) -> dict[JobId, Job]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record FROM live_jobs WHERE id IN (SELECT value FROM json_each(:ids))
          UNION ALL
          SELECT record FROM ended_jobs WHERE id IN (SELECT value FROM json_each(:ids))
        )
    """
    found = read_jobs(transaction.value(sql, {"ids": listed(ids)}))
    return {one.id: one for one in found}


TABLES = {
    "jobs": frozenset({JobState.WAITING, JobState.RUNNING}),
    "finished": FINAL_STATES,
}

CONDITIONS = {
    "queue": "queue = :queue",
    "task": "lane = :task",
    "schedule_id": "schedule_id = :schedule_id",
    "before": "id < :before",
}

# Written out, since SQLite takes a partial index only when it sees the value.
STATE_CONDITIONS = {
    JobState.WAITING: "state = 'waiting'",
    JobState.RUNNING: "state = 'running'",
    JobState.SUCCEEDED: "+state = 'succeeded'",  # by id: these are most of the table
    JobState.FAILED: "state = 'failed' AND state <> 'succeeded'",
    JobState.CANCELLED: "state = 'cancelled' AND state <> 'succeeded'",
}


def jobs(transaction: Transaction, filter: JobFilter) -> Page[Job]:
    """The total would be dear: it is not counted."""
    found = [
        one
        for table, states in TABLES.items()
        if filter.state is None or filter.state in states
        for one in newest(transaction, table, filter)
    ]
    found.sort(key=lambda one: one.id, reverse=True)
    items = tuple(found[: filter.limit])
    more = len(found) > filter.limit and items
    return Page(items=items, cursor=items[-1].id if more else None)


def newest(transaction: Transaction, table: str, filter: JobFilter) -> list[Job]:
    """Only what was chosen is put together as records."""
    values = {name: getattr(filter, name) for name in CONDITIONS}
    conditions = [CONDITIONS[name] for name, value in values.items() if value is not None]
    if filter.state is not None:
        conditions.append(STATE_CONDITIONS[filter.state])
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM :view
        WHERE seq IN (SELECT seq FROM :table WHERE :conditions ORDER BY id DESC LIMIT :limit)
    """
    sql = sql.replace(":view", VIEWS[table]).replace(":table", table)
    sql = sql.replace(":conditions", " AND ".join(conditions) or "TRUE")
    return read_jobs(transaction.value(sql, {**values, "limit": filter.limit + 1}))


VIEWS = {"jobs": "live_jobs", "finished": "ended_jobs"}


def occurrence_jobs(transaction: Transaction, filter: OccurrenceFilter) -> Page[Job]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM :table
          WHERE schedule_id = :schedule
          ORDER BY due_at DESC, id DESC
          LIMIT :limit OFFSET :offset
        )
    """.replace(":table", "ended_jobs" if filter.ended else "live_jobs")
    bindings: dict[str, Value] = {
        "schedule": filter.schedule_id,
        "limit": filter.limit,
        "offset": filter.offset,
    }
    count = "SELECT count(*) FROM :table WHERE schedule_id = ?".replace(
        ":table", "ended_jobs" if filter.ended else "live_jobs"
    )
    return Page(
        items=tuple(read_jobs(transaction.value(sql, bindings))),
        total=transaction.value(count, (filter.schedule_id,)),
    )


class Cancel(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


def cancel(transaction: Transaction, request: Cancel) -> list[Job | None]:
    cancel_waiting(transaction, dict.fromkeys(request.ids, request.reason), request.now)
    ask_to_stop(transaction, request.ids, request.reason, request.now)
    found = jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


class Retry(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    now: int


def retry(transaction: Transaction, request: Retry) -> list[Job | None]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM ended_jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('failed', 'cancelled')
    """
    chosen = read_jobs(transaction.value(sql, (listed(request.ids),)))
    if chosen:
        note(transaction, [one.id for one in chosen], request.now, "retried", by_hand(chosen))
        move_back(transaction, chosen, request.now)
        block(transaction, [(one.id, other) for one in chosen for other in one.after])
        transaction.hints.add(Hint.JOBS)
    found = jobs_by_id(transaction, request.ids)
    return [found.get(id) for id in request.ids]


def by_hand(chosen: Sequence[Job]) -> dict[JobId, str]:
    return {one.id: "by hand" for one in chosen}


def move_back(transaction: Transaction, chosen: Sequence[Job], now: int) -> None:
    """To `jobs`, as if new, but for the token, which never falls, and that they have started."""
    try:
        transaction.run_rows(
            """
            INSERT INTO jobs (id, queue, priority, lane, due_at, unique_key, schedule_id,
                              occurrence, overlap, token, started_at, spec, grp, held)
            SELECT id, queue, priority, lane, column2, unique_key, schedule_id,
                   occurrence, overlap, token, started_at, column3, column4,
                   EXISTS (SELECT 1 FROM schedules WHERE id = schedule_id AND status = 'paused')
            FROM :rows
            CROSS JOIN finished ON id = column1
            """,
            [(one.id, now, spec_of(replace(one, expires_at=None)), one.group) for one in chosen],
        )
    except apsw.ConstraintError as error:
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error
    ids = (listed(one.id for one in chosen),)
    transaction.run(
        """
        INSERT INTO attempts (job_id, token, record)
        SELECT id, token, last_attempt
        FROM finished
        WHERE id IN (SELECT value FROM json_each(?)) AND last_attempt IS NOT NULL
        """,
        ids,
    )
    transaction.run("DELETE FROM finished WHERE id IN (SELECT value FROM json_each(?))", ids)
