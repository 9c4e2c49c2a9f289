"""Turns due schedules into jobs, and decides on jobs that could not start in time."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from onbeat.model.errors import TooCostly
from onbeat.model.ids import ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import LAPSED_MAX, LOOP_STEPS_MAX, PLAN_SCHEDULES_MAX
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule
from onbeat.ports.clock import Clock
from onbeat.ports.computation import compute, compute_aside
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import PlannerStore
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import Budget
from onbeat.rules.expiry import EXPIRED, judge_overdue
from onbeat.rules.plans import Compile, plan, schedule_ids, with_budget

UNREADABLE_PAUSE = timedelta(seconds=10)

TOO_COSTLY_PAUSE = timedelta(minutes=10)
"""A rule that takes too long to compute is retried rarely."""


class Planner:
    def __init__(
        self,
        store: PlannerStore,
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

    async def plan_due(self) -> int:
        """Plan the next jobs of every schedule due for planning. Returns how many were due."""
        now = self.clock.now()
        schedules = await self.store.due_schedules(now, PLAN_SCHEDULES_MAX)
        plans: list[Plan] = []
        costly: list[Schedule] = []
        for schedule in schedules:
            try:
                plans.append(self.plan_or_postpone(schedule, now, Budget(LOOP_STEPS_MAX)))
            except TooCostly:
                costly.append(schedule)
        await self.apply(plans)
        # Costly schedules come last, one by one, so that they delay no others.
        for schedule in costly:
            await self.apply([await self.plan_in_thread(schedule, now)])
        return len(schedules)

    async def apply(self, plans: Sequence[Plan]) -> None:
        stored = await self.store.apply_plans(plans)
        kept = [made for made, was_stored in zip(plans, stored, strict=True) if was_stored]
        self.telemetry.made(job for made in kept for job in made.jobs)
        self.telemetry.planned(
            jobs=sum(len(made.jobs) for made in kept),
            skipped=sum(len(made.skips) for made in kept),
        )

    async def plan_in_thread(self, schedule: Schedule, now: datetime) -> Plan:
        try:
            return await compute_aside(lambda budget: self.plan_or_postpone(schedule, now, budget))
        except TooCostly as error:
            return self.postpone(schedule, error, now + TOO_COSTLY_PAUSE)

    def plan_or_postpone(self, schedule: Schedule, now: datetime, budget: Budget) -> Plan:
        """The plan; if the rule cannot be read here, an empty plan that is retried a little later.

        The retry keeps a rule that raises, or that only another process knows (a function of time),
        from blocking others. Raises `TooCostly` when the budget is not enough.
        """
        read = with_budget(self.compile, budget)
        try:
            return plan(schedule, now, self.horizon, self.randomness.ids, read)
        except TooCostly:
            raise
        except BaseException as error:  # noqa: BLE001  a user's own function of time may raise anything
            return self.postpone(schedule, error, now + UNREADABLE_PAUSE)

    def postpone(self, schedule: Schedule, error: BaseException, until: datetime) -> Plan:
        self.telemetry.unplannable(schedule, error)
        return Plan(
            schedule_id=schedule.id,
            version=schedule.version,
            planned_from=schedule.planned_through,
            planned_through=schedule.planned_through,
            plan_at=until,
        )

    async def judge_overdue(self) -> int:
        """Decide on waiting jobs that could not start in time. Returns how many there were."""
        now = self.clock.now()
        jobs = await self.store.overdue_jobs(now, LAPSED_MAX)
        by_schedule = group_by_schedule(jobs)
        schedules = await self.store.schedules_by_id(schedule_ids(jobs))
        plans = [
            await self.judge_within_budget(schedule, by_schedule.pop(schedule.id), now)
            for schedule in schedules
        ]
        await self.store.apply_plans(plans)
        orphans = [job.id for left in by_schedule.values() for job in left]
        await self.store.cancel_overdue(orphans, EXPIRED, now)
        self.telemetry.planned(jobs=0, skipped=sum(len(made.dropped) for made in plans))
        return len(jobs)

    async def continue_cascades(self) -> int:
        """Free or cancel dependents that were too many for the transaction that ended their job."""
        return await self.store.continue_cascades(self.clock.now())

    async def close_flows(self) -> int:
        """Free or cancel the jobs that wait for flows which have ended."""
        return await self.store.close_flows(self.clock.now())

    async def judge_within_budget(
        self, schedule: Schedule, jobs: Sequence[Job], now: datetime
    ) -> Plan:
        try:
            return await compute(lambda budget: self.judge_or_allow(schedule, jobs, now, budget))
        except TooCostly as error:
            return self.allow_late(schedule, jobs, now, error)

    def judge_or_allow(
        self, schedule: Schedule, jobs: Sequence[Job], now: datetime, budget: Budget
    ) -> Plan:
        """The decision on these jobs. If the rule cannot be read here, they run late."""
        read = with_budget(self.compile, budget)
        try:
            return judge_overdue(schedule, jobs, now, read)
        except TooCostly:
            raise
        except BaseException as error:  # noqa: BLE001  a user's own function of time may raise anything
            return self.allow_late(schedule, jobs, now, error)

    def allow_late(
        self, schedule: Schedule, jobs: Sequence[Job], now: datetime, error: BaseException
    ) -> Plan:
        self.telemetry.unplannable(schedule, error)
        return Plan(
            schedule_id=schedule.id,
            version=schedule.version,
            planned_through=schedule.planned_through,
            plan_at=schedule.plan_at,
            allowed_late=tuple(job.id for job in jobs),
            decided_at=now,
        )


def group_by_schedule(jobs: Sequence[Job]) -> dict[ScheduleId | None, list[Job]]:
    groups: dict[ScheduleId | None, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.schedule_id].append(job)
    return groups
