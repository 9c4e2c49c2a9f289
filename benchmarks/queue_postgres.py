"""Onbeat's public API on PostgreSQL, beside pgqueuer, Procrastinate and saq.

    python benchmarks/queue_postgres.py [--rounds 3] [--jobs 50000] [--url URL] [--only WORDS]
                                        [--sustained SECONDS] [--large]

Each measure runs Onbeat and its peers in turn with the same jobs and an empty database each, so
that drift of the machine affects all; figures are medians with minimum and maximum. Only jobs whose
end is recorded count. None of the peers fences its records. `--sustained` produces 10,000 jobs a
second for this time beside one worker; `--large` measures the cost of ten million waiting jobs.
Results are appended to benchmarks/results/queue_postgres.json.
"""

import argparse
import asyncio
import contextlib
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.bare_postgres import BareAnnounced, BareDriver, until_empty
from benchmarks.peer_graphile import GraphileWorker, installed_version
from benchmarks.peers_postgres import (
    CONCURRENCY,
    PEERS,
    Peer,
    PgQueuer,
    Procrastinate,
    Saq,
)
from onbeat import Onbeat, Options, every, once
from onbeat.engine.options import RuntimeOptions
from onbeat.model.ids import ScheduleId, WorkerId
from onbeat.model.role import Role
from onbeat.operations.drafts import build_schedule
from onbeat.ports.store import ClaimRequest
from onbeat.recurrence import Recurrence
from onbeat.rules.plans import plan
from onbeat.telemetry.composite import NullTelemetry
from onbeat.wire.schedules import ScheduleDraft

RESULTS = Path(__file__).parent / "results" / "queue_postgres.json"
DATABASE = "onbeat_bench"
CALLERS = 64
BULK = 5_000
DRAINED_TIMES = 4
SLOW = {"procrastinate": 20, "saq": 20}  # the divisor of their number of jobs, so that a round ends


class OnbeatPeer:
    """Onbeat behind the interface of the peers."""

    name = "Onbeat"
    package = "onbeat"

    def __init__(self, **runtime: object) -> None:
        self.options = Options(
            runtime=RuntimeOptions(concurrency=CONCURRENCY, **runtime)  # type: ignore[arg-type]
        )
        self.told: Callable[[], None] = lambda: None

    @contextlib.asynccontextmanager
    async def opened(self, url: str) -> AsyncIterator[None]:
        self.url = url
        self.beat = Onbeat(url, options=self.options, telemetry=NullTelemetry())

        @self.beat.task("work")
        async def work(_n: int) -> None:
            self.told()

        self.work = work
        await self.beat.backend.open()
        try:
            yield
        finally:
            await self.beat.aclose()

    async def enqueue(self) -> None:
        await self.work.asend(7)

    async def enqueue_many(self, count: int) -> None:
        await self.beat.asend([self.work.call(7) for _ in range(count)])

    async def drain(self, count: int) -> None:
        await self.beat.start()
        await until_empty(self.url, "SELECT 1 FROM onbeat.jobs LIMIT 1")

    async def serve(self, ran: Callable[[], None]) -> None:
        self.told = ran
        await self.beat.start()
        await asyncio.Event().wait()


ALL: tuple[type, ...] = (OnbeatPeer, *PEERS)
LIBRARIES: tuple[type, ...] = (OnbeatPeer, PgQueuer, Procrastinate, Saq)
SENT: tuple[type, ...] = (*LIBRARIES, GraphileWorker, BareDriver)
Measure = Callable[[Peer, str, int], Awaitable[object]]


async def by_one(peer: Peer, _url: str, count: int) -> float:
    count //= 20
    began = time.perf_counter()
    for _ in range(count):
        await peer.enqueue()
    return count / (time.perf_counter() - began)


