"""Partitions of `finished` and `job_logs` by the day on which the id of a job was created.

The first 48 bits of a UUIDv7 are milliseconds since the epoch, so a day is a range of ids. Days are
added ahead of time, and past ones dropped as a whole.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Concatenate, Final, ParamSpec

import asyncpg

from onbeat.model.errors import OnbeatError
from onbeat.model.keep_rule import Sweep, Swept
from onbeat.stores.postgres.loop_connections import LoopConnections
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs import sweeps
from onbeat.stores.sql.verbs.prune import NEVER, prune, prune_jobs

P = ParamSpec("P")

DAYS_AHEAD = 7
DAYS_BACK = 1
DAY = timedelta(days=1)
BY_ROWS_UNDER = 2 * DAY
"""Jobs that are kept for less are deleted row by row: their day goes up to a day too late."""
KEPT_MAX = 20_000  # most rows moved to `finished_rest` from a dropped day; with more the day stays
KEYS: Final = {"finished": "id", "job_logs": "job_id"}
Day = tuple[str, date]
"""A partition: its table and its day."""
LOCK_MILLISECONDS = 500  # while we wait for the lock, all others wait behind us
HINDRANCES = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateObjectError,
    asyncpg.UniqueViolationError,
    asyncpg.UndefinedTableError,
    asyncpg.CheckViolationError,
)
"""Errors from other processes' locks and changes, or missing rights: retried the next time."""


async def add_missing_days(connections: LoopConnections) -> None:
    """Not urgent: jobs of a day without a partition go to `finished_rest`."""
    missing = await connections.run(missing_days)
    if missing:
        await run_unless_locked(connections, add_days, missing)


async def prune_finished(
    connections: LoopConnections, finished_before: int, failed_before: int, limit: int
) -> int:
    """Whole days first: at most one in a call, since it blocks all other access for a moment."""
    await add_missing_days(connections)
    gone = 0
    for day in await connections.run(past_days, finished_before):
        gone = await run_unless_locked(connections, drop_day, day, finished_before, failed_before)
        if gone:
            break
    rest = await connections.transact(prune, "finished_rest", finished_before, failed_before, limit)
    if rest == limit:
        return gone + rest
    rows = await prune_rows(connections, finished_before, failed_before, limit - rest)
    return gone + rest + rows


async def prune_rows(
    connections: LoopConnections, finished_before: int, failed_before: int, limit: int
) -> int:
    """Delete rows of days that stay, where waiting for the end of their day would be too long."""
    ages = await connections.run(ages_by_rows, finished_before, failed_before)
    if max(ages) == NEVER:
        return 0
    await index_days(connections)
    return await connections.transact(prune_jobs, "finished", *ages, limit)


async def sweep(connections: LoopConnections, sweep: Sweep, limit: int) -> Swept:
    await index_days(connections)
    return await connections.transact(sweeps.sweep, sweep, limit)


async def ages_by_rows(
    transaction: Transaction, finished_before: int, failed_before: int
) -> tuple[int, int]:
    """The same ages; `NEVER` for those whose jobs go with their day."""
    now = await transaction.value("SELECT floor(extract(epoch FROM now()) * 1000000)::bigint")
    short = now - BY_ROWS_UNDER // timedelta(microseconds=1)
    return (
        finished_before if finished_before > short else NEVER,
        failed_before if failed_before > min(short, finished_before) else NEVER,
    )


async def index_days(connections: LoopConnections) -> None:
    """Index the days by the end of their jobs, which costs only stores that delete by rows.

    Later days get the index while they are empty. A day that has rows takes no writes meanwhile.
    """
    for day in await connections.run(unindexed_days):
        await run_unless_locked(connections, index_day, day)


async def unindexed_days(transaction: Transaction) -> list[date]:
    names = await transaction.column(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()"
        " AND starts_with(indexname, 'finished_')"
    )
    return [day for day in await days(transaction, "finished") if index_of(day) not in names]


def index_of(day: date) -> str:
    return f"{name_of('finished', day)}_by_end"


async def index_day(transaction: Transaction, day: date) -> int:
    if await is_alone(transaction):
        table = name_of("finished", day)
        await transaction.db.execute(
            f"CREATE INDEX IF NOT EXISTS {index_of(day)} ON {table} (state, finished_at)"
        )
    return 0


async def run_unless_locked(
    connections: LoopConnections,
    verb: Callable[Concatenate[Transaction, P], Awaitable[int]],
    *args: P.args,
    **options: P.kwargs,
) -> int:
    try:
        return await connections.transact(verb, *args, **options)
    except OnbeatError as error:
        if isinstance(error.__cause__, HINDRANCES):
            return 0
        raise


