"""A handler that finishes its job in its own transaction: all of it commits, or nothing."""

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import apsw
import asyncpg
import pytest
from msgspec import UNSET, structs

from app.connections import ASYNC, PLAIN, of_apsw, of_sqlite3
from conditions import eventually
from onbeat import Context, JobFailed, LeaseLost, NotFound, Onbeat, Retry
from onbeat.app.handle import JobHandle
from onbeat.app.task import ContextTask
from onbeat.model.attempt import OutcomeName
from onbeat.model.ids import JobId
from onbeat.model.outcome import Lost
from onbeat.ports.store import Settlement
from onbeat.rules.settlement import attempt_of, settle
from onbeat.stores.postgres.caller_transaction import TABLES
from onbeat.stores.postgres.store import PostgresStore
from onbeat.wire.jobs import AttemptAnswer
from stores.postgres import server

PATIENCE = 60
SCHEMA = "queue"
CREATED = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
AT_ONCE = Retry(2, delay=0)
# Beside an open store SQLite has one connection that is safe: see the guide.
HERE = [name for name, (kind, _) in PLAIN.items() if kind == "postgresql"] + ["apsw"]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server.database(f"onbeat_finishing_{os.getpid()}") as url:
        yield url


class Bank:
    """A program whose `book` writes a mail and its own end in one transaction, as it is told."""

    def __init__(self, beat: Onbeat, place: str, connect: Callable[..., Any] | None) -> None:
        self.beat = beat
        self.place = place
        self.connect = lambda: connect(place)
        self.children: list[JobHandle[int]] = []

        @beat.task("mail")
        def mail(number: int) -> int:
            return number

        @beat.task("after")
        def after() -> str:
            return "freed"

        self.mail = mail
        self.after = after

    async def has_child(self, number: int) -> bool:
        """Whether the mail that was sent in the transaction is there."""
        try:
            await self.children[number].ainfo()
        except NotFound:
            return False
        return True

    async def close(self) -> None:
        await self.beat.aclose()
        self.beat.backend.portal.close()


@pytest.fixture
async def lite(tmp_path: Path) -> AsyncIterator[Bank]:
    place = str(tmp_path / "onbeat.db")
    one = Bank(Onbeat(f"sqlite:///{place}"), place, of_apsw)
    yield one
    await one.close()


async def bank_on(database: str, connect: Callable[..., Any]) -> Bank:
    await server.empty(database, SCHEMA)
    store = PostgresStore(server.with_schema(database, SCHEMA))
    return Bank(Onbeat(store=store), database, connect)


@pytest.fixture(params=HERE)
async def bank(request: pytest.FixtureRequest, database: str, lite: Bank) -> AsyncIterator[Bank]:
    kind, connect = PLAIN[request.param]
    one = lite if kind == "sqlite" else await bank_on(database, connect)
    yield one
    await one.close()


@pytest.fixture(params=list(ASYNC))
async def async_bank(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Bank]:
    one = await bank_on(database, ASYNC[request.param])
    yield one
    await one.close()


def booking(bank: Bank, ending: Callable[..., Any]) -> ContextTask:
    """A task in a thread. `ending` is called with what it may do, at the end of the transaction."""

    @bank.beat.task("book", retry=AT_ONCE)
    def book(context: Context, number: int) -> str:
        with bank.connect() as (db, commit, rollback):
            bank.children.append(bank.mail.in_transaction(db).send(number))
            context.finish_in_transaction(db, f"booked {number}")
            ending(context, commit, rollback)
        return "what is returned does not count"

    return book


def async_booking(bank: Bank, ending: Callable[..., Any]) -> ContextTask:
    @bank.beat.task("book", retry=AT_ONCE)
    async def book(context: Context, number: int) -> str:
        async with bank.connect() as (db, commit, rollback):
            bank.children.append(await bank.mail.in_transaction(db).asend(number))
            await context.finish_in_transaction(db, f"booked {number}")
            await ending(context, commit, rollback)
        return "what is returned does not count"

    return book


def committed(
    context: Context, commit: Callable[..., Any], rollback: Callable[..., Any]
) -> Coroutine[Any, Any, Any] | None:
    return commit()


def rolled_back_at_first(
    context: Context, commit: Callable[..., Any], rollback: Callable[..., Any]
) -> Coroutine[Any, Any, Any] | None:
    return rollback() if context.attempt == 1 else commit()


async def attempts_of(job: JobHandle) -> tuple[AttemptAnswer, ...]:
    attempts = (await job.ainfo()).attempts
    assert attempts is not UNSET
    return attempts


async def outcomes_of(job: JobHandle) -> list[OutcomeName | None]:
    return [attempt.outcome for attempt in await attempts_of(job)]


# Commit and rollback


async def check_commit(bank: Bank, book: ContextTask) -> None:
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await bank.children[0].aresult(PATIENCE) == 7
        assert await outcomes_of(job) == ["succeeded"]
        assert (await job.ainfo()).finished_at is not None
        await eventually(lambda: not bank.beat._running.runtime.worker.running, "it is done")


