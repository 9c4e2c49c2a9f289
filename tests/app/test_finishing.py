"""A handler that finishes its job in its own transaction: all of it commits, or nothing."""

import asyncio
import os
import re
import threading
from contextlib import suppress
from datetime import timedelta
from importlib.resources import files

import apsw
import asyncpg
import pytest
from msgspec import structs

from app.connections import ASYNC, PLAIN, of_apsw, of_sqlite3
from onbeat import Context, JobFailed, LeaseLost, NotFound, Onbeat, Retry
from onbeat.model.outcome import Lost
from onbeat.ports.store import Settlement
from onbeat.rules.settling import attempt_of, settle
from onbeat.stores.postgres.outside import TABLES
from onbeat.stores.postgres.store import PostgresStore
from stores.postgres import server
from waiting import eventually

PATIENCE = 10
SCHEMA = "queue"
CREATED = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
AT_ONCE = Retry(2, delay=0)
# Beside an open store SQLite has one connection that is safe: see the guide.
HERE = [name for name, (kind, _) in PLAIN.items() if kind == "postgresql"] + ["apsw"]


@pytest.fixture(scope="module")
def database():
    with server.database(f"onbeat_finishing_{os.getpid()}") as url:
        yield url


class Bank:
    """A program whose `book` writes a mail and its own end in one transaction, as it is told."""

    def __init__(self, beat, place, connect):
        self.beat = beat
        self.place = place
        self.connect = lambda: connect(place)
        self.children = []

        @beat.task("mail")
        def mail(number: int) -> int:
            return number

        @beat.task("after")
        def after() -> str:
            return "freed"

        self.mail = mail
        self.after = after

    async def has_child(self, number):
        """Whether the mail that was sent in the transaction is there."""
        try:
            await self.children[number].astate()
        except NotFound:
            return False
        return True

    async def close(self):
        await self.beat.close()
        self.beat.portal.close()


@pytest.fixture
async def lite(tmp_path):
    place = str(tmp_path / "onbeat.db")
    one = Bank(Onbeat(f"sqlite:///{place}"), place, of_apsw)
    yield one
    await one.close()


async def bank_on(database, connect):
    await server.empty(database, SCHEMA)
    store = PostgresStore(server.with_schema(database, SCHEMA))
    return Bank(Onbeat(store=store), database, connect)


@pytest.fixture(params=HERE)
async def bank(request, database, lite):
    kind, connect = PLAIN[request.param]
    one = lite if kind == "sqlite" else await bank_on(database, connect)
    yield one
    await one.close()


@pytest.fixture(params=list(ASYNC))
async def async_bank(request, database):
    one = await bank_on(database, ASYNC[request.param])
    yield one
    await one.close()


def booking(bank, ending):
    """A task in a thread. `ending` is called with what it may do, at the end of the transaction."""

    @bank.beat.task("book", retry=AT_ONCE)
    def book(context: Context, number: int) -> str:
        with bank.connect() as (db, commit, rollback):
            bank.children.append(bank.mail.within(db).send(number))
            context.finish_within(db, f"booked {number}")
            ending(context, commit, rollback)
        return "what is returned does not count"

    return book


def async_booking(bank, ending):
    @bank.beat.task("book", retry=AT_ONCE)
    async def book(context: Context, number: int) -> str:
        async with bank.connect() as (db, commit, rollback):
            bank.children.append(await bank.mail.within(db).asend(number))
            await context.finish_within(db, f"booked {number}")
            await ending(context, commit, rollback)
        return "what is returned does not count"

    return book


def committed(context, commit, rollback):
    return commit()


def rolled_back_at_first(context, commit, rollback):
    return rollback() if context.attempt == 1 else commit()


async def outcomes_of(job):
    return [attempt.outcome for attempt in (await job.astate()).attempts]


# Commit and rollback


async def check_commit(bank, book):
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await bank.children[0].aresult(PATIENCE) == 7
        assert await outcomes_of(job) == ["succeeded"]
        assert (await job.astate()).finished_at is not None
        await eventually(lambda: not bank.beat.machinery.runtime.worker.running, "it is done")


async def test_a_commit_ends_the_job_with_what_was_written(bank):
    await check_commit(bank, booking(bank, committed))


async def test_a_commit_in_a_coroutine_does_so_too(async_bank):
    await check_commit(async_bank, async_booking(async_bank, committed))


