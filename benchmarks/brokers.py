"""Onbeat through RabbitMQ and Redis, beside Dramatiq, Celery and taskiq on the same brokers.

    python benchmarks/brokers.py [--rounds 3] [--jobs 50000] [--url URL] [--rabbitmq URL]
                                 [--redis URL] [--only WORDS] [--trial]

Each measure runs Onbeat and the peers in turn with the same jobs, so that drift of the machine
affects all; figures are medians with minimum and maximum. Two worker processes drain waiting no-op
jobs from a common start signal, which each process gets once it is loaded. Onbeat's jobs wait in
PostgreSQL, a dispatcher in a third process sends them over the broker, and a job counts when its
outcome is recorded, fenced by its lease. The peers' jobs wait in the broker and count as soon as
they have run: they record no outcome. `--trial` drains once with each of the peers' tried settings.
The CPU time of a server is its total in that time, including other clients. Results are appended to
benchmarks/results/brokers.json.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import mmap
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import servers
from benchmarks.peers_brokers import NAME, ON_RABBITMQ, ON_REDIS, Begin, Peer, Ran
from benchmarks.queue_postgres import (
    BULK,
    CONCURRENCY,
    a_database,
    connected,
    ratios,
)
from onbeat import Onbeat, Options
from onbeat.engine.options import RuntimeOptions
from onbeat.model.role import Role
from onbeat.telemetry.composite import NullTelemetry

RESULTS = Path(__file__).parent / "results" / "brokers.json"
LOOK_PERIOD = 0.005
RECORD_PERIOD = 0.02
PATIENCE = 60.0  # seconds: longer than any step takes, so that a hang is reported
LATENCIES = 200


class OnbeatPeer:
    """Onbeat behind the interface of the peers. `store` is the URL of a database."""

    name = "Onbeat"
    packages = ("onbeat", "aiormq", "redis", "asyncpg", "uvloop")
    module = "onbeat"
    variants: dict[str, dict[str, Any]] = {"PostgreSQL": {}}
    crew = ("dispatcher", "worker", "worker")
    queues = tuple(f"{NAME}.onbeat.{one}" for one in ("run.default", "submit", "results", "dead"))
    exchanges = (f"{NAME}.onbeat.dlx",)

    def __init__(self, url: str, variant: str, store: str = "") -> None:
        self.url = url
        self.store = store

    def program(self, ran: Ran, *roles: Role) -> Onbeat:
        beat = Onbeat(
            self.store,
            options=Options(
                transport=f"{self.url}?prefix={NAME}.",
                runtime=RuntimeOptions(
                    roles=frozenset(roles), concurrency=CONCURRENCY, prefetch=CONCURRENCY
                ),
            ),
            telemetry=NullTelemetry(),
        )

        @beat.task("work")
        async def work(n: int) -> None:
            ran(n)

        self.work = work
        return beat

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.beat = self.program(lambda _: None)
        await self.beat.backend.open()
        try:
            yield
        finally:
            await self.beat.aclose()

    async def enqueue(self, n: int) -> None:
        await self.work.asend(n)

    async def enqueue_many(self, count: int) -> None:
        for start in range(0, count, BULK):
            numbers = range(start, min(start + BULK, count))
            await self.beat.asend([self.work.call(n) for n in numbers])
        async with connected(self.store) as db:
            await db.execute("VACUUM (ANALYZE)")

    async def recorded(self) -> None:
        """A query for any remaining job disturbs the workers less than a count of ended jobs."""
        async with connected(self.store) as db:
            while await db.fetchval("SELECT 1 FROM onbeat.jobs LIMIT 1"):
                await asyncio.sleep(RECORD_PERIOD)

    async def check(self, count: int) -> None:
        sql = "SELECT count(*) FROM onbeat.finished WHERE state = 'succeeded'"
        async with connected(self.store) as db:
            done = await db.fetchval(sql)
        if done != count:
            raise Stalled(f"{done:,} of {count:,} outcomes are recorded")

    def serve(self, role: str, ran: Ran, begin: Begin) -> None:
        # Otherwise the start would include this import.
        importlib.import_module("onbeat.targets.http")
        uvloop.run(self.take_part(Role(role), ran, begin))

    async def take_part(self, role: Role, ran: Ran, begin: Begin) -> None:
        beat = self.program(ran, role)
        await beat.backend.open()
        if role is Role.WORKER:
            begin()
            await beat.start()
        else:
            await beat.start()
            begin()
        await asyncio.Event().wait()


# Processes


class Stalled(Exception):
    """A measurement does not end in time."""


class Member:
    """One process of a group: `ready` once it is loaded, working after the start signal."""

    def __init__(self, role: str, process: asyncio.subprocess.Process) -> None:
        self.role = role
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin = process.stdin
        self.lines = process.stdout
        self.used = 0.0

    async def ready(self) -> None:
        if await self.said() != b"ready\n":
            raise Stalled(f"a {self.role} did not become ready; what it said stands above")

    async def said(self) -> bytes:
        try:
            return await asyncio.wait_for(self.lines.readline(), PATIENCE)
        except TimeoutError:
            raise Stalled(f"after {PATIENCE:.0f} s a {self.role} still said nothing") from None

    def begin(self) -> None:
        self.used = cpu_seconds(self.process.pid)
        self.stdin.write(b"begin\n")

    def used_since(self) -> float:
        """Seconds of CPU time, including its children."""
        return cpu_seconds(self.process.pid) - self.used

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


@contextlib.asynccontextmanager
async def crew_of(
    peer: Peer, variant: str, roles: Sequence[str], ledger: str
) -> AsyncIterator[list[Member]]:
    """All are ready; processes that are no workers are running already."""
    members: list[Member] = []
    try:
        for role in roles:
            member = Member(role, await launched(peer, variant, role, ledger))
            members.append(member)
            await member.ready()
            if role != "worker":
                member.begin()
        yield members
    finally:
        for member in members:
            await member.kill()


async def launched(peer: Peer, variant: str, role: str, ledger: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-Wignore",
        __file__,
        *("--serve", peer.name, "--role", role, "--variant", variant, "--ledger", ledger),
        *("--broker", peer.url, "--store", getattr(peer, "store", "")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


def serve(args: argparse.Namespace) -> None:
    """The main function of such a process."""
    (kind,) = {one for one in (OnbeatPeer, *ON_REDIS) if one.name == args.serve}
    peer = a_peer(kind, args.broker, args.variant, args.store)
    # Output of a peer must not mix with the protocol.
    out = os.dup(1)
    os.dup2(2, 1)

    def begin() -> None:
        os.write(out, b"ready\n")
        sys.stdin.readline()

    def tell_time(_n: int) -> None:
        # All processes read the same monotonic clock.
        os.write(out, f"{time.perf_counter()}\n".encode())

    with contextlib.ExitStack() as stack:
        ran = stack.enter_context(marked(args.ledger)) if args.ledger else tell_time
        peer.serve(args.role, ran, begin)


def a_peer(kind: type, broker: str, variant: str, store: str) -> Peer:
    return kind(broker, variant, store) if kind is OnbeatPeer else kind(broker, variant)


@contextlib.contextmanager
def marked(path: str) -> Iterator[Ran]:
    """Each job that has run is one byte of a file that all processes map into memory."""
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as marks:

        def ran(n: int) -> None:
            marks[n] = 1

        yield ran


class Ledger:
    """The jobs that have run, as seen by the measuring program."""

    def __init__(self, count: int) -> None:
        with tempfile.NamedTemporaryFile(prefix="onbeat-bench-", delete=False) as file:
            file.write(bytes(count))
            file.flush()
            self.marks = mmap.mmap(file.fileno(), 0)
        self.path = file.name

    async def began(self) -> None:
        """Returns when the first job has run."""
        await self.until(lambda: self.marks.find(b"\1") >= 0)

    async def ended(self) -> None:
        """Returns when all jobs have run."""
        await self.until(lambda: self.marks.find(b"\0") < 0)

    async def until(self, is_so: Callable[[], bool]) -> None:
        give_up = time.perf_counter() + PATIENCE
        while not is_so():
            if time.perf_counter() > give_up:
                left = self.marks[:].count(0)
                raise Stalled(f"after {PATIENCE:.0f} s {left:,} jobs have not run")
            await asyncio.sleep(LOOK_PERIOD)

    def delete(self) -> None:
        self.marks.close()
        Path(self.path).unlink()


def cpu_seconds(pid: int) -> float:
    one = psutil.Process(pid)
    times = [process.cpu_times() for process in (one, *one.children(recursive=True))]
    return sum(used.user + used.system for used in times)


class Servers:
    """The CPU time of the processes behind the ports, if they run on this machine."""

    def __init__(self, broker: str, store: str) -> None:
        self.ports = {"broker": urlsplit(broker).port}
        if store:
            self.ports["PostgreSQL"] = urlsplit(store).port
        self.before = self.seconds()

    def used_since(self) -> dict[str, float]:
        now = self.seconds()
        return {
            name: sum(used - self.before.get(name, {}).get(pid, 0.0) for pid, used in pids.items())
            for name, pids in now.items()
        }

    def seconds(self) -> dict[str, dict[int, float]]:
        result: dict[str, dict[int, float]] = {}
        for name, port in self.ports.items():
            with contextlib.suppress(psutil.Error):
                result[name] = {
                    process.pid: sum(process.cpu_times()[:2]) for process in listeners(port)
                }
        return {name: pids for name, pids in result.items() if pids}


def listeners(port: int | None) -> list[psutil.Process]:
    """The listening process and its children: PostgreSQL has one for each connection."""
    pids = {
        net_connection.pid
        for net_connection in psutil.net_connections("tcp")
        if net_connection.status == psutil.CONN_LISTEN
        and net_connection.laddr.port == port
        and net_connection.pid is not None
    }
    parents = [psutil.Process(pid) for pid in pids]
    families = {
        process
        for net_connection in parents
        for process in (net_connection, *net_connection.children())
    }
    return [process for process in families if process.is_running()]


# The measures


async def drained(peer: Peer, variant: str, count: int) -> dict[str, Any]:
    await peer.enqueue_many(count)
    ledger = Ledger(count)
    try:
        async with crew_of(peer, variant, peer.crew, ledger.path) as members:
            outside = Servers(peer.url, getattr(peer, "store", ""))
            began = time.perf_counter()
            for member in members:
                if member.role == "worker":
                    member.begin()
            await ledger.began()
            first = time.perf_counter() - began
            await ledger.ended()
            await peer.recorded()
            seconds = time.perf_counter() - began
            used = used_by(members) | outside.used_since()
            await peer.check(count)
    finally:
        ledger.delete()
    return {
        "rate": count / seconds,
        "first": first,
        "cpu": {name: spent / count * 1e6 for name, spent in used.items()},
    }


def used_by(members: Sequence[Member]) -> dict[str, float]:
    used: dict[str, float] = {}
    for member in members:
        name = "workers" if member.role == "worker" else member.role
        used[name] = used.get(name, 0.0) + member.used_since()
    return used


async def latencies(peer: Peer, variant: str, count: int) -> list[float]:
    """Milliseconds from the enqueue to the handler's first line, in an idle worker's process."""
    taken = []
    async with crew_of(peer, variant, tuple(dict.fromkeys(peer.crew)), "") as members:
        worker = members[-1]
        worker.begin()
        for n in range(min(LATENCIES, count) + 10):
            await asyncio.sleep(0.01)
            began = time.perf_counter()
            await peer.enqueue(n)
            taken.append((float(await worker.said()) - began) * 1_000)
    # The first ones show that the worker listens.
    return sorted(taken[10:])


Measure = Callable[[Peer, str, int], Awaitable[Any]]


async def measured(
    kind: type[Peer], variant: str, measure: Measure, args: argparse.Namespace, broker: str
) -> Any:
    await servers.delete_all(broker, NAME, kind.queues, kind.exchanges)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(servers.delete_all, broker, NAME, kind.queues, kind.exchanges)
        store = ""
        if kind is OnbeatPeer:
            store = await stack.enter_async_context(a_database(args.url, NAME))
        peer = a_peer(kind, broker, variant, store)
        await stack.enter_async_context(peer.opened())
        return await measure(peer, variant, args.jobs)


# The table


def compare(args: argparse.Namespace, brokers: dict[str, str]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for broker, url in brokers.items():
        kinds = (OnbeatPeer, *peers_on(broker))
        for message, measure in (("drain", drained), ("start latency", latencies)):
            what = f"{message} through {broker}"
            if args.only in what:
                result[what] = in_turn(what, kinds, measure, args, url)
                ratios(result[what])
    return result


def in_turn(
    what: str, kinds: Sequence[type], measure: Measure, args: argparse.Namespace, url: str
) -> dict[str, Any]:
    taken: dict[str, list[Any]] = {kind.name: [] for kind in kinds}
    for _ in range(args.rounds):
        for kind in kinds:
            work = measured(kind, next(iter(kind.variants)), measure, args, url)
            try:
                taken[kind.name].append(uvloop.run(work))
            except Stalled as error:
                print(f"{what:<28} {kind.name:<10} this round does not count: {error}", flush=True)
    tell = told_drain if measure is drained else told_latency
    return {name: tell(what, name, rounds) for name, rounds in taken.items() if rounds}


def told_drain(what: str, name: str, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Print the figures, and return them in the form that is stored."""
    rates = [one["rate"] for one in rounds]
    spent = {
        key: round(statistics.median(one["cpu"][key] for one in rounds)) for key in rounds[0]["cpu"]
    }
    first = statistics.median(one["first"] for one in rounds)
    print(
        f"{what:<28} {name:<10} {statistics.median(rates):>8,.0f} /s   "
        f"({min(rates):,.0f} - {max(rates):,.0f}), first after {first:.2f} s; "
        f"CPU, us a job: {', '.join(f'{key} {value}' for key, value in spent.items())}",
        flush=True,
    )
    return {
        "median": round(statistics.median(rates)),
        "all": [round(rate) for rate in rates],
        "first after, s": [round(one["first"], 2) for one in rounds],
        "CPU, us a job": spent,
    }