async def test_a_commit_ends_the_job_with_what_was_written(bank: Bank) -> None:
    await check_commit(bank, booking(bank, committed))


async def test_a_commit_in_a_coroutine_does_so_too(async_bank: Bank) -> None:
    await check_commit(async_bank, async_booking(async_bank, committed))


async def check_rollback(bank: Bank, book: ContextTask) -> None:
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await outcomes_of(job) == ["failed", "succeeded"]
        first, _ = await attempts_of(job)
        assert first.error is not None
        assert "finish_in_transaction" in first.error
        assert "the transaction was not committed" in first.error
        assert not await bank.has_child(0)
        assert await bank.children[1].aresult(PATIENCE) == 7


async def test_without_a_commit_the_attempt_has_failed_and_nothing_is_written(bank: Bank) -> None:
    await check_rollback(bank, booking(bank, rolled_back_at_first))


async def test_without_a_commit_in_a_coroutine_the_attempt_has_failed(async_bank: Bank) -> None:
    await check_rollback(async_bank, async_booking(async_bank, rolled_back_at_first))


async def test_an_error_before_the_commit_counts_as_it_is(bank: Bank) -> None:
    def ending(context: Context, commit: Callable[..., Any], rollback: Callable[..., Any]) -> None:
        if context.attempt == 1:
            rollback()
            raise OSError("the bank is closed")
        commit()

    book = booking(bank, ending)
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await outcomes_of(job) == ["failed", "succeeded"]
        first = (await attempts_of(job))[0]
        assert first.error is not None
        assert "the bank is closed" in first.error
        assert not await bank.has_child(0)


async def test_an_error_after_the_commit_does_not_count(bank: Bank) -> None:
    def ending(context: Context, commit: Callable[..., Any], rollback: Callable[..., Any]) -> None:
        commit()
        raise OSError("the bank is closed")

    book = booking(bank, ending)
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        await eventually(lambda: not bank.beat._running.runtime.worker.running, "it is done")
        assert await outcomes_of(job) == ["succeeded"]


async def test_a_job_may_be_finished_at_the_second_try_of_one_attempt(bank: Bank) -> None:
    @bank.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        for is_last in (False, True):
            with bank.connect() as (db, commit, rollback):
                context.finish_in_transaction(db, is_last)
                commit() if is_last else rollback()

    async with bank.beat:
        job: JobHandle[None] = await book.asend()
        await job.backend.wait_for_end(job.id)
        assert (await job.ainfo()).result is True
        assert await outcomes_of(job) == ["succeeded"]


def test_every_table_is_named_with_its_schema_on_a_connection_of_the_caller() -> None:
    scripts = files("onbeat.stores.postgres").joinpath("migrations").iterdir()
    made = {name for script in scripts for name in CREATED.findall(script.read_text())}
    assert "jobs" in made
    assert made - {"finished_rest", "job_logs_rest", "workers", "pings"} == set(TABLES.split("|"))


# What follows


async def check_freed(bank: Bank, book: ContextTask) -> None:
    async with bank.beat:
        await bank.beat.queues.apause("default")
        job = await book.asend(7)
        waiting = await bank.after.options(after=(job.id,)).asend()
        also = await bank.after.options(after=(job.id, waiting.id)).asend()
        await bank.beat.queues.aresume("default")
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await also.aresult(PATIENCE) == "freed"


async def test_jobs_that_wait_for_it_are_freed(bank: Bank) -> None:
    await check_freed(bank, booking(bank, committed))


async def test_jobs_that_wait_for_it_are_freed_from_a_coroutine(async_bank: Bank) -> None:
    await check_freed(async_bank, async_booking(async_bank, committed))


async def test_a_handler_that_goes_on_after_the_commit_is_not_stopped(bank: Bank) -> None:
    """The store has no lease of it any more, and that is no loss."""
    options = bank.beat.backend.options
    quick = structs.replace(options.runtime, lease=timedelta(seconds=0.6))
    bank.beat.backend.options = structs.replace(options, runtime=quick)
    ended = threading.Event()

    def ending(context: Context, commit: Callable[..., Any], rollback: Callable[..., Any]) -> None:
        commit()
        renewer = bank.beat._running.runtime.heartbeat
        seen = renewer.beats
        while renewer.beats < seen + 3:
            ended.wait(0.001)
        if not context.cancelled:
            ended.set()

    book = booking(bank, ending)
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        await eventually(ended.is_set, "it goes on after three beats, and was not stopped")


# The fence


async def give_up(beat: Onbeat, id: JobId) -> None:
    """Take the lease away as if an attempt in a process of its own had died.

    A loss in company would make the next attempt wait until no other runs in its worker.
    """
    job, now = await beat.backend.store.job(id), beat.backend.clock.now()
    lost = Lost("taken for dead", company=0)
    settlement = Settlement(job=settle(job, lost, now, 0.0), attempt=attempt_of(job, lost, now))
    assert list(await beat.backend.store.settle([settlement])) == [True]


