"""Onbeat's public API on SQLite, beside Huey and APScheduler with the same jobs.

    python benchmarks/queue_sqlite.py [--rounds 3] [--jobs 20000] [--dir DIR]

Each measure runs Onbeat and a peer in turn, so that drift of the machine affects both; figures are
medians with minimum and maximum. Onbeat's store has synchronous=FULL: an answer means that the job
is on the disk. Huey's store does not flush to the disk at all and keeps no outcome of
a job that returns nothing; APScheduler's job store commits once for each job. Results are appended
to benchmarks/results/queue_sqlite.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import apsw

from onbeat import Onbeat, Options, cron, http
from onbeat.engine.options import RuntimeOptions
from onbeat.model.ids import ScheduleId
from onbeat.operations.drafts import build_schedule
from onbeat.rules.plans import plan
from onbeat.targets.http_options import HttpOptions
from onbeat.telemetry.composite import NullTelemetry
from onbeat.wire.schedules import ScheduleDraft

RESULTS = Path(__file__).parent / "results" / "queue_sqlite.json"
CALLERS = 64
CONCURRENCY = 1_000
SCHEDULES = 100_000
IDLE_SECONDS = 20

Measure = Callable[[Path, int], Awaitable[float]]


def a_program(folder: Path, **options: object) -> Onbeat:
    runtime = RuntimeOptions(concurrency=CONCURRENCY, **options)  # type: ignore[arg-type]
    return Onbeat(
        f"sqlite:///{folder / 'onbeat.db'}",
        options=Options(runtime=runtime, http=HttpOptions(private_allowed=True)),
    )


async def enqueue_by_one(folder: Path, count: int) -> float:
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    count //= 10
    await beat.backend.open()
    began = time.perf_counter()
    for _ in range(count):
        await work.asend(7)
    rate = count / (time.perf_counter() - began)
    await beat.aclose()
    return rate


async def enqueue_by_callers(folder: Path, count: int) -> float:
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    await beat.backend.open()

    async def caller() -> None:
        for _ in range(count // CALLERS):
            await work.asend(7)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    rate = count / (time.perf_counter() - began)
    await beat.aclose()
    return rate


async def enqueue_in_bulk(folder: Path, count: int) -> float:
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    await beat.backend.open()
    began = time.perf_counter()
    for _ in range(0, count, 5_000):
        await beat.asend([work.call(7) for _ in range(5_000)])
    rate = count / (time.perf_counter() - began)
    await beat.aclose()
    return rate


async def enqueue_in_bulk_by_four(folder: Path, count: int) -> float:
    """While one caller's batch is written, the others are prepared."""
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    await beat.backend.open()
    parts = iter(range(0, count, 1_000))

    async def caller() -> None:
        for _ in parts:
            await beat.asend([work.call(7) for _ in range(1_000)])

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(4)))
    rate = count / (time.perf_counter() - began)
    await beat.aclose()
    return rate


async def drain(folder: Path, count: int) -> float:
    """No-op async jobs, each with its outcome recorded, until the store has none left."""
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    await beat.asend([work.call(7) for _ in range(count)])
    began = time.perf_counter()
    async with beat:
        while True:
            stats = await beat.backend.store.stats(datetime.now(UTC))
            if stats.jobs.get("succeeded", 0) == count:
                break
            await asyncio.sleep(0.02)
        return count / (time.perf_counter() - began)


async def callbacks(folder: Path, count: int) -> float:
    """HTTP callbacks to a sink in another process, from enqueued jobs to recorded outcomes."""
    count //= 4
    async with a_sink() as port:
        beat = a_program(folder)
        call = http("POST", f"http://127.0.0.1:{port}/", json={"n": 1})
        await beat.asend([call for _ in range(count)])
        began = time.perf_counter()
        async with beat:
            while True:
                stats = await beat.backend.store.stats(datetime.now(UTC))
                if stats.jobs.get("succeeded", 0) == count:
                    break
                await asyncio.sleep(0.02)
            return count / (time.perf_counter() - began)


async def nothing(_n: int) -> None:
    return


@contextlib.asynccontextmanager
async def a_sink():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SINK, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    port = int(await process.stdout.readline())
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


SINK = """
import asyncio, uvloop
class Sink(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport; self.data = b""
    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\\r\\n\\r\\n")) >= 0:
            head = self.data[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15:].split(b"\\r\\n", 1)[0]) if at >= 0 else 0
            if len(self.data) < end + 4 + length: return
            self.data = self.data[end + 4 + length:]
            self.transport.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
async def main():
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
uvloop.run(main())
"""


