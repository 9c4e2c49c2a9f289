"""What a job costs over one, two and four PostgreSQL servers of their own, behind one front.

    python benchmarks/cells.py [--rounds N] [--jobs N]

Each server is a cell with all of a store. One process enqueues through a front, in requests of 500
jobs; then one process for each cell claims and ends what is there, by 500. Figures are processor
time for a job: of all processes of the servers together, of the front, and of those that drain. On
a machine with enough cores the rate would rise with the servers; on a small one the processor time
of a job is what shows whether cells add up. Needs PostgreSQL's programs and a Linux kernel. Results
are appended to benchmarks/results/cells.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.old_snapshot import nanoseconds_of, take
from benchmarks.store_postgres import NOW
from onbeat.app.system import SystemRandomness
from onbeat.model.cells import SLOTS, Cell, CellMap
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import HandlerTarget
from onbeat.stores.cells import CellStore
from onbeat.stores.postgres.store import PostgresStore
from stores.postgres.server import Server, children_of, private_server

RESULTS = Path(__file__).parent / "results" / "cells.json"
COUNTS = (1, 2, 4)
BATCH = 500
CALLERS = 8
CHANCE = SystemRandomness()
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def servers(count: int) -> Iterator[Sequence[Server]]:
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(private_server()) for _ in range(count)]
        for server in started:
            # As on a machine of its own, so that checkpoints are few in all rounds.
            server.stop("fast")
            server.write_conf("shared_buffers = 256MB", "max_wal_size = 4GB")
            server.start()
        yield started


def server_seconds(server: Server) -> float:
    """Processor time of the server's processes, and of those that have ended."""
    master = int((server.data / "postmaster.pid").read_text().split("\n", 1)[0])
    fields = Path(f"/proc/{master}/stat").read_text().rpartition(")")[2].split()
    ended = sum(int(one) for one in fields[13:15]) / TICKS
    alive = [nanoseconds_of(pid) for pid in [master, *children_of(master)]]
    return ended + sum(alive) / 1e9


def own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def a_front(found: Sequence[Server]) -> CellStore:
    width = SLOTS // len(found)
    cells = [
        Cell(f"c{at}", server.url, ((at * width, (at + 1) * width - 1),))
        for at, server in enumerate(found)
    ]
    return CellStore("cells:///", CellMap(1, tuple(cells)), [PostgresStore(c.url) for c in cells])


def some_jobs(count: int) -> list[Job]:
    target = HandlerTarget("work")
    ids = CHANCE.ids(count)
    return [Job(id=JobId(id), target=target, created_at=NOW, due_at=NOW) for id in ids]


async def send(found: Sequence[Server], count: int) -> tuple[float, float]:
    """Seconds of processor and of the clock that the front takes for so many jobs."""
    front = a_front(found)
    await front.open()
    try:
        requests = [some_jobs(BATCH) for _ in range(count // BATCH)]
        cpu, began = own_seconds(), time.perf_counter()

        async def call() -> None:
            while requests:
                await front.enqueue(requests.pop())

        await asyncio.gather(*(call() for _ in range(CALLERS)))
        return own_seconds() - cpu, time.perf_counter() - began
    finally:
        await front.close()


async def jobs_in(server: Server) -> int:
    store = PostgresStore(server.url)
    await store.open()
    try:
        return (await store.stats(NOW)).jobs["waiting"]
    finally:
        await store.close()


async def drain(url: str, count: int) -> None:
    """Claim and end so many jobs of one cell; writes the seconds of processor and of the clock."""
    store = PostgresStore(url)
    await store.open()
    try:
        cpu, began = own_seconds(), time.perf_counter()
        await take(store, count)
        print(own_seconds() - cpu, time.perf_counter() - began)
    finally:
        await store.close()


def drain_all(found: Sequence[Server], counts: Sequence[int]) -> tuple[float, float]:
    """Seconds of processor of all drains together, and of the clock of the longest."""
    drains = [
        subprocess.Popen(
            [sys.executable, __file__, "--drain", server.url, "--jobs", str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for server, count in zip(found, counts, strict=True)
    ]
    spent = [tuple(map(float, one.communicate()[0].split())) for one in drains]
    return sum(cpu for cpu, _ in spent), max(seconds for _, seconds in spent)


def measured(cells: int, per_cell: int) -> dict[str, float]:
    count = cells * per_cell
    with servers(cells) as found:
        uvloop.run(send(found, cells * BATCH))  # the schema, and what is loaded once
        at_first = sum(map(server_seconds, found))
        front, seconds = uvloop.run(send(found, count))
        sent = sum(map(server_seconds, found))
        counts = [uvloop.run(jobs_in(server)) // BATCH * BATCH for server in found]
        before = sum(map(server_seconds, found))
        drained, drain_clock = drain_all(found, counts)
        after = sum(map(server_seconds, found))
    taken = sum(counts)
    return {
        "server us/job to add": round((sent - at_first) / count * 1e6, 1),
        "server us/job to claim and end": round((after - before) / taken * 1e6, 1),
        "front us/job": round(front / count * 1e6, 1),
        "drain us/job": round(drained / taken * 1e6, 1),
        "added/s": round(count / seconds),
        "drained/s": round(taken / drain_clock),
        "most in a cell": round(max(counts) / taken, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=20_000, help="for each cell")
    parser.add_argument("--drain", default="", metavar="URL", help="only drain this cell")
    parser.add_argument("--label", default="", help="what is measured, for the results")
    args = parser.parse_args()
    if args.drain:
        uvloop.run(drain(args.drain, args.jobs))
        return
    record: dict[str, object] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "jobs for each cell": args.jobs,
        "label": args.label,
    }
    taken: dict[int, list[dict[str, float]]] = {cells: [] for cells in COUNTS}
    for _ in range(args.rounds):
        for cells, rounds in taken.items():
            rounds.append(measured(cells, args.jobs))
            print(f"{cells} cells  {rounds[-1]}", flush=True)
    for cells, rounds in taken.items():
        middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(f"{cells} cells, middle  {middle}")
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, {**record, "taken": taken}], indent=1) + "\n")


if __name__ == "__main__":
    main()
