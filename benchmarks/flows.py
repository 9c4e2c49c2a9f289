"""Flows beside plain jobs, and plain jobs of this tree beside those of another.

    python benchmarks/flows.py [--rounds 5] [--jobs 10000] [--stores sqlite postgres]
                               [--beside /path/to/another/src]

Shapes: `plain`; `stages`, a hundredth of the jobs, and behind each of these 99 more; `star`, one
job and the rest behind it. Each round runs every measure in a process of its own, one after the
other, so that drift of the machine affects all; a ratio is the median of those of the rounds.
`--beside` repeats every measure with the sources of another tree. Beside the rate of each measure
stands its processor time: of its process, and of the server's processes for its database if the
server is on this machine. Results are appended to benchmarks/results/flows.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import uvloop

from onbeat import Onbeat, Options
from onbeat.engine.options import RuntimeOptions
from onbeat.telemetry.composite import NullTelemetry

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.servers import answers, url_of

RESULTS = Path(__file__).parent / "results" / "flows.json"
CONCURRENCY = 1_000
BULK = 5_000
WARM_UP = 1
SETTLE_SECONDS = 0.3
TICK = 1 / os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]


class Processes:
    """Seconds of processor time of this process, and of the server's for one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.before: dict[str, float] = {}

    async def read(self) -> dict[str, float]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        times = {"own": own.ru_utime + own.ru_stime}
        if self.url.startswith("postgresql"):
            db = await asyncpg.connect(self.url)
            sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            pids = [row[0] for row in await db.fetch(sql)]
            await db.close()
            times |= {str(pid): seconds_of(pid) for pid in pids}
        return times

    async def begin(self) -> None:
        self.before = await self.read()

    async def end(self) -> Figures:
        after = await self.read()
        spent = {name: value - self.before.get(name, 0.0) for name, value in after.items()}
        own = spent.pop("own")
        return {"own cpu": own, "server cpu": sum(spent.values())}


def seconds_of(pid: int) -> float:
    with contextlib.suppress(OSError):
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) * TICK
    return 0.0


def a_program(url: str) -> Onbeat:
    runtime = RuntimeOptions(concurrency=CONCURRENCY)
    beat = Onbeat(url, options=Options(runtime=runtime))
    beat.backend.telemetry = NullTelemetry()
    return beat


async def drain(url: str, count: int, firsts: int | None) -> Figures:
    """From the release of the queue until all jobs have ended, `firsts` of them before the rest."""
    beat = a_program(url)
    ran, all_ran = 0, asyncio.Event()

    @beat.task("work")
    async def work(_number: int) -> None:
        nonlocal ran
        ran += 1
        if ran == count:
            all_ran.set()

    if firsts is None:
        calls = [work.call(7) for _ in range(count)]
    else:
        calls = [work.call(7) for _ in range(firsts)]
        behind = [work.options(after=call) for call in calls]
        calls += [behind[number % firsts].call(7) for number in range(count - firsts)]
    async with beat:
        await work.asend(7)
        while await succeeded(beat) < WARM_UP:
            await asyncio.sleep(0.005)
        await beat.queues.apause("default")
        await beat.asend(calls)
        await asyncio.sleep(SETTLE_SECONDS)
        ran, processes = 0, Processes(url)
        await processes.begin()
        began = time.perf_counter()
        await beat.queues.aresume("default")
        await all_ran.wait()
        while await succeeded(beat) < count + WARM_UP:
            await asyncio.sleep(0.005)
        seconds = time.perf_counter() - began
        return {"rate": count / seconds, **await processes.end()}


async def succeeded(beat: Onbeat) -> int:
    return (await beat.backend.store.stats(datetime.now(UTC))).jobs.get("succeeded", 0)


async def enqueue(url: str, count: int) -> Figures:
    """Plain jobs in bulk."""
    beat = a_program(url)
    work = beat.task("work")(nothing)
    await beat.backend.open()
    await beat.asend([work.call(7) for _ in range(100)])
    processes = Processes(url)
    await processes.begin()
    began = time.perf_counter()
    for _ in range(0, count, BULK):
        await beat.asend([work.call(7) for _ in range(BULK)])
    seconds = time.perf_counter() - began
    figures = await processes.end()
    await beat.aclose()
    return {"rate": count / seconds, **figures}


