"""The driver alone, behind the interface of the peers: the least that a queue of rows costs.

One table with one index, which keeps ended jobs; batches of 500 are claimed and ended one after the
other on one connection. No fence, no lease, no attempts, no schedules.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

import asyncpg

BATCH: Final = 500
POOL: Final = 10

TABLE: Final = """
    CREATE TABLE bare (
      id bigserial PRIMARY KEY, state text NOT NULL DEFAULT 'waiting',
      due_at timestamptz NOT NULL DEFAULT now(), payload bytea NOT NULL,
      started_at timestamptz, ended_at timestamptz
    );
    CREATE INDEX bare_waiting ON bare (due_at, id) WHERE state = 'waiting';
"""
INSERT: Final = "INSERT INTO bare (payload) VALUES ($1)"
ANNOUNCE: Final = (
    f"WITH made AS ({INSERT} RETURNING id) SELECT pg_notify('bare', id::text) FROM made"
)
INSERT_MANY: Final = "INSERT INTO bare (payload) SELECT $1 FROM generate_series(1, $2)"
CLAIM: Final = """
    UPDATE bare SET state = 'running', started_at = now()
    WHERE id IN (SELECT id FROM bare WHERE state = 'waiting' ORDER BY due_at, id
                 LIMIT $1 FOR UPDATE SKIP LOCKED)
    RETURNING id, payload
"""
START: Final = "UPDATE bare SET state = 'running', started_at = now() WHERE id = $1"
END: Final = "UPDATE bare SET state = 'succeeded', ended_at = now() WHERE id = ANY($1)"


async def until_empty(url: str, sql: str) -> None:
    db = await asyncpg.connect(url)
    try:
        while await db.fetchval(sql):
            await asyncio.sleep(0.005)
    finally:
        await db.close()


class BareDriver:
    name = "asyncpg alone"
    package = "asyncpg"

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        async with asyncpg.create_pool(url, min_size=2, max_size=POOL) as self.pool:
            if await self.pool.fetchval("SELECT to_regclass('bare')") is None:
                await self.pool.execute(TABLE)
            yield

    async def enqueue(self) -> None:
        await self.pool.execute(INSERT, b"7")

    async def enqueue_many(self, count: int) -> None:
        await self.pool.execute(INSERT_MANY, b"7", count)

    async def drain(self, count: int) -> None:
        async with self.pool.acquire() as db:
            while count > 0:
                rows = await db.fetch(CLAIM, BATCH)
                await db.execute(END, [row["id"] for row in rows])
                count -= len(rows)

    async def serve(self, ran: Callable[[], None]) -> None:
        """Start each job that is announced, with one update."""
        async with self.pool.acquire() as listening, self.pool.acquire() as db:
            told: asyncio.Queue[int] = asyncio.Queue()
            await listening.add_listener("bare", lambda *came: told.put_nowait(int(came[-1])))
            for row in await db.fetch("SELECT id FROM bare WHERE state = 'waiting'"):
                told.put_nowait(row["id"])
            started: set[int] = set()  # a job may be announced and found among those that wait
            while True:
                id = await told.get()
                if id not in started:
                    started.add(id)
                    await db.execute(START, id)
                    ran()


class BareAnnounced(BareDriver):
    """Each job is announced in its own transaction."""

    name = "asyncpg, announced"

    async def enqueue(self) -> None:
        await self.pool.execute(ANNOUNCE, b"7")
