"""The pages of the dashboard and the lists of the API, on a store with a long past.

    python benchmarks/view.py [--store sqlite|postgres] [--ended 100000] [--waiting 100000]
                              [--rounds 30] [--load 1000] [--viewers 5] [--jobs 20000]

Fills a store, starts `onbeat up` on it with `--load` jobs a second through it, asks for every page,
each part of one, and the lists of the API with filters that are easy and hard, and prints how long
each took. With `--viewers` it measures instead how much slower jobs are drained while so many look
at the first page, each with a stream and the sections that its script asks for: drains with and
without viewers take turns, on the same store.
Results are appended to benchmarks/results/view.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import uvloop

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import servers, view_drain
from benchmarks.events import an_empty_store
from benchmarks.view_paths import paths_of
from benchmarks.view_service import Service, asked, feed, service
from benchmarks.view_store import Past, fill

RESULTS = Path(__file__).parent / "results" / "view.json"
LIMIT_MS = 200
SETTLE_SECONDS = 15
PERCENTILES = 100


async def measure(url: str, past: Past, rounds: int, load: int) -> dict[str, list[float]]:
    """Milliseconds of each address, asked one after the other, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        async with service(url, Path(folder)) as running, fed(url, load):
            await asyncio.sleep(SETTLE_SECONDS)  # the first samples of depths are taken
            return await ask_all(running, past, rounds)


@contextlib.asynccontextmanager
async def fed(url: str, load: int) -> AsyncIterator[None]:
    feeding = asyncio.create_task(feed(url, load))
    try:
        yield
    finally:
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding


async def ask_all(running: Service, past: Past, rounds: int) -> dict[str, list[float]]:
    paths = await paths_of(running, past)
    taken: dict[str, list[float]] = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path in paths:
            began = time.perf_counter()
            status, body = await asked(running, path)
            if number:  # the first round is a warm-up
                taken[path].append((time.perf_counter() - began) * 1_000)
            elif status >= 400:
                print(f"{status} {path}\n{body[-1500:].decode(errors='replace')}", flush=True)
    return taken


def figures_of(values: Sequence[float]) -> dict[str, float]:
    p95 = statistics.quantiles(values, n=PERCENTILES)[94] if len(values) > 1 else values[0]
    figures = {
        "min": min(values),
        "p50": statistics.median(values),
        "p95": min(p95, max(values)),
        "max": max(values),
    }
    return {name: round(value, 1) for name, value in figures.items()}


def report(figures: dict[str, dict[str, float]]) -> None:
    order = sorted(figures, key=lambda path: -figures[path]["p95"])
    for path in order:
        one = figures[path]
        mark = "  above 200 ms" if one["p95"] > LIMIT_MS else ""
        numbers = " ".join(f"{one[name]:9.1f}" for name in ("min", "p50", "p95", "max"))
        print(f"{numbers}  {path[:90]}{mark}")
    over = sum(one["p95"] > LIMIT_MS for one in figures.values())
    print(f"{len(figures)} addresses; p95 above {LIMIT_MS} ms: {over}", flush=True)


def keep(record: dict[str, object]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*known, record], indent=1) + "\n")


async def run(given: argparse.Namespace) -> None:
    if given.store == "postgres" and not await servers.answers(
        "PostgreSQL", servers.url_of("PostgreSQL")
    ):
        return
    record: dict[str, object] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load average": os.getloadavg()[0],
        "store": given.store,
        "ended": given.ended,
        "waiting": given.waiting,
    }
    async with an_empty_store(given.store) as url:
        past = await fill(url, given.ended, given.waiting)
        if given.viewers:
            record |= await view_drain.compare(url, given.viewers, given.jobs, given.rounds)
        else:
            taken = await measure(url, past, given.rounds, given.load)
            figures = {path: figures_of(values) for path, values in taken.items()}
            report(figures)
            record |= {"jobs a second": given.load, "rounds": given.rounds, "ms": figures}
    keep(record)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--ended", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--load", type=int, default=1_000)
    parser.add_argument("--viewers", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=20_000)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
