"""What a caller does to jobs."""

from collections.abc import Sequence

import apsw
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.stores.sql.verbs.jobs import jobs_by_id
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.dependents import add_dependencies, cancel_waiting
from onbeat.stores.sqlite.history import note
from onbeat.stores.sqlite.overlap import ask_to_stop
from onbeat.stores.sqlite.rows import read_jobs, spec_of
from onbeat.stores.sqlite.transaction import Transaction, json_array


def cancel(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> list[Job | None]:
    cancel_waiting(transaction, dict.fromkeys(ids, reason), now)
    ask_to_stop(transaction, ids, reason, now)
    jobs = finish(jobs_by_id(transaction, ids))
    return [jobs.get(id) for id in ids]


def retry(transaction: Transaction, ids: Sequence[JobId], now: int) -> list[Job | None]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM onbeat_ended_jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('failed', 'cancelled')
    """
    chosen = read_jobs(transaction.value(sql, (json_array(ids),)))
    if chosen:
        note(transaction, [one.id for one in chosen], now, "retried", by_hand(chosen))
        move_back(transaction, chosen, now)
        add_dependencies(transaction, [(one.id, other) for one in chosen for other in one.after])
        transaction.hints.add(Hint.JOBS)
    jobs = finish(jobs_by_id(transaction, ids))
    return [jobs.get(id) for id in ids]


def by_hand(chosen: Sequence[Job]) -> dict[JobId, str]:
    return {one.id: "by hand" for one in chosen}


def move_back(transaction: Transaction, chosen: Sequence[Job], now: int) -> None:
    """Make ended jobs live again, as new but for `started_at` and the token, which never falls."""
    try:
        transaction.run_rows(
            """
            INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, unique_key, schedule_id,
                              occurrence, overlap, token, started_at, spec, grp, held)
            SELECT id, queue, priority, lane, column2, unique_key, schedule_id,
                   occurrence, overlap, token, started_at, column3, column4,
                   EXISTS (SELECT 1 FROM onbeat_schedules
                           WHERE id = schedule_id AND status = 'paused')
            FROM :rows
            CROSS JOIN onbeat_finished ON id = column1
            """,
            [(one.id, now, spec_of(replace(one, expires_at=None)), one.group) for one in chosen],
        )
    except apsw.ConstraintError as error:
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error
    ids = (json_array(one.id for one in chosen),)
    transaction.run(
        """
        INSERT INTO onbeat_attempts (job_id, token, record)
        SELECT id, token, last_attempt
        FROM onbeat_finished
        WHERE id IN (SELECT value FROM json_each(?)) AND last_attempt IS NOT NULL
        """,
        ids,
    )
    transaction.run("DELETE FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?))", ids)