def name_of(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


def day_of(table: str, name: str) -> date | None:
    try:
        return datetime.strptime(name, f"{table}_%Y%m%d").replace(tzinfo=UTC).date()
    except ValueError:
        return None


def first_id(day: date) -> str:
    """The smallest id of the day."""
    milliseconds = micros(datetime(day.year, day.month, day.day, tzinfo=UTC)) // 1_000
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


async def days(transaction: Transaction, table: str) -> list[date]:
    """The days that have a partition, in order."""
    sql = f"""
        SELECT inhrelid::regclass::text
        FROM pg_inherits
        WHERE inhparent = '{table}'::regclass
    """  # noqa: S608  a name of our own
    names = await transaction.column(sql)
    result = [day_of(table, name.rpartition(".")[2]) for name in names]
    return sorted(day for day in result if day is not None)


async def today(transaction: Transaction) -> date:
    """By the server's clock, which all clients share."""
    value: date = await transaction.value("SELECT (now() AT TIME ZONE 'UTC')::date")
    return value


async def missing_days(transaction: Transaction) -> Sequence[Day]:
    now = await today(transaction)
    wanted = [now + number * DAY for number in range(-DAYS_BACK, DAYS_AHEAD + 1)]
    missing: list[Day] = []
    for table in KEYS:
        known = await days(transaction, table)
        missing += [(table, day) for day in wanted if day not in known]
    return missing


async def add_days(transaction: Transaction, wanted: Sequence[Day]) -> int:
    """Attach new tables as partitions, so that claims and settlements go on meanwhile.

    A day with rows in the partition for the rest already gets none.
    """
    if not await is_alone(transaction):
        return 0
    known = {table: await days(transaction, table) for table in KEYS}
    added = 0
    for table, day in wanted:
        key, name = KEYS[table], name_of(table, day)
        first, last = first_id(day), first_id(day + DAY)
        sql = f"SELECT 1 FROM {table}_rest WHERE {key} >= $1 AND {key} < $2 LIMIT 1"  # noqa: S608  no value
        if day in known[table] or await transaction.value(sql, first, last):
            continue
        await transaction.db.execute(
            f"""
            CREATE TABLE {name} (LIKE {table} INCLUDING ALL)
              WITH (autovacuum_vacuum_insert_scale_factor = 0.0,
                    autovacuum_vacuum_insert_threshold = 1000000);
            ALTER TABLE {table} ATTACH PARTITION {name}
              FOR VALUES FROM ('{first}') TO ('{last}')
            """
        )
        added += 1
    return added


async def is_alone(transaction: Transaction) -> bool:
    """Whether no other process changes partitions; also sets a short timeout for later locks."""
    await transaction.db.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}")
    sql = "SELECT pg_try_advisory_xact_lock(hashtextextended($1 || current_schema(), 0))"
    return bool(await transaction.value(sql, "onbeat days "))


async def past_days(transaction: Transaction, finished_before: int) -> Sequence[date]:
    """Past days that lie wholly before `finished_before`."""
    now = await today(transaction)
    return [
        day
        for day in await days(transaction, "finished")
        if day < now and micros(midnight(day + DAY)) <= finished_before
    ]


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


KEPT = """
    CASE state WHEN 'failed' THEN finished_at >= $2 ELSE finished_at >= $1 END
"""


async def drop_day(
    transaction: Transaction, day: date, finished_before: int, failed_before: int
) -> int:
    """Drop the day's partition; rows that are kept longer move to `finished_rest` first."""
    name = name_of("finished", day)
    ages = (finished_before, failed_before)
    if not await is_alone(transaction):
        return 0
    await transaction.db.execute("SET LOCAL enable_seqscan = on")
    counted = f"SELECT count(*) FILTER (WHERE {KEPT}), count(*) FROM {name}"  # noqa: S608  no value
    ((kept, _),) = await transaction.rows(counted, *ages)
    if kept > KEPT_MAX:
        return 0
    await transaction.db.execute(f"ALTER TABLE finished DETACH PARTITION {name}")
    ((kept, count),) = await transaction.rows(counted, *ages)
    if kept:
        names = await column_names(transaction, "finished")
        await transaction.run(
            f"INSERT INTO finished ({names}) SELECT {names} FROM {name} WHERE {KEPT}",  # noqa: S608  as above
            *ages,
        )
    for table in ("attempts", "transitions", "job_logs_rest"):
        await transaction.run(
            f"""
            DELETE FROM {table}
            WHERE job_id >= $1 AND job_id < $2
              AND NOT EXISTS (SELECT 1 FROM finished WHERE finished.id = job_id)
              AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id)
            """,  # noqa: S608  no value in it
            first_id(day),
            first_id(day + DAY),
        )
    await drop_lines(transaction, day)
    await transaction.db.execute(f"DROP TABLE {name}")
    return int(count - kept)


async def drop_lines(transaction: Transaction, day: date) -> None:
    """Drop the day's log lines; those of jobs that are kept move to `job_logs_rest` first.

    Looked up by these jobs, which are few: others wait meanwhile.
    """
    if day not in await days(transaction, "job_logs"):
        return
    name, names = name_of("job_logs", day), await column_names(transaction, "job_logs")
    await transaction.db.execute(f"ALTER TABLE job_logs DETACH PARTITION {name}")
    await transaction.run(
        f"""
        INSERT INTO job_logs ({names})
        SELECT {names}
        FROM (SELECT id FROM finished WHERE id >= $1 AND id < $2
              UNION ALL
              SELECT id FROM jobs WHERE id >= $1 AND id < $2) AS kept
        JOIN {name} ON job_id = kept.id
        """,  # noqa: S608  no value in it
        first_id(day),
        first_id(day + DAY),
    )
    await transaction.db.execute(f"DROP TABLE {name}")


async def column_names(transaction: Transaction, table: str) -> str:
    sql = f"""
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
        FROM pg_attribute
        WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped
    """  # noqa: S608  a name of our own
    return str(await transaction.value(sql))
