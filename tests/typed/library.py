"""What type checkers make of the library; checked by them, and never run.

Both mypy and pyright read this file strictly. A line that must be refused carries an ignore for
each of them; mypy also reports an ignore that is not needed.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from onbeat import (
    CURRENT,
    AsyncTask,
    Call,
    Context,
    Event,
    Job,
    Onbeat,
    Retry,
    Task,
    daily,
    every,
    http,
)
from onbeat.app.task import FanOut

beat = Onbeat("memory://")


@beat.task("mail.welcome", queue="mail", retry=Retry(attempts_max=10), timeout="30s")
async def welcome(user_id: int, *, language: str = "en") -> str:
    return f"{user_id} {language}"


@beat.task
def render(page: int) -> bytes:
    return bytes(page)


@beat.task
async def cleanup() -> None: ...


@beat.task(priority=3)
def plain(at: datetime, wait: timedelta = timedelta()) -> list[int]:
    return [at.year, wait.days]


# A task is still just a function.

anything: Task[..., Coroutine[Any, Any, str], str] = welcome
removal: AsyncTask[[], None] = cleanup
assert_type(removal, Task[[], Coroutine[Any, Any, None], None])
assert_type(removal.send(), Job[None])
wrong: AsyncTask[[], int] = cleanup  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
removal.send(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
assert_type(render(3), bytes)
assert_type(plain(datetime.now(UTC)), list[int])

render("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
render()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Sending is typed by the function's own parameters and result.

assert_type(render.send(3), Job[bytes])
assert_type(render.send(page=3), Job[bytes])
assert_type(render.send(3).result(), bytes)
assert_type(render.call(3), Call[bytes])
assert_type(welcome.call(7, language="de"), Call[str])
assert_type(plain.send(datetime.now(UTC)).result(10), list[int])

render.send("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
render.send(3, 4)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
welcome.call(7, "de")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
welcome.call(7, tongue="de")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Options keep all of that.

assert_type(render.options(delay="10m", unique="k", priority=5).send(3), Job[bytes])
assert_type(welcome.options(run_at=datetime.now(UTC)).call(7), Call[str])
render.options(delay="10m").send("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
render.options(colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
render.options(priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

render.options(group="acme").send(3)
render.options(group=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# A context is not sent, whether it comes first, last or by keyword.


@beat.task
def first(context: Context, cents: int, *, currency: str = "EUR") -> str:
    return f"{context.job_id} {cents} {currency}"


@beat.task("charge.last", queue="bulk")
async def last(cents: int, context: Context = CURRENT) -> int:
    return cents + context.attempt


@beat.task(timeout="3s")
def by_keyword(cents: int, *, context: Context = CURRENT) -> int:
    return cents + context.attempt


assert_type(first.send(7), Job[str])
assert_type(first.options(delay="1m").send(7, currency="USD"), Job[str])
assert_type(first.call(cents=7), Call[str])
assert_type(last.call(7), Call[int])
assert_type(by_keyword.options(unique="k").send(7).result(), int)
assert_type(first(CURRENT, 7), str)
first.send("seven")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
first.send()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
first(7)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportCallIssue, reportArgumentType]
last.send()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

# Events are not sent either, whether they come first or after the context.


@beat.task
async def booked(event: Event[dict[str, int]], cents: int = 0) -> int:
    return event.data["cents"] + cents


@beat.task("booked.all", queue="bulk")
def booked_all(context: Context, events: list[Event[dict[str, int]]], factor: int) -> int:
    return factor * sum(event.data["cents"] for event in events) + context.attempt


@beat.task
def of_any_data(event: Event[Any], word: str) -> str:
    return event.id + word


@beat.task
async def spread(events: list[Event[str]]) -> AsyncIterator[Call[bytes]]:
    for place, _ in enumerate(events):
        yield render.call(place)


assert_type(booked.call(), Call[int])
assert_type(booked.options(queue="bulk").send(cents=3), Job[int])
assert_type(booked_all.call(2), Call[int])
assert_type(booked_all.send(factor=2).result(), int)
of_any_data.call("one")

assert_type(spread.call(), Call[FanOut])
assert_type(booked_all(CURRENT, [], 2), int)
booked.call("one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
booked_all.call()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
booked_all(CURRENT, 2)  # type: ignore[call-arg, arg-type]  # pyright: ignore[reportCallIssue, reportArgumentType]
beat.schedules.put("booked", None, booked.call(), on="payment.done")


@beat.schedule(on={"type": "payment.done", "by": "event.data.shop"}, gather={"for": "1h"})
def booked_hourly(events: list[Event[dict[str, int]]]) -> int:
    return len(events)


# What takes anything may be sent anything.


@beat.task
def anything_at_all(value: Any) -> int:
    return len(value)


@beat.task
def anything_later(context: Context, value: Any, *, more: Any = None) -> int:
    return len(value) + len(more) + context.attempt


anything_at_all.send(3)
anything_later.send(3, more=4)

# A generator yields calls; what its job results in says how many.


@beat.task
async def render_all(pages: int) -> AsyncIterator[Call[bytes]]:
    for page in range(pages):
        yield render.call(page)


@beat.task("render.some", group="acme")
async def render_some(context: Context, pages: int) -> AsyncGenerator[Call[Any], None]:
    for page in range(context.saved or 0, pages):
        yield render.call(page)
        context.save(page + 1)


@beat.task
async def render_rest(context: Context, pages: int) -> AsyncIterator[Call[bytes]]:
    for page in range(context.saved or 0, pages):
        yield render.call(page)


@beat.task
def ring_all() -> Iterator[Call[object]]:
    yield http("POST", "https://example.com/")


@beat.task(queue="bulk")
def mixed(pages: int) -> Generator[Call[Any], None, None]:
    yield http("POST", "https://example.com/")
    yield render.options(unique="one").call(pages)


assert_type(render_all.send(3), Job[FanOut])
assert_type(render_all.options(queue="bulk").send(3).result().sent, int)
assert_type(ring_all.send(), Job[FanOut])
assert_type(mixed.call(pages=3), Call[FanOut])
assert_type(render_all(3), AsyncIterator[Call[bytes]])
assert_type(mixed(3), Generator[Call[Any], None, None])
assert_type(render_rest.send(3), Job[FanOut])
render_all.send("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# One call and many.

assert_type(beat.send(render.call(3)), Job[bytes])
assert_type(beat.send([render.call(n) for n in range(3)]), list[Job[Any]])
assert_type(beat.send(http("POST", "https://example.com/")), Job[object])


async def in_a_coroutine() -> None:
    assert_type(await welcome.asend(7, language="de"), Job[str])
    assert_type(await (await welcome.asend(7)).aresult(), str)
    assert_type(await render.asend(3), Job[bytes])
    assert_type(await (await cleanup.asend()).aresult(), None)
    assert_type(await beat.asend(welcome.call(7)), Job[str])
    assert_type(await beat.asend([welcome.call(7), render.call(3)]), list[Job[Any]])
    assert_type(await welcome(7, language="de"), str)
    await welcome("seven")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await welcome.asend()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert_type(await (await render_all.asend(3)).aresult(), FanOut)
    async with beat as same:
        assert_type(same, Onbeat)


def in_a_thread() -> None:
    with beat.started() as same:
        assert_type(same, Onbeat)
    with beat.testing(at="2026-03-28T23:00+01:00") as trial:
        trial.advance("4h")
        trial.assert_ran(welcome, times=3)
        trial.assert_ran("mail.welcome")


# Schedules.


@beat.schedule(daily("03:00", tz="Europe/Berlin"), overlap="skip", catch_up="latest", grace="1h")
async def close_books(context: Context) -> None:
    assert_type(context.attempt, int)
    assert_type(context.occurrence, datetime | None)
    await context.finish_in_transaction(object(), result=3)


with beat.testing(at="2026-03-28T23:00Z") as books:
    books.assert_ran(close_books, times=1)


@beat.schedule(daily("03:00", tz="Europe/Berlin"))
async def render_daily() -> AsyncIterator[Call[bytes]]:
    yield render.call(1)


@beat.schedule(every("1m"), colour="red")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
async def coloured() -> None: ...


def every_six_hours(after: datetime) -> datetime | None:
    return after + timedelta(hours=6)


beat.schedules.put("odd", every_six_hours, cleanup.call())
beat.schedules.put("ping", every("15m"), http("POST", "https://example.com/"), jitter="10s")
beat.schedules.put("wrong", "0 * * * *", cleanup.call())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
beat.schedules.put("wrong", every("15m"), cleanup)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
beat.schedules.put("wrong", every("15m"), cleanup.call(), paused="no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
