"""Processor time of a worker for each drained job, and of the PostgreSQL server.

    python benchmarks/worker_cost.py [--store postgres|sqlite] [--rounds N] [--jobs N]
                                     [--label TEXT]

The jobs are no-op coroutines with one argument, recorded and fenced. Times are of the whole
process, its threads included, from the start of its loops until the last job has ended; so they
can be compared on a machine that is busy with other work. Results are appended to
benchmarks/results/worker_cost.json.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.old_snapshot import OURS, nanoseconds_of
from benchmarks.queue_postgres import a_database, connected
from onbeat import Onbeat, Options
from onbeat.engine.options import RuntimeOptions
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.log_events import LogEvents

RESULTS = Path(__file__).parent / "results" / "worker_cost.json"
DATABASE = "onbeat_bench_worker"
CONCURRENCY = 1_000
BULK = 5_000


def own_microseconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


async def nothing() -> float:
    """No server but this process."""
    return 0.0


async def drain(url: str, count: int, server: Callable[[], Awaitable[float]]) -> dict[str, float]:
    runtime = RuntimeOptions(concurrency=CONCURRENCY)
    telemetry = CompositeTelemetry(journal=LogEvents())
    beat = Onbeat(url, options=Options(runtime=runtime), telemetry=telemetry)
    done = asyncio.Event()
    ran = 0

    @beat.task("work")
    async def work(_n: int) -> None:
        nonlocal ran
        ran += 1
        if ran == count:
            done.set()

    for _ in range(0, count, BULK):
        await beat.asend([work.call(7) for _ in range(BULK)])
    before, server_before = own_microseconds(), await server()
    async with beat:
        await done.wait()
        server_after = await server()
    after = own_microseconds()
    return {
        "worker us/job": round((after - before) / count, 1),
        "server us/job": round((server_after - server_before) / count, 1),
    }


async def on_postgres(count: int) -> dict[str, float]:
    async with a_database(servers.url_of("PostgreSQL"), DATABASE) as url, connected(url) as db:
        known: dict[int, int] = {}

        async def server() -> float:
            # The backends of a closed store are gone; what they used was seen a moment before.
            known.update({row[0]: nanoseconds_of(row[0]) for row in await db.fetch(OURS)})
            return sum(known.values()) / 1_000

        return await drain(url, count, server)


async def on_sqlite(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        return await drain(f"sqlite:///{folder}/onbeat.db", count, nothing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--label", default="", help="what is measured, for the results")
    args = parser.parse_args()
    measure = on_postgres if args.store == "postgres" else on_sqlite
    taken = []
    for _ in range(args.rounds):
        taken.append(uvloop.run(measure(args.jobs)))
        print(f"{args.label:<12} {args.store:<9} {taken[-1]}", flush=True)
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "store": args.store,
        "jobs": args.jobs,
        "label": args.label,
        "taken": taken,
        "median worker us/job": statistics.median(one["worker us/job"] for one in taken),
    }
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