async def check_rollback(bank, book):
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await outcomes_of(job) == ["failed", "succeeded"]
        first, _ = (await job.astate()).attempts
        assert "finish_within" in first.error
        assert "the transaction was not committed" in first.error
        assert not await bank.has_child(0)
        assert await bank.children[1].aresult(PATIENCE) == 7


async def test_without_a_commit_the_attempt_has_failed_and_nothing_is_written(bank):
    await check_rollback(bank, booking(bank, rolled_back_at_first))


async def test_without_a_commit_in_a_coroutine_the_attempt_has_failed(async_bank):
    await check_rollback(async_bank, async_booking(async_bank, rolled_back_at_first))


async def test_an_error_before_the_commit_counts_as_it_is(bank):
    def ending(context, commit, rollback):
        if context.attempt == 1:
            rollback()
            raise OSError("the bank is closed")
        commit()

    book = booking(bank, ending)
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await outcomes_of(job) == ["failed", "succeeded"]
        assert "the bank is closed" in (await job.astate()).attempts[0].error
        assert not await bank.has_child(0)


async def test_an_error_after_the_commit_does_not_count(bank):
    def ending(context, commit, rollback):
        commit()
        raise OSError("the bank is closed")

    book = booking(bank, ending)
    async with bank.beat:
        job = await book.asend(7)
        assert await job.aresult(PATIENCE) == "booked 7"
        await eventually(lambda: not bank.beat.machinery.runtime.worker.running, "it is done")
        assert await outcomes_of(job) == ["succeeded"]


async def test_a_job_may_be_finished_at_the_second_try_of_one_attempt(bank):
    @bank.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        for is_last in (False, True):
            with bank.connect() as (db, commit, rollback):
                context.finish_within(db, is_last)
                commit() if is_last else rollback()

    async with bank.beat:
        job = await book.asend()
        await job.ended()
        assert bytes((await job.astate()).result) == b"true"
        assert await outcomes_of(job) == ["succeeded"]


def test_every_table_is_named_with_its_schema_on_a_connection_of_the_caller():
    scripts = files("onbeat.stores.postgres").joinpath("migrations").iterdir()
    made = {name for script in scripts for name in CREATED.findall(script.read_text())}
    assert "jobs" in made
    assert made - {"finished_rest", "workers", "pings"} == set(TABLES.split("|"))


# What follows


async def check_freed(bank, book):
    async with bank.beat:
        await bank.beat.queues.apause("default")
        job = await book.asend(7)
        waiting = await bank.after.options(after=(job.id,)).asend()
        also = await bank.after.options(after=(job.id, waiting.id)).asend()
        await bank.beat.queues.aresume("default")
        assert await job.aresult(PATIENCE) == "booked 7"
        assert await also.aresult(PATIENCE) == "freed"


async def test_jobs_that_wait_for_it_are_freed(bank):
    await check_freed(bank, booking(bank, committed))


async def test_jobs_that_wait_for_it_are_freed_from_a_coroutine(async_bank):
    await check_freed(async_bank, async_booking(async_bank, committed))


async def test_a_handler_that_goes_on_after_the_commit_is_not_stopped(bank):
    """The store has no lease of it any more, and that is no loss."""
    options = bank.beat.options
    quick = structs.replace(options.runtime, lease=timedelta(seconds=0.6))
    bank.beat.options = structs.replace(options, runtime=quick)
    ended = threading.Event()

    def ending(context, commit, rollback):
        commit()
        renewer = bank.beat.machinery.runtime.renewer
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


async def give_up(beat, id):
    """As a supervisor does when it takes the worker for dead."""
    job, now = await beat.store.job(id), beat.clock.now()
    lost = Lost("taken for dead")
    settlement = Settlement(job=settle(job, lost, now, 0.0), attempt=attempt_of(job, lost, now))
    assert list(await beat.store.settle([settlement])) == [True]


