"""The store of a front: it finds for each call the cells that it concerns."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Never

from onbeat.model.cells import CellMap
from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedAnswer
from onbeat.ports.store import Hint, SchemaChange, Store
from onbeat.stores.cells.access import AccessCells
from onbeat.stores.cells.figures import FigureCells
from onbeat.stores.cells.fleet import Fleet
from onbeat.stores.cells.jobs import JobCells
from onbeat.stores.cells.parts import digest_of_part
from onbeat.stores.cells.schedules import ScheduleCells


class CellStore(JobCells, ScheduleCells, FigureCells, AccessCells):
    """What callers need of `onbeat.ports.store.Store`, over the stores of a map of cells.

    A call that concerns one cell is as atomic as there. One that concerns several is done in each
    by itself; where one of them is away it raises `Unavailable`, which names that one, and may be
    repeated. No answer leaves a cell out. What only the roles inside a cell do raises `Invalid`.
    """

    has_slots = True

    def __init__(self, url: str, map: CellMap, stores: Sequence[Store]) -> None:
        self.url = url
        self.fleet = Fleet(map, stores)

    async def open(self) -> None:
        """Open the cells that answer; the others are opened at their first use.

        Raises `Misconfigured` where a cell was used with a newer map, and `Unavailable` where none
        answers.
        """
        await self.fleet.open()

    async def close(self) -> None:
        await self.fleet.close()

    @property
    def schema_changes(self) -> Sequence[SchemaChange]:
        """Those of the cells that are open."""
        return [
            one for cell in self.fleet.cells if cell.is_open for one in cell.store.schema_changes
        ]

    def listen(self, on_hint: Callable[[Hint], None]) -> Callable[[], None]:
        stops = [cell.store.listen(on_hint) for cell in self.fleet.cells]

        def stop() -> None:
            for one in stops:
                one()

        return stop

    async def now(self) -> datetime | None:
        """The clock of the first cell that answers."""
        return await self.fleet.ask_first(lambda store: store.now())

    async def note_map_version(self, version: int) -> int:
        """0: cells have been told of a map, a front has not."""
        del version
        return 0

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        """As the cell has it that stored the answer of the whole request.

        Cells that are away or silent are left out: a request that was answered by one of them goes
        there again. That fails as long as the cell is away, and then it knows the answer.
        """
        answers = await self.fleet.ask_present(lambda store: store.keyed_answer(digest))
        return next((answer for answer in answers if answer is not None), None)

    async def begun_at(self, digest: bytes) -> datetime | None:
        """When the first try of a request began that was done in some of its cells.

        Raises `Unavailable` while one is away, which may know.
        """
        part = digest_of_part(digest)
        found = await self.fleet.ask_all(lambda store: store.keyed_answer(part))
        return min((one.made_at for one in found if one is not None), default=None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # A verb of the store that no caller needs across cells, such as a claim.
        if not hasattr(Store, name):
            raise AttributeError(f"CellStore has no attribute {name!r}")

        async def refuse(*_args: Any, **_options: Any) -> Never:
            raise Invalid(
                f"{name.replace('_', ' ')}: this is done in one cell at a time; ask the service of"
                " that cell, or name its store"
            )

        return refuse