async def nothing(_number: int) -> None:
    return


MEASURES: dict[str, Callable[[str, int], Awaitable[Figures]]] = {
    "enqueue plain": lambda url, count: enqueue(url, 2 * count),
    "drain plain": lambda url, count: drain(url, count, None),
    "drain stages": lambda url, count: drain(url, count, count // 100),
    "drain star": lambda url, count: drain(url, count, 1),
}
PLAIN = "drain plain"


@contextlib.contextmanager
def an_empty_store(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/onbeat.db"
        return
    name = f"onbeat_bench_{secrets.token_hex(4)}"
    server = url_of("PostgreSQL")
    uvloop.run(execute(server, f"CREATE DATABASE {name}"))
    try:
        yield f"{server.rpartition('/')[0]}/{name}"
    finally:
        uvloop.run(execute(server, f"DROP DATABASE {name} WITH (FORCE)"))


async def execute(url: str, statement: str) -> None:
    db = await asyncpg.connect(url)
    await db.execute(statement)
    await db.close()


def measured(name: str, kind: str, count: int, source: str) -> Figures:
    """One measure in a process of its own, with the sources of one tree."""
    with an_empty_store(kind) as url:
        command = [sys.executable, __file__, "--measure", name, url, "--jobs", str(count)]
        environment = os.environ | ({"PYTHONPATH": source} if source else {})
        text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    figures: Figures = json.loads(text)
    return figures


def in_turn(
    kind: str, names: list[str], sources: dict[str, str], count: int, rounds: int
) -> dict[str, list[Figures]]:
    """The figures of each measure and tree. Every other round goes backwards."""
    figures: dict[str, list[Figures]] = {}
    turns = [(name, tree) for name in names for tree in sources]
    for round_number in range(rounds):
        for name, tree in turns if round_number % 2 == 0 else reversed(turns):
            one = measured(name, kind, count, sources[tree])
            figures.setdefault(f"{name}, {tree}", []).append(one)
    return figures


def report(kind: str, figures: dict[str, list[Figures]]) -> None:
    print(kind)
    for name, rounds in figures.items():
        rate = statistics.median(one["rate"] for one in rounds)
        own, server = (
            statistics.median(one[part] for one in rounds) for part in ("own cpu", "server cpu")
        )
        print(f"  {name:<24} {rate:>9,.0f}/s   cpu: own {own:.2f} s, server {server:.2f} s")
    for name, rounds in figures.items():
        measure, tree = name.split(", ")
        others = {f"{PLAIN}, {tree}", f"{measure}, another"} - {name}
        if not measure.startswith("drain") or tree == "another":
            others.discard(f"{PLAIN}, {tree}")
        for other in sorted(others & figures.keys()):
            pairs = list(zip(rounds, figures[other], strict=True))
            rate = statistics.median(one["rate"] / two["rate"] for one, two in pairs)
            cpu = statistics.median(cpu_of(one) / cpu_of(two) for one, two in pairs)
            print(f"  {name} to {other}: rate {rate:.3f}, cpu {cpu:.3f}")


def cpu_of(figures: Figures) -> float:
    return figures["own cpu"] + figures["server cpu"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"])
    parser.add_argument("--measures", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--beside", default="", help="the sources of another tree")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        name, url = asked.measure
        print(json.dumps(uvloop.run(MEASURES[name](url, asked.jobs))))
        return
    sources = {"this": ""} | ({"another": asked.beside} if asked.beside else {})
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "jobs": asked.jobs,
        "figures": {},
    }
    for kind in asked.stores:
        if kind == "postgres" and not uvloop.run(answers("PostgreSQL", url_of("PostgreSQL"))):
            continue
        figures = in_turn(kind, asked.measures, sources, asked.jobs, asked.rounds)
        record["figures"][kind] = figures
        report(kind, figures)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*known, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