async def test_a_lost_lease_is_refused(bank):
    begun, given_up, told = threading.Event(), threading.Event(), []

    @bank.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        if context.token == 1:
            begun.set()
            given_up.wait(PATIENCE)
        with bank.connect() as (db, commit, rollback):
            bank.children.append(bank.mail.within(db).send(context.token))
            try:
                context.finish_within(db, context.token)
            except LeaseLost as error:
                rollback()
                told.append(error)
                raise
            commit()

    async with bank.beat:
        job = await book.asend()
        await eventually(begun.is_set, "it runs")
        await give_up(bank.beat, job.id)
        await job.ended()
        given_up.set()
        await eventually(lambda: told, "the first attempt is told")
        assert bytes((await job.astate()).result) == b"2"
        assert await outcomes_of(job) == ["lost", "succeeded"]
        assert [await bank.has_child(n) for n in (0, 1)] == [True, False]


async def test_a_lost_lease_is_refused_in_a_coroutine(async_bank):
    bank, given_up, told = async_bank, asyncio.Event(), []

    @bank.beat.task("book", retry=Retry(1))
    async def book(context: Context) -> None:
        if context.token == 1:
            await given_up.wait()
        async with bank.connect() as (db, commit, rollback):
            try:
                await context.finish_within(db, context.token)
            except LeaseLost as error:
                await rollback()
                told.append(error)
                raise
            await commit()

    async with bank.beat:
        job = await book.asend()
        await eventually(lambda: job.id in bank.beat.machinery.runtime.worker.running, "it runs")
        await give_up(bank.beat, job.id)
        await job.ended()
        given_up.set()
        await eventually(lambda: told, "the first attempt is told")
        assert bytes((await job.astate()).result) == b"2"
        assert await outcomes_of(job) == ["lost", "succeeded"]


# Refusals


async def failure_of(beat, task, *args):
    async with beat:
        with pytest.raises(JobFailed) as failed:
            await (await task.asend(*args)).aresult(PATIENCE)
    return failed.value.job.error


async def test_a_connection_that_commits_by_itself_is_refused(lite):
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        db = apsw.Connection(lite.place)
        db.set_busy_timeout(PATIENCE * 1_000)
        try:
            context.finish_within(db)
        finally:
            db.close()

    assert "in no transaction; begin one" in await failure_of(lite.beat, book)


async def test_a_connection_to_postgresql_that_commits_by_itself_is_refused(database):
    bank = await bank_on(database, None)

    @bank.beat.task(retry=Retry(1))
    async def book(context: Context) -> None:
        db = await asyncpg.connect(bank.place)
        try:
            await context.finish_within(db)
        finally:
            await db.close()

    assert "in no transaction; begin one" in await failure_of(bank.beat, book)
    await bank.close()


async def test_a_second_copy_of_sqlite_is_refused(lite):
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with of_sqlite3(lite.place) as (db, _, _):
            context.finish_within(db)

    assert "apsw.Connection" in await failure_of(lite.beat, book)


async def test_what_was_never_awaited_has_not_finished_the_job(database):
    bank = await bank_on(database, None)

    @bank.beat.task(retry=Retry(1))
    async def book(context: Context) -> None:
        db = await asyncpg.connect(bank.place)
        try:
            async with db.transaction():
                context.finish_within(db).close()
        finally:
            await db.close()

    assert "the transaction was not committed" in await failure_of(bank.beat, book)
    await bank.close()


async def test_a_store_without_transactions_to_share_is_refused(tmp_path):
    beat = Onbeat("memory://")

    @beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with of_apsw(str(tmp_path / "x.db")) as (db, _, _):
            context.finish_within(db)

    assert "not on memory://" in await failure_of(beat, book)
    beat.portal.close()


async def test_what_is_no_connection_is_refused(lite):
    @lite.beat.task(retry=Retry(1))
    def book(context: Context) -> None:
        with suppress(ValueError):
            context.finish_within(object())

    assert "object is no connection known here" in await failure_of(lite.beat, book)


async def test_a_task_that_yields_calls_is_refused(lite):
    @lite.beat.task(retry=Retry(1))
    async def book(context: Context):
        yield lite.mail.call(1)
        with of_apsw(lite.place) as (db, _, _):
            context.finish_within(db)

    assert "ends when it has yielded them all" in await failure_of(lite.beat, book)


async def test_a_result_that_cannot_be_stored_is_refused(lite):
    @lite.beat.task("book", retry=Retry(1))
    def book(context: Context) -> None:
        with of_apsw(lite.place) as (db, _, _):
            context.finish_within(db, object())

    assert "the result of task 'book' cannot be stored" in await failure_of(lite.beat, book)
