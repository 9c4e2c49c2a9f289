"""Jobs a second of one worker process and of two on the same PostgreSQL queue, in turn.

    python benchmarks/two_workers.py [--rounds 3] [--jobs 100000]

The jobs are no-op coroutines with one argument, sent before the workers start. A run is timed from
the moment at which all workers are up until no job is left. Every finished job is counted.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.queue_postgres import BULK, a_database, connected
from benchmarks.worker_cost import CONCURRENCY
from onbeat import Onbeat, Options, Task
from onbeat.engine.options import RuntimeOptions

DATABASE = "onbeat_bench_two"
LEFT = "SELECT count(*) FROM onbeat.jobs"


def program(url: str) -> tuple[Onbeat, Task[[int], None, None]]:
    runtime = RuntimeOptions(concurrency=CONCURRENCY)
    beat = Onbeat(url, options=Options(runtime=runtime))

    @beat.task("work")
    async def work(_n: int) -> None: ...

    return beat, work


async def send(url: str, count: int) -> None:
    beat, work = program(url)
    for _ in range(0, count, BULK):
        await beat.asend([work.call(7) for _ in range(BULK)])
    await beat.aclose()


async def serve(url: str) -> None:
    beat, _ = program(url)
    async with beat:
        print("ready", flush=True)
        await asyncio.Event().wait()


@contextlib.contextmanager
def workers(url: str, count: int) -> Iterator[None]:
    command = [sys.executable, __file__, "--serve", url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for one in running:
            assert one.stdout is not None
            one.stdout.readline()
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


async def rate(url: str, count: int, jobs: int) -> float:
    await send(url, jobs)
    async with connected(url) as db:
        with workers(url, count):
            began, left = time.perf_counter(), await db.fetchval(LEFT)
            while await db.fetchval(LEFT):
                await asyncio.sleep(0.02)
            seconds = time.perf_counter() - began
        finished = await db.fetchval("SELECT count(*) FROM onbeat.finished")
    assert finished == jobs, f"{finished} of {jobs} jobs are finished"
    return float(left) / seconds


async def compare(rounds: int, jobs: int) -> None:
    for _ in range(rounds):
        rates = []
        for count in (1, 2):
            async with a_database(servers.url_of("PostgreSQL"), DATABASE) as url:
                rates.append(await rate(url, count, jobs))
        one, two = rates
        print(f"one worker {one:,.0f} /s, two workers {two:,.0f} /s: {two / one:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--serve", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve))
    else:
        uvloop.run(compare(args.rounds, args.jobs))


if __name__ == "__main__":
    main()
