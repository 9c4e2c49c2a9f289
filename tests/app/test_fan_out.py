"""Tasks that yield calls: each becomes one job, whatever happens on the way."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec import UNSET, Raw, structs

from conditions import eventually
from onbeat import Cancel, Context, Fail, Invalid, JobFailed, Onbeat, Retry, Snooze, Task, http
from onbeat.app.call import Call
from onbeat.app.task import AnyTask, ContextTask, FanOut
from onbeat.model.attempt import OutcomeName
from onbeat.model.errors import Unavailable
from onbeat.model.event import EventCause
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Lost
from onbeat.model.page import JobFilter
from onbeat.model.retry import RetryPolicy
from onbeat.ports.store import Settlement
from onbeat.rules.settlement import attempt_of, settle
from onbeat.targets.fan_out import BATCH_MAX, CURSOR_BYTES_MAX
from onbeat.testing.build import an_id

PATIENCE = 60
AT_ONCE = Retry(5, delay=0)


@pytest.fixture
def mail(beat: Onbeat) -> Task[..., Any, Any]:
    """A task whose jobs stay where they are: its queue is paused by `park`."""

    @beat.task("mail", queue="mail")
    async def mail(user: int) -> int:
        return user

    return mail


async def park(beat: Onbeat) -> None:
    await beat.queues.apause("mail")


async def jobs_of(beat: Onbeat, task: str = "mail") -> list[Job]:
    """All jobs of a task, oldest first."""
    result: list[Job] = []
    before: JobId | None = None
    while True:
        page = await beat.backend.store.jobs(JobFilter(task=task, limit=1000, before=before))
        result += page.items
        if len(page.items) < 1000:
            return result[::-1]
        before = page.items[-1].id


async def users_of(beat: Onbeat) -> list[int]:
    return sorted(int(bytes(job.target.args)[1:-1]) for job in await jobs_of(beat))


async def stored(beat: Onbeat, count: int) -> None:
    async def there() -> bool:
        return len(await users_of(beat)) >= count

    await eventually(there, f"{count} jobs are stored")


# What is yielded is sent


async def test_each_call_that_is_yielded_becomes_a_job(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def mail_all(count: int) -> AsyncIterator[Any]:
        for user in range(count):
            yield mail.call(user)

    async with beat:
        await park(beat)
        job = await mail_all.asend(2 * BATCH_MAX + 7)
        assert await job.aresult(PATIENCE) == FanOut(sent=2 * BATCH_MAX + 7)
        assert await users_of(beat) == [*range(2 * BATCH_MAX + 7)]
        assert (await job.ainfo()).progress.done == 2 * BATCH_MAX + 7


async def test_jobs_inherit_the_cause_of_their_sender_and_read_no_events(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def mail_all() -> AsyncIterator[Any]:
        yield mail.call(1)

    async with beat:
        await park(beat)
        sender = structs.replace(
            mail_all.call().job(JobId(an_id()), await beat.backend.now(), RetryPolicy()),
            cause=EventCause("paid", 2, carried=False),
        )
        await beat.backend.store.enqueue([sender])

        async def sent() -> bool:
            return bool(await jobs_of(beat))

        await eventually(sent, "the job that was sent")
        (job,) = await jobs_of(beat)
        assert job.cause == sender.cause


async def test_a_plain_generator_sends_from_one_thread(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    threads = set()

    @beat.task
    def mail_all(count: int) -> Iterator[Call]:
        for user in range(count):
            threads.add(threading.current_thread())
            yield mail.call(user)
        threads.add(threading.current_thread())

    async with beat:
        await park(beat)
        job = await mail_all.asend(2 * BATCH_MAX + 7)
        assert await job.aresult(PATIENCE) == FanOut(sent=2 * BATCH_MAX + 7)
        assert await users_of(beat) == [*range(2 * BATCH_MAX + 7)]
    assert [thread.name for thread in threads] == ["onbeat-handler"]


async def test_a_generator_that_yields_nothing_succeeds(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def nobody() -> AsyncIterator[Any]:
        for user in range(0):
            yield mail.call(user)

    async with beat:
        assert await (await nobody.asend()).aresult(PATIENCE) == FanOut(sent=0)
        assert await jobs_of(beat) == []


async def test_jobs_are_as_their_calls_ask(beat: Onbeat, mail: Task[..., Any, Any]) -> None:
    @beat.task
    async def mixed() -> AsyncIterator[Any]:
        yield mail.options(unique="one", priority=7, group="acme", labels={"a": "b"}).call(1)
        yield mail.options(delay="1h", retry=Retry(9), timeout=3).call(2)
        yield http("POST", "http://127.0.0.1:9/", json={"n": 3})

    async with beat:
        await park(beat)
        await (await mixed.asend()).aresult(PATIENCE)
        first, second = sorted(await jobs_of(beat), key=lambda job: bytes(job.target.args))
        (third,) = await jobs_of(beat, "@http")
    assert (first.unique, first.priority, first.group) == ("one", 7, "acme")
    assert first.labels == {"a": "b"}
    assert second.due_at - second.created_at == timedelta(hours=1)
    assert (second.retry.attempts_max, second.timeout) == (9, timedelta(seconds=3))
    assert third.target.url == "http://127.0.0.1:9/"


async def test_calls_of_equal_unique_keys_are_one_job(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def doubled() -> AsyncIterator[Any]:
        for user in range(20):
            yield mail.options(unique=f"user {user % 10}").call(user % 10)

    async with beat:
        await park(beat)
        job = await doubled.asend()
        assert await job.aresult(PATIENCE) == FanOut(sent=20)
        assert await users_of(beat) == [*range(10)]


async def test_a_call_whose_key_another_job_holds_is_left_out(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def three() -> AsyncIterator[Any]:
        for user in range(3):
            yield mail.options(unique=f"user {user}").call(user)

    async with beat:
        await park(beat)
        held = await mail.options(unique="user 1").asend(77)
        assert await (await three.asend()).aresult(PATIENCE) == FanOut(sent=3)
        assert await users_of(beat) == [0, 2, 77]
        assert held.id in {job.id for job in await jobs_of(beat)}


async def test_calls_are_stored_while_the_generator_takes_its_time(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    go_on = asyncio.Event()

    @beat.task
    async def slow() -> AsyncIterator[Any]:
        for user in range(3):
            yield mail.call(user)
        await go_on.wait()
        yield mail.call(3)

    async with beat:
        await park(beat)
        job = await slow.asend()
        await stored(beat, 3)
        assert (await job.ainfo()).state is JobState.RUNNING
        go_on.set()
        assert await job.aresult(PATIENCE) == FanOut(sent=4)
        assert await users_of(beat) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_generator_is_held_back_while_the_store_takes_its_time(
    beat: Onbeat, mail: Task[..., Any, Any], kind: str
) -> None:
    yielded = []
    gate = asyncio.Event()

    @beat.task("all.async")
    async def mail_all() -> AsyncIterator[Any]:
        for user in range(5 * BATCH_MAX):
            yielded.append(user)
            yield mail.call(user)

    @beat.task("all.plain")
    def mail_all_plainly() -> Iterator[Any]:
        for user in range(5 * BATCH_MAX):
            yielded.append(user)
            yield mail.call(user)

    async with beat:
        await park(beat)
        send_from, batches = beat.backend.store.enqueue_from, []

        async def slow_send_from(sent: Any) -> Any:
            batches.append(len(sent[0].jobs))
            await gate.wait()
            return await send_from(sent)

        beat.backend.store.enqueue_from = slow_send_from
        tasks: dict[str, AnyTask] = {"async": mail_all, "plain": mail_all_plainly}
        job = await tasks[kind].asend()
        await eventually(
            lambda: batches and len(yielded) == batches[0] + BATCH_MAX,
            "one batch is being stored, another is full",
        )
        assert len(batches) == 1
        gate.set()
        assert await job.aresult(PATIENCE) == FanOut(sent=5 * BATCH_MAX)
        assert max(batches) == BATCH_MAX
        assert await users_of(beat) == [*range(5 * BATCH_MAX)]


async def test_large_calls_make_smaller_batches(beat: Onbeat) -> None:
    @beat.task("mail", queue="mail")
    async def write(text: str) -> None: ...

    @beat.task
    async def write_all() -> AsyncIterator[Any]:
        for _ in range(100):
            yield write.call("x" * 200_000)

    async with beat:
        await park(beat)
        send_from, batches = beat.backend.store.enqueue_from, []

        async def counted(sent: Any) -> Any:
            batches.append(len(sent[0].jobs))
            return await send_from(sent)

        beat.backend.store.enqueue_from = counted
        await (await write_all.asend()).aresult(PATIENCE)
    assert sum(batches) == 100
    assert max(batches) <= 22, "about four megabytes"


# Again, and on from a cursor


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_run_that_begins_again_adds_nothing_twice(
    beat: Onbeat, mail: Task[..., Any, Any], keyed: bool
) -> None:
    attempts = []

    @beat.task(retry=AT_ONCE)
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        attempts.append(context.saved)
        for user in range(1500):
            if user == 1200 and context.attempt == 1:
                raise OSError("the source went away")
            task = mail.options(unique=f"user {user}") if keyed else mail
            yield task.call(user)

    async with beat:
        await park(beat)
        job = await mail_all.asend()
        assert await job.aresult(PATIENCE) == FanOut(sent=1500)
        assert await users_of(beat) == [*range(1500)]
        assert "the source went away" in (await job.ainfo()).attempts[0].error
    assert attempts == [None, None]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_a_run_goes_on_from_what_it_saved(
    beat: Onbeat, mail: Task[..., Any, Any], kind: str
) -> None:
    begun = []

    def calls(context: Context) -> Iterator[Call | None]:
        """Of each ten users the last is left out of what is saved."""
        begun.append(context.saved)
        for user in range(context.saved or 0, 3000):
            if user == 1000 * context.attempt + 5:
                raise OSError("the source went away")
            yield mail.call(user)
            if user % 10 == 8:
                context.save(user + 1)

    @beat.task("all.async", retry=AT_ONCE)
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        for call in calls(context):
            yield call

    @beat.task("all.plain", retry=AT_ONCE)
    def mail_all_plainly(context: Context) -> Iterator[Any]:
        yield from calls(context)

    async with beat:
        await park(beat)
        job = await {"async": mail_all, "plain": mail_all_plainly}[kind].asend()
        assert await job.aresult(PATIENCE) == FanOut(sent=3000)
        assert await users_of(beat) == [*range(3000)]
    assert begun == [None, 999, 1999]


async def test_a_cursor_is_stored_with_the_jobs_before_it_and_not_before(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    steps: asyncio.Queue[str | None] = asyncio.Queue()

    @beat.task
    async def stepwise(context: Context) -> AsyncIterator[Any]:
        user = 0
        while (step := await steps.get()) is not None:
            if step == "save":
                context.save({"user": user})
            else:
                yield mail.call(user)
                user += 1

    async with beat:
        await park(beat)
        job = await stepwise.asend()

        async def cursor() -> Raw | None:
            return (await beat.backend.store.job(job.id)).cursor

        steps.put_nowait("yield")
        await stored(beat, 1)
        assert await cursor() is None
        for step in ("yield", "save", "yield"):
            steps.put_nowait(step)
        await eventually(cursor, "the cursor is stored")
        assert await users_of(beat) in ([0, 1], [0, 1, 2])
        assert (
            bytes(await cursor()) == b'[2,{"user":1}]' or bytes(await cursor()) == b'[2,{"user":2}]'
        )
        before = await cursor()
        await stored(beat, 3)
        steps.put_nowait("save")
        await eventually(lambda: changed(cursor, before), "a cursor alone is stored too")
        assert bytes(await cursor()) == b'[3,{"user":3}]'
        steps.put_nowait(None)
        assert await job.aresult(PATIENCE) == FanOut(sent=3)
        assert (await beat.backend.store.job(job.id)).cursor is None


async def changed(read: Callable[..., Any], before: Raw) -> bool:
    return await read() != before


async def test_what_a_handler_says_of_its_progress_counts(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    go_on = asyncio.Event()

    @beat.task
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        context.progress(0, 400)
        for user in range(4):
            yield mail.call(user)
            context.progress(100 * (user + 1), 400)
        await go_on.wait()

    async with beat:
        await park(beat)
        job = await mail_all.asend()

        async def progress() -> bool:
            return (await beat.backend.store.job(job.id)).progress == Progress(400, 400)

        await eventually(progress, "its own progress is stored")
        go_on.set()
        await job.aresult(PATIENCE)


@pytest.mark.parametrize("error", [Snooze(0), Fail("not today"), Cancel("enough")])
async def test_what_was_yielded_before_the_end_is_sent_however_it_ends(
    beat: Onbeat, mail: Task[..., Any, Any], error: Cancel | Fail | Snooze
) -> None:
    @beat.task(retry=Retry(1))
    async def mail_some(context: Context) -> AsyncIterator[Any]:
        if context.saved is None:
            for user in range(7):
                yield mail.call(user)
            context.save("here")
            raise error

    async with beat:
        await park(beat)
        job = await mail_some.asend()
        if isinstance(error, Snooze):
            assert await job.aresult(PATIENCE) == FanOut(sent=7)
        else:
            with pytest.raises(JobFailed, match=r"not today|enough"):
                await job.aresult(PATIENCE)
        assert await users_of(beat) == [*range(7)]


async def test_a_run_that_was_retried_by_hand_begins_anew_and_adds_nothing_twice(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    begun = []

    @beat.task(retry=Retry(1))
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        begun.append(context.saved)
        for user in range(10):
            yield mail.call(user)
            context.save(user)
        if len(begun) == 1:
            raise OSError("the source went away")

    async with beat:
        await park(beat)
        job = await mail_all.asend()
        with pytest.raises(JobFailed, match="went away"):
            await job.aresult(PATIENCE)
        await beat.jobs.aretry(job.id)
        assert await job.aresult(PATIENCE) == FanOut(sent=10)
        assert await users_of(beat) == [*range(10)]
    assert begun == [None, None]


# Trouble


async def test_while_the_store_is_away_the_batch_is_tried_again(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task(retry=Retry(1))
    async def mail_all() -> AsyncIterator[Any]:
        for user in range(1500):
            yield mail.call(user)

    async with beat:
        await park(beat)
        send_from, tries = beat.backend.store.enqueue_from, []

        async def send_from_with_outages(sent: Any) -> Any:
            """The first goes through and its answer is lost; the second does not get there."""
            tries.append(sent)
            if len(tries) in {1, 4}:
                await send_from(sent)
            if len(tries) in {1, 2, 4}:
                raise Unavailable
            return await send_from(sent)

        beat.backend.store.enqueue_from = send_from_with_outages
        assert await (await mail_all.asend()).aresult(PATIENCE) == FanOut(sent=1500)
        assert await users_of(beat) == [*range(1500)]
        assert len(tries) == 5


async def test_a_lost_lease_closes_the_generator_and_stores_nothing_more(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    given_up, ends = asyncio.Event(), []

    @beat.task
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        try:
            for user in range(3):
                yield mail.call(user)
            if context.token == 1:
                await given_up.wait()
                yield mail.call(666)
                await asyncio.Event().wait()
        finally:
            ends.append(context.token)

    async with beat:
        await park(beat)
        job = await mail_all.asend()
        await stored(beat, 3)
        await give_up(beat, job.id)
        assert await job.aresult(PATIENCE) == FanOut(sent=3)
        given_up.set()
        await eventually(lambda: ends == [2, 1], "the first generator is closed, too")
        assert await users_of(beat) == [0, 1, 2]
        assert await outcomes_of(job) == ["lost", "succeeded"]


async def test_a_lost_lease_ends_a_plain_generator_at_its_next_yield(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    given_up, ends = threading.Event(), []

    @beat.task
    def mail_all(context: Context) -> Iterator[Call | None]:
        try:
            for user in range(3):
                yield mail.call(user)
            if context.token == 1:
                given_up.wait(PATIENCE)
                for _ in itertools.count():
                    yield mail.call(666)
        finally:
            ends.append(context.token)

    async with beat:
        await park(beat)
        job = await mail_all.asend()
        await stored(beat, 3)
        await give_up(beat, job.id)
        assert await job.aresult(PATIENCE) == FanOut(sent=3)
        given_up.set()
        await eventually(lambda: ends == [2, 1], "the first generator is closed, too")
        assert await users_of(beat) == [0, 1, 2]
        assert await outcomes_of(job) == ["lost", "succeeded"]


async def outcomes_of(job: Any) -> list[OutcomeName]:
    return [attempt.outcome for attempt in (await job.ainfo()).attempts]


async def give_up(beat: Onbeat, id: JobId) -> None:
    """Take the lease away as if an attempt in a process of its own had died.

    A loss in company would make the next attempt wait until no other runs in its worker.
    """
    job, now = await beat.backend.store.job(id), beat.backend.clock.now()
    lost = Lost("taken for dead", company=0)
    settlement = Settlement(job=settle(job, lost, now, 0.0), attempt=attempt_of(job, lost, now))
    assert list(await beat.backend.store.settle([settlement])) == [True]


def three_and_no_end(mail: Task[..., Any, Any], closed: Event) -> dict[str, Any]:
    """Handlers that send three mails and then wait: politely, not heeding a stop, in a thread."""

    async def asynchronous() -> AsyncIterator[Any]:
        try:
            for user in range(3):
                yield mail.call(user)
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def stubborn() -> AsyncIterator[Any]:
        try:
            for user in itertools.count():
                yield mail.call(user)
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0 if user < 2 else 3600)
        finally:
            closed.set()

    def plain(context: Context) -> Iterator[Any]:
        try:
            for user in range(3):
                yield mail.call(user)
            while not context.cancelled:
                threading.Event().wait(0.001)
            yield mail.call(3)
        finally:
            closed.set()

    return {"asynchronous": asynchronous, "stubborn": stubborn, "plain": plain}


@pytest.mark.parametrize("kind", ["asynchronous", "stubborn", "plain"])
async def test_a_cancelled_run_ends_and_keeps_what_it_sent(
    beat: Onbeat, mail: Task[..., Any, Any], kind: str
) -> None:
    closed = threading.Event()
    task = beat.task(kind)(three_and_no_end(mail, closed)[kind])

    async with beat:
        await park(beat)
        job = await task.asend()
        await stored(beat, 3)
        await beat.jobs.acancel(job.id, "enough")
        with pytest.raises(JobFailed, match="cancelled: enough"):
            await job.aresult(PATIENCE)
        await eventually(closed.is_set, "the generator is closed")
        assert await users_of(beat) == [0, 1, 2]


async def test_a_run_that_takes_too_long_goes_on_from_its_cursor(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    begun = []

    @beat.task(timeout=0.3, retry=AT_ONCE)
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        begun.append(context.saved)
        for user in range(context.saved or 0, 6):
            yield mail.call(user)
            context.save(user + 1)
            if user == 2 and context.attempt == 1:
                await asyncio.Event().wait()

    async with beat:
        await park(beat)
        job = await mail_all.asend()
        assert await job.aresult(PATIENCE) == FanOut(sent=6)
        assert await users_of(beat) == [*range(6)]
        assert (await job.ainfo()).attempts[0].error == "timed out after 0.3 s"
    assert begun == [None, 3]


async def test_a_run_that_is_shut_down_goes_on_elsewhere(tmp_path: Path) -> None:
    """Two programs, one after the other, on one store."""
    begun = []

    def a_program() -> tuple[Onbeat, ContextTask]:
        one = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
        one.backend.options = structs.replace(
            one.backend.options, drain_timeout=timedelta(seconds=0.05)
        )

        @one.task("mail", queue="mail")
        async def mail(user: int) -> None: ...

        @one.task("mail.all")
        async def mail_all(context: Context) -> AsyncIterator[Any]:
            begun.append(context.saved)
            for user in range(context.saved or 0, 6):
                yield mail.call(user)
                context.save(user + 1)
                if user == 2 and len(begun) == 1:
                    await asyncio.Event().wait()

        return one, mail_all

    first, mail_all = a_program()
    async with first:
        await park(first)
        job = await mail_all.asend()
        await stored(first, 3)
    second, _ = a_program()
    async with second:
        assert await eventually(lambda: ended(second, job.id), "it ends elsewhere")
        assert await users_of(second) == [*range(6)]
        attempts = (await second.jobs.aget(job.id)).attempts
        assert [attempt.outcome for attempt in attempts] == ["released", "succeeded"]
    assert begun == [None, 3]
    for one in (first, second):
        one.backend.portal.close()


async def ended(beat: Onbeat, id: JobId) -> Job | None:
    job = await beat.backend.store.job(id)
    return job if job.is_final else None


# Mistakes


@pytest.mark.parametrize("wrong", [7, None, "mail", [], lambda: None])
async def test_what_is_no_call_fails_the_job_and_says_which(
    beat: Onbeat, mail: Task[..., Any, Any], wrong: Any
) -> None:
    @beat.task
    async def muddled() -> AsyncIterator[Any]:
        yield mail.call(1)
        yield wrong

    async with beat:
        await park(beat)
        job = await muddled.asend()
        with pytest.raises(JobFailed, match=r"call 2 that was yielded: .* is not a call"):
            await job.aresult(PATIENCE)
        assert await users_of(beat) == [1]
        attempts = (await job.ainfo()).attempts
        assert attempts is not UNSET
        assert len(attempts) == 1


async def test_a_task_without_its_arguments_is_no_call(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def muddled() -> AsyncIterator[Any]:
        yield mail

    async with beat:
        with pytest.raises(JobFailed, match=r"Task\('mail'\) is not a call; write TASK.call"):
            await (await muddled.asend()).aresult(PATIENCE)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (object(), "the saved cursor cannot be stored: object has no JSON form"),
        (float("nan"), "the saved cursor is or holds NaN"),
        ("x" * CURSOR_BYTES_MAX, "the saved cursor takes 65538 bytes as JSON; at most 65536"),
    ],
)
async def test_a_cursor_that_cannot_be_stored_is_refused(
    beat: Onbeat, mail: Task[..., Any, Any], value: float | object | str, says: str
) -> None:
    @beat.task(retry=Retry(1))
    async def mail_all(context: Context) -> AsyncIterator[Any]:
        yield mail.call(1)
        context.save(value)

    async with beat:
        with pytest.raises(JobFailed, match=says):
            await (await mail_all.asend()).aresult(PATIENCE)


async def test_only_a_task_that_yields_calls_has_a_cursor(beat: Onbeat) -> None:
    @beat.task(retry=Retry(1))
    async def plain(context: Context) -> None:
        assert context.saved is None
        context.save(1)

    async with beat:
        with pytest.raises(JobFailed, match=r"save\(\) is for tasks that yield calls"):
            await (await plain.asend()).aresult(PATIENCE)


async def test_the_error_shows_the_frames_of_the_handler_alone(beat: Onbeat) -> None:
    @beat.task(retry=Retry(1))
    async def broken() -> AsyncIterator[None]:
        raise LookupError("where")
        yield

    async with beat:
        job = await broken.asend()
        with pytest.raises(JobFailed):
            await job.aresult(PATIENCE)
        error = (await job.ainfo()).error
    assert error.endswith("LookupError: where")
    assert "in broken" in error
    assert "targets/fan_out.py" not in error


def test_a_process_of_its_own_is_refused() -> None:
    beat = Onbeat("memory://")

    async def asynchronous() -> AsyncIterator[None]:
        yield

    def plain() -> Iterator[None]:
        yield

    for function in (asynchronous, plain):
        with pytest.raises(Invalid, match="yields calls, which a process of its own cannot send"):
            beat.task(isolation="process")(function)
    assert not beat.backend.registry.tasks()


async def test_calling_the_task_gives_the_generator(
    beat: Onbeat, mail: Task[..., Any, Any]
) -> None:
    @beat.task
    async def asynchronous(count: int) -> AsyncIterator[Any]:
        for user in range(count):
            yield mail.call(user)

    @beat.task
    def plain(count: int) -> Iterator[Call]:
        for user in range(count):
            yield mail.call(user)

    assert len([call async for call in asynchronous(3)]) == 3
    assert len(list(plain(4))) == 4


def test_a_run_in_virtual_time_sends_and_its_jobs_run() -> None:
    beat = Onbeat("memory://")

    @beat.task("mail")
    def mail(user: int) -> int:
        return user

    @beat.task("mail.all")
    def mail_all() -> Iterator[Call]:
        for user in range(5):
            yield mail.options(delay="1h").call(user)

    with beat.testing(at="2030-01-01T00:00Z") as trial:
        mail_all.send()
        trial.drain()
        trial.assert_ran(mail, times=0)
        trial.advance("1h")
        trial.assert_ran(mail, times=5)


def test_a_group_is_a_short_text() -> None:
    beat = Onbeat("memory://")

    @beat.task(group="acme")
    def work() -> None: ...

    assert work.call().options.job.group == "acme"
    assert work.options(group="b" * 200).call().options.job.group == "b" * 200
    with pytest.raises(Invalid, match="group"):
        work.options(group="b" * 201)
    with pytest.raises(Invalid, match="group"):
        beat.task(group="")
