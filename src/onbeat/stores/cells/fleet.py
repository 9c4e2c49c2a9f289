"""The cells of a map, opened: who has a slot, and questions to one, several or all of them."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from onbeat.model.cells import CellMap
from onbeat.model.errors import Misconfigured, OnbeatError, Unavailable
from onbeat.ports.store import Store
from onbeat.rules.cells import places_by_slot, slot_of_id

LOOK_SECONDS: Final = 5.0
"""How long a process goes on without asking a cell whether a newer map is known there."""
PATIENCE_SECONDS: Final = 2.0
"""How long a question that other cells can answer waits for a cell that is silent."""
AWAY_SECONDS: Final = 15.0
"""How long such questions then leave the cell out, unless it answers another one meanwhile."""
LOOK_FOR_OPENED: Final = 0.01
"""Seconds between two looks whether another caller has opened a cell."""

REPEAT: Final = "repeat it to complete it"

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
        self.away_until = float("-inf")
        self.opening = threading.Lock()

    def slot_near(self, slot: int) -> int:
        """This slot, if it belongs to the cell, or else one that does."""
        return slot if slot in self.own else self.slots[slot % len(self.slots)]

    async def ask(self, version: int, ask: Ask[Answer]) -> Answer:
        """The answer of the cell. Raises `Unavailable`, which names it."""
        try:
            await self.make_ready(version)
            answer = await ask(self.store)
        except Unavailable as error:
            self.note_silence()
            raise Unavailable(f"cell {self.name}: {error}") from error
        except OnbeatError:
            self.away_until = float("-inf")
            raise
        self.away_until = float("-inf")
        return answer

    def note_silence(self) -> None:
        self.away_until = time.monotonic() + AWAY_SECONDS

    @property
    def seems_away(self) -> bool:
        """Whether it has not answered a short time ago."""
        return time.monotonic() < self.away_until

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

    async def change_all(self, ask: Ask[Answer], remedy: str = REPEAT) -> Sequence[Answer]:
        """The answers of all cells to a change of each.

        Raises `Unavailable` where one is away: it names who is, and which cells have done it, with
        the remedy.
        """
        results = await asyncio.gather(
            *(self.ask(cell, ask) for cell in self.cells), return_exceptions=True
        )
        answers = [one for one in results if not isinstance(one, BaseException)]
        errors = [one for one in results if isinstance(one, BaseException)]
        serious = [one for one in errors if not isinstance(one, Unavailable)]
        if serious:
            raise serious[0]
        if errors:
            is_done = [not isinstance(one, BaseException) for one in results]
            names = [cell.name for cell in self.cells]
            raise Unavailable(f"{errors[0]}; {where_done(names, is_done)}; {remedy}")
        return answers

    async def ask_present(self, ask: Ask[Answer]) -> Sequence[Answer]:
        """The answers of the cells that are not away; raises `Unavailable` where all are.

        Left out is a cell that is silent for `PATIENCE_SECONDS` after another has answered, and one
        that was silent a short time ago.
        """
        present = [cell for cell in self.cells if not cell.seems_away]
        rest = [cell for cell in self.cells if cell not in present]
        results = await self.ask_patiently(present, ask)
        if rest and all(isinstance(one, Unavailable) for one in results):
            results = await self.ask_patiently(rest, ask)
        answers = [one for one in results if not isinstance(one, BaseException)]
        errors = [one for one in results if isinstance(one, BaseException)]
        serious = [one for one in errors if not isinstance(one, Unavailable)]
        if serious or not answers:
            raise (serious or errors)[0]
        return answers

    async def ask_patiently(
        self, cells: Sequence[OpenCell], ask: Ask[Answer]
    ) -> Sequence[Answer | BaseException]:
        """The answers and the errors of these cells, without those that are silent for too long."""
        questions = {asyncio.ensure_future(self.ask(cell, ask)): cell for cell in cells}
        try:
            if await first_to_answer(questions) is not None:
                _, silent = await asyncio.wait(questions, timeout=PATIENCE_SECONDS)
                for one in silent:
                    questions[one].note_silence()
            return [one.exception() or one.result() for one in questions if one.done()]
        finally:
            for one in questions:
                one.cancel()

    async def ask_soonest(self, ask: Ask[Answer]) -> Answer:
        """The answer of the cell that answers first; raises `Unavailable` where all are away."""
        questions = [asyncio.ensure_future(self.ask(cell, ask)) for cell in self.cells]
        try:
            return (await first_to_answer(questions) or questions[0]).result()
        finally:
            for one in questions:
                one.cancel()

    async def ask_first(
        self, ask: Ask[Answer], *, home: OpenCell | None = None, may_repeat: bool = True
    ) -> Answer:
        """The answer of the first cell that is not away: of the `home`, or else by place.

        One that was silent a short time ago comes last. What `may_repeat` goes on to the next cell
        where one is silent for `PATIENCE_SECONDS`, and may then be done in both.
        """
        patience = PATIENCE_SECONDS if may_repeat else None
        *firsts, last = sorted(self.cells, key=lambda cell: (cell.seems_away, cell is not home))
        for cell in firsts:
            try:
                async with asyncio.timeout(patience):
                    return await self.ask(cell, ask)
            except TimeoutError:
                cell.note_silence()
            except Unavailable:
                continue
        return await self.ask(last, ask)

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


def where_done(names: Sequence[str], is_done: Sequence[bool]) -> str:
    """Which of these cells have done something. One without an answer may have done it, too."""
    done = [name for name, yes in zip(names, is_done, strict=True) if yes]
    rest = [name for name, yes in zip(names, is_done, strict=True) if not yes]
    return f"done in {cells_named(done)}, without an answer from {cells_named(rest)}"


def cells_named(names: Sequence[str]) -> str:
    if not names:
        return "no cell"
    return ("cell " if len(names) == 1 else "cells ") + ", ".join(names)


async def first_to_answer(
    questions: Collection[asyncio.Future[Answer]],
) -> asyncio.Future[Answer] | None:
    """The first that has an answer; None once all have failed."""
    waiting = set(questions)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        answered = [one for one in done if one.exception() is None]
        if answered:
            return answered[0]
    return None
