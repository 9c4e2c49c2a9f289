"""The start of a front that declares schedules, while one of its cells is away."""

import asyncio
from typing import cast

import msgspec
import pytest

from onbeat import Onbeat, every
from onbeat.model.errors import Unavailable
from onbeat.model.page import ScheduleFilter
from onbeat.model.role import Role
from onbeat.ports.store import Store
from onbeat.rules.cells import SCHEDULE
from onbeat.stores.cells import CellStore
from onbeat.stores.memory import MemoryStore
from onbeat.telemetry.composite import NullTelemetry
from stores.cells.front import a_front, a_key_in
from stores.cells.links import Link


class Words(NullTelemetry):
    """What is told of the declaration of schedules."""

    def __init__(self) -> None:
        self.errors: asyncio.Queue[str] = asyncio.Queue()
        self.is_declared = asyncio.Event()

    def undeclared(self, error: BaseException) -> None:
        self.errors.put_nowait(str(error))

    def declared(self) -> None:
        self.is_declared.set()


@pytest.fixture
def links() -> list[Link]:
    return [Link(MemoryStore()), Link(MemoryStore())]


@pytest.fixture
def front(links: list[Link]) -> CellStore:
    return a_front(stores=cast("list[Store]", links))


def a_program(front: CellStore, words: Words) -> Onbeat:
    """A named program with the role `api`, which declares a schedule of each cell."""
    beat = Onbeat("memory://", store=cast("Store", front), owner="shop", telemetry=words)
    options = beat.backend.options
    runtime = msgspec.structs.replace(options.runtime, roles=frozenset({Role.API}))
    beat.backend.options = msgspec.structs.replace(options, runtime=runtime)
    for place in range(2):

        @beat.task(f"run-{place}")
        def run() -> None: ...

        beat.schedule(every("1h"), key=a_key_in(front, place, SCHEDULE))(run)
    return beat


async def test_a_front_starts_without_a_cell_and_declares_once_that_is_back(
    front: CellStore, links: list[Link]
) -> None:
    words = Words()
    beat = a_program(front, words)
    links[1].is_away = True
    await beat.start()
    for _ in range(3):  # at the start and again
        assert "cell b: no answer" in await words.errors.get()
    assert not words.is_declared.is_set()
    links[1].is_away = False
    await words.is_declared.wait()
    page = await front.schedules(ScheduleFilter())
    assert len(page.items) == 2
    assert {schedule.owner for schedule in page.items} == {"shop"}
    await beat.aclose()


async def test_a_front_that_stops_declares_no_more(front: CellStore, links: list[Link]) -> None:
    words = Words()
    beat = a_program(front, words)
    links[1].is_away = True
    await beat.start()
    await words.errors.get()
    await beat.aclose()
    links[1].is_away = False
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert (await front.schedules(ScheduleFilter())).items == ()


async def test_a_front_declares_at_its_start_where_all_cells_answer(front: CellStore) -> None:
    words = Words()
    beat = a_program(front, words)
    await beat.start()
    assert len((await front.schedules(ScheduleFilter())).items) == 2
    assert words.errors.empty()
    await beat.aclose()


async def test_a_program_of_one_store_does_not_start_while_that_is_away() -> None:
    store = Link(MemoryStore())
    words = Words()
    beat = a_program(a_front(), words)
    beat.backend.store = cast("Store", store)
    store.broken.add("schedules_of_owner")
    with pytest.raises(Unavailable, match="no answer"):
        await beat.start()
    assert words.errors.empty()
