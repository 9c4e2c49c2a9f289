"""The pages of the dashboard and the lists of the API, on a store with a long past.

    python benchmarks/view.py [--store sqlite|postgres] [--ended 100000] [--waiting 100000]
                              [--rounds 30] [--load 1000] [--viewers 5] [--jobs 20000]
                              [--keep FILE] [--note TEXT] [--only REGEX]

Fills a store, starts `onbeat up` on it with `--load` jobs a second through it, asks for every page,
each part of one, and the lists of the API with filters that are easy and hard, and prints how long
each took. Then, with no jobs running, it asks again and prints what each answer took of the
service's processor (and of the database server's), which a busy machine changes little.
With `--viewers` it measures instead how much slower jobs are drained while so many look at the
first page, each with a stream and the sections that its script asks for: drains with and without
viewers take turns, on the same store.
`--keep` names a file that remembers a filled store: the run that finds none fills a store and
leaves it, and the runs after it measure the same one. `--note` is kept with the figures. `--only`
leaves out the addresses that it does not match.
Results are appended to benchmarks/results/view.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import re
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import msgspec
import uvloop

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks import servers, view_drain
from benchmarks.events import an_empty_store
from benchmarks.view_paths import paths_of
from benchmarks.view_service import Service, asked, feed, processor_seconds, service
from benchmarks.view_store import Past, fill

RESULTS = Path(__file__).parent / "results" / "view.json"
LIMIT_MS = 200
SETTLE_SECONDS = 15
PERCENTILES = 100
PROCESSOR_ROUNDS = 5
COLUMNS = ("min", "p50", "p95", "max", "processor")


Taken = dict[str, list[float]]


async def measure(
    url: str, past: Past, rounds: int, load: int, only: re.Pattern[str]
) -> tuple[Taken, dict[str, float]]:
    """Milliseconds of each address, asked one after the other, in turn; and those of processors."""
    with tempfile.TemporaryDirectory() as folder:
        async with service(url, Path(folder)) as running:
            async with fed(url, load):
                await asyncio.sleep(SETTLE_SECONDS)  # the first samples of depths are taken
                paths = [path for path in await paths_of(running, past) if only.search(path)]
                taken = await ask_all(running, paths, rounds)
            await asyncio.sleep(SETTLE_SECONDS)  # what was sent last has run
            return taken, await processor_of(url, running, paths)


async def processor_of(url: str, running: Service, paths: Sequence[str]) -> dict[str, float]:
    """Milliseconds of the processor for one answer, the median of a few, a page of others between.

    It is all that the service and the connections of its database use, so now and then a loop of
    the engine is among it.
    """
    taken: dict[str, list[float]] = {path: [] for path in paths}
    for _ in range(PROCESSOR_ROUNDS):
        for path in paths:
            began = await processor_seconds(url, running)
            await asked(running, path)
            taken[path].append((await processor_seconds(url, running) - began) * 1_000)
    return {path: round(statistics.median(values), 1) for path, values in taken.items()}


@contextlib.asynccontextmanager
async def fed(url: str, load: int) -> AsyncIterator[None]:
    feeding = asyncio.create_task(feed(url, load))
    try:
        yield
    finally:
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding


async def ask_all(running: Service, paths: Sequence[str], rounds: int) -> Taken:
    taken: Taken = {path: [] for path in paths}
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
    print(" ".join(f"{name:>9}" for name in COLUMNS))
    for path in order:
        one = figures[path]
        mark = "  above 200 ms" if one["p95"] > LIMIT_MS else ""
        numbers = " ".join(f"{one[name]:9.1f}" for name in COLUMNS)
        print(f"{numbers}  {path[:90]}{mark}")
    over = sum(one["p95"] > LIMIT_MS for one in figures.values())
    print(f"{len(figures)} addresses; p95 above {LIMIT_MS} ms: {over}", flush=True)


def keep(record: dict[str, object]) -> None:
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*known, record], indent=1) + "\n")


@contextlib.asynccontextmanager
async def filled(given: argparse.Namespace) -> AsyncIterator[tuple[str, Past]]:
    """The address of a store with this past: an earlier one, or one of this run alone."""
    if given.keep is None:
        async with an_empty_store(given.store) as url:
            yield url, await fill(url, given.ended, given.waiting)
        return
    if not given.keep.exists():
        url = await a_kept_store(given.store, given.keep.absolute().parent)
        past = await fill(url, given.ended, given.waiting)
        given.keep.write_bytes(msgspec.json.encode({"url": url, "past": past}))
    known = msgspec.json.decode(given.keep.read_bytes())
    yield known["url"], msgspec.convert(known["past"], Past)


async def a_kept_store(kind: str, folder: Path) -> str:
    """The address of an empty store, which whoever measures deletes in the end."""
    name = f"onbeat_view_{secrets.token_hex(4)}"
    if kind == "sqlite":
        return f"sqlite:///{folder / name}.db"
    server = servers.url_of("PostgreSQL")
    db = await asyncpg.connect(server)
    await db.execute(f"CREATE DATABASE {name}")
    await db.close()
    return f"{server.rpartition('/')[0]}/{name}"


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
    if given.note:
        record["note"] = given.note
    async with filled(given) as (url, past):
        if given.viewers:
            record |= await view_drain.compare(url, given.viewers, given.jobs, given.rounds)
        else:
            taken, processor = await measure(url, past, given.rounds, given.load, given.only)
            figures = {
                path: {**figures_of(values), "processor": processor[path]}
                for path, values in taken.items()
            }
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
    parser.add_argument("--keep", type=Path, help="the file that remembers a filled store")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--note", default="", help="kept with the figures")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