def told_latency(what: str, name: str, rounds: list[list[float]]) -> dict[str, Any]:
    middles = [times[len(times) // 2] for times in rounds]
    ends = [times[int(len(times) * 0.99)] for times in rounds]
    p50, p99 = statistics.median(middles), statistics.median(ends)
    print(
        f"{what:<28} {name:<10} p50 {p50:.2f} ms ({min(middles):.2f} - {max(middles):.2f}), "
        f"p99 {p99:.2f} ms",
        flush=True,
    )
    return {
        "p50 ms": round(p50, 2),
        "p99 ms": round(p99, 2),
        "all p50 ms": [round(middle, 2) for middle in middles],
        "all p99 ms": [round(middle, 2) for middle in ends],
    }


def try_variants(args: argparse.Namespace, brokers: dict[str, str]) -> None:
    for broker, url in brokers.items():
        for kind in peers_on(broker):
            for variant in kind.variants:
                what = f"{kind.name} on {broker}, {variant}"
                if args.only in what:
                    one = uvloop.run(measured(kind, variant, drained, args, url))
                    used = ", ".join(f"{name} {spent:.0f}" for name, spent in one["cpu"].items())
                    print(f"{what:<60} {one['rate']:>8,.0f} /s; CPU, us a job: {used}", flush=True)


def peers_on(broker: str) -> list[type[Peer]]:
    """Prints a line for each one that cannot be used."""
    result: list[type[Peer]] = []
    for one in ON_RABBITMQ if broker == "RabbitMQ" else ON_REDIS:
        try:
            importlib.import_module(one.module)
        except ImportError as error:
            print(f"left out: {one.name} on {broker}, as it cannot be imported ({error})")
        else:
            result.append(one)
    return result


async def there(args: argparse.Namespace) -> dict[str, str]:
    """The URLs of the brokers that answer; nothing can be measured without PostgreSQL."""
    if not await servers.answers("PostgreSQL", args.url):
        return {}
    request = {"RabbitMQ": args.rabbitmq, "Redis": args.redis}
    return {name: url for name, url in request.items() if await servers.answers(name, url)}


async def described(args: argparse.Namespace, brokers: dict[str, str]) -> dict[str, Any]:
    kinds = (OnbeatPeer, *ON_REDIS)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "PostgreSQL": await servers.settings_of(args.url),
        **{name: await servers.settings_of(url) for name, url in brokers.items()},
        "versions": {package: version(package) for kind in kinds for package in kind.packages},
        "settings": {kind.name: next(iter(kind.variants)) for kind in kinds},
        "Onbeat's concurrency and prefetch": CONCURRENCY,
        "rounds": args.rounds,
        "jobs": args.jobs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default=servers.url_of("PostgreSQL"))
    parser.add_argument("--rabbitmq", default=servers.url_of("RabbitMQ"))
    parser.add_argument("--redis", default=servers.url_of("Redis"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--trial", action="store_true")
    for name in ("serve", "role", "variant", "ledger", "broker", "store"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args)
        return
    brokers = uvloop.run(there(args))
    if not brokers:
        return
    if args.trial:
        try_variants(args, brokers)
        return
    record = uvloop.run(described(args, brokers))
    print(json.dumps(record, indent=1), "\n")
    record["compared"] = compare(args, brokers)
    if not record["compared"]:
        sys.exit(f"no measure has {args.only!r} in its name")
    RESULTS.parent.mkdir(exist_ok=True)
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


if __name__ == "__main__":
    main()
