"""What a drained job costs the PostgreSQL server while another session holds an old snapshot.

    python benchmarks/old_snapshot.py [--rounds N] [--jobs N] [--held] [--url URL] [--label TEXT]

Jobs are claimed and settled by hundreds; figures are the processor time of the store's backends for
each job, in the first fifth of the drain and in the last one. A snapshot keeps the server from
removing what the drain leaves behind. Rounds without and with a snapshot alternate. The server has
to be on this machine, with a Linux kernel. Results are appended to
benchmarks/results/old_snapshot.json.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.queue_postgres import a_database, connected
from benchmarks.store_postgres import NOW, WORKER, settlement, some_jobs
from onbeat.ports.store import ClaimRequest
from onbeat.stores.postgres.store import PostgresStore

RESULTS = Path(__file__).parent / "results" / "old_snapshot.json"
DATABASE = "onbeat_bench_snapshot"
BATCH = 500
PARTS = 5
OURS = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'onbeat%'
"""


class Cost:
    """Processor time, in microseconds, of the store's backends and of this process."""

    def __init__(self, db: asyncpg.Connection) -> None:
        self.db = db

    async def read(self) -> tuple[float, float]:
        pids = [row[0] for row in await self.db.fetch(OURS)]
        server = sum(nanoseconds_of(pid) for pid in pids) / 1_000
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return server, (usage.ru_utime + usage.ru_stime) * 1e6


def nanoseconds_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@contextlib.asynccontextmanager
async def a_snapshot(url: str, *, held: bool) -> AsyncIterator[None]:
    async with connected(url) as old:
        if held:
            await old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await old.fetchval("SELECT count(*) FROM onbeat.jobs")
        yield


async def drain(url: str, count: int, *, held: bool) -> dict[str, object]:
    """The costs of each fifth of a drain of this many jobs."""
    store = PostgresStore(url)
    await store.open()
    try:
        for _ in range(count // 10_000):
            await store.enqueue(some_jobs(10_000))
        async with a_snapshot(url, held=held), connected(url) as db:
            await db.execute("CHECKPOINT")
            cost, parts = Cost(db), []
            began, before = time.perf_counter(), await cost.read()
            for _ in range(PARTS):
                await take(store, count // PARTS)
                after = await cost.read()
                parts.append([(b - a) * PARTS / count for a, b in zip(before, after, strict=True)])
                before = after
            seconds = time.perf_counter() - began
    finally:
        await store.close()
    return {
        "server us/job": [round(server, 1) for server, _ in parts],
        "client us/job": [round(client, 1) for _, client in parts],
        "jobs/s": round(count / seconds),
        "last / first": round(parts[-1][0] / parts[0][0], 2),
    }


async def take(store: PostgresStore, count: int) -> None:
    """Claim and settle this many jobs."""
    request = ClaimRequest(worker=WORKER, now=NOW, limit=BATCH, lanes=frozenset({"work"}))
    while count > 0:
        jobs = (await store.claim(request)).jobs
        assert all(await store.settle([settlement(job) for job in jobs]))
        assert jobs, "jobs that wait were not claimed"
        count -= len(jobs)


async def measured(url: str, count: int, *, held: bool) -> dict[str, object]:
    async with a_database(url, DATABASE) as own:
        return await drain(own, count, held=held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default=servers.url_of("PostgreSQL"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=60_000)
    parser.add_argument("--held", action="store_true", help="only rounds with a snapshot")
    parser.add_argument("--label", default="", help="what is measured, for the results")
    args = parser.parse_args()
    if not uvloop.run(servers.answers("PostgreSQL", args.url)):
        return
    record: dict[str, object] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "server": uvloop.run(servers.settings_of(args.url)),
        "jobs": args.jobs,
        "label": args.label,
    }
    kinds = ("snapshot held",) if args.held else ("no snapshot", "snapshot held")
    taken: dict[str, list[dict[str, object]]] = {kind: [] for kind in kinds}
    for _ in range(args.rounds):
        for what, rounds in taken.items():
            held = what == "snapshot held"
            rounds.append(uvloop.run(measured(args.url, args.jobs, held=held)))
            print(f"{what:<14} {rounds[-1]}", flush=True)
    for what, rounds in taken.items():
        print(f"{what:<14} last / first {statistics.median(one['last / first'] for one in rounds)}")  # type: ignore[type-var]
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, {**record, "taken": taken}], indent=1) + "\n")


if __name__ == "__main__":
    main()
