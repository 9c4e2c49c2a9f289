"""Processes that share nothing but one SQLite file."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.programs import program
from conditions import eventually_here
from onbeat import JobFailed, Onbeat
from onbeat.model.job import JobState
from onbeat.wire.jobs import ProgressAnswer

WORKER = """
import asyncio, sys, threading
from pathlib import Path
from onbeat import Context, Onbeat

name = sys.argv[1]
beat = Onbeat("sqlite:///onbeat.db")

@beat.task("who")
async def who(n: int) -> str:
    await asyncio.sleep(0.002)
    return name

@beat.task("meet")
async def meet(n: int) -> str:
    Path(name).touch()
    while not (Path("first").exists() and Path("second").exists()):
        await asyncio.sleep(0.01)
    return name

@beat.task("stay")
async def stay(context: Context) -> None:
    context.progress(1, 2)
    print("staying", flush=True)
    await asyncio.Event().wait()

@beat.task("sync.stay")
def sync_stay(context: Context) -> None:
    print("staying", flush=True)
    pause = threading.Event()
    while not context.cancelled:
        pause.wait(0.01)
    print("told", flush=True)

@beat.task("only." + name)
async def only() -> str:
    return name

print("ready", flush=True)
beat.run()
"""


class Client:
    """A program that sends and never works."""

    def __init__(self, place: Path) -> None:
        self.beat = Onbeat(f"sqlite:///{place}/onbeat.db")

        @self.beat.task("who")
        async def who(n: int) -> str:
            raise AssertionError("the client does no work")

        @self.beat.task("meet")
        async def meet(n: int) -> str:
            raise AssertionError("the client does no work")

        @self.beat.task("stay")
        async def stay() -> None: ...

        @self.beat.task("sync.stay")
        async def sync_stay() -> None: ...

        @self.beat.task("only.second")
        async def only() -> str:
            raise AssertionError("the client does no work")

        self.who, self.meet, self.stay, self.sync_stay, self.only = who, meet, stay, sync_stay, only


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    one = Client(tmp_path)
    yield one
    one.beat.backend.portal.call(one.beat.aclose())
    one.beat.backend.portal.close()


def worker(tmp_path: Path, name: str) -> Any:
    return program(WORKER, tmp_path, name)


def alive(client: Client, count: int) -> None:
    async def workers() -> int:
        await client.beat.backend.open()
        return len(await client.beat.backend.store.workers())

    eventually_here(
        lambda: client.beat.backend.portal.call(workers()) == count, f"{count} workers beat"
    )


def test_workers_share_the_work_and_run_nothing_twice(tmp_path: Path, client: Client) -> None:
    with worker(tmp_path, "first"), worker(tmp_path, "second"):
        alive(client, 2)
        # Of jobs this short, one worker may do all. These end as soon as both have begun one, and
        # are more than one has slots.
        jobs = client.beat.send([client.meet.call(n) for n in range(150)])
        jobs += client.beat.send([client.who.call(n) for n in range(1500)])
        shares = Counter(job.result(30) for job in jobs)
        assert set(shares) == {"first", "second"}
        records = client.beat.jobs.list(limit=1000)
        assert {(record.state, record.attempt) for record in records} == {(JobState.SUCCEEDED, 1)}


def test_a_job_sent_by_one_process_begins_in_another_within_moments(
    tmp_path: Path, client: Client
) -> None:
    with worker(tmp_path, "first"):
        alive(client, 1)
        client.who.send(0).result(60)
        took = []
        for n in range(5):
            sent = time.monotonic()
            assert client.who.send(n).result(60) == "first"
            took.append(time.monotonic() - sent)
        assert min(took) < 0.5, "sooner than the worker would have looked by itself"


def test_a_job_goes_to_the_process_that_knows_its_task(tmp_path: Path, client: Client) -> None:
    with worker(tmp_path, "first"):
        alive(client, 1)
        job = client.only.send()
        assert client.who.send(1).result(60) == "first"
        assert job.info().state is JobState.WAITING
        with worker(tmp_path, "second"):
            assert job.result(20) == "second"


@pytest.mark.parametrize("task", ["stay", "sync_stay"])
def test_a_cancel_reaches_a_handler_in_another_process(
    tmp_path: Path, client: Client, task: str
) -> None:
    with worker(tmp_path, "first") as running:
        job = getattr(client, task).send()
        running.wait_to_say("staying")
        client.beat.jobs.cancel(job.id, "enough")
        with pytest.raises(JobFailed, match="cancelled: enough"):
            job.result(60)
        if task == "sync_stay":
            running.wait_to_say("told")


def test_progress_of_another_process_can_be_read(tmp_path: Path, client: Client) -> None:
    with worker(tmp_path, "first") as running:
        job = client.stay.send()
        running.wait_to_say("staying")
        other = client.sync_stay.send()
        running.wait_to_say("staying", times=2)
        # A cancel has the worker beat at once, and so tell its progress.
        client.beat.jobs.cancel(other.id)

        def progress() -> ProgressAnswer | tuple[float, float]:
            result = job.info().progress
            return result and (result.done, result.total)

        assert eventually_here(progress, "the progress is there") == (1, 2)
        client.beat.jobs.cancel(job.id)
