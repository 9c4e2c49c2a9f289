"""What viewers of the dashboard cost the engine: drains with and without them, in turn."""

import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.view_service import PYTHON, Service, a_sender, answer_of, service

BULK: Final = 5_000
PAUSE_SECONDS: Final = 1.0
"""The script of the page leaves so much between two requests for a section."""
SETTLE_SECONDS: Final = 3.0
PART: Final = "/?part=now"
"""The only section of the first page."""
TOUCHED_BY: Final = ("alerts",)


async def compare(url: str, viewers: int, jobs: int, rounds: int) -> dict[str, object]:
    """Jobs a second, and seconds of the service's processor for 1,000 jobs, of each drain."""
    rates: dict[str, list[float]] = {"without": [], "with": []}
    costs: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        async with service(url, Path(folder)) as running:
            await drained(url, running, jobs)  # a warm-up
            for number in range(2 * rounds):
                name = ("without", "with")[(number + number // 2) % 2]
                async with looked_at(running, viewers if name == "with" else 0):
                    rate, cost = await drained(url, running, jobs)
                rates[name].append(rate)
                costs[name].append(cost)
                print(f"{name:8} {rate:9,.0f} jobs/s {cost:6.3f} s for 1,000", flush=True)
    ratio = statistics.median(
        seen / alone for seen, alone in zip(rates["with"], rates["without"], strict=True)
    )
    dearer = statistics.median(
        seen / alone for seen, alone in zip(costs["with"], costs["without"], strict=True)
    )
    print(f"with {viewers} viewers: {ratio:.3f} of the rate, {dearer:.3f} of the processor time")
    return {
        "viewers": viewers, "jobs": jobs, "ratio of rates": ratio,
        "ratio of processor time": dearer, "jobs/s": rates, "processor s for 1,000 jobs": costs,
    }  # fmt: skip


async def drained(url: str, running: Service, jobs: int) -> tuple[float, float]:
    """Jobs wait for their queue, which is resumed once all are stored."""
    beat, work = a_sender(url)
    try:
        await beat.queues.apause("default")
        for first in range(0, jobs, BULK):
            await beat.asend([work.call(n) for n in range(first, min(jobs, first + BULK))])
        last = await work.asend(jobs)
        used, began = processor_seconds(running), time.perf_counter()
        await beat.queues.aresume("default")
        await last.aresult()
        seconds = time.perf_counter() - began
        return jobs / seconds, 1_000 * (processor_seconds(running) - used) / jobs
    finally:
        await beat.aclose()


def processor_seconds(running: Service) -> float:
    """Of the service's process, as Linux tells it; not of the database server."""
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def looked_at(running: Service, viewers: int) -> AsyncIterator[None]:
    """So many viewers in one process of their own."""
    if not viewers:
        yield
        return
    lookers = await asyncio.create_subprocess_exec(
        PYTHON, __file__, running.host, str(running.port), str(viewers)
    )
    try:
        await asyncio.sleep(SETTLE_SECONDS)
        yield
    finally:
        lookers.terminate()
        await lookers.wait()


async def look(running: Service, viewers: int) -> None:
    await asyncio.gather(*(viewer(running) for _ in range(viewers)))


async def viewer(running: Service) -> None:
    """One stream; what it tells touches the section, which is asked for at most once a second."""
    touched = asyncio.Event()
    touched.set()
    reading = asyncio.create_task(read_stream(running, touched))
    etag = ""
    while not reading.done():
        await touched.wait()
        touched.clear()
        _, etag, _ = await answer_of(running, PART, etag)
        await asyncio.sleep(PAUSE_SECONDS)


async def read_stream(running: Service, touched: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection(running.host, running.port)
    head = f"GET /api/stream?events=pulse,changed HTTP/1.1\r\nHost: {running.host}\r\n\r\n"
    writer.write(head.encode())
    kind = ""
    while line := (await reader.readline()).decode().strip("\r\n") or not reader.at_eof():
        if isinstance(line, str) and line.startswith("event:"):
            kind = line.removeprefix("event:").strip()
        elif isinstance(line, str) and line.startswith("data:") and touches(kind, line):
            touched.set()
    writer.close()


def touches(kind: str, line: str) -> bool:
    """As the page's script judges it."""
    if kind != "changed":
        return kind in {"pulse", "gap", "reset"}
    told = json.loads(line.removeprefix("data:"))
    return any(told.get(name) for name in TOUCHED_BY) or told.get("more", 0) > 0


if __name__ == "__main__":
    host, port, number = sys.argv[1:]
    asyncio.run(look(Service(None, host, int(port)), int(number)))