async def start_latency(folder: Path, count: int) -> list[float]:
    """Milliseconds from the call of `asend` to the first line of the handler, worker idle."""
    beat = a_program(folder)
    began = 0.0
    taken: list[float] = []
    ran = asyncio.Event()

    @beat.task("work")
    async def work() -> None:
        taken.append((time.perf_counter() - began) * 1000)
        ran.set()

    async with beat:
        for _ in range(min(count, 300)):
            await asyncio.sleep(0.01)
            ran.clear()
            began = time.perf_counter()
            await work.asend()
            await ran.wait()
    return taken


async def lateness(folder: Path, count: int) -> list[float]:
    """Milliseconds from a job's due time to the first line of its handler, worker idle."""
    beat = a_program(folder)
    late: list[float] = []
    wanted = min(count, 200)
    all_ran = asyncio.Event()

    @beat.task("work")
    async def work(due: float) -> None:
        late.append((time.time() - due) * 1000)
        if len(late) == wanted:
            all_ran.set()

    async with beat:
        first = time.time() + 0.5
        for n in range(wanted):
            due = first + n * 0.02
            run_at = datetime.fromtimestamp(due, UTC)
            await work.options(run_at=run_at).asend(run_at.timestamp())
            if n == wanted - 1:
                await asyncio.wait_for(all_ran.wait(), 60)
    return late


async def idle_use(folder: Path, _count: int) -> float:
    """Part of one core, in percent, that a program with 100,000 daily schedules uses at rest."""
    beat = a_program(folder)
    work = beat.task("work")(nothing)
    await beat.backend.open()
    await fill_with_schedules(beat, work.call(7).target)
    settled = FirstRounds()
    beat.backend.telemetry = settled
    async with beat:
        await asyncio.wait_for(settled.done.wait(), 60)
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.sleep(IDLE_SECONDS)
        after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / IDLE_SECONDS * 100


class FirstRounds(NullTelemetry):
    """Reports when every loop that scans the store at its start has done so."""

    def __init__(self) -> None:
        self.left = {"planner", "replanner", "pruner", "rescuer", "expirer"}
        self.done = asyncio.Event()

    def loop_beat(self, loop: str) -> None:
        self.left.discard(loop)
        if not self.left:
            self.done.set()


async def fill_with_schedules(beat: Onbeat, target: object) -> None:
    """Stored directly, each at a different minute, none in the next hours."""
    now = datetime.now(UTC)
    quiet = now + timedelta(hours=12)
    operator = beat.backend.context
    for start in range(0, SCHEDULES, 1_000):
        added = []
        for n in range(start, start + 1_000):
            at = quiet + timedelta(minutes=n % 360)
            rule = cron(f"{at.minute} {at.hour} * * *").spec()
            draft = ScheduleDraft(name=f"daily {n}", recurrence=rule, target=target)  # type: ignore[arg-type]
            schedule = build_schedule(operator, draft, now, ScheduleId(operator.fresh_id()))
            made = plan(schedule, now, operator.horizon, operator.randomness.ids)
            added.append(beat.backend.store.add_schedule(schedule, made))
        await asyncio.gather(*added)


# The peers


def huey_in(folder: Path):
    from huey import SqliteHuey

    return SqliteHuey(filename=str(folder / "huey.db"), fsync=False)


def huey_consumer(queue):
    from huey.consumer import Consumer

    class InThread(Consumer):
        """The benchmark keeps its own signal handlers."""

        def _set_signal_handlers(self) -> None:
            return

    return InThread(queue, workers=1, periodic=False, initial_delay=0.001, max_delay=0.01)


