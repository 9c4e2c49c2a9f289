"""Several real processes on one file, killed at any time."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import pytest

from conditions import eventually
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter
from onbeat.ports.store import Hint
from onbeat.stores.sqlite import writer
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job

SCRIPT = Path(__file__).with_name("enqueue_for_ever.py")
KILLS = 6


async def started(path: str, prefix: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, SCRIPT, path, prefix, stdout=PIPE, env={**os.environ, "PYTHONPATH": "src"}
    )


async def acknowledged(process: Process, lines: int) -> list[str]:
    """What it said until it was killed after so many lines."""
    assert process.stdout is not None
    fields = [await process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    fields += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    # A line that was cut short is no acknowledgement.
    return [line.decode().strip() for line in fields if line.endswith(b"\n")]


async def test_nothing_acknowledged_is_lost_when_processes_are_killed(
    store: SqliteStore, path: str
) -> None:
    message: list[str] = []
    for round_ in range(KILLS):
        pair = [await started(path, f"{round_}-{number}") for number in range(2)]
        for lines in await asyncio.gather(*(acknowledged(one, 60 + 35 * round_) for one in pair)):
            message += lines
    assert sum(line.startswith("enqueued ") for line in message) >= KILLS * 60
    for line in message:
        verb, id = line.split(" ")
        job = await store.job(JobId(id))
        assert job is not None, f"{id} was acknowledged and is gone"
        assert verb == "enqueued" or job.state is JobState.SUCCEEDED
    findings = {finding.name: finding for finding in await store.doctor()}
    assert findings["integrity"].ok


async def test_another_process_is_heard(store: SqliteStore, path: str) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Hint] = asyncio.Queue()

    def hear(hint: Hint) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, hint)

    stop = store.listen(hear)
    process = await started(path, "0")
    async with asyncio.timeout(30):
        while await heard.get() is not Hint.JOBS:
            continue
    await acknowledged(process, 1)
    stop()
    assert (await store.jobs(JobFilter(limit=1))).items


async def test_hints_come_at_once_until_another_process_writes(
    store: SqliteStore, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = store.listen(lambda _hint: None)
    await store.enqueue([a_job()])
    assert store.hints_at_once
    process = await started(path, "0")
    await eventually(lambda: not store.hints_at_once, "it has noticed the other")
    await acknowledged(process, 1)
    monkeypatch.setattr(writer, "ALONE_SECONDS", 0.0)
    assert store.hints_at_once, "a while after the last change by the other"
    stop()


async def test_many_processes_may_create_one_file(path: str) -> None:
    processes = [await started(path, str(number)) for number in range(6)]
    fields = await asyncio.gather(*(acknowledged(process, 5) for process in processes))
    store = SqliteStore(path)
    await store.open()
    assert (await store.stats(NOW)).jobs["waiting"] >= 0
    for lines in fields:
        assert all([await store.job(JobId(line.split(" ")[1])) for line in lines])
    await store.close()


async def test_the_log_does_not_grow_without_bound(path: str) -> None:
    script = Path(path).with_name("grow.py")
    write(script)
    process = await asyncio.create_subprocess_exec(
        sys.executable, script, path, env={**os.environ, "PYTHONPATH": "src"}, stdout=PIPE
    )
    output, _ = await process.communicate()
    written, largest = map(int, output.split())
    assert largest < 80_000_000 < written


def write(script: Path) -> None:
    script.write_text(GROW)


GROW = """
import asyncio, sys
from pathlib import Path
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.model.target import HandlerTarget
import msgspec
from onbeat.testing.build import a_job

async def main(path):
    store = SqliteStore(path, synchronous="NORMAL")
    await store.open()
    target = HandlerTarget("work", msgspec.Raw(b'["' + b"x" * 20_000 + b'"]'))
    largest = written = 0
    for _ in range(100):
        await store.enqueue([a_job(target=target) for _ in range(50)])
        written += 50 * 20_000
        largest = max(largest, Path(path + "-wal").stat().st_size)
    print(written, largest)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""
