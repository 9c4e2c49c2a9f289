"""Plans anew what was planned by zone data that has since been replaced."""

from datetime import timedelta
from itertools import count

from msgspec.structs import replace

from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.page import ScheduleFilter
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import depends_on_zone, tzdata_version
from onbeat.rules.planning import Read, replan

ONCE_A_DAY = 86_400.0


class Replanner:
    """Governments move their clocks at short notice: what waits has to follow the new rules.

    Zone data is read once in the life of a process, so one look at its start is enough; the loop
    comes by again because schedules may still be planned by processes that read older data.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        chance: Chance,
        telemetry: Telemetry,
        horizon: timedelta,
        read: Read,
    ) -> None:
        self.store = store
        self.clock = clock
        self.chance = chance
        self.telemetry = telemetry
        self.horizon = horizon
        self.read = read
        self.zone_data = tzdata_version()

    async def follow_zone_data(self) -> int:
        """Plan anew every schedule whose future differs. Returns how many were looked at."""
        looked_at = 0
        for page in count():
            found = await self.store.schedules(
                ScheduleFilter(
                    status=ScheduleStatus.ACTIVE,
                    limit=PAGE_LIMIT_MAX,
                    offset=page * PAGE_LIMIT_MAX,
                )
            )
            for schedule in found.items:
                if self.is_outdated(schedule):
                    await self.follow(schedule)
                    looked_at += 1
            if len(found.items) < PAGE_LIMIT_MAX:
                return looked_at
        return looked_at

    def is_outdated(self, schedule: Schedule) -> bool:
        return schedule.zone_data != self.zone_data and depends_on_zone(schedule.recurrence)

    async def follow(self, schedule: Schedule) -> None:
        """Only what still lies ahead is made again, and only where it is no longer the same.

        An edit that comes between wins: it was planned by the data that its process has.
        """
        now = self.clock.now()
        try:
            plan = replan(schedule, now, self.horizon, self.chance.ids, None, self.read)
        except Exception as error:  # noqa: BLE001  a zone may be gone from the new data
            self.telemetry.unplannable(schedule, error)
            return
        moved = await self.moved(schedule, plan)
        noted = replace(schedule, zone_data=self.zone_data, version=schedule.version + 1)
        if not moved:
            await self.store.update_schedule(noted, None, now)
            return
        planned = replace(noted, planned_through=plan.planned_through, plan_at=plan.plan_at)
        if await self.store.update_schedule(planned, replace(plan, version=noted.version), now):
            self.telemetry.zone_data_moved(schedule, moved)

    async def moved(self, schedule: Schedule, plan: Plan) -> int:
        """How many of the planned occurrences ahead are not where the new data has them."""
        now = self.clock.now()
        kept = await self.store.dispositions(schedule.id, now, schedule.planned_through)
        before = {found.first for found in kept if found.job_id is not None and found.first > now}
        after = {job.occurrence for job in plan.jobs}
        return len(before - after)

    async def step(self) -> float:
        await self.follow_zone_data()
        return ONCE_A_DAY
