import contextlib
import sqlite3
import threading
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from conditions import eventually
from onbeat import Conflict, Invalid, JobFailed, NotFound, Onbeat, Retry, http, message
from onbeat.app.handle import JobHandle
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import (
    AFTER_MAX,
    KEY_CHARS_MAX,
    LABELS_MAX,
    NAME_CHARS_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
)
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.counters import Counters
from onbeat.testing.build import an_id

PATIENCE = 60


async def test_a_task_is_still_just_a_function(beat: Onbeat) -> None:
    @beat.task
    async def double(n: int) -> int:
        return 2 * n

    @beat.task
    def half(n: int) -> float:
        return n / 2

    assert await double(3) == 6
    assert half(3) == 1.5
    assert double.__name__ == "double"  # type: ignore[attr-defined]  # from the function


async def test_what_a_program_sends_is_counted(tmp_path: Path) -> None:
    counters = Counters()
    telemetry = CompositeTelemetry(counters)
    async with contextlib.aclosing(Onbeat(f"sqlite:///{tmp_path}/a.db", telemetry=telemetry)) as it:
        work = it.task("work")(print).options(unique="once").call()
        first = await it.asend(work)
        again = await it.asend([work, http("GET", "http://shop.example/")])
    assert again[0].id == first.id
    assert (counters.sent_jobs, counters.duplicates) == ({"program": 2}, {"program": 1})


async def test_a_sent_job_runs_and_gives_back_its_typed_result(beat: Onbeat) -> None:
    @beat.task
    async def tomorrow(day: datetime, *, days: int = 1) -> datetime:
        return day + timedelta(days=days)

    async with beat:
        day = datetime(2030, 1, 1, tzinfo=UTC)
        job = await tomorrow.asend(day, days=2)
        assert await job.aresult(PATIENCE) == day + timedelta(days=2)
        assert (await job.ainfo()).state is JobState.SUCCEEDED


def test_plain_code_sends_and_waits(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    threads = []

    @beat.task
    def where() -> str:
        threads.append(threading.current_thread().name)
        return "done"

    with beat.started():
        assert where.send().result(PATIENCE) == "done"
    assert threads == ["onbeat-handler"]
    beat.backend.portal.close()


async def test_a_result_of_nothing_is_none(beat: Onbeat) -> None:
    @beat.task
    async def nothing() -> None: ...

    async with beat:
        job: JobHandle[Any] = await nothing.asend()
        assert await job.aresult(PATIENCE) is None


async def test_a_job_that_failed_says_so_to_who_waits(beat: Onbeat) -> None:
    @beat.task(retry=Retry(1))
    async def broken() -> None:
        raise ValueError("no such user")

    async with beat:
        with pytest.raises(JobFailed, match="no such user") as raised:
            await (await broken.asend()).aresult(PATIENCE)
        assert raised.value.job.state is JobState.FAILED


async def test_who_waits_too_long_is_told(beat: Onbeat) -> None:
    @beat.task
    async def never() -> None: ...

    job = await never.asend()
    with pytest.raises(TimeoutError):
        await job.aresult(0.01)


async def test_many_calls_are_stored_in_one_write(beat: Onbeat) -> None:
    ran = []

    @beat.task
    async def note(n: int) -> int:
        ran.append(n)
        return n

    async with beat:
        jobs = await beat.asend([note.call(n) for n in range(500)])
        assert [await job.aresult(PATIENCE) for job in jobs] == list(range(500))
    assert sorted(ran) == list(range(500))
    assert len({job.id for job in jobs}) == 500
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)


async def test_one_call_and_no_calls_can_be_sent_too(beat: Onbeat) -> None:
    @beat.task
    async def one() -> int:
        return 1

    assert await beat.asend([]) == []
    async with beat:
        assert await (await beat.asend(one.call())).aresult(PATIENCE) == 1


