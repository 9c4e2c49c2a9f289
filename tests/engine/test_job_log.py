"""Log lines of handlers: kept with their job, in batches, within bounds."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from engine.harness import EngineHarness
from onbeat.engine.job_log import (
    BATCH_MAX,
    FIRST_LINES,
    LINE_BYTES,
    JobLog,
    JobLogWriter,
    LinesDropped,
    LinesOfAttempt,
)
from onbeat.model.errors import Conflict, Unavailable
from onbeat.model.job import Job, JobState
from onbeat.model.limits import LOG_LAST_LINES, LOG_LINES_MAX, LOG_WAITING_BYTES_MAX
from onbeat.model.log_line import JobLogLine, LogEntry, line_number
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.rules.live_feed import LiveFeed
from onbeat.stores.memory import MemoryStore
from onbeat.targets.handler_log import INSTALLATION
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import run_job

log = logging.getLogger("shop")


@pytest.fixture(autouse=True)
def attached() -> Iterator[None]:
    log.setLevel(logging.INFO)
    INSTALLATION.attach()
    yield
    INSTALLATION.detach()
    log.setLevel(logging.NOTSET)


def an_entry(text: str = "sent") -> LogEntry:
    return LogEntry(at=NOW, level="info", logger="shop", text=text)


def texts(lines: Sequence[JobLogLine]) -> list[str]:
    return [line.text for line in lines]


async def kept(bench: EngineHarness, kept_log: JobLog, job: Job) -> list[JobLogLine]:
    await JobLogWriter(bench.store, kept_log).step()
    return list(await bench.store.log_lines(job.id, 0, 1_000))


async def test_lines_are_kept_with_the_job_that_logged_them() -> None:
    async def work() -> None:
        for word in ("one", "two"):
            log.info("%s of %s", word, asyncio.current_task() is not None)
            await asyncio.sleep(0)

    kept_log = JobLog(logging.INFO)
    async with EngineHarness(work=work, log=kept_log) as bench:
        jobs = [a_job(), a_job()]
        await bench.begin(*jobs)
        await bench.worker.idle.wait()
        for job in jobs:
            lines = await kept(bench, kept_log, job)
            assert texts(lines) == ["one of True", "two of True"]
            first = line_number((await bench.job(job)).token, 1)
            assert [line.number for line in lines] == [first, first + 1]
            assert {(line.attempt, line.level, line.logger) for line in lines} == {
                (1, "info", "shop")
            }


async def test_jobs_that_log_nothing_ask_the_store_nothing() -> None:
    kept_log = JobLog(logging.INFO)
    async with EngineHarness(work=lambda: log.debug("too low"), log=kept_log) as bench:
        await bench.run()
        await JobLogWriter(bench.store, kept_log).step()
    assert "add_log_lines" not in bench.store.calls


@pytest.mark.parametrize("level", [None, logging.INFO])
async def test_neither_sensitive_jobs_nor_switched_off_logs_keep_lines(level: int | None) -> None:
    kept_log = JobLog(level)
    async with EngineHarness(work=lambda: log.error("of ada"), log=kept_log) as bench:
        job = a_job(sensitive=level is not None)
        await bench.run(job)
        assert await kept(bench, kept_log, job) == []


async def test_the_first_and_the_last_lines_of_an_attempt_are_kept() -> None:
    def work(count: int) -> None:
        for number in range(count):
            log.info("%d", number)

    kept_log = JobLog(logging.INFO)
    async with EngineHarness(work=lambda: work(LOG_LINES_MAX), log=kept_log) as bench:
        job = await bench.run()
        whole = texts(await kept(bench, kept_log, job))
    assert whole == [str(number) for number in range(LOG_LINES_MAX)]
    count = LOG_LINES_MAX + 7
    async with EngineHarness(work=lambda: work(count), log=kept_log) as bench:
        job = await bench.run()
        lines = await kept(bench, kept_log, job)
    first, (gone, *last) = lines[:FIRST_LINES], lines[FIRST_LINES:]
    assert texts(first) == whole[:FIRST_LINES]
    assert gone.text.startswith("7 lines were dropped here")
    assert texts(last) == [str(number) for number in range(count)][-LOG_LAST_LINES:]
    numbers = [line.number for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + LOG_LINES_MAX + 1))


async def test_lines_of_a_second_attempt_follow_those_of_the_first() -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        log.info("try %d", len(tries))
        if len(tries) == 1:
            raise RuntimeError("not yet")

    kept_log = JobLog(logging.INFO)
    async with EngineHarness(work=work, log=kept_log) as bench:
        job = await bench.run()
        bench.clock.set(NOW + timedelta(hours=1))
        await bench.begin_due()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).state is JobState.SUCCEEDED
        lines = await kept(bench, kept_log, job)
    assert [(line.attempt, line.text) for line in lines] == [(1, "try 1"), (2, "try 2")]


async def test_what_goes_on_after_the_end_of_an_attempt_is_not_kept() -> None:
    left: list[asyncio.Task[None]] = []
    ended = asyncio.Event()

    async def later() -> None:
        await ended.wait()
        log.info("too late")

    async def work() -> None:
        left.append(asyncio.create_task(later()))
        log.info("in time")

    kept_log = JobLog(logging.INFO)
    async with EngineHarness(work=work, log=kept_log) as bench:
        job = await bench.run()
        ended.set()
        await left[0]
        assert texts(await kept(bench, kept_log, job)) == ["in time"]


async def test_what_the_engine_does_after_an_attempt_has_no_log() -> None:
    """Attempts that end together are settled together, by a task that one of them starts."""
    seen = []

    class Watched(MemoryStore):
        async def settle(self, settlements: object) -> object:  # type: ignore[override]
            seen.append(ATTEMPT_LOG.get())
            return await super().settle(settlements)  # type: ignore[arg-type]

    async with EngineHarness(
        store=Watched(), work=lambda: log.info("x"), log=JobLog(logging.INFO)
    ) as bench:
        await bench.run()
    assert seen == [None]


class TroubledStore(MemoryStore):
    trouble: Exception | None = None

    async def add_log_lines(self, lines: Sequence[JobLogLine]) -> int:
        if self.trouble is not None:
            raise self.trouble
        return await super().add_log_lines(lines)


async def logged(store: TroubledStore, *entries: str) -> tuple[Job, JobLog]:
    job, kept_log, lines = await run_job(store, a_job()), JobLog(logging.INFO), LinesOfAttempt()
    for text in entries:
        kept_log.add(lines, job, an_entry(text))
    kept_log.end(lines, job)
    return job, kept_log


async def test_lines_wait_while_the_store_is_away() -> None:
    store = TroubledStore()
    job, kept_log = await logged(store, "one", "two")
    store.trouble = Unavailable("the store is away")
    with pytest.raises(Unavailable):
        await JobLogWriter(store, kept_log).step()
    store.trouble = None
    await JobLogWriter(store, kept_log).step()
    assert texts(await store.log_lines(job.id, 0, 10)) == ["one", "two"]


async def test_lines_that_the_store_refuses_are_dropped_and_counted() -> None:
    store = TroubledStore()
    job, kept_log = await logged(store, "one", "two")
    store.trouble = Conflict("not these")
    with pytest.raises(LinesDropped, match="2 log lines of jobs were dropped: not these"):
        await JobLogWriter(store, kept_log).step()
    store.trouble = None
    await JobLogWriter(store, kept_log).step()
    assert list(await store.log_lines(job.id, 0, 10)) == []
    assert (await store.job(job.id)) == job


async def test_what_waits_is_bounded() -> None:
    store, kept_log = TroubledStore(), JobLog(logging.INFO)
    size = LINE_BYTES + 1_000
    room = LOG_WAITING_BYTES_MAX // size
    job = await run_job(store, a_job())
    for _ in range(room + 2):
        kept_log.add(LinesOfAttempt(), job, an_entry("x" * 1_000))
    assert len(kept_log.waiting) == room
    with pytest.raises(LinesDropped, match="2 log lines of jobs were dropped: too many waited"):
        await JobLogWriter(store, kept_log).step()
    assert (kept_log.bytes, len(kept_log.waiting)) == (0, 0)


async def test_a_full_batch_and_the_end_of_an_attempt_wake_the_writer() -> None:
    kept_log, woken = JobLog(logging.INFO), list[int]()
    kept_log.on_ready = lambda: woken.append(len(kept_log.waiting))
    job = await run_job(MemoryStore(), a_job())
    lines = LinesOfAttempt()
    kept_log.add(lines, job, an_entry())
    assert woken == []
    kept_log.end(lines, job)
    assert woken == [1]
    for _ in range(BATCH_MAX - 1):
        kept_log.add(LinesOfAttempt(), job, an_entry())
    assert woken == [1, BATCH_MAX]


async def test_those_who_watch_a_job_are_told_of_its_lines() -> None:
    store, feed = TroubledStore(), LiveFeed()
    job, kept_log = await logged(store, "one")
    outlet = feed.open_here()
    await JobLogWriter(store, kept_log, feed).step()
    (event,) = outlet.take().events
    assert (event.kind, event.id, event.to) == ("log", job.id, "logged")
