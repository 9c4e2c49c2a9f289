"""Events: published, routed to schedules, and the start of the jobs that they make.

    python benchmarks/events.py [--rounds 3] [--events 10000] [--stores sqlite postgres]

Measures, on each store: publishing by one caller and by 64; routing with 1,000 schedules of which
each event starts one job, without and with a filter in CEL; the time from a publish to the first
line of the handler of its job, in one idle process. Figures are medians with minimum and maximum.
Results are appended to benchmarks/results/events.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import uvloop

from onbeat import Event, Onbeat, Options
from onbeat.engine.options import RuntimeOptions
from onbeat.model.role import Role
from onbeat.telemetry.composite import NullTelemetry

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.servers import answers, url_of

RESULTS = Path(__file__).parent / "results" / "events.json"
CALLERS = 64
SCHEDULES = 1_000
CONCURRENCY = 1_000
WARM_UP = 20

Measure = Callable[[str, int], Awaitable[dict[str, float]]]


def a_program(url: str, *roles: Role) -> Onbeat:
    chosen = {"roles": frozenset(roles)} if roles else {}
    runtime = RuntimeOptions(concurrency=CONCURRENCY, **chosen)
    beat = Onbeat(url, options=Options(runtime=runtime))
    beat.backend.telemetry = NullTelemetry()
    return beat


async def publish(url: str, count: int) -> dict[str, float]:
    """By one caller, and by many; a schedule has `on`, but no router runs."""
    beat = a_program(url)
    work = beat.task("work")(nothing)
    await beat.schedules.aput("work", None, work.call(), on="shop.paid")
    one = []
    for _ in range(count // 10):
        began = time.perf_counter()
        await beat.events.apublish("shop.paid", {"amount": 7})
        one.append((time.perf_counter() - began) * 1000)
    many: list[float] = []

    async def caller() -> None:
        for _ in range(count // CALLERS):
            began = time.perf_counter()
            await beat.events.apublish("shop.paid", {"amount": 7})
            many.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    rate = len(many) / (time.perf_counter() - began)
    await beat.aclose()
    return {
        "publish, one caller, p50 ms": statistics.median(one),
        "publish, one caller, p99 ms": statistics.quantiles(one, n=100)[98],
        "publish, 64 callers, p50 ms": statistics.median(many),
        "publish, 64 callers, /s": rate,
    }


async def route(url: str, count: int) -> dict[str, float]:
    return {"routed, 1,000 schedules, /s": await routed_rate(url, count, condition=None)}


async def route_filtered(url: str, count: int) -> dict[str, float]:
    rate = await routed_rate(url, count, condition="event.data.amount > 5")
    return {"routed, filtered by CEL, /s": rate}


async def routed_rate(url: str, count: int, *, condition: str | None) -> float:
    """Stored events until each has its job; nothing claims them."""
    beat = a_program(url, Role.PLANNER)
    work = beat.task("work")(nothing)
    for number in range(SCHEDULES):
        pattern = {"type": f"shop.{number}"} | ({"if": condition} if condition else {})
        await beat.schedules.aput(f"s{number}", None, work.call(), on=pattern)
    await asyncio.gather(
        *(beat.events.apublish(f"shop.{n % SCHEDULES}", {"amount": 7}) for n in range(count))
    )
    began = time.perf_counter()
    async with beat:
        while await jobs_in(beat, "waiting") < count:
            await asyncio.sleep(0.01)
        return count / (time.perf_counter() - began)


async def jobs_in(beat: Onbeat, state: str) -> int:
    return (await beat.backend.store.stats(datetime.now(UTC))).jobs.get(state, 0)


async def start_latency(url: str, _count: int) -> dict[str, float]:
    """From the call of `apublish` to the first line of the handler, in one idle process."""
    beat = a_program(url)
    began, taken, ran = 0.0, [], asyncio.Event()

    @beat.task("work")
    async def work(_event: Event) -> None:
        taken.append((time.perf_counter() - began) * 1000)
        ran.set()

    await beat.schedules.aput("work", None, work.call(), on="shop.paid")  # type: ignore[call-arg]
    async with beat:
        for _ in range(300 + WARM_UP):
            ran.clear()
            began = time.perf_counter()
            await beat.events.apublish("shop.paid", {"amount": 7})
            await ran.wait()
            await asyncio.sleep(0.005)
    kept = taken[WARM_UP:]
    return {
        "publish to start, p50 ms": statistics.median(kept),
        "publish to start, p99 ms": statistics.quantiles(kept, n=100)[98],
    }


async def nothing() -> None:
    return


MEASURES: tuple[Measure, ...] = (publish, route, route_filtered, start_latency)


@contextlib.asynccontextmanager
async def an_empty_store(kind: str) -> AsyncIterator[str]:
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/onbeat.db"
        return
    name = f"onbeat_bench_{secrets.token_hex(4)}"
    server = url_of("PostgreSQL")
    db = await asyncpg.connect(server)
    await db.execute(f"CREATE DATABASE {name}")
    try:
        yield f"{server.rpartition('/')[0]}/{name}"
    finally:
        await db.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await db.close()


async def measure(kind: str, count: int, rounds: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for one in MEASURES:
            async with an_empty_store(kind) as url:
                for name, value in (await one(url, count)).items():
                    figures.setdefault(name, []).append(value)
    return figures


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"])
    asked = parser.parse_args()
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "events": asked.events,
        "figures": {},
    }
    for kind in asked.stores:
        if kind == "postgres" and not uvloop.run(answers("PostgreSQL", url_of("PostgreSQL"))):
            continue
        figures = uvloop.run(measure(kind, asked.events, asked.rounds))
        record["figures"][kind] = figures
        print(f"{kind}")
        for name, values in figures.items():
            middle, low, high = map(shown, (statistics.median(values), min(values), max(values)))
            print(f"  {name:<32} {middle:>10}   ({low} to {high})")
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*known, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
