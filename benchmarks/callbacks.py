"""Measure how many HTTP callbacks a second one process makes to a small server in another.

    python benchmarks/callbacks.py [--count 50000] [--in-flight 64 256 1000] [--rounds 3]
                                   [--signed] [--label TEXT]

Only the target is measured, without store and queue. A second column has the same requests made by
bare aiohttp, in turn. The server shares the cores of the machine; the processor time of each call
does not depend on that. Results are appended to benchmarks/results/callbacks.json.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp

from onbeat.model.event import Event
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, Progress
from onbeat.model.outcome import Succeeded
from onbeat.model.target import HttpTarget
from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions

RESULTS = Path(__file__).parent / "results" / "callbacks.json"
Value = TypeVar("Value")

BODY = '{"report": "daily", "rows": [1, 2, 3]}'
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PROCESS_FILES = 20_000


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class ARun:
    job: Job
    deadline: datetime | None = None
    stop_reason: str | None = None
    events: tuple[Event, ...] = ()
    is_question: bool = False

    def note_progress(self, progress: Progress) -> None: ...


class Server(asyncio.Protocol):
    """Answers each request after its body; understands only the requests of the benchmark."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = BODY.encode()
        while end in self.received:
            self.received = self.received.partition(end)[2]
            self.transport.write(ANSWER)


def serve(to_parent: Connection) -> None:
    allow_files()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Server, "127.0.0.1", 0, backlog=4096)
        to_parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    run_fast(run)


def run_fast(main: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
    if sys.platform == "win32":
        return asyncio.run(main())
    import uvloop

    return uvloop.run(main())


def keep(arguments: argparse.Namespace, taken: list[dict[str, object]]) -> None:
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "aiohttp": aiohttp.__version__,
        "load": os.getloadavg()[0],
        "count": arguments.count,
        "signed": arguments.signed,
        "label": arguments.label,
        "taken": taken,
    }
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*before, record], indent=1) + "\n")


def allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(PROCESS_FILES, hard), hard))


@dataclass
class Pace:
    rate: float
    processor_micros: float

    def __str__(self) -> str:
        return f"{self.rate:>12,.0f}/s{self.processor_micros:>8.0f} us"


async def paced(count: int, in_flight: int, call: Callable[[], Awaitable[None]]) -> Pace:
    """Calls a second on warm connections, and the client's processor time for each."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*(call() for _ in range(in_flight)))
    started, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    return Pace(count / seconds, busy / count * 1e6)


async def by_onbeat(url: str, count: int, in_flight: int, secret: str | None) -> Pace:
    now = datetime.now(UTC)
    headers = {"Content-Type": "application/json", "X-Source": "benchmark"}
    target = HttpTarget(url=url, method="POST", headers=headers, body=BODY, secret=secret)
    job = Job(
        id=JobId("01936f5c-7a00-7000-8000-000000000001"),
        target=target,
        created_at=now,
        due_at=now,
        occurrence=now,
        attempt=1,
        token=Token(1),
    )
    runner = HttpRunner(SystemClock(), HttpOptions(private_allowed=True))
    await runner.open()

    async def call() -> None:
        outcome = await runner.run(ARun(job))
        assert isinstance(outcome, Succeeded), outcome

    rate = await paced(count, in_flight, call)
    await runner.close()
    return rate


async def by_aiohttp(url: str, count: int, in_flight: int) -> Pace:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call() -> None:
            async with session.post(url, data=BODY.encode()) as response:
                await response.read()

        return await paced(count, in_flight, call)


async def measure(url: str, arguments: argparse.Namespace) -> list[dict[str, object]]:
    taken: list[dict[str, object]] = []
    secret = SECRET if arguments.signed else None
    print(f"{'in flight':>10}{'callbacks':>25}{'bare aiohttp':>25}")
    for in_flight in arguments.in_flight * arguments.rounds:
        ours = await by_onbeat(url, arguments.count, in_flight, secret)
        bare = await by_aiohttp(url, arguments.count, in_flight)
        print(f"{in_flight:>10}{ours!s:>25}{bare!s:>25}", flush=True)
        micros = {"callback us": ours.processor_micros, "bare us": bare.processor_micros}
        taken.append(
            {"in flight": in_flight, **{name: round(value) for name, value in micros.items()}}
        )
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=30_000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256, 1000, 4000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--label", default="", help="what is measured, for the results")
    parser.add_argument("--signed", action="store_true", help="sign each request")
    arguments = parser.parse_args()
    allow_files()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/hooks/daily"
    try:
        keep(arguments, run_fast(lambda: measure(url, arguments)))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
