"""Turns due schedules into jobs, and judges jobs that could not start in time."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from onbeat.model.ids import ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import LAPSED_MAX, PLAN_SCHEDULES_MAX
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import PlannerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.rules.lapsing import EXPIRED, judge_lapsed
from onbeat.rules.planning import Read, plan, schedule_ids

UNREADABLE_PAUSE = timedelta(seconds=10)


class Planner:
    def __init__(
        self,
        store: PlannerStore,
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

    async def plan_due(self) -> int:
        """Give every schedule that is due for it its next jobs. Returns how many were due."""
        now = self.clock.now()
        schedules = await self.store.due_schedules(now, PLAN_SCHEDULES_MAX)
        plans = [self.made(schedule, now) for schedule in schedules]
        stored = await self.store.apply_plans(plans)
        kept = [made for made, was_stored in zip(plans, stored, strict=True) if was_stored]
        self.telemetry.planned(
            jobs=sum(len(made.jobs) for made in kept),
            skipped=sum(len(made.skips) for made in kept),
        )
        return len(plans)

    def made(self, schedule: Schedule, now: datetime) -> Plan:
        """The plan; where the rule cannot be read here, one that looks again a little later.

        Putting it off keeps rules that only another process knows (functions of time), or that
        raise, out of the way of all others.
        """
        try:
            return plan(schedule, now, self.horizon, self.chance.ids, self.read)
        except Exception as error:  # noqa: BLE001  a user's own function of time may raise anything
            self.telemetry.unplannable(schedule, error)
            return Plan(
                schedule_id=schedule.id,
                version=schedule.version,
                planned_through=schedule.planned_through,
                plan_at=now + UNREADABLE_PAUSE,
            )

    async def judge_lapsed(self) -> int:
        """Decide on waiting jobs whose time to start has passed. Returns how many there were."""
        now = self.clock.now()
        jobs = await self.store.lapsed(now, LAPSED_MAX)
        by_schedule = grouped(jobs)
        schedules = await self.store.schedules_by_id(schedule_ids(jobs))
        plans = [self.judged(schedule, by_schedule.pop(schedule.id), now) for schedule in schedules]
        await self.store.apply_plans(plans)
        orphans = [job.id for left in by_schedule.values() for job in left]
        await self.store.cancel_lapsed(orphans, EXPIRED, now)
        self.telemetry.planned(jobs=0, skipped=sum(len(made.dropped) for made in plans))
        return len(jobs)

    def judged(self, schedule: Schedule, jobs: Sequence[Job], now: datetime) -> Plan:
        """What becomes of them. Where the rule cannot be read here, they run: late beats never."""
        try:
            return judge_lapsed(schedule, jobs, now, self.read)
        except Exception as error:  # noqa: BLE001  a user's own function of time may raise anything
            self.telemetry.unplannable(schedule, error)
            return Plan(
                schedule_id=schedule.id,
                version=schedule.version,
                planned_through=schedule.planned_through,
                plan_at=schedule.plan_at,
                excused=tuple(job.id for job in jobs),
            )


def grouped(jobs: Sequence[Job]) -> dict[ScheduleId | None, list[Job]]:
    groups: dict[ScheduleId | None, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.schedule_id].append(job)
    return groups