async def by_callers(peer: Peer, _url: str, count: int) -> tuple[float, float]:
    """Jobs a second, and the 99th percentile of the answer times in milliseconds."""
    count = max(CALLERS, count // 2)
    times: list[float] = []

    async def caller() -> None:
        for _ in range(count // CALLERS):
            request = time.perf_counter()
            await peer.enqueue()
            times.append((time.perf_counter() - request) * 1_000)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(times) / (time.perf_counter() - began), sorted(times)[int(len(times) * 0.99)]


async def in_bulk(peer: Peer, _url: str, count: int) -> float:
    began = time.perf_counter()
    for start in range(0, count, BULK):
        await peer.enqueue_many(min(BULK, count - start))
    return count / (time.perf_counter() - began)


async def drained(peer: Peer, url: str, count: int) -> float:
    """No-op async jobs in one worker process, each with its outcome recorded.

    More of them than elsewhere: most programs take a few tenths of a second until they run.
    """
    count *= DRAINED_TIMES
    for start in range(0, count, BULK):
        await peer.enqueue_many(min(BULK, count - start))
    async with connected(url) as db:
        # Both sides begin on vacuumed tables.
        await db.execute("VACUUM (ANALYZE)")
    began = time.perf_counter()
    await peer.drain(count)
    return count / (time.perf_counter() - began)


async def wal(peer: Peer, url: str, count: int) -> float:
    """Bytes of WAL for the whole life of a job, after a checkpoint, on an idle server."""
    async with connected(url) as db:
        await db.execute("CHECKPOINT")
        before = await db.fetchval("SELECT pg_current_wal_insert_lsn()::text")
        for start in range(0, count, BULK):
            await peer.enqueue_many(min(BULK, count - start))
        await peer.drain(count)
        sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::float8"
        return float(await db.fetchval(sql, before)) / count


async def start_latency(peer: Peer, url: str, count: int) -> list[float]:
    """Milliseconds from the enqueue to the handler's first line, in an idle worker's process."""
    taken = []
    async with serving(peer, url) as lines:
        for _ in range(min(300, count)):
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            await peer.enqueue()
            # Both processes read the same monotonic clock.
            taken.append((float(await lines.readline()) - began) * 1_000)
    return sorted(taken[10:])


@contextlib.asynccontextmanager
async def serving(peer: Peer, url: str) -> AsyncIterator[asyncio.StreamReader]:
    """A worker in another process that prints the time at every job."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", peer.name, "--url", url, stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    try:
        await worker.stdout.readline()
        # The first job shows that the worker listens; it is not measured.
        await peer.enqueue()
        await worker.stdout.readline()
        yield worker.stdout
    finally:
        worker.kill()
        await worker.wait()


async def serve(name: str, url: str) -> None:
    (peer,) = (one() for one in ALL if one.name == name)
    async with peer.opened(url):
        print("ready", flush=True)
        await peer.serve(lambda: print(time.perf_counter(), flush=True))


# Measured only for Onbeat


async def fill_with_schedules(
    beat: Onbeat, count: int, rule: Recurrence, made_at: datetime, target: object
) -> None:
    """Stored directly, each as if it had been created at that instant."""
    operator = beat.backend.context
    for start in range(0, count, 1_000):
        added = []
        for n in range(start, min(count, start + 1_000)):
            draft = ScheduleDraft(name=f"no. {n}", recurrence=rule.spec(), target=target)  # type: ignore[arg-type]
            schedule = build_schedule(operator, draft, made_at, ScheduleId(operator.fresh_id()))
            made = plan(schedule, made_at, operator.horizon, operator.randomness.ids)
            added.append(beat.backend.store.add_schedule(schedule, made))
        await asyncio.gather(*added)


async def storm(url: str, count: int) -> dict[str, float]:
    """The time until all of these schedules, due in one second, have started.

    Their jobs are created ahead of time, like those of all schedules.
    """
    peer = OnbeatPeer()
    starts: list[float] = []
    async with peer.opened(url):
        now = datetime.now(UTC)
        at = now + timedelta(seconds=25 + count / 600)
        await fill_with_schedules(peer.beat, count, once(at), now, peer.work.call(7).target)
        left = (at - datetime.now(UTC)).total_seconds()
        print(f"  {count} schedules added, {left:.0f} s before they are due", flush=True)
        peer.told = lambda: starts.append(time.time())
        await peer.beat.start()
        while len(starts) < count:
            await asyncio.sleep(0.05)
    due = at.timestamp()
    return {
        "all started after, s": round(max(starts) - due, 2),
        "first started after, ms": round((min(starts) - due) * 1_000, 1),
    }


async def firing(url: str, count: int) -> dict[str, float]:
    """How fast the planner creates the next jobs of this number of schedules.

    They fire every hour, first in five minutes, and that job exists; the horizon of ten minutes is
    after it.
    """
    peer = OnbeatPeer()
    async with peer.opened(url), connected(url) as db:
        now = datetime.now(UTC)
        made_at = now - timedelta(minutes=55)
        target = peer.work.call(7).target
        await fill_with_schedules(peer.beat, count, every("1h"), made_at, target)
        assert (datetime.now(UTC) - now).total_seconds() < 240, "they are due already; name fewer"
        await db.execute("VACUUM (ANALYZE)")
        planned = await db.fetchval("SELECT count(*) FROM onbeat.dispositions")
        began = time.perf_counter()
        await peer.beat.start()
        while await db.fetchval("SELECT count(*) FROM onbeat.dispositions") < planned + count:
            await asyncio.sleep(0.05)
        return {"fires into jobs, /s": round(count / (time.perf_counter() - began))}


async def memory(url: str, count: int) -> dict[str, float]:
    """Resident memory of a worker in megabytes, at rest and with this number of waiting jobs."""
    peer = OnbeatPeer()
    result: dict[str, float] = {}
    for waiting in (0, count):
        async with peer.opened(url):
            for start in range(0, waiting, BULK):
                await peer.enqueue_many(min(BULK, waiting - start))
        worker = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--resident", "--url", url, stdout=asyncio.subprocess.PIPE
        )
        assert worker.stdout is not None
        result[f"{waiting} waiting, MB"] = float(await worker.stdout.readline())
        await worker.wait()
    return result


async def resident(url: str) -> None:
    """Work for three seconds, and report the peak memory."""
    peer = OnbeatPeer()
    async with peer.opened(url):
        await peer.beat.start()
        await asyncio.sleep(3)
        print(peak_megabytes(), flush=True)


def peak_megabytes() -> float:
    """Not `ru_maxrss`, which begins with the size of the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024


async def sustained(
    url: str, seconds: float, rate: int, *, old_snapshot: bool
) -> dict[str, object]:
    """The jobs recorded in each minute by one worker while jobs are produced at this rate."""
    peer = OnbeatPeer(roles=frozenset[Role]())
    minutes: list[int] = []
    async with peer.opened(url), connected(url) as db, connected(url) as old:
        if old_snapshot:
            await old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await old.fetchval("SELECT count(*) FROM onbeat.jobs")
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            "--serve",
            peer.name,
            "--url",
            url,
            stdout=asyncio.subprocess.DEVNULL,
        )
        maker = asyncio.create_task(make(peer, rate, seconds))
        began, done = time.perf_counter(), 0
        step = min(60.0, seconds / 10)
        while not maker.done():
            await asyncio.sleep(max(0.0, began + step * (len(minutes) + 1) - time.perf_counter()))
            total = await db.fetchval("SELECT count(*) FROM onbeat.finished")
            minutes.append(round((total - done) / step))
            done = total
            waiting = await db.fetchval("SELECT count(*) FROM onbeat.jobs")
            print(f"  {len(minutes) * step:5.0f} s: {minutes[-1]:>7,} done/s, {waiting:,} live")
        worker.kill()
        await worker.wait()
    whole = minutes[:-1] if len(minutes) > 10 else minutes
    return {
        "asked /s": rate,
        "old snapshot": old_snapshot,
        "made /s": round(maker.result()),
        "done /s in each part": minutes,
        "last against first": round(whole[-1] / max(1, whole[0]), 3),
    }


async def make(peer: OnbeatPeer, rate: int, seconds: float) -> float:
    began, made = time.perf_counter(), 0
    while (now := time.perf_counter()) < began + seconds:
        behind = min(BULK, int((now - began) * rate) - made)
        if behind > 0:
            await peer.enqueue_many(behind)
            made += behind
        await asyncio.sleep(0.02)
    return made / (time.perf_counter() - began)


CLAIMS = 300
CLAIMED = 10
LARGE = (10_000, 10_000_000)

WAITING = """
    INSERT INTO onbeat.jobs (id, created_at, due_at, priority, queue, lane, spec)
    SELECT gen_random_uuid(), made.at, made.at, 0, 'default', 'work', '{{}}'
    FROM generate_series(1, {count}) AS number,
         LATERAL (SELECT (extract(epoch FROM now()) * 1000000)::bigint - number AS at) AS made
"""


async def claims(url: str) -> dict[str, object]:
    """Milliseconds of a claim with this number of waiting jobs, generated by the server itself."""
    peer = OnbeatPeer()
    result: dict[str, object] = {}
    waiting = 0
    async with peer.opened(url), connected(url) as db:
        for count in LARGE:
            await db.execute(WAITING.format(count=count - waiting), timeout=3_600)
            waiting = count
            await db.execute("VACUUM (ANALYZE) onbeat.jobs", timeout=3_600)
            await db.execute("CHECKPOINT", timeout=3_600)
            times = await claim_times(peer)
            result[f"{count} waiting"] = {
                "p50 ms": round(times[len(times) // 2], 2),
                "p99 ms": round(times[int(len(times) * 0.99)], 2),
            }
            print(f"  {count:,} waiting: {result[f'{count} waiting']}", flush=True)
    return result


async def claim_times(peer: OnbeatPeer) -> list[float]:
    times = []
    for _ in range(CLAIMS):
        request = ClaimRequest(
            worker=WorkerId("claimant"),
            lanes=frozenset({"work"}),
            limit=CLAIMED,
            now=datetime.now(UTC),
        )
        began = time.perf_counter()
        claimed = await peer.beat.backend.store.claim(request)
        times.append((time.perf_counter() - began) * 1_000)
        assert len(claimed.jobs) == CLAIMED
    return sorted(times[10:])


# The table


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    db = await asyncpg.connect(url)
    try:
        yield db
    finally:
        await db.close()


@contextlib.asynccontextmanager
async def a_database(url: str, name: str = DATABASE) -> AsyncIterator[str]:
    """The URL of an empty database on the same server, dropped afterwards."""
    async with connected(url) as db:
        await db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await db.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{url.rpartition('/')[0]}/{name}"
        finally:
            await db.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def measured(make_peer: Callable[[], Peer], measure: Measure, url: str, jobs: int) -> object:
    async with a_database(url) as own:
        peer = make_peer()
        count = jobs // SLOW.get(peer.name, 1)
        async with peer.opened(own):
            return await measure(peer, own, count)


COMPARED: tuple[tuple[str, str, Measure, tuple[type, ...]], ...] = (
    ("enqueue, one caller", "/s", by_one, SENT),
    ("enqueue, 64 callers", "/s", by_callers, SENT),
    ("enqueue in bulk", "/s", in_bulk, SENT),
    ("drain, one process", "/s", drained, SENT),
    ("start latency, other process", "ms", start_latency, (*LIBRARIES, BareAnnounced)),
    ("WAL of a whole life", "B", wal, (OnbeatPeer, PgQueuer, GraphileWorker, BareDriver)),
)


def can_be_measured(peer: type) -> bool:
    """Graphile Worker runs in Node.js, and is left out where that is missing."""
    return peer is not GraphileWorker or shutil.which("npm") is not None


def compare(args: argparse.Namespace) -> dict[str, dict[str, object]]:
    result: dict[str, dict[str, object]] = {}
    for what, unit, measure, compared in COMPARED:
        if args.only not in what:
            continue
        peers = tuple(filter(can_be_measured, compared))
        rounds = 1 if unit == "ms" else args.rounds
        taken: dict[str, list[object]] = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                taken[peer.name].append(uvloop.run(measured(peer, measure, args.url, args.jobs)))
        result[what] = {name: told(what, name, unit, values) for name, values in taken.items()}
        ratios(result[what])
    return result


def told(what: str, name: str, unit: str, values: list[object]) -> dict[str, object]:
    """Print the figures, and return them in the form that is stored."""
    if unit == "ms":
        (times,) = values
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]  # type: ignore[index, arg-type]
        print(f"{what:<30} {name:<14} p50 {p50:.2f} ms, p99 {p99:.2f} ms", flush=True)
        return {"p50 ms": round(p50, 2), "p99 ms": round(p99, 2)}
    extra: dict[str, object] = {}
    if isinstance(values[0], tuple):
        extra["p99 ms"] = [round(p99, 2) for _, p99 in values]  # type: ignore[misc, has-type]
        values = [value for value, _ in values]  # type: ignore[misc, has-type]
    middle, least, most = statistics.median(values), min(values), max(values)  # type: ignore[type-var]
    message = f", p99 {statistics.median(extra['p99 ms']):.2f} ms" if extra else ""  # type: ignore[arg-type]
    print(
        f"{what:<30} {name:<14} {middle:>9,.0f} {unit}   ({least:,.0f} - {most:,.0f}){message}",
        flush=True,
    )
    return {"median": round(middle), "all": [round(value) for value in values], **extra}  # type: ignore[arg-type, call-overload]


def ratios(result: dict[str, object]) -> None:
    """Onbeat's figure divided by each peer's; the inverse for times and bytes."""
    ours = result["Onbeat"]
    assert isinstance(ours, dict)
    key = "median" if "median" in ours else "p50 ms"
    for name, theirs in result.items():
        if name != "Onbeat" and isinstance(theirs, dict):
            print(f"{'':<30} Onbeat / {name}: {ours[key] / theirs[key]:.2f}")


def versions() -> dict[str, str]:
    found = {one.package: version(one.package) for one in ALL if one is not GraphileWorker}
    if can_be_measured(GraphileWorker):
        found[GraphileWorker.package] = installed_version()
    return found


async def in_own_database(url: str, work: Callable[[str], Awaitable[object]]) -> object:
    async with a_database(url) as own:
        return await work(own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default=servers.url_of("PostgreSQL"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--sustained", type=float, default=0)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--old-snapshot", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--serve")
    parser.add_argument("--resident", action="store_true")
    args = parser.parse_args()
    if args.serve:
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(serve(args.serve, args.url))
        return
    if args.resident:
        uvloop.run(resident(args.url))
        return
    if not uvloop.run(servers.answers("PostgreSQL", args.url)):
        return
    record: dict[str, object] = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "server": uvloop.run(servers.settings_of(args.url)),
        "versions": versions(),
        "rounds": args.rounds,
        "jobs": args.jobs,
    }
    print(json.dumps(record, indent=1), "\n")
    record["compared"] = compare(args)
    for what, work in (
        ("schedules due in one second", lambda own: storm(own, args.schedules)),
        ("schedules fired into jobs", lambda own: firing(own, args.schedules)),
        ("memory of a worker", lambda own: memory(own, args.waiting)),
    ):
        if args.only in what:
            print(what, flush=True)
            record[what] = uvloop.run(in_own_database(args.url, work))  # type: ignore[arg-type]
            print(f"  {record[what]}", flush=True)
    if args.large:
        print("claims", flush=True)
        record["claims"] = uvloop.run(in_own_database(args.url, claims))
    if args.sustained:
        print(f"sustained for {args.sustained:.0f} s", flush=True)
        record["sustained"] = uvloop.run(
            in_own_database(
                args.url,
                lambda own: sustained(
                    own, args.sustained, args.rate, old_snapshot=args.old_snapshot
                ),
            )
        )
        print(f"  {record['sustained']}", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
