"""Drains in a row on one PostgreSQL store: whether the rate falls, and what the server did.

    python benchmarks/long_drain.py [--seconds 600] [--jobs 20000] [--waiting 1000000] [--note TEXT]

The store first gets jobs that wait for a later day. Then one worker process drains its queue again
and again. Of each drain are kept the rate, the server's processor time for a job, its WAL with the
full pages in it, checkpoints, dead rows, the size of the live table with its indexes, and which
tables are vacuumed or analysed. Results are appended to benchmarks/results/long_drain.json.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import servers
from benchmarks.queue_postgres import BULK, OnbeatPeer, a_database, connected

RESULTS: Final = Path(__file__).parent / "results" / "long_drain.json"
LATER: Final = timedelta(days=30)

SERVER: Final = """
    SELECT (SELECT wal_bytes FROM pg_stat_wal)::float8 AS wal,
           (SELECT wal_fpi FROM pg_stat_wal) AS full_pages,
           (SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter) AS checkpoints,
           (SELECT buffers_backend FROM pg_stat_bgwriter) AS written_by_clients,
           (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'jobs') AS dead,
           (SELECT vacuum_count + autovacuum_count FROM pg_stat_user_tables
            WHERE relname = 'jobs') AS vacuums,
           pg_table_size('onbeat.jobs') AS table_bytes,
           pg_indexes_size('onbeat.jobs') AS index_bytes,
           (SELECT coalesce(sum(blks_read), 0)::bigint FROM pg_stat_database
            WHERE datname = current_database()) AS blocks_read
"""
BUSY: Final = """
    SELECT left(query, 80) FROM pg_stat_activity
    WHERE backend_type = 'autovacuum worker' AND datname = current_database()
"""
TICKS: Final = os.sysconf("SC_CLK_TCK")


async def pids(db: asyncpg.Connection) -> dict[str, list[int]]:
    """Of the connections of this database, and of all other processes of the server."""
    rows = await db.fetch(
        "SELECT pid, backend_type, datname = current_database() AS is_ours"
        " FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    )
    kinds: dict[str, list[int]] = {}
    for row in rows:
        is_client = row["backend_type"] == "client backend"
        if not is_client or row["is_ours"]:
            kinds.setdefault(row["backend_type"], []).append(row["pid"])
    return kinds


def processor(pid: int, first: int = 11) -> float:
    fields = stat_of(pid)
    return sum(map(int, fields[first : first + 2])) / TICKS


def stat_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 20


def of_ended(known: dict[str, list[int]]) -> float:
    """The processor time of the server's processes that have ended, such as vacuums."""
    return processor(int(stat_of(known["client backend"][0])[1]), 13)


async def one_drain(peer: OnbeatPeer, db: asyncpg.Connection, jobs: int) -> dict[str, Any]:
    await peer.beat.queues.apause("default")
    for first in range(0, jobs, BULK):
        await peer.enqueue_many(min(BULK, jobs - first))
    last = await peer.work.asend(7)
    before = dict(await db.fetchrow(SERVER))
    known = await pids(db)
    used = {kind: sum(map(processor, ids)) for kind, ids in known.items()}
    ended_before = of_ended(known)
    own, began = time.process_time(), time.perf_counter()
    busy: set[str] = set()
    await peer.beat.queues.aresume("default")
    ended = asyncio.create_task(last.aresult())
    while not (await asyncio.wait([ended], timeout=0.25))[0]:
        busy |= {row[0] for row in await db.fetch(BUSY)}
    seconds, own = time.perf_counter() - began, time.process_time() - own
    after = dict(await db.fetchrow(SERVER))
    spent = {
        kind: round(1e6 * (sum(map(processor, ids)) - used[kind]) / jobs, 1)
        for kind, ids in known.items()
    }
    spent["ended"] = round(1e6 * (of_ended(known) - ended_before) / jobs, 1)
    moved = {
        name: after[name] - before[name]
        for name in (
            "wal",
            "full_pages",
            "checkpoints",
            "written_by_clients",
            "vacuums",
            "blocks_read",
        )
    }
    return {
        "jobs/s": round(jobs / seconds), "worker us": round(1e6 * own / jobs, 1),
        "server us": {kind: us for kind, us in spent.items() if us >= 0.5},
        "wal B": round(moved.pop("wal") / jobs), **moved,
        "dead": after["dead"], "table MB": after["table_bytes"] >> 20,
        "index MB": after["index_bytes"] >> 20, "busy": sorted(busy),
    }  # fmt: skip


@asynccontextmanager
async def filled(url: str, waiting: int) -> AsyncIterator[OnbeatPeer]:
    peer = OnbeatPeer()
    async with peer.opened(url):
        later = peer.work.call(7).with_options(run_at=datetime.now(UTC) + LATER, queue="later")
        for first in range(0, waiting, BULK):
            await peer.beat.asend([later] * min(BULK, waiting - first))
        async with connected(url) as db:
            await db.execute("VACUUM (ANALYZE)")
        await peer.beat.start()
        yield peer


async def measure(url: str, seconds: float, jobs: int, waiting: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async with a_database(url) as own, filled(own, waiting) as peer, connected(own) as db:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            drain = {"at": round(time.monotonic() - began, 1), **await one_drain(peer, db, jobs)}
            print(json.dumps(drain), flush=True)
            found.append(drain)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default=servers.url_of("PostgreSQL"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--note", default="")
    args = parser.parse_args()
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(), "cores": os.cpu_count(), "load": os.getloadavg()[0],
        "server": uvloop.run(servers.settings_of(args.url)),
        "jobs": args.jobs, "waiting": args.waiting, "note": args.note,
        "drains": uvloop.run(measure(args.url, args.seconds, args.jobs, args.waiting)),
    }  # fmt: skip
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
