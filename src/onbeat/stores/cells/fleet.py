"""The cells of a map, opened: who has a slot, and questions to one, several or all of them."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from onbeat.model.cells import CellMap
from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.ports.store import Store
from onbeat.rules.cells import places_by_slot, slot_of_id

LOOK_SECONDS: Final = 5.0
"""How long a process goes on without asking a cell whether a newer map is known there."""
LOOK_FOR_OPENED: Final = 0.01
"""Seconds between two looks whether another caller has opened a cell."""

Answer = TypeVar("Answer")
Id = TypeVar("Id", bound=str)
Ask = Callable[[Store], Awaitable[Answer]]


class OpenCell:
    """One cell. Opened at its first use, so that the others can be used while it is away."""

    def __init__(self, place: int, name: str, store: Store, slots: Sequence[int]) -> None:
        self.place = place
        self.name = name
        self.store = store
        self.slots = slots
        self.own = frozenset(slots)
        self.is_open = False
        self.looked_at = float("-inf")
        self.opening = threading.Lock()

    def slot_near(self, slot: int) -> int:
        """This slot, if it belongs to the cell, or else one that does."""
        return slot if slot in self.own else self.slots[slot % len(self.slots)]

    async def ask(self, version: int, ask: Ask[Answer]) -> Answer:
        """The answer of the cell. Raises `Unavailable`, which names it."""
        try:
            await self.make_ready(version)
            return await ask(self.store)
        except Unavailable as error:
            raise Unavailable(f"cell {self.name}: {error}") from error

    async def make_ready(self, version: int) -> None:
        if not self.is_open:
            await self.open()
        now = time.monotonic()
        if now - self.looked_at < LOOK_SECONDS:
            return
        seen = await self.store.note_map_version(version)
        if seen > version:
            raise Unavailable(
                f"it knows version {seen} of the map of cells and this process has {version};"
                " start this process again with the newer map"
            )
        self.looked_at = now

    async def open(self) -> None:
        # A waiting thread would still take the lock of a caller that has been cancelled.
        while not self.opening.acquire(blocking=False):  # noqa: ASYNC110  callers are in any event loop
            await asyncio.sleep(LOOK_FOR_OPENED)
        try:
            if not self.is_open:
                await self.store.open()
                self.is_open = True
        finally:
            self.opening.release()

    async def close(self) -> None:
        self.is_open, self.looked_at = False, float("-inf")
        await self.store.close()


class Fleet:
    """All cells of a map, by their places in it."""

    def __init__(self, map: CellMap, stores: Sequence[Store]) -> None:
        self.version = map.version
        self.places = places_by_slot(map)
        slots: list[list[int]] = [[] for _ in map.cells]
        for slot, place in enumerate(self.places):
            slots[place].append(slot)
        self.cells = [
            OpenCell(place, one.name, store, slots[place])
            for place, (one, store) in enumerate(zip(map.cells, stores, strict=True))
        ]

    async def open(self) -> None:
        """Open the cells that answer.

        Raises `Misconfigured` where the map is old, and `Unavailable` where no cell answers.
        """
        results = await asyncio.gather(
            *(self.open_cell(cell) for cell in self.cells), return_exceptions=True
        )
        errors = [one for one in results if isinstance(one, BaseException)]
        serious = [one for one in errors if not isinstance(one, Unavailable)]
        if serious or len(errors) == len(self.cells):
            await self.close()
            raise (serious or errors)[0]

    async def open_cell(self, cell: OpenCell) -> None:
        try:
            await cell.open()
            seen = await cell.store.note_map_version(self.version)
        except Misconfigured as error:
            raise Misconfigured(f"cell {cell.name}: {error}", error.key) from error
        except Unavailable as error:
            raise Unavailable(f"cell {cell.name}: {error}") from error
        if seen > self.version:
            raise Misconfigured(
                f"store: the map of cells has version {self.version}, and cell {cell.name} was"
                f" used with version {seen} already; use the newer file",
                "store",
            )
        cell.looked_at = time.monotonic()

    async def close(self) -> None:
        for cell in self.cells:
            with contextlib.suppress(Unavailable):
                await cell.close()

    def of_slot(self, slot: int) -> OpenCell:
        return self.cells[self.places[slot]]

    def of_id(self, id: str) -> OpenCell:
        """Where a record with this id is looked for first."""
        return self.of_slot(slot_of_id(id))

    async def ask(self, cell: OpenCell, ask: Ask[Answer]) -> Answer:
        return await cell.ask(self.version, ask)

    async def ask_all(self, ask: Ask[Answer]) -> Sequence[Answer]:
        """The answers of all cells, by place. Raises `Unavailable`, which names who is away."""
        return await self.ask_each([(cell, ask) for cell in self.cells])

    async def ask_each(self, asks: Sequence[tuple[OpenCell, Ask[Answer]]]) -> Sequence[Answer]:
        """The answers, once all have answered or failed; then the first error is raised."""
        results = await asyncio.gather(
            *(self.ask(cell, ask) for cell, ask in asks), return_exceptions=True
        )
        answers: list[Answer] = []
        for result in results:
            if isinstance(result, BaseException):
                raise result
            answers.append(result)
        return answers

    async def ask_present(self, ask: Ask[Answer]) -> Sequence[Answer]:
        """The answers of the cells that are not away; raises `Unavailable` where all are."""
        results = await asyncio.gather(
            *(self.ask(cell, ask) for cell in self.cells), return_exceptions=True
        )
        answers = [one for one in results if not isinstance(one, BaseException)]
        errors = [one for one in results if isinstance(one, BaseException)]
        serious = [one for one in errors if not isinstance(one, Unavailable)]
        if serious or not answers:
            raise (serious or errors)[0]
        return answers

    async def ask_soonest(self, ask: Ask[Answer]) -> Answer:
        """The answer of the cell that answers first; raises `Unavailable` where all are away."""
        answers = [asyncio.ensure_future(self.ask(cell, ask)) for cell in self.cells]
        waiting = set(answers)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                answered = [one for one in done if one.exception() is None]
                if answered:
                    return answered[0].result()
            return answers[0].result()
        finally:
            for one in waiting:
                one.cancel()

    async def ask_first(self, ask: Ask[Answer]) -> Answer:
        """The answer of the first cell that is not away, by place."""
        for cell in self.cells[:-1]:
            with contextlib.suppress(Unavailable):
                return await self.ask(cell, ask)
        return await self.ask(self.cells[-1], ask)

    async def find(
        self, slot: int, ask: Ask[Answer], is_found: Callable[[Answer], bool]
    ) -> tuple[OpenCell, Answer]:
        """The cell that has something and its answer; else the cell of the slot and what it said.

        That one is asked first, the others where it has nothing: records that a cell has made for
        itself have an id of any slot.
        """
        home = self.of_slot(slot)
        answer = await self.ask(home, ask)
        if is_found(answer):
            return home, answer
        others = [cell for cell in self.cells if cell is not home]
        answers = await self.ask_each([(cell, ask) for cell in others])
        for cell, other in zip(others, answers, strict=True):
            if is_found(other):
                return cell, other
        return home, answer

    async def find_each(
        self,
        ids: Collection[Id],
        ask: Callable[[Store, Sequence[Id]], Awaitable[Mapping[Id, Answer]]],
    ) -> dict[Id, Answer]:
        """What the cells have of these ids: each is asked of its own cell, then of the others."""
        wanted: dict[int, list[Id]] = {}
        for id in ids:
            wanted.setdefault(self.of_id(id).place, []).append(id)
        found = await self.ask_for(wanted, ask)
        missing = {place: [id for id in own if id not in found] for place, own in wanted.items()}
        elsewhere = {
            cell.place: [id for place, own in missing.items() if place != cell.place for id in own]
            for cell in self.cells
        }
        return found | await self.ask_for(elsewhere, ask)

    async def ask_for(
        self,
        wanted: Mapping[int, Sequence[Id]],
        ask: Callable[[Store, Sequence[Id]], Awaitable[Mapping[Id, Answer]]],
    ) -> dict[Id, Answer]:
        def question(ids: Sequence[Id]) -> Ask[Mapping[Id, Answer]]:
            return lambda store: ask(store, ids)

        asks = [(self.cells[place], question(ids)) for place, ids in wanted.items() if ids]
        found: dict[Id, Answer] = {}
        for answer in await self.ask_each(asks):
            found |= answer
        return found
