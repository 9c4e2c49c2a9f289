"""Worker processes beside the first: started, kept up, and drained with it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually, eventually_here
from onbeat.app import process_supervisor
from onbeat.app.process_supervisor import ProcessSupervisor
from onbeat.model.errors import Misconfigured
from onbeat.service import process_supervisor_for
from onbeat.settings import Settings, WorkerSettings

POLITE = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with pathlib.Path(sys.argv[1]).open("a") as book:
    book.write(f"{__import__('os').getpid()}\\n")
while True:
    signal.pause()
"""
STUBBORN = POLITE.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")

PROGRAM = """
import os, time
from onbeat import Onbeat

beat = Onbeat("sqlite:///onbeat.db")

@beat.task("pid")
def pid() -> int:
    time.sleep(0.05)
    return os.getpid()
"""


@pytest.fixture
def book(tmp_path: Path) -> Any:
    return tmp_path / "book"


def some(code: Any, book: Any, count: int) -> Any:
    made = ProcessSupervisor((), count, drain_seconds=0.0)
    made.command = (sys.executable, "-c", code, str(book))
    return made


async def written(book: Any, count: int) -> Any:
    def pids() -> Any:
        return book.read_text().split() if book.exists() else []

    await eventually(lambda: len(pids()) >= count, f"{count} have started")
    return [int(pid) for pid in pids()]


async def test_as_many_run_as_were_asked_for_and_drain_at_the_end(book: Any) -> None:
    made = some(POLITE, book, 2)
    made.start()
    pids = await written(book, 2)

    await made.stop()

    assert len(set(pids)) == 2
    assert not any(lives(pid) for pid in pids)


async def test_one_that_ends_is_started_again(book: Any) -> None:
    made = some(POLITE, book, 1)
    made.start()
    (first,) = await written(book, 1)

    os.kill(first, signal.SIGKILL)

    assert (await written(book, 2))[1] != first
    await made.stop()


async def test_one_that_does_not_end_in_time_is_killed(
    book: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_supervisor, "KILL_AFTER", 0.1)
    made = some(STUBBORN, book, 1)
    made.start()
    (pid,) = await written(book, 1)

    await made.stop()

    assert not lives(pid)


def lives(pid: Any) -> Any:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("shared", [{"store": "memory://"}, {"transport": "memory://x"}])
def test_memory_cannot_be_shared_by_processes(shared: dict[str, Any]) -> None:
    settings = Settings(**shared, worker=WorkerSettings(processes=2))
    with pytest.raises(Misconfigured, match=r"worker\.processes"):
        process_supervisor_for(settings, ())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Any]:
    """Two processes, ready to run jobs, and where they write."""
    (tmp_path / "app.py").write_text(PROGRAM)
    arguments = ["up", "app.py", "--port", "0", "--processes", "2", "--concurrency", "1"]
    command = [sys.executable, "-m", "onbeat", *arguments]
    log = tmp_path / "log"
    with log.open("wb") as lines:
        running = subprocess.Popen(command, cwd=tmp_path, stdout=lines, stderr=lines)
    try:
        eventually_here(lambda: log.read_text().count("event=ready") == 2, "both are ready")
        yield running, log
    finally:
        running.kill()
        running.wait()


def test_a_service_with_two_processes_shares_the_work_and_drains(
    tmp_path: Path, service: Any
) -> None:
    running, log = service
    add = [sys.executable, "-m", "onbeat", "job", "add", "--task", "pid"]
    for _ in range(6):
        subprocess.run(add, cwd=tmp_path, check=True, capture_output=True)
    eventually_here(lambda: len(pids_of(tmp_path)) == 6, "all have run")
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0
    assert log.read_text().count("event=drained") == 2


def test_a_process_beside_the_first_drains_when_that_is_killed(service: Any) -> None:
    running, log = service
    (sibling,) = filter(is_sibling, children_of(running.pid))
    running.kill()
    running.wait()
    eventually_here(lambda: "event=drained" in log.read_text(), "it has drained")
    eventually_here(lambda: not lives(sibling), "it has ended")


def children_of(pid: Any) -> Any:
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def is_sibling(pid: Any) -> Any:
    """And not the sidecar."""
    return b"onbeat.cli.worker_process" in Path(f"/proc/{pid}/cmdline").read_bytes()


def pids_of(folder: Any) -> Any:
    listed = subprocess.run(
        [sys.executable, "-m", "onbeat", "job", "list", "--state", "succeeded", "--json"],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return re.findall(r'"result": (\d+)', listed.stdout)
