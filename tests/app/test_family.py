"""What an isolated handler starts ends with its attempt."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app import family_tasks as tasks
from conditions import eventually, eventually_here
from onbeat import Onbeat
from onbeat.app.handle import JobHandle
from onbeat.targets.process_reaper import ProcessReaper
from onbeat.targets.process_tree import Identity, descendants, identity
from onbeat.wire.jobs import JobInfo

HERE = Path(__file__).parent.parent


@pytest.fixture
async def running() -> AsyncIterator[Onbeat]:
    async with tasks.beat as beat:
        yield beat


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "family"
    yield path
    if path.exists():
        for pid in family(path):
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def family(journal: Path) -> list[int]:
    """The isolated process, and below it: a child, a stubborn one, one apart, an orphan apart."""
    return [int(line) for line in journal.read_text().splitlines()]


def is_alive(pid: int) -> bool:
    """A zombie has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def alive(journal: Path) -> list[int]:
    return [pid for pid in family(journal) if is_alive(pid)]


async def final(job: JobHandle) -> JobInfo:
    return await eventually(lambda: ended(job), "the job has ended", 60)


async def ended(job: JobHandle) -> JobInfo | None:
    state = await job.ainfo()
    return state if state.state in {"succeeded", "failed", "cancelled"} else None


@pytest.mark.parametrize(("task", "state"), [("ends", "succeeded"), ("fails", "failed")])
async def test_after_the_attempt_nothing_of_it_is_left_and_its_process_is_used_again(
    running: Onbeat, journal: Path, task: str, state: str
) -> None:
    job = await getattr(tasks, task).asend(str(journal))
    assert (await final(job)).state == state
    leader = family(journal)[0]
    assert alive(journal) == [leader]
    assert await (await tasks.own.asend()).aresult(60) == leader


async def test_a_timeout_ends_all_of_it(running: Onbeat, journal: Path) -> None:
    job: JobHandle[None] = await tasks.hangs.asend(str(journal))
    assert (await final(job)).error == "timed out after 5 s"
    await eventually(lambda: not alive(journal), "the kernel has ended all of it")


async def test_a_cancel_ends_all_of_it(running: Onbeat, journal: Path) -> None:
    job: JobHandle[None] = await tasks.stays.asend(str(journal))
    await eventually(journal.exists, "it runs", 60)
    await running.jobs.acancel(job.id)
    assert (await final(job)).state == "cancelled"
    await eventually(lambda: not alive(journal), "the kernel has ended all of it")


async def test_a_crash_ends_the_session_with_it(running: Onbeat, journal: Path) -> None:
    job: JobHandle[None] = await tasks.crashes.asend(str(journal))
    assert (await final(job)).error == "its process was ended by SIGSEGV"
    _, child, stubborn, *_ = family(journal)
    await eventually(lambda: not is_alive(child) and not is_alive(stubborn), "both have ended")


@pytest.mark.parametrize("task", ["stays", "spins"])
def test_the_death_of_the_worker_ends_all_of_it(tmp_path: Path, journal: Path, task: str) -> None:
    url = f"sqlite:///{tmp_path}/onbeat.db"
    sender = Onbeat(url)
    send(sender, task, journal)
    worker = subprocess.Popen(
        [sys.executable, str(HERE / "app/family_tasks.py")],
        env={**os.environ, "FAMILY_STORE": url, "PYTHONPATH": str(HERE)},
    )
    try:
        eventually_here(journal.exists, "it runs", 60)
        keeper = [descendant.pid for descendant in descendants(worker.pid)]
        worker.kill()
        worker.wait()
        eventually_here(lambda: alive(journal) == [], "all of it has ended")
        eventually_here(lambda: not any(map(is_alive, keeper)), "so has what ended it")
    finally:
        worker.kill()
        worker.wait()


def send(sender: Onbeat, task: str, journal: Path) -> None:
    stub = sender.task(task)(lambda journal: None)
    stub.send(str(journal))
    sender.backend.wait_for(sender.aclose())
    sender.backend.portal.close()


def test_a_keeper_that_was_killed_is_started_again_with_what_it_knew() -> None:
    keeper = ProcessReaper()
    keeper.open()
    sleeper = subprocess.Popen(tasks.SLEEPS, start_new_session=True)
    try:
        keeper.process.kill()
        keeper.process.wait()
        keeper.add(identity(sleeper.pid))
        keeper.open()
        keeper.close()
        assert sleeper.wait(30) == -signal.SIGKILL
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_keeper_leaves_alone_what_has_ended_or_is_another_process() -> None:
    keeper = ProcessReaper()
    sleeper = subprocess.Popen(tasks.SLEEPS, start_new_session=True)
    try:
        keeper.open()
        keeper.add(identity(sleeper.pid))
        keeper.discard(identity(sleeper.pid))
        keeper.add(Identity(sleeper.pid, "1"))
        keeper.close()
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()