async def huey_enqueue(folder: Path, count: int) -> float:
    def work() -> float:
        queue = huey_in(folder)
        task = queue.task()(nothing_sync)
        began = time.perf_counter()
        for _ in range(count // 4):
            task(7)
        return count // 4 / (time.perf_counter() - began)

    return await asyncio.to_thread(work)


async def huey_drain(folder: Path, count: int) -> float:
    def work() -> float:
        queue = huey_in(folder)
        done = threading.Semaphore(0)

        @queue.task()
        def task(_n: int) -> None:
            done.release()

        count_here = count // 4
        for _ in range(count_here):
            task(7)
        consumer = huey_consumer(queue)
        began = time.perf_counter()
        consumer.start()
        for _ in range(count_here):
            done.acquire()
        rate = count_here / (time.perf_counter() - began)
        consumer.stop(graceful=True)
        return rate

    return await asyncio.to_thread(work)


async def huey_start_latency(folder: Path, count: int) -> list[float]:
    def work() -> list[float]:
        queue = huey_in(folder)
        ran = threading.Event()

        @queue.task()
        def task() -> None:
            ran.set()

        consumer = huey_consumer(queue)
        consumer.start()
        taken = []
        for _ in range(min(count, 300)):
            time.sleep(0.01)
            ran.clear()
            began = time.perf_counter()
            task()
            ran.wait()
            taken.append((time.perf_counter() - began) * 1000)
        consumer.stop(graceful=True)
        return taken

    return await asyncio.to_thread(work)


def nothing_sync(_n: int) -> None:
    return


async def apscheduler_enqueue(folder: Path, count: int) -> float:
    def work() -> float:
        from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
        from apscheduler.schedulers.background import BackgroundScheduler

        store = SQLAlchemyJobStore(url=f"sqlite:///{folder / 'aps.db'}")
        scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
        scheduler.start(paused=True)
        later = datetime.now(UTC) + timedelta(days=1)
        few = max(100, count // 40)
        began = time.perf_counter()
        for _ in range(few):
            scheduler.add_job(nothing_sync, "date", run_date=later, args=[7])
        rate = few / (time.perf_counter() - began)
        scheduler.shutdown(wait=False)
        return rate

    return await asyncio.to_thread(work)


# The table


@contextlib.contextmanager
def a_folder(parent: str | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def in_turn(
    measures: list[tuple[str, Measure]], args: argparse.Namespace
) -> dict[str, list[float]]:
    """A B A B ...: each measure once in every round, in a fresh folder and event loop."""
    taken: dict[str, list[float]] = {name: [] for name, _ in measures}
    for _ in range(args.rounds):
        for name, measure in measures:
            with a_folder(args.dir) as folder:
                taken[name].append(run(measure, folder, args.jobs))
    return taken


def run(measure: Measure, folder: Path, count: int):
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure(folder, count))


def fsync_microseconds(parent: str | None) -> float:
    with a_folder(parent) as folder, (folder / "probe").open("wb") as file:
        taken = []
        for _ in range(200):
            file.write(b"x" * 4_096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


def said(values: list[float]) -> str:
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:>9,.0f}   ({least:,.0f} - {most:,.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--dir", help="where the databases lie; their disk is what is measured")
    args = parser.parse_args()
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "sqlite": apsw.sqlite_lib_version(),
        "onbeat": version("onbeat"),
        "huey": version("huey"),
        "apscheduler": version("apscheduler"),
        "fdatasync_us": round(fsync_microseconds(args.dir), 1),
        "rounds": args.rounds,
        "jobs": args.jobs,
    }
    print(json.dumps(record, indent=1), "\n")
    rates: dict[str, dict[str, list[float]]] = {
        "enqueue, one caller": in_turn(
            [
                ("Onbeat, durable", enqueue_by_one),
                ("Huey, not flushed", huey_enqueue),
                ("APScheduler", apscheduler_enqueue),
            ],
            args,
        ),
        "enqueue, 64 callers": in_turn([("Onbeat, durable", enqueue_by_callers)], args),
        "bulk, one caller": in_turn([("Onbeat, durable", enqueue_in_bulk)], args),
        "bulk, four callers": in_turn([("Onbeat, durable", enqueue_in_bulk_by_four)], args),
        "drain of no-op jobs": in_turn(
            [("Onbeat, recorded", drain), ("Huey, not recorded", huey_drain)], args
        ),
        "HTTP callbacks": in_turn([("Onbeat, recorded", callbacks)], args),
    }
    for what, taken in rates.items():
        for name, values in taken.items():
            print(f"{what:<24} {name:<20} {said(values)} /s")
    delays = {
        "start latency, idle": [("Onbeat", start_latency), ("Huey", huey_start_latency)],
        "lateness of due jobs": [("Onbeat", lateness)],
    }
    for what, measures in delays.items():
        for name, measure in measures:
            with a_folder(args.dir) as folder:
                values = sorted(run(measure, folder, args.jobs))
            p50, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
            record[f"{what}, {name}, ms"] = {"p50": round(p50, 2), "p99": round(p99, 2)}
            print(f"{what:<24} {name:<20} p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    with a_folder(args.dir) as folder:
        use = run(idle_use, folder, args.jobs)
    record["idle use with 100,000 schedules, % of a core"] = round(use, 2)
    print(f"{'idle, 100,000 schedules':<24} {'Onbeat':<20} {use:.2f} % of a core")
    record["per second"] = {
        what: {name: [round(value) for value in values] for name, values in taken.items()}
        for what, taken in rates.items()
    }
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
