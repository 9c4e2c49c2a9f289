"""Schedules, their occurrences and their timelines over several cells."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from operator import attrgetter, methodcaller
from typing import TypeVar

from onbeat.model.errors import Invalid
from onbeat.model.event import Event
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import ScheduleId
from onbeat.model.job import Job
from onbeat.model.page import OccurrenceFilter, Page, ScheduleFilter
from onbeat.model.plan import Plan, Skip
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import ForgottenRun, JobRun, RunCount, SkippedSpan
from onbeat.ports.store import Disposition, Store
from onbeat.rules.cell_merges import earliest, newest
from onbeat.rules.cells import SCHEDULE, slot_of_id, slot_of_key, slot_of_schedule
from onbeat.stores.cells.fleet import Ask, Fleet, OpenCell

Answer = TypeVar("Answer")


class ScheduleCells:
    """See `onbeat.ports.store.OperationsStore`; what is said here is what differs."""

    fleet: Fleet

    async def add_schedule(
        self, schedule: Schedule, plan: Plan, keyed: KeyedRequest | None = None
    ) -> None:
        cell = self.fleet.of_slot(slot_of_schedule(schedule.id, schedule.key))
        await self.fleet.ask(cell, lambda store: store.add_schedule(schedule, plan, keyed))

    async def schedule(self, id: ScheduleId) -> Schedule | None:
        return (await self.find_schedule(id))[1]

    async def find_schedule(self, id: ScheduleId) -> tuple[OpenCell, Schedule | None]:
        return await self.fleet.find(slot_of_id(id), lambda store: store.schedule(id), bool)

    async def schedule_by_key(self, key: str) -> Schedule | None:
        slot = slot_of_key(SCHEDULE, key)
        _, schedule = await self.fleet.find(slot, lambda store: store.schedule_by_key(key), bool)
        return schedule

    async def doubles_of(self, keys: Collection[str]) -> Sequence[Schedule]:
        """Schedules in other cells than that of their key, which has one with it, too."""
        doubles: list[Schedule] = []
        for key in keys:
            home = self.fleet.of_slot(slot_of_key(SCHEDULE, key)).place
            found = await self.fleet.ask_all(methodcaller("schedule_by_key", key))
            if found[home] is not None:
                others = (one for place, one in enumerate(found) if place != home)
                doubles += [one for one in others if one is not None]
        return doubles

    async def schedules_by_id(self, ids: Collection[ScheduleId]) -> Sequence[Schedule]:
        async def ask(store: Store, own: Sequence[ScheduleId]) -> dict[ScheduleId, Schedule]:
            return {one.id: one for one in await store.schedules_by_id(own)}

        return list((await self.fleet.find_each(ids, ask)).values())

    async def schedules_of_owner(self, owner: str) -> Sequence[Schedule]:
        found = await self.fleet.ask_all(lambda store: store.schedules_of_owner(owner))
        return sorted((one for part in found for one in part), key=attrgetter("id"))

    async def schedules(self, filter: ScheduleFilter) -> Page[Schedule]:
        """Each cell is asked for all schedules up to the end of the page."""
        end = filter.offset + filter.limit
        whole = ScheduleFilter(status=filter.status, q=filter.q, limit=end)
        pages = await self.fleet.ask_all(lambda store: store.schedules(whole))
        items = newest([page.items for page in pages], attrgetter("id"), end)
        return Page(tuple(items[filter.offset :]), total=sum(page.total or 0 for page in pages))

    async def update_schedule(
        self, schedule: Schedule, plan: Plan | None, now: datetime, event: Event | None = None
    ) -> bool:
        """Raises `Invalid` for a new key that belongs to another cell."""
        cell, stored = await self.find_schedule(schedule.id)
        if stored is not None and stored.key != schedule.key:
            check_key(self.fleet, cell, schedule)
        return await self.fleet.ask(
            cell, lambda store: store.update_schedule(schedule, plan, now, event)
        )

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return [await self.apply_plan(plan) for plan in plans]

    async def apply_plan(self, plan: Plan) -> bool:
        cell, _ = await self.find_schedule(plan.schedule_id)
        (is_stored,) = await self.fleet.ask(cell, lambda store: store.apply_plans([plan]))
        return is_stored

    async def next_plan_at(self) -> datetime | None:
        return earliest(await self.fleet.ask_all(lambda store: store.next_plan_at()))

    async def delete_schedule(self, id: ScheduleId, now: datetime) -> bool:
        return await self.of_schedule(id, lambda store: store.delete_schedule(id, now))

    async def of_schedule(self, id: ScheduleId, ask: Ask[Answer]) -> Answer:
        """What the cell says that has something of this schedule."""
        _, answer = await self.fleet.find(slot_of_id(id), ask, bool)
        return answer

    async def trigger(self, id: ScheduleId, job: Job, keyed: KeyedRequest | None = None) -> None:
        cell, _ = await self.find_schedule(id)
        await self.fleet.ask(cell, lambda store: store.trigger(id, job, keyed))

    async def backfill(
        self,
        id: ScheduleId,
        jobs: Sequence[Job],
        skips: Sequence[Skip],
        keyed: KeyedRequest | None = None,
    ) -> int:
        cell, _ = await self.find_schedule(id)
        return await self.fleet.ask(cell, lambda store: store.backfill(id, jobs, skips, keyed))

    async def occurrence_jobs(self, filter: OccurrenceFilter) -> Page[Job]:
        cell = await self.cell_of_schedule(filter.schedule_id)
        if cell is not None:
            return await self.fleet.ask(cell, lambda store: store.occurrence_jobs(filter))
        _, page = await self.fleet.find(
            slot_of_id(filter.schedule_id),
            lambda store: store.occurrence_jobs(filter),
            lambda page: bool(page.items),
        )
        return page

    async def cell_of_schedule(self, id: ScheduleId) -> OpenCell | None:
        """None for a schedule that was deleted, whose jobs are still somewhere."""
        cell, schedule = await self.find_schedule(id)
        return None if schedule is None else cell

    async def dispositions(
        self, id: ScheduleId, first: datetime, last: datetime
    ) -> Sequence[Disposition]:
        return await self.rows_of_schedule(id, lambda store: store.dispositions(id, first, last))

    async def latest_dispositions(
        self, id: ScheduleId, before: datetime, limit: int
    ) -> Sequence[Disposition]:
        return await self.rows_of_schedule(
            id, lambda store: store.latest_dispositions(id, before, limit)
        )

    async def rows_of_schedule(
        self, id: ScheduleId, ask: Ask[Sequence[Answer]]
    ) -> Sequence[Answer]:
        cell = await self.cell_of_schedule(id)
        return await (self.of_schedule(id, ask) if cell is None else self.fleet.ask(cell, ask))

    # Timelines: a schedule is in one cell, so what the cells have is never of the same one

    async def runs_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[JobRun]:
        return await self.of_all(lambda store: store.runs_between(ids, first, last, limit))

    async def run_counts(
        self,
        ids: Collection[ScheduleId],
        first: datetime,
        last: datetime,
        width: timedelta,
        limit: int,
    ) -> Sequence[RunCount]:
        return await self.of_all(lambda store: store.run_counts(ids, first, last, width, limit))

    async def skips_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[SkippedSpan]:
        return await self.of_all(lambda store: store.skips_between(ids, first, last, limit))

    async def forgotten_between(
        self, ids: Collection[ScheduleId], first: datetime, last: datetime, limit: int
    ) -> Sequence[ForgottenRun]:
        return await self.of_all(lambda store: store.forgotten_between(ids, first, last, limit))

    async def of_all(self, ask: Callable[[Store], Awaitable[Sequence[Answer]]]) -> Sequence[Answer]:
        """The answers of all cells, one after another."""
        return [one for part in await self.fleet.ask_all(ask) for one in part]


def check_key(fleet: Fleet, cell: OpenCell, schedule: Schedule) -> None:
    """A key is given once because one cell knows all schedules that could have it."""
    home = fleet.of_slot(slot_of_schedule(schedule.id, schedule.key))
    if schedule.key is not None and home is not cell:
        raise Invalid(
            f"key: {schedule.key!r} belongs to cell {home.name}, and the schedule is in cell"
            f" {cell.name}; choose another key, or make a new schedule with this one",
            "key",
        )
