"""Replans schedules that were planned with older zone data."""

from datetime import datetime, timedelta
from itertools import count

from msgspec.structs import replace

from onbeat.model.errors import TooCostly
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import ScheduleFilter
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.clock import Clock
from onbeat.ports.computation import compute
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import Budget, depends_on_zone, tzdata_version
from onbeat.rules.calendar import shifted
from onbeat.rules.plans import TICK, Compile, with_budget
from onbeat.rules.zone_changes import Planned, doubts_of_zones, plan_moved

ONCE_A_DAY = 86_400.0


class Replanner:
    """Governments change their clocks at short notice; planned jobs have to follow.

    On its way it tells of zones that a schedule may no longer have.

    A process reads zone data once, so one pass at its start would be enough for itself. The loop
    repeats because other processes may still plan with older data.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
        horizon: timedelta,
        compile: Compile,
    ) -> None:
        self.store = store
        self.clock = clock
        self.randomness = randomness
        self.telemetry = telemetry
        self.horizon = horizon
        self.compile = compile
        self.zone_data = tzdata_version()

    async def replan_outdated(self) -> int:
        """Replan every schedule whose future differs. Returns how many were examined."""
        looked_at = 0
        for page in count():
            schedules = await self.store.schedules(
                ScheduleFilter(
                    status=ScheduleStatus.ACTIVE,
                    limit=PAGE_LIMIT_MAX,
                    offset=page * PAGE_LIMIT_MAX,
                )
            )
            for schedule in schedules.items:
                for doubt in doubts_of_zones(schedule):
                    self.telemetry.zone_in_doubt(schedule, doubt)
                if self.is_outdated(schedule):
                    await self.replan_schedule(schedule)
                    looked_at += 1
            if len(schedules.items) < PAGE_LIMIT_MAX:
                return looked_at
        return looked_at

    def is_outdated(self, schedule: Schedule) -> bool:
        return schedule.zone_data != self.zone_data and depends_on_zone(schedule.recurrence)

    async def replan_schedule(self, schedule: Schedule) -> None:
        """Replan jobs of the future, if the new data have some of them at other instants.

        A concurrent edit wins: it was planned with the zone data of its process.
        """
        now = self.clock.now()
        planned = await self.planned_around(schedule, now)
        try:
            found = await compute(lambda budget: self.plan_or_none(schedule, planned, now, budget))
        except TooCostly as error:
            self.telemetry.unplannable(schedule, error)
            return
        if found is None:
            return
        moved, plan = found
        noted = replace(schedule, zone_data=self.zone_data, version=schedule.version + 1)
        if plan is None:
            await self.store.update_schedule(noted, None, now)
            return
        noted = replace(noted, planned_through=plan.planned_through, plan_at=plan.plan_at)
        if await self.store.update_schedule(noted, replace(plan, version=noted.version), now):
            self.telemetry.zone_data_moved(schedule, moved)

    async def planned_around(self, schedule: Schedule, now: datetime) -> Planned:
        """The occurrences after now that wait for their time, and the last one up to now."""
        coming = await self.store.dispositions(schedule.id, now, schedule.planned_through)
        decided = await self.store.latest_dispositions(schedule.id, shifted(now, TICK), 1)
        return Planned(
            [one.first for one in coming if one.job_id is not None and one.first > now],
            decided[0].last if decided else None,
        )

    def plan_or_none(
        self, schedule: Schedule, planned: Planned, now: datetime, budget: Budget
    ) -> tuple[int, Plan | None] | None:
        """As `plan_moved`; logs and returns None if the rule cannot be read."""
        read = with_budget(self.compile, budget)
        try:
            return plan_moved(schedule, planned, now, self.horizon, self.randomness.ids, read)
        except TooCostly:
            raise
        except BaseException as error:  # noqa: BLE001  a zone may be missing from the new data
            self.telemetry.unplannable(schedule, error)
            return None

    async def step(self) -> float:
        await self.replan_outdated()
        return ONCE_A_DAY
