"""Exports the rows of two tables in chunks: each row once, whatever is killed meanwhile.

    python app.py fill 10000          makes both tables, with so many rows each
    python app.py run                 runs jobs until it is stopped; so does `onbeat up app.py`
    python app.py export 2030-01-01   sends an export; the same name again is the same one

The environment variable STORE names the database, which has the jobs and the rows: an SQLite file
by default, or postgresql://… for any number of machines.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from typing import Any, Literal

import apsw
import asyncpg

from onbeat import Call, Onbeat, Retry

STORE = os.environ.get("STORE", "sqlite:///onbeat.db")
CHUNK = 100
Source = Literal["customers", "orders"]
SOURCES: tuple[Source, ...] = ("customers", "orders")

beat = Onbeat(STORE)
pool: asyncpg.Pool | None = None


async def query(statement: str, *values: object) -> list[Any]:
    """The rows of one statement, which is a transaction of its own."""
    if STORE.startswith("sqlite:"):
        return await asyncio.to_thread(query_sqlite, statement.replace("$", "?"), values)
    if pool is not None:
        return await pool.fetch(statement, *values)
    async with asyncpg.create_pool(STORE, min_size=1, max_size=1) as one:
        return await one.fetch(statement, *values)


def query_sqlite(statement: str, values: tuple[object, ...]) -> list[Any]:
    # Not Python's sqlite3: two copies of SQLite in one process drop each other's locks.
    with contextlib.closing(apsw.Connection(STORE.removeprefix("sqlite:///"))) as db:
        db.set_busy_timeout(20_000)
        return list(db.execute(statement, values))


@beat.on_start
async def open_pool() -> None:
    """Workers share a few connections; one for each job would exhaust the server."""
    global pool  # noqa: PLW0603  one for the program
    if STORE.startswith("postgresql:"):
        pool = await asyncpg.create_pool(STORE, min_size=1, max_size=4)


@beat.on_stop
async def close_pool() -> None:
    if pool is not None:
        await pool.close()


@beat.task("export.chunk", retry=Retry(attempts_max=10))
async def export_chunk(source: Source, first: int, last: int) -> int:
    """Copy the rows with these ids; returns how many were new.

    A worker may be killed after its commit and before its job has ended, so the job runs again. A
    row that is there already is no error then, but the success of the attempt before.
    """
    new = await query(
        f"""
        INSERT INTO exported (source, id, data)
        SELECT CAST($1 AS TEXT), id, data FROM {source} WHERE id BETWEEN $2 AND $3
        ON CONFLICT (source, id) DO NOTHING RETURNING id
        """,
        source,
        first,
        last,
    )
    print(f"exported {len(new)} of {source} {first} to {last}", flush=True)
    return len(new)


@beat.task("export.all")
async def export_all(name: str) -> AsyncIterator[Call[int]]:
    """One job for each chunk of both tables.

    The key of a chunk makes it one job of this export, however often this task starts again.
    """
    for source in SOURCES:
        last = 0
        while ids := await query(
            f"SELECT id FROM {source} WHERE id > $1 ORDER BY id LIMIT $2", last, CHUNK
        ):
            first, last = ids[0][0], ids[-1][0]
            chunk = export_chunk.options(unique=f"export {name} {source} {first}")
            yield chunk.call(source, first, last)


async def fill(rows: int) -> None:
    """Both tables; one id of ten is free, as in tables from which rows were deleted."""
    for source in SOURCES:
        await query(f"CREATE TABLE {source} (id BIGINT PRIMARY KEY, data TEXT NOT NULL)")
        await query(
            f"""
            WITH RECURSIVE numbers (n) AS (
              SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n < $1
            )
            INSERT INTO {source} SELECT n + n / 9, '{source} ' || n FROM numbers
            """,
            rows,
        )
    await query(
        """
        CREATE TABLE exported (
          source TEXT, id BIGINT, data TEXT NOT NULL, PRIMARY KEY (source, id))
        """
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill", rows]:
            asyncio.run(fill(int(rows)))
        case ["export", *names]:
            for name in names:
                job = export_all.options(unique=f"export {name}", unique_for="always").send(name)
                print(job.id)
        case ["run"]:
            beat.run()
        case _:
            sys.exit(__doc__)
