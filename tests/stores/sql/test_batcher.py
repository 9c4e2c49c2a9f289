"""What is put is answered or refused, whatever is cancelled meanwhile."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from onbeat.model.errors import Conflict, Unavailable
from onbeat.stores.sql.batcher import Batcher

PATIENCE = 60


class Book:
    """Answers with ten times what is written in it, once it may go on."""

    def __init__(self) -> None:
        self.pages: list[list[int]] = []
        self.goes_on = asyncio.Event()
        self.begun = asyncio.Event()

    async def write(self, numbers: Sequence[int]) -> Sequence[int]:
        self.pages.append(list(numbers))
        self.begun.set()
        await self.goes_on.wait()
        if -1 in numbers:
            raise Conflict("not this one")
        return [10 * number for number in numbers]


@pytest.fixture
async def book() -> Book:
    return Book()


def begun_by(work: Coroutine[Any, Any, Sequence[int]]) -> "asyncio.Task[Sequence[int]]":
    return asyncio.get_running_loop().create_task(work)


def others(*known: "asyncio.Task[Any]") -> set["asyncio.Task[Any]"]:
    """The tasks that a gatherer has made."""
    return asyncio.all_tasks() - {*known, asyncio.current_task()}


async def test_what_comes_while_others_are_written_goes_together(book: Book) -> None:
    gatherer = Batcher(book.write, flights_max=1)
    first = begun_by(gatherer.submit([1, 2]))
    await book.begun.wait()
    rest = [begun_by(gatherer.submit([number])) for number in (3, 4)]
    await asyncio.sleep(0)
    book.goes_on.set()
    assert await asyncio.gather(first, *rest) == [[10, 20], [30], [40]]
    assert book.pages == [[1, 2], [3, 4]]


async def test_no_more_is_written_at_once_than_may(book: Book) -> None:
    gatherer = Batcher(book.write, flights_max=1, batch_max=2)
    book.goes_on.set()
    answers = await asyncio.gather(*(gatherer.submit([number]) for number in range(5)))
    assert answers == [[10 * number] for number in range(5)]
    assert book.pages == [[0, 1], [2, 3], [4]]


async def test_who_is_at_fault_hears_of_it_alone(book: Book) -> None:
    gatherer = Batcher(book.write)
    book.goes_on.set()
    answers = await asyncio.gather(
        *(gatherer.submit([number]) for number in (1, -1, 2)), return_exceptions=True
    )
    assert answers[::2] == [[10], [20]]
    assert isinstance(answers[1], Conflict)


async def test_a_flight_that_is_cancelled_before_it_begins_keeps_nobody_waiting(
    book: Book,
) -> None:
    gatherer = Batcher(book.write, flights_max=1)
    book.goes_on.set()
    async with asyncio.timeout(PATIENCE):
        caller = begun_by(gatherer.submit([1]))
        await asyncio.sleep(0)
        (task,) = others(caller)
        task.cancel()
        assert await caller == [10]
        assert await gatherer.submit([2]) == [20]
        await gatherer.drain()


async def test_a_flight_that_is_cancelled_while_it_writes_refuses_its_callers(book: Book) -> None:
    gatherer = Batcher(book.write, flights_max=1)
    async with asyncio.timeout(PATIENCE):
        caller = begun_by(gatherer.submit([1]))
        await book.begun.wait()
        waiting = begun_by(gatherer.submit([2]))
        await asyncio.sleep(0)
        (task,) = others(caller, waiting)
        task.cancel()
        with pytest.raises(Unavailable):
            await caller
        book.goes_on.set()
        assert await waiting == [20]
        await gatherer.drain()


async def test_a_caller_that_gave_up_before_its_turn_is_not_written(book: Book) -> None:
    gatherer = Batcher(book.write, flights_max=1)
    first = begun_by(gatherer.submit([1]))
    await book.begun.wait()
    second = begun_by(gatherer.submit([2]))
    await asyncio.sleep(0)
    second.cancel()
    book.goes_on.set()
    await first
    await gatherer.drain()
    assert book.pages == [[1]]


async def test_all_that_was_put_has_landed(book: Book) -> None:
    gatherer = Batcher(book.write)
    callers = [begun_by(gatherer.submit([number])) for number in range(5)]
    await book.begun.wait()
    book.goes_on.set()
    await gatherer.drain()
    assert sorted(number for page in book.pages for number in page) == list(range(5))
    await asyncio.gather(*callers)