def test_plain_code_sends_many(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")

    @beat.task
    def note(n: int) -> int:
        return n

    with beat.started():
        jobs = beat.send([note.call(n) for n in range(20)])
        assert [job.result(PATIENCE) for job in jobs] == list(range(20))
        assert beat.send(note.call(7)).result(PATIENCE) == 7
    beat.backend.portal.close()


async def test_jobs_can_be_sent_from_inside_handlers_of_either_kind(beat: Onbeat) -> None:
    @beat.task
    async def leaf(n: int) -> int:
        return n + 1

    @beat.task
    def plain(n: int) -> str:
        return leaf.send(n).id

    @beat.task
    async def coroutine(n: int) -> str:
        return (await leaf.asend(n)).id

    async with beat:
        for parent in (plain, coroutine):
            id = await (await parent.asend(1)).aresult(PATIENCE)
            await eventually(partial(succeeded, beat, id), "the child ran")
            assert (await beat.jobs.aget(id)).result == 2


async def succeeded(beat: Onbeat, id: Any) -> Any:
    return (await beat.jobs.aget(id)).state is JobState.SUCCEEDED


def test_the_plain_form_inside_the_own_loop_says_what_to_use(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")

    @beat.task
    async def leaf() -> None: ...

    @beat.task(retry=Retry(1))
    async def wrong() -> None:
        leaf.send()

    with beat.started(), pytest.raises(JobFailed, match="use the asynchronous form"):
        wrong.send().result(PATIENCE)
    beat.backend.portal.close()


# Options.


async def test_defaults_of_the_task_hold_unless_a_call_says_more(beat: Onbeat) -> None:
    retry = Retry(7)

    @beat.task("mail", queue="mail", priority=3, retry=retry, timeout="30s", labels={"a": "b"})
    async def mail() -> None: ...

    plain = await (await mail.asend()).ainfo()
    assert (plain.queue, plain.priority, plain.attempts_max) == ("mail", 3, 7)
    assert plain.labels == {"a": "b"}
    other = await (await mail.options(queue="slow", priority=-1).asend()).ainfo()
    assert (other.queue, other.priority, other.attempts_max) == ("slow", -1, 7)
    assert (await (await mail.asend()).ainfo()).queue == "mail"


async def test_a_job_waits_for_its_time(beat: Onbeat) -> None:
    @beat.task
    async def later() -> None: ...

    at = datetime(2040, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert (await (await later.options(run_at=at).asend()).ainfo()).run_at == at
    before = datetime.now(UTC)
    delayed = await (await later.options(delay="10m").asend()).ainfo()
    assert before + timedelta(minutes=10) <= delayed.run_at
    assert delayed.run_at <= datetime.now(UTC) + timedelta(minutes=10)


async def test_the_later_of_delay_and_run_at_counts(beat: Onbeat) -> None:
    @beat.task
    async def later() -> None: ...

    at = datetime(2040, 1, 1, tzinfo=UTC)
    timed = await (await later.options(delay="1h").options(run_at=at).asend()).ainfo()
    assert timed.run_at == at
    delayed = await (await later.options(run_at=at).options(delay="1h").asend()).ainfo()
    assert delayed.run_at < at


async def test_an_expiry_is_counted_in_elapsed_time_across_a_change_of_clocks(beat: Onbeat) -> None:
    @beat.task
    async def later() -> None: ...

    at = datetime(2040, 10, 28, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    job = await (await later.options(run_at=at, expires_in="3h").asend()).ainfo()
    assert job.expires_at == at.astimezone(UTC) + timedelta(hours=3)


async def test_a_smaller_priority_goes_first(beat: Onbeat) -> None:
    ran = []

    @beat.task
    async def note(n: int) -> None:
        ran.append(n)

    for n in (5, 1, 3):
        await note.options(priority=n).asend(n)
    last = await note.options(priority=9).asend(9)
    async with beat:
        await last.aresult(PATIENCE)
    assert ran == [1, 3, 5, 9]


async def test_of_live_jobs_with_one_unique_key_the_first_counts(beat: Onbeat) -> None:
    @beat.task
    async def note() -> None: ...

    first = await note.options(unique="k").asend()
    second = await note.options(unique="k").asend()
    assert (first.created, second.created, second.id) == (True, False, first.id)
    third, fourth = await beat.asend([note.options(unique="m").call() for _ in range(2)])
    assert (third.created, fourth.created, fourth.id) == (True, False, third.id)
    async with beat:
        await first.aresult(PATIENCE)
        again = await note.options(unique="k").asend()
        assert again.created


async def test_a_job_waits_for_those_it_comes_after(beat: Onbeat) -> None:
    ran = []

    @beat.task
    async def note(n: int) -> None:
        ran.append(n)

    first = await note.options(delay=0.05).asend(1)
    second = await note.options(after=(first.id,)).asend(2)
    async with beat:
        await second.aresult(PATIENCE)
    assert ran == [1, 2]


async def test_a_job_is_cancelled_with_the_one_it_comes_after(beat: Onbeat) -> None:
    @beat.task(retry=Retry(1))
    async def broken() -> None:
        raise ValueError

    first = await broken.asend()
    second = await broken.options(after=(first.id,)).asend()
    async with beat:
        with pytest.raises(JobFailed, match="waited for failed") as raised:
            await second.aresult(PATIENCE)
    assert raised.value.job.state is JobState.CANCELLED


async def test_a_job_that_could_not_begin_in_time_expires(beat: Onbeat) -> None:
    @beat.task
    async def work() -> None: ...

    job = await work.options(expires_in=0).asend()
    async with beat:
        with pytest.raises(JobFailed, match="expired"):
            await job.aresult(PATIENCE)


WRONG = [
    ({"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001  that is the mistake
    ({"run_at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 1}, "run_at"),
    ({"delay": "soon"}, "delay"),
    ({"delay": -1}, "delay"),
    ({"delay": timedelta(days=100_000)}, "delay"),
    ({"timeout": "x"}, "timeout"),
    ({"expires_in": -1}, "expires_in"),
    ({"priority": PRIORITY_MAX + 1}, "priority"),
    ({"priority": PRIORITY_MIN - 1}, "priority"),
    ({"queue": " "}, "queue"),
    ({"queue": "q" * (NAME_CHARS_MAX + 1)}, "queue"),
    ({"queue": "half \udce9"}, "queue"),
    ({"queue": "a\nb"}, "queue"),
    ({"queue": "a/b"}, "queue"),
    ({"unique": ""}, "unique"),
    ({"unique": "k" * (KEY_CHARS_MAX + 1)}, "unique"),
    ({"unique": "half \udce9"}, "unique"),
    ({"labels": {str(n): "" for n in range(LABELS_MAX + 1)}}, "labels"),
    ({"labels": {"a": "half \udce9"}}, "labels"),
    ({"after": tuple(an_id() for _ in range(AFTER_MAX + 1))}, "after"),
    ({"after": ("no\nname",)}, "after"),
    ({"after": (7,)}, "after"),
    # Programs need not be typed.
    ({"queue": 7}, "queue"),
    ({"priority": "7"}, "priority"),
    ({"priority": True}, "priority"),
    ({"retry": 5}, "retry"),
    ({"timeout": [30]}, "timeout"),
    ({"run_at": "2026-11-20T00:00Z"}, "run_at"),
    ({"unique": 7}, "unique"),
    ({"labels": ["a", "b"]}, "labels"),
    ({"labels": {"a": 1}}, "labels"),
    ({"group": b"acme"}, "group"),
]


@pytest.mark.parametrize(("said", "field"), WRONG)
def test_an_option_that_cannot_be_right_is_refused_by_name(
    said: dict[str, Any], field: str
) -> None:
    beat = Onbeat("memory://")

    @beat.task
    async def work() -> None: ...

    with pytest.raises(Invalid) as raised:
        work.options(**said)
    assert raised.value.field == field


@pytest.mark.parametrize(
    "name", ["", " ", "@http", "x" * (NAME_CHARS_MAX + 1), "a\x00b", "half \udce9"]
)
def test_a_task_name_that_cannot_be_kept_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="name"):
        Onbeat("memory://").task(name)(lambda: None)


def test_a_function_without_a_name_is_given_one() -> None:
    beat = Onbeat("memory://")

    def plus(number: int, other: int) -> int:
        return number + other

    add: Any = partial(plus, 1)
    with pytest.raises(Invalid, match=r'has no name; write beat\.task\("name"\)') as caught:
        beat.task(add)
    assert caught.value.field == "name"
    assert beat.task("larger")(add).name == "larger"
    number: Any = 5
    with pytest.raises(Invalid, match="name must be text"):
        beat.task(number)


def test_two_functions_cannot_have_one_name() -> None:
    beat = Onbeat("memory://")
    beat.task("same")(lambda: 1)
    with pytest.raises(ValueError, match="'same' is registered already"):
        beat.task("same")(lambda: 2)


async def test_a_job_after_one_that_does_not_exist_is_refused(beat: Onbeat) -> None:
    @beat.task
    async def work() -> None: ...

    with pytest.raises(Invalid, match="does not exist"):
        await work.options(after=(JobId("01900000-0000-7000-8000-000000000000"),)).asend()


# By hand.


async def test_jobs_can_be_read_cancelled_and_retried(beat: Onbeat) -> None:
    @beat.task(queue="mail")
    async def work() -> int:
        return 1

    job = await work.asend()
    await beat.jobs.acancel(job.id, "not today")
    state = await job.ainfo()
    assert (state.state, state.reason) == (JobState.CANCELLED, "not today")
    assert [one.id for one in await beat.jobs.alist(queue="mail")] == [job.id]
    await beat.jobs.aretry(job.id)
    async with beat:
        assert await job.aresult(PATIENCE) == 1
        with pytest.raises(Conflict):
            await beat.jobs.aretry(job.id)
    with pytest.raises(NotFound):
        await beat.jobs.aget("01900000-0000-7000-8000-000000000000")


async def test_a_waiting_job_gets_another_due_time(beat: Onbeat) -> None:
    @beat.task
    async def work() -> int:
        return 1

    job = await work.options(delay="1h").asend()
    at = datetime(2030, 1, 31, 9, tzinfo=UTC)
    await beat.jobs.areschedule(job.id, run_at=at)
    assert (await job.ainfo()).run_at == at
    for wrong in ({}, {"run_at": at, "delay": "1m"}, {"delay": "soon"}):
        with pytest.raises(Invalid):
            await beat.jobs.areschedule(job.id, **wrong)
    with pytest.raises(Invalid, match="run_at needs a time zone"):
        await beat.jobs.areschedule(job.id, run_at=at.replace(tzinfo=None))
    await beat.jobs.areschedule(job.id, delay=timedelta())
    async with beat:
        assert await job.aresult(PATIENCE) == 1
        with pytest.raises(Conflict):
            await beat.jobs.areschedule(job.id, delay="1m")


async def test_nothing_of_a_paused_queue_begins(beat: Onbeat) -> None:
    @beat.task(queue="mail")
    async def held() -> None: ...

    @beat.task
    async def free() -> None: ...

    await beat.queues.apause("mail")
    job = await held.asend()
    async with beat:
        await (await free.asend()).aresult(PATIENCE)
        assert (await job.ainfo()).state is JobState.WAITING
        await beat.queues.aresume("mail")
        await job.aresult(PATIENCE)


async def test_a_task_that_nobody_knows_waits_and_is_not_lost(beat: Onbeat) -> None:
    shared = beat.backend.store if beat.backend.url == "memory://" else None
    other = Onbeat(beat.backend.url, store=shared)

    @other.task("only.elsewhere")
    async def elsewhere() -> str:
        return "found"

    @beat.task
    async def here() -> None: ...

    job = await beat.asend(elsewhere.call())
    async with beat:
        await (await here.asend()).aresult(PATIENCE)
        state = await job.ainfo()
        assert (state.state, state.attempt) == (JobState.WAITING, 0)
        assert "only.elsewhere" in (await beat.backend.store.stats(datetime.now(UTC))).unknown_tasks
        async with other:
            assert await job.aresult(PATIENCE) == "found"


def test_a_call_of_an_endpoint_is_checked_when_it_is_made() -> None:
    with pytest.raises(Invalid) as raised:
        http("POST", "ftp://example.com/")
    assert raised.value.field == "url"
    with pytest.raises(Invalid, match="not both"):
        http("POST", "https://example.com/", body="x", json=1)
    call = http("post", "https://example.com/", json={"n": 1})
    assert (call.target.method, call.target.body) == ("POST", '{"n":1}')
    assert call.target.headers["Content-Type"] == "application/json"


async def test_a_call_of_any_kind_takes_options() -> None:
    beat = Onbeat("memory://")
    call = message("events", "orders", {"order": 7}).with_options(queue="slow", unique="order 7")
    retried = call.with_options(retry=Retry(attempts_max=9))
    first, again = await beat.asend([retried, retried])
    assert (first.created, again.created) == (True, False)
    job = await first.ainfo()
    assert (job.queue, job.unique, job.attempts_max) == ("slow", "order 7", 9)
    assert job.target.message.queue == "orders"
    with pytest.raises(TypeError, match=r"Call.with_options\(\) got an unexpected .* 'colour'"):
        call.with_options(colour="red")  # type: ignore[call-arg]  # the mistake
    with pytest.raises(Invalid) as raised:
        call.with_options(priority=PRIORITY_MAX + 1)
    assert raised.value.field == "priority"


def test_an_unknown_option_is_refused_as_an_unknown_keyword() -> None:
    beat = Onbeat("memory://")

    @beat.task("work")
    def work() -> None: ...

    with pytest.raises(TypeError, match=r"Task.options\(\) got an unexpected .* 'colour'"):
        work.options(colour="red")  # type: ignore[call-arg]  # the mistake
    with pytest.raises(TypeError, match=r"Onbeat.task\(\) got an unexpected .* 'unique'"):
        beat.task("other", unique="k")  # type: ignore[call-overload]  # the mistake


def test_a_text_that_is_sent_is_named_as_a_whole(beat: Onbeat, tmp_path: Path) -> None:
    given: Any = "nope"
    connection = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    for send in (beat.send, beat.batch, beat.in_transaction(connection).send):
        with pytest.raises(TypeError, match=r"^nope is not a call; write TASK\.call"):
            send(given)
        with pytest.raises(TypeError, match=r"^7 is not a call; write TASK\.call"):
            send([cast("Any", 7)])
    connection.close()


def test_what_follows_a_batch_is_a_call_too(beat: Onbeat) -> None:
    @beat.task
    def work() -> None: ...

    with pytest.raises(TypeError, match=r"Task\(.*work'\) is not a call"):
        beat.batch([work.call()], then=cast("Any", work))
