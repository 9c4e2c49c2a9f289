"""Jobs on their way into another store: in which order, and what is done where one is not taken."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from onbeat.app.crossing import BATCH, Crossing, Kind, Tally, Told, left
from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.ports.store import Carton, Store
from onbeat.stores.arriving import is_same

OUT_MAX: Final = 100_000  # jobs that have to wait for their unique keys: their ids are remembered


class JobMove:
    """Brings all jobs of the source into the target.

    No job is stored before those that it waits for, or it would not wait for them. Those have
    earlier ids but for some that were derived; these are fetched ahead. Where the target leaves one
    out, as another job of it holds the unique key, what waits for that one is left out too. The
    key may be free once all that has ended has arrived, so then there is a second walk.
    """

    def __init__(self, source: Store, target: Store) -> None:
        self.source = source
        self.target = target
        self.out: set[JobId] = set()
        self.crossing = Crossing[Carton, JobId](
            kind=Kind.JOBS,
            export=source.export_jobs,
            here=target.export_jobs,
            key_of=id_of,
            is_same=is_same,
        )

    async def run(self, told: Told) -> Tally:
        first = await self.crossing.run(self.bring, told)
        if not self.out:
            return first
        self.out.clear()
        second = await self.crossing.run(self.bring, silent)
        return replace(second, read=first.read, changed=first.changed + second.changed)

    async def bring(self, rows: Sequence[Carton], after: JobId | None) -> Tally:
        behind = await self.crossing.behind(rows, after)
        arriving = await self.with_later(behind, id_of(rows[-1]))
        changed = await self.store(in_order(arriving))
        if changed == len(arriving):
            return Tally(len(rows), changed)
        still = await self.crossing.behind(rows, after)
        return Tally(len(rows), changed).plus(left([id_of(carton) for carton in still]))

    async def with_later(self, behind: Sequence[Carton], last: JobId) -> dict[JobId, Carton]:
        """These jobs, and those past the last that they, or others of them, wait for."""
        found = {id_of(carton): carton for carton in behind}
        wanted = [id for carton in behind for id in awaited(carton) if id > last]
        while wanted:
            id = wanted.pop()
            carton = None if id in found else await self.changed(id)
            if carton is not None:
                found[id] = carton
                wanted += [id for id in awaited(carton) if id > last]
        return found

    async def changed(self, id: JobId) -> Carton | None:
        """None where there is nothing to bring."""
        coming = await carton_of(self.source, id)
        here = await carton_of(self.target, id)
        if coming is None or (here is not None and is_same(coming, here)):
            return None
        return coming

    async def store(self, cartons: Iterator[Carton]) -> int:
        """In as few calls as may be. Answers with how many changed something."""
        changed = 0
        call: list[Carton] = []
        uncertain: set[JobId] = set()
        for carton in cartons:
            if len(call) == BATCH or uncertain & awaited(carton):
                changed += await self.put(call)
                call, uncertain = [], set()
            if self.out & awaited(carton):
                self.leave_out(id_of(carton))
                continue
            call.append(carton)
            if holds_key(carton):
                uncertain.add(id_of(carton))
        return changed + await self.put(call)

    async def put(self, cartons: Sequence[Carton]) -> int:
        changed = await self.target.restore_jobs(cartons) if cartons else 0
        if changed < len(cartons):
            for id in [id_of(carton) for carton in cartons if holds_key(carton)]:
                here = await self.target.job(id)
                if here is None or here.is_final:
                    self.leave_out(id)
        return changed

    def leave_out(self, id: JobId) -> None:
        self.out.add(id)
        if len(self.out) > OUT_MAX:
            raise Conflict(
                f"the unique keys of more than {OUT_MAX:,} jobs are held by other jobs of "
                f"{self.target.url}; copy into a store that has no jobs of its own"
            )


def silent(_kind: Kind, _count: int) -> None:
    """A second walk tells nothing that is new."""


async def carton_of(store: Store, id: JobId) -> Carton | None:
    found = await store.export_jobs(just_before(id), 1)
    return next((carton for carton in found if id_of(carton) == id), None)


def id_of(carton: Carton) -> JobId:
    return carton.job.id


def just_before(id: JobId) -> JobId:
    """The id after which this one comes next."""
    return JobId(str(UUID(int=UUID(id).int - 1)))


def awaited(carton: Carton) -> frozenset[JobId]:
    return frozenset() if carton.job.is_final else frozenset(carton.job.after)


def holds_key(carton: Carton) -> bool:
    return carton.job.unique is not None and not carton.job.is_final


def in_order(arriving: dict[JobId, Carton]) -> Iterator[Carton]:
    """What others wait for comes before them."""
    graph = {id: awaited(carton) & arriving.keys() for id, carton in arriving.items()}
    return (arriving[id] for id in TopologicalSorter(graph).static_order())
