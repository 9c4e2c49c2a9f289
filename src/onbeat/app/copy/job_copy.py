"""Copies jobs into another store, in order of their dependencies."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from onbeat.app.copy.table_copy import BATCH, Kind, OnProgress, TableCopy, Tally, tally_of_left
from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.ports.store import JobExport, Store
from onbeat.rules.merge import is_same

OUT_MAX: Final = 100_000  # ids of jobs that wait for their unique keys, held in memory


class JobCopy:
    """Copies all jobs of the source into the target.

    Jobs are stored after those that they wait for, because a wait needs an existing job. These have
    lower ids except for some derived ids, which are fetched ahead. Where the target leaves a job
    out, because another job there holds its unique key, jobs that wait for it are left out too. The
    key may be free once all ended jobs have been copied, so a second pass follows.
    """

    def __init__(self, source: Store, target: Store) -> None:
        self.source = source
        self.target = target
        self.out: set[JobId] = set()
        self.table_copy = TableCopy[JobExport, JobId](
            kind=Kind.JOBS,
            export=source.export_jobs,
            read_target=target.export_jobs,
            key_of=id_of_export,
            is_same=is_same,
        )

    async def run(self, progress: OnProgress) -> Tally:
        first = await self.table_copy.run(self.write, progress)
        if not self.out:
            return first
        self.out.clear()
        second = await self.table_copy.run(self.write, ignore_progress)
        return replace(second, read=first.read, changed=first.changed + second.changed)

    async def write(self, rows: Sequence[JobExport], after: JobId | None) -> Tally:
        behind = await self.table_copy.find_outdated(rows, after)
        arriving = await self.with_predecessors(behind, id_of_export(rows[-1]))
        changed = await self.import_exports(in_dependency_order(arriving))
        if changed == len(arriving):
            return Tally(len(rows), changed)
        still = await self.table_copy.find_outdated(rows, after)
        return Tally(len(rows), changed).plus(
            tally_of_left([id_of_export(export) for export in still])
        )

    async def with_predecessors(
        self, behind: Sequence[JobExport], last: JobId
    ) -> dict[JobId, JobExport]:
        """These jobs, and all with ids above `last` that they wait for, directly or not."""
        result = {id_of_export(export): export for export in behind}
        wanted = [id for export in behind for id in predecessors_of(export) if id > last]
        while wanted:
            id = wanted.pop()
            export = None if id in result else await self.find_changed(id)
            if export is not None:
                result[id] = export
                wanted += [id for id in predecessors_of(export) if id > last]
        return result

    async def find_changed(self, id: JobId) -> JobExport | None:
        """The job to import; None where there is nothing to change."""
        coming = await export_of(self.source, id)
        here = await export_of(self.target, id)
        if coming is None or (here is not None and is_same(coming, here)):
            return None
        return coming

    async def import_exports(self, exports: Iterator[JobExport]) -> int:
        """Import in as few calls as possible. Returns how many imports changed something."""
        changed = 0
        call: list[JobExport] = []
        uncertain: set[JobId] = set()
        for export in exports:
            if len(call) == BATCH or uncertain & predecessors_of(export):
                changed += await self.put(call)
                call, uncertain = [], set()
            if self.out & predecessors_of(export):
                self.leave_out(id_of_export(export))
                continue
            call.append(export)
            if holds_key(export):
                uncertain.add(id_of_export(export))
        return changed + await self.put(call)

    async def put(self, exports: Sequence[JobExport]) -> int:
        changed = await self.target.import_jobs(exports) if exports else 0
        if changed < len(exports):
            for id in [id_of_export(export) for export in exports if holds_key(export)]:
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


def ignore_progress(_kind: Kind, _count: int) -> None:
    """The second pass reports no progress."""


async def export_of(store: Store, id: JobId) -> JobExport | None:
    result = await store.export_jobs(just_before(id), 1)
    return next((export for export in result if id_of_export(export) == id), None)


def id_of_export(export: JobExport) -> JobId:
    return export.job.id


def just_before(id: JobId) -> JobId:
    """The highest id below this one."""
    return JobId(str(UUID(int=UUID(id).int - 1)))


def predecessors_of(export: JobExport) -> frozenset[JobId]:
    return frozenset() if export.job.is_final else frozenset(export.job.after)


def holds_key(export: JobExport) -> bool:
    return export.job.unique is not None and not export.job.is_final


def in_dependency_order(arriving: dict[JobId, JobExport]) -> Iterator[JobExport]:
    """Predecessors come before the jobs that wait for them."""
    graph = {id: predecessors_of(export) & arriving.keys() for id, export in arriving.items()}
    return (arriving[id] for id in TopologicalSorter(graph).static_order())