async def test_a_lost_lease_is_refused(bank: Bank) -> None:
    begun, given_up, answer = threading.Event(), threading.Event(), []

    @bank.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        if context.token == 1:
            begun.set()
            given_up.wait(PATIENCE)
        with bank.connect() as (db, commit, rollback):
            bank.children.append(bank.mail.in_transaction(db).send(context.token))
            try:
                context.finish_in_transaction(db, context.token)
            except LeaseLost as error:
                rollback()
                answer.append(error)
                raise
            commit()

    async with bank.beat:
        job: JobHandle[None] = await book.asend()
        await eventually(begun.is_set, "it runs")
        await give_up(bank.beat, job.id)
        await job.backend.wait_for_end(job.id)
        given_up.set()
        await eventually(lambda: answer, "the first attempt is told")
        assert (await job.ainfo()).result == 2
        assert await outcomes_of(job) == ["lost", "succeeded"]
        assert [await bank.has_child(n) for n in (0, 1)] == [True, False]


async def test_a_lost_lease_is_refused_in_a_coroutine(async_bank: Bank) -> None:
    bank, given_up, answer = async_bank, asyncio.Event(), []

    @bank.beat.task("book", retry=Retry(1))
    async def book(context: Context) -> None:
        while context.token == 1 and not given_up.is_set():
            # A heartbeat may find that the lease is lost, and stop the attempt here.
            with suppress(asyncio.CancelledError):
                await given_up.wait()
        async with bank.connect() as (db, commit, rollback):
            try:
                await context.finish_in_transaction(db, context.token)
            except LeaseLost as error:
                await rollback()
                answer.append(error)
                raise
            await commit()

    async with bank.beat:
        job = await book.asend()
        await eventually(lambda: job.id in bank.beat._running.runtime.worker.running, "it runs")
        await give_up(bank.beat, job.id)
        await job.backend.wait_for_end(job.id)
        given_up.set()
        await eventually(lambda: answer, "the first attempt is told")
        assert (await job.ainfo()).result == 2
        assert await outcomes_of(job) == ["lost", "succeeded"]


# Refusals


async def failure_of(beat: Onbeat, task: ContextTask, *args: Any) -> str:
    async with beat:
        with pytest.raises(JobFailed) as failed:
            await (await task.asend(*args)).aresult(PATIENCE)
    return failed.value.job.error


async def test_a_connection_that_commits_by_itself_is_refused(lite: Bank) -> None:
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        db = apsw.Connection(lite.place)
        db.set_busy_timeout(PATIENCE * 1_000)
        try:
            context.finish_in_transaction(db)
        finally:
            db.close()

    assert "has no open transaction; begin one" in await failure_of(lite.beat, book)


async def test_a_connection_to_postgresql_that_commits_by_itself_is_refused(database: str) -> None:
    bank = await bank_on(database, None)

    @bank.beat.task(retry=Retry(1))
    async def book(context: Context) -> None:
        db = await asyncpg.connect(bank.place)
        try:
            await context.finish_in_transaction(db)
        finally:
            await db.close()

    assert "has no open transaction; begin one" in await failure_of(bank.beat, book)
    await bank.close()


async def test_a_second_copy_of_sqlite_is_refused(lite: Bank) -> None:
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with of_sqlite3(lite.place) as (db, _, _):
            context.finish_in_transaction(db)

    assert "apsw.Connection" in await failure_of(lite.beat, book)


async def test_what_was_never_awaited_has_not_finished_the_job(database: str) -> None:
    bank = await bank_on(database, None)

    @bank.beat.task(retry=Retry(1))
    async def book(context: Context) -> None:
        db = await asyncpg.connect(bank.place)
        try:
            async with db.transaction():
                cast("Coroutine[Any, Any, None]", context.finish_in_transaction(db)).close()
        finally:
            await db.close()

    assert "the transaction was not committed" in await failure_of(bank.beat, book)
    await bank.close()


async def test_a_store_without_transactions_to_share_is_refused(tmp_path: Path) -> None:
    beat = Onbeat("memory://")

    @beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with of_apsw(str(tmp_path / "x.db")) as (db, _, _):
            context.finish_in_transaction(db)

    assert "not on memory://" in await failure_of(beat, book)
    beat.backend.portal.close()


async def test_what_is_no_connection_is_refused(lite: Bank) -> None:
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with suppress(ValueError):
            context.finish_in_transaction(object())

    assert "object is no connection known here" in await failure_of(lite.beat, book)


async def test_a_task_that_yields_calls_is_refused(lite: Bank) -> None:
    @lite.beat.task(retry=Retry(1))
    async def book(context: Context) -> AsyncIterator[Any]:
        yield lite.mail.call(1)
        with of_apsw(lite.place) as (db, _, _):
            context.finish_in_transaction(db)

    assert "ends when it has yielded them all" in await failure_of(lite.beat, book)


async def test_a_result_that_cannot_be_stored_is_refused(lite: Bank) -> None:
    @lite.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        with of_apsw(lite.place) as (db, _, _):
            context.finish_in_transaction(db, object())

    assert "the result of task 'book' cannot be stored" in await failure_of(lite.beat, book)
