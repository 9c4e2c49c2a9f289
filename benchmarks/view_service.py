"""A running service for `view.py`, the jobs that run through it, and requests to it."""

import asyncio
import contextlib
import json
import os
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import asyncpg

from onbeat import AsyncTask, Onbeat
from onbeat.telemetry.composite import NullTelemetry

PYTHON = Path(sys.executable).absolute()
READY_SECONDS = 60.0
FEEDS_A_SECOND = 10
PROGRAM = """
from onbeat import AsyncTask, Onbeat
beat = Onbeat({url!r})

@beat.task("work")
async def work(_n: int) -> None:
    pass

@beat.task("task.0")
async def ticked() -> None:
    pass
"""


class Service(NamedTuple):
    process: Process | None
    host: str
    port: int


@contextlib.asynccontextmanager
async def service(url: str, folder: Path) -> AsyncIterator[Service]:
    """`onbeat up` on a free port. Jobs of the store's past that are due have no task in it."""
    program, log = folder / "program.py", folder / "log"
    program.write_text(PROGRAM.format(url=url))
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    with log.open("wb") as sink:
        process = await asyncio.create_subprocess_exec(
            PYTHON, "-m", "onbeat", "up", str(program), "--port", "0", "--concurrency", "500",
            stdout=sink, stderr=sink, cwd=folder, env={**kept, "ONBEAT_LOG__FORMAT": "json"},
        )  # fmt: skip
    try:
        host, port = await ready(process, log)
        yield Service(process, host, port)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def text_of(log: Path) -> str:
    return log.read_text()


async def ready(process: Process, log: Path) -> tuple[str, int]:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            for line in text_of(log).splitlines():
                if '"event":"ready"' in line.replace('": "', '":"'):
                    place = json.loads(line)["address"].partition("://")[2]
                    host, _, port = place.rpartition(":")
                    return host.strip("[]"), int(port)
            if process.returncode is not None:
                raise SystemExit(f"the service has ended:\n{text_of(log)}")
            await asyncio.sleep(0.05)


def a_sender(url: str) -> tuple[Onbeat, AsyncTask[[int], None]]:
    """A program that only sends, and the task that the service runs."""
    beat = Onbeat(url, telemetry=NullTelemetry())
    return beat, beat.task("work")(nothing)


async def feed(url: str, each_second: int) -> None:
    """Send so many jobs a second, in a few bulks."""
    beat, work = a_sender(url)
    loop = asyncio.get_running_loop()
    at = loop.time()
    try:
        while each_second:
            await beat.asend([work.call(n) for n in range(each_second // FEEDS_A_SECOND)])
            at = max(at + 1 / FEEDS_A_SECOND, loop.time() - 1)
            await asyncio.sleep(at - loop.time())
    finally:
        await beat.aclose()


async def nothing(_n: int) -> None:
    return


async def asked(running: Service, path: str) -> tuple[int, bytes]:
    """Status and body of one request, on a connection of its own."""
    status, _, body = await answer_of(running, path)
    return status, body


async def answer_of(running: Service, path: str, etag: str = "") -> tuple[int, str, bytes]:
    """Status, entity tag and body."""
    reader, writer = await asyncio.open_connection(running.host, running.port)
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: {running.host}\r\nConnection: close\r\n"
        if etag:
            head += f"If-None-Match: {etag}\r\n"
        writer.write(f"{head}\r\n".encode())
        text, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    lines = text.decode("latin-1").split("\r\n")
    tags = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("etag:")]
    return int(lines[0].split()[1]), tags[0] if tags else "", body


async def processor_seconds(url: str, running: Service) -> float:
    """What the service's threads have used, and the connections of its database, as Linux tells."""
    assert running.process is not None, "it was started here"
    ids = [running.process.pid]
    if not url.startswith("sqlite"):
        db = await asyncpg.connect(url)
        try:
            sql = (
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> $1"
            )
            ids += [row["pid"] for row in await db.fetch(sql, db.get_server_pid())]
        finally:
            await db.close()
    return sum(map(processor_of_process, ids))


def processor_of_process(id: int) -> float:
    """Seconds of all its threads; 0 for one that has ended."""
    used = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{id}/task").iterdir():
            used += int((thread / "schedstat").read_text().split()[0])
    return used / 1_000_000_000
