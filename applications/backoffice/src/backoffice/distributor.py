"""Which bills a run has: pages of subscriptions, each a task with a key of its own.

A page is read by its key, so that a run that was interrupted goes on behind the last row.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from backoffice.database import Database, Row
from backoffice.periods import (
    Period,
    anchor_day,
    month_before,
    parse,
    period_ending,
    year_before,
    year_ending,
)
from backoffice.tasks import BillingTask

PAGE: Final = 500
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
BILLING_TYPES: Final = {"MONTHLY": "MONTHLY", "MONTHLY_DEBUG": "MONTHLY", "ANNUAL": "ANNUAL"}
"""By the type of the run."""

CYCLES: Final = {"MONTHLY": ("MONTHLY", "ANNUAL"), "ANNUAL": ("ANNUAL",)}
"""The subscriptions of a billing type. Who pays membership by the year pays use by the month."""

Place = tuple[int, int]
"""Where a run stands: at which of its cycles, and behind which subscription."""


@dataclass(frozen=True, kw_only=True)
class BillingRun:
    """`type` is a key of `BILLING_TYPES`; `at` decides about periods and upgrades.

    With `by_anniversary` only those subscriptions are billed whose own period ends on the day of
    `at`; without, all of them, for the calendar's.
    """

    type: str
    at: datetime
    zone: str
    by_anniversary: bool = False

    @property
    def billing_type(self) -> str:
        return BILLING_TYPES[self.type]

    @property
    def period(self) -> str:
        """The name of the calendar's period; of a debug run its minute, which stands for it."""
        if self.type in {"MONTHLY", "ANNUAL"}:
            return self.calendar_period.name
        return f"{self.day:%Y-%m-%d-%H:%M}"

    @property
    def calendar_period(self) -> Period:
        before = year_before if self.billing_type == "ANNUAL" else month_before
        return before(self.at, self.zone)

    @property
    def day(self) -> datetime:
        return self.local(self.at)

    def local(self, at: datetime) -> datetime:
        return at.astimezone(ZoneInfo(self.zone))

    def period_of(
        self, created: datetime | None, period_end: datetime | None, last_run: str | None = None
    ) -> str | None:
        """The name of the period to bill now, if one is due.

        `created` is when the subscription began, if that is known: it is billed for no period
        before. `period_end` is any end of a period of its own, past or to come; without one
        `created` is. `last_run` is the run of its last bill.
        """
        created = created or EPOCH
        if not self.by_anniversary:
            return self.period if created < self.calendar_period.end else None
        ended = self.period_by_anniversary(created, period_end or created, last_run or "")
        is_today = self.local(ended.end).date() == self.day.date()
        # Its first day ends no period, at whatever time of the day it began.
        return ended.name if is_today and self.local(created).date() < self.day.date() else None

    def period_by_anniversary(
        self, created: datetime, period_end: datetime, last_run: str
    ) -> Period:
        """The provider may move `period_end` before the run or after it: the day is the same."""
        began, end = self.local(created).date(), self.local(period_end).date()
        known = [int(day) for day in [last_run.rpartition("@")[2]] if day != last_run]
        if created != EPOCH and (self.billing_type == "MONTHLY" or began.month == end.month):
            known.append(began.day)
        day = anchor_day(end, *known)
        if self.billing_type == "ANNUAL":
            return year_ending(self.at, end.month, day, self.zone)
        return period_ending(self.at, day, self.zone)


def key_of(task: BillingTask) -> str:
    """Of one bill: each subscription has one in a period, whoever sends it."""
    type, _, period = task.run_id.partition(":")
    return f"{type}:{task.subscription_id}:{period}"


@dataclass(frozen=True)
class Found:
    """A subscription of a run. `task` is of its bill, None where no period of it ends.

    `is_billed` says that the bill needs no job: it is paid, or something was demanded for it, which
    the daily run goes on with.
    """

    place: Place
    task: BillingTask | None
    is_billed: bool = False


async def bills(database: Database, run: BillingRun, after: Place) -> AsyncGenerator[Found]:
    """Each active subscription of the run behind `after`, cycle by cycle, in the order of ids."""
    first, id = after
    for number, cycle in list(enumerate(CYCLES[run.billing_type]))[first:]:
        while page := await subscriptions(database, run.billing_type, cycle, id):
            tasks = [billing_task(run, row) for row in page]
            billed = await billed_of(database, run, [task for task in tasks if task])
            for row, task in zip(page, tasks, strict=True):
                yield Found((number, row[0]), task, row[0] in billed)
            id = page[-1][0]
        id = 0


async def billed_of(database: Database, run: BillingRun, tasks: Sequence[BillingTask]) -> set[int]:
    """The subscriptions of these tasks whose bills are made, and need no job any more."""
    dates = {
        task.subscription_id: parse(task.run_id.partition(":")[2], task.billing_type, run.zone).date
        for task in tasks
    }
    if not dates:
        return set()
    days = sorted(set(dates.values()))
    async with database.session() as session:
        rows = await session.rows(
            "SELECT i.subscription_id, cast(i.period AS CHAR) FROM users_invoices i"  # noqa: S608
            f" WHERE i.subscription_id IN ({marks(dates)}) AND i.cycle = ?"
            f" AND i.period IN ({marks(days)}) AND (i.status = 'COMPLETE'"
            "  OR EXISTS (SELECT 1 FROM charges c WHERE c.invoice_id = i.id))",
            *(*dates, run.billing_type, *days),
        )
    return {id for id, date in rows if dates[id] == date}


def marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


async def subscriptions(database: Database, type: str, cycle: str, after: int) -> list[Row]:
    """A page of those with the cycle, each with the run of its last bill of the type."""
    async with database.session() as session:
        return list(
            await session.rows(
                "SELECT s.id, s.workspace_id, w.creator_id, s.current_plan_id,"
                " s.scheduled_plan_id, s.scheduled_effective_date, s.provider_subscription_id,"
                " s.created_at, s.current_period_end,"
                " (SELECT i.run_id FROM users_invoices i WHERE i.subscription_id = s.id"
                "  AND i.cycle = ? ORDER BY i.period DESC LIMIT 1)"
                " FROM subscriptions s JOIN workspaces w ON w.id = s.workspace_id"
                " WHERE s.status = 'ACTIVE' AND s.billing_cycle = ? AND s.id > ?"
                " ORDER BY s.id LIMIT ?",
                type,
                cycle,
                after,
                PAGE,
            )
        )


def billing_task(run: BillingRun, row: Row) -> BillingTask | None:
    id, workspace, creator, current, scheduled, effective, provider_id, *ends = row
    period = run.period_of(*ends)
    if period is None:
        return None
    # A run that comes late, or by hand, bills the plan of its period, not that of today.
    last = min(run.at, parse(period, run.billing_type, run.zone).end)
    is_upgrade = bool(scheduled is not None and effective is not None and effective <= last)
    plan: Any = scheduled if is_upgrade else current
    return BillingTask(
        run_id=f"{run.type}:{period}",
        billing_type=run.billing_type,
        workspace_id=workspace,
        creator_id=creator,
        subscription_id=id,
        action="upgrade" if is_upgrade else "renewal",
        plan_to_bill=plan,
        provider_subscription_id=provider_id or "",
    )
