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
from onbeat.rules.plans import Compile, replan, with_budget

ONCE_A_DAY = 86_400.0


class Replanner:
    """Governments change their clocks at short notice; planned jobs have to follow.

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
                if self.is_outdated(schedule):
                    await self.replan_schedule(schedule)
                    looked_at += 1
            if len(schedules.items) < PAGE_LIMIT_MAX:
                return looked_at
        return looked_at

    def is_outdated(self, schedule: Schedule) -> bool:
        return schedule.zone_data != self.zone_data and depends_on_zone(schedule.recurrence)

    async def replan_schedule(self, schedule: Schedule) -> None:
        """Replan future jobs, if they have changed.

        A concurrent edit wins: it was planned with the zone data of its process.
        """
        now = self.clock.now()
        try:
            plan = await compute(lambda budget: self.replan_or_none(schedule, now, budget))
        except TooCostly as error:
            self.telemetry.unplannable(schedule, error)
            return
        if plan is None:
            return
        moved = await self.count_moved(schedule, plan)
        noted = replace(schedule, zone_data=self.zone_data, version=schedule.version + 1)
        if not moved:
            await self.store.update_schedule(noted, None, now)
            return
        planned = replace(noted, planned_through=plan.planned_through, plan_at=plan.plan_at)
        if await self.store.update_schedule(planned, replace(plan, version=noted.version), now):
            self.telemetry.zone_data_moved(schedule, moved)

    def replan_or_none(self, schedule: Schedule, now: datetime, budget: Budget) -> Plan | None:
        """The plan from now on; logs and returns None if the rule cannot be read."""
        read = with_budget(self.compile, budget)
        try:
            return replan(schedule, now, self.horizon, self.randomness.ids, None, read)
        except TooCostly:
            raise
        except BaseException as error:  # noqa: BLE001  a zone may be missing from the new data
            self.telemetry.unplannable(schedule, error)
            return None

    async def count_moved(self, schedule: Schedule, plan: Plan) -> int:
        """How many of the planned future occurrences the new data has at another time."""
        now = self.clock.now()
        kept = await self.store.dispositions(schedule.id, now, schedule.planned_through)
        before = {
            result.first for result in kept if result.job_id is not None and result.first > now
        }
        after = {job.occurrence for job in plan.jobs}
        return len(before - after)

    async def step(self) -> float:
        await self.replan_outdated()
        return ONCE_A_DAY
