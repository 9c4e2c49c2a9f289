"""Which bills a run has."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from backoffice import distributor
from backoffice.database import Database
from backoffice.distributor import BillingRun, bills, key_of
from backoffice.periods import parse
from backoffice.tasks import BillingTask
from world import World

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
MONTHLY = BillingRun(type="MONTHLY", at=FIRST, zone="UTC")


def with_database(world: World, work: Any) -> Any:
    async def done() -> Any:
        database = Database(world.url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(done())


def tasks(
    world: World, run: BillingRun = MONTHLY, after: tuple[int, int] = (0, 0)
) -> list[BillingTask]:
    async def read(database: Database) -> list[BillingTask]:
        found = [each async for each in bills(database, run, after)]
        return [each.task for each in found if each.task is not None and not each.is_billed]

    result: list[BillingTask] = with_database(world, read)
    return result


def customer(world: World, **columns: object) -> int:
    """The id of a subscription."""
    user = world.user()
    return world.subscription(world.workspace(user), world.plan(), **columns)


def test_s1_12_a_task_has_the_eight_fields(world: World) -> None:
    user, plan = world.user(), world.plan()
    workspace = world.workspace(user)
    id = world.subscription(workspace, plan, provider_subscription_id="sub_1")
    assert tasks(world) == [
        BillingTask(
            run_id="MONTHLY:2026-10",
            billing_type="MONTHLY",
            workspace_id=workspace,
            creator_id=user,
            subscription_id=id,
            action="renewal",
            plan_to_bill=plan,
            provider_subscription_id="sub_1",
        )
    ]


def test_s1_15_active_subscriptions_of_the_cycle_are_billed(world: World) -> None:
    monthly = [customer(world), customer(world)]
    annual = customer(world, billing_cycle="ANNUAL")
    customer(world, status="CANCELLED")
    assert [(task.subscription_id, task.billing_type) for task in tasks(world)] == [
        *((id, "MONTHLY") for id in monthly),
        (annual, "MONTHLY"),  # the use of the month; the membership is that of the annual run
    ]
    run = BillingRun(type="ANNUAL", at=datetime(2027, 1, 1, tzinfo=UTC), zone="UTC")
    assert [(task.subscription_id, task.run_id) for task in tasks(world, run)] == [
        (annual, "ANNUAL:2026")
    ]
    assert {task.provider_subscription_id for task in tasks(world)} == {""}


@pytest.mark.parametrize(
    ("effective", "action", "plan"),
    [
        (FIRST - timedelta(days=1), "upgrade", 7),
        (FIRST, "upgrade", 7),
        (FIRST + timedelta(days=1), "renewal", 3),
        (None, "renewal", 3),
    ],
)
def test_s1_a12_a_scheduled_plan_is_billed_from_its_date_on(
    world: World, effective: datetime | None, action: str, plan: int
) -> None:
    workspace = world.workspace(world.user())
    world.subscription(workspace, 3, scheduled_plan_id=7, scheduled_effective_date=effective)
    (task,) = tasks(world)
    assert (task.action, task.plan_to_bill) == (action, plan)


@pytest.mark.parametrize(("day", "action"), [(1, "upgrade"), (2, "renewal"), (5, "renewal")])
def test_s1_a12_a_run_that_comes_late_bills_the_plan_of_its_period(
    world: World, day: int, action: str
) -> None:
    """October by hand on the 10th: the plan that began on the 5th is billed with November."""
    effective = datetime(2026, 11, day, tzinfo=UTC)
    workspace = world.workspace(world.user())
    world.subscription(workspace, 3, scheduled_plan_id=7, scheduled_effective_date=effective)
    for run in (
        replace(MONTHLY, at=datetime(2026, 11, 10, tzinfo=UTC)),
        BillingRun(type="MONTHLY_DEBUG", at=datetime(2026, 11, 10, tzinfo=UTC), zone="UTC"),
    ):
        (task,) = tasks(world, run)
        assert task.action == action


def test_s1_d15_each_subscription_of_a_workspace_has_a_key(world: World) -> None:
    workspace, plan = world.workspace(world.user()), world.plan()
    ids = [world.subscription(workspace, plan) for _ in range(2)]
    assert [key_of(task) for task in tasks(world)] == [f"MONTHLY:{id}:2026-10" for id in ids]


def test_s1_d40_rows_are_read_in_pages_by_an_index(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributor, "PAGE", 2)
    ids = [customer(world) for _ in range(5)]
    annual = customer(world, billing_cycle="ANNUAL")
    ids.append(annual)
    assert [task.subscription_id for task in tasks(world)] == ids
    assert [task.subscription_id for task in tasks(world, after=(1, 0))] == [annual]
    assert [task.subscription_id for task in tasks(world, after=(0, ids[2]))] == ids[3:]
    (plan, *_) = world.rows(
        "EXPLAIN SELECT id FROM subscriptions WHERE status = 'ACTIVE' AND billing_cycle = 'MONTHLY'"
        " AND id > 3 ORDER BY id LIMIT 500"
    )
    assert "subscriptions_by_cycle" in plan


@pytest.mark.parametrize("by_anniversary", [False, True])
def test_s1_07_what_is_paid_or_was_demanded_is_sent_by_no_second_run(
    world: World, by_anniversary: bool
) -> None:
    """An invoice that was only drafted is sent again: its job may have failed."""
    drafted, paid, demanded, other = (customer(world) for _ in range(4))
    for id, period, status in (
        (drafted, "2026-10-01", "INCOMPLETE"),
        (paid, "2026-10-01", "COMPLETE"),
        (demanded, "2026-10-01", "INCOMPLETE"),
        (other, "2026-09-01", "COMPLETE"),
    ):
        invoice = world.add(
            "users_invoices",
            **dict.fromkeys(("cents", "cents_including_taxes", "user_id", "workspace_id"), 1),
            **dict.fromkeys(("created_at", "updated_at"), FIRST),
            subscription_id=id,
            cycle="MONTHLY",
            period=period,
            status=status,
            source="SUBSCRIPTION",
        )
        if id == demanded:
            world.add(
                "charges",
                **dict.fromkeys(("created_at", "updated_at"), FIRST),
                **dict.fromkeys(("attempt", "cents"), 1),
                invoice_id=invoice,
                idempotency_key="k",
                provider="stripe",
                state="DECLINED",
            )
    run = replace(MONTHLY, by_anniversary=by_anniversary)
    assert [task.subscription_id for task in tasks(world, run)] == [drafted, other]


@pytest.mark.parametrize(
    ("anchor", "today", "run_id"),
    [
        (15, datetime(2026, 10, 15, tzinfo=UTC), "MONTHLY:2026-09-15@15"),
        (15, datetime(2026, 10, 15, 9, tzinfo=UTC), "MONTHLY:2026-09-15@15"),
        (31, datetime(2026, 11, 30, tzinfo=UTC), "MONTHLY:2026-10-31@31"),
        (15, datetime(2026, 10, 16, tzinfo=UTC), None),
        (15, datetime(2026, 8, 15, tzinfo=UTC), None),
    ],
)
def test_s1_d18_a_subscription_may_have_a_day_of_its_own(
    world: World, anchor: int, today: datetime, run_id: str | None
) -> None:
    """Of the last case the day is the first of its first period."""
    since = datetime(2026, 8, anchor, tzinfo=UTC)
    customer(world, created_at=since, current_period_end=None)
    run = BillingRun(type="MONTHLY", at=today, zone="UTC", by_anniversary=True)
    assert [task.run_id for task in tasks(world, run)] == ([run_id] if run_id else [])


def test_s1_d18_an_annual_subscription_may_have_a_day_of_its_own(world: World) -> None:
    customer(world, billing_cycle="ANNUAL", created_at=datetime(2024, 3, 5, tzinfo=UTC))
    for day, run_ids in ((5, ["ANNUAL:2025-03-05@05"]), (6, [])):
        at = datetime(2026, 3, day, tzinfo=UTC)
        run = BillingRun(type="ANNUAL", at=at, zone="UTC", by_anniversary=True)
        assert [task.run_id for task in tasks(world, run)] == run_ids


def test_who_came_at_an_unknown_time_is_billed(world: World) -> None:
    """The column of the provider may be empty."""
    id = customer(world)
    world.run("ALTER TABLE subscriptions MODIFY created_at DATETIME(6) NULL")
    try:
        world.run("UPDATE subscriptions SET created_at = NULL")
        assert [task.subscription_id for task in tasks(world)] == [id]
    finally:
        world.run("DELETE FROM subscriptions")
        world.run("ALTER TABLE subscriptions MODIFY created_at DATETIME(6) NOT NULL")


OCTOBER_15, JANUARY_15 = datetime(2026, 10, 15, tzinfo=UTC), datetime(2026, 1, 15, tzinfo=UTC)
DECEMBER_15 = datetime(2026, 12, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("end", "today", "run_id"),
    [
        (DECEMBER_15, OCTOBER_15, "MONTHLY:2026-09-15@15"),  # in the future
        (DECEMBER_15, DECEMBER_15, "MONTHLY:2026-11-15@15"),  # on the day
        (DECEMBER_15, DECEMBER_15 + timedelta(days=31), "MONTHLY:2026-12-15@15"),  # in the past
        (DECEMBER_15, DECEMBER_15 + timedelta(days=1), None),
        (DECEMBER_15, JANUARY_15, None),  # its first day
        (DECEMBER_15, datetime(2025, 12, 15, tzinfo=UTC), None),  # before it began
    ],
)
def test_s1_d18_each_month_up_to_the_end_of_the_period_is_billed(
    world: World, end: datetime, today: datetime, run_id: str | None
) -> None:
    customer(world, created_at=JANUARY_15, current_period_end=end)
    run = BillingRun(type="MONTHLY", at=today, zone="UTC", by_anniversary=True)
    assert [task.run_id for task in tasks(world, run)] == ([run_id] if run_id else [])


def days(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts]


FROM_THE_30TH = ("2026-02-28", "2026-03-30", "2026-04-30", "2026-05-30")
SHORT_AND_LONG = days("2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31")


@pytest.mark.parametrize("is_moved_before", [True, False])
@pytest.mark.parametrize(
    ("created", "trial_end", "ends"),
    [
        ("2025-12-31", "2025-12-31", SHORT_AND_LONG),
        ("2025-12-30", "2025-12-30", days("2026-01-30", *FROM_THE_30TH)),
        # After a free trial, up to which the provider's first period goes.
        ("2026-01-17", "2026-01-31", SHORT_AND_LONG),
        ("2026-01-16", "2026-01-30", days("2026-01-30", *FROM_THE_30TH)),
        ("2026-01-14", "2026-01-28", days("2026-01-28", "2026-02-28", "2026-03-28")),
    ],
)
def test_s1_d18_each_month_is_billed_once_where_its_end_is_moved_on_at_each_renewal(
    world: World, created: str, trial_end: str, ends: list[datetime], is_moved_before: bool
) -> None:
    """From Jan 31 to Feb 28 and Mar 31: a shorter month hides the day, and shows another one."""
    began, paid_from = days(created, trial_end)
    id = customer(world, created_at=began)
    billed: list[datetime] = []
    day = began
    while day <= ends[-1] - timedelta(days=is_moved_before):
        end = next(end for end in ends if end > day or (end == day and not is_moved_before))
        world.run("UPDATE subscriptions SET current_period_end = ?", end)
        run = BillingRun(type="MONTHLY", at=day, zone="UTC", by_anniversary=True)
        for task in tasks(world, run):
            period = parse(task.run_id.partition(":")[2], "MONTHLY", "UTC")
            bill(world, id, task.run_id, period.date)
            billed.append(day)
        day += timedelta(days=1)
    due = ends[: -1 if is_moved_before else None]
    assert [at for at in billed if at > paid_from] == [at for at in due if at > paid_from]


def bill(world: World, id: int, run_id: str, period: str) -> int:
    """The id of a bill of the subscription that is paid."""
    return world.add(
        "users_invoices",
        **dict.fromkeys(("cents", "cents_including_taxes", "user_id", "workspace_id"), 1),
        **dict.fromkeys(("created_at", "updated_at"), FIRST),
        subscription_id=id,
        cycle="MONTHLY",
        period=period,
        run_id=run_id,
        status="COMPLETE",
        source="SUBSCRIPTION",
    )


def test_s1_d18_a_year_from_a_leap_day_is_billed_once_where_its_end_is_moved_on(
    world: World,
) -> None:
    customer(world, billing_cycle="ANNUAL", created_at=days("2024-02-29")[0])
    ends = days("2027-02-28", "2028-02-29", "2029-02-28")
    for now, end in pairwise(ends):
        for at, found in ((now - timedelta(days=1), 0), (now, 1), (now + timedelta(days=1), 0)):
            for moved in (now, end):
                world.run("UPDATE subscriptions SET current_period_end = ?", moved)
                run = BillingRun(type="ANNUAL", at=at, zone="UTC", by_anniversary=True)
                assert len(tasks(world, run)) == found, (at, moved)


@pytest.mark.parametrize(
    ("end", "today", "run_id"),
    [
        (DECEMBER_15, DECEMBER_15, "ANNUAL:2025-12-15@15"),
        (datetime(2027, 12, 15, tzinfo=UTC), DECEMBER_15, "ANNUAL:2025-12-15@15"),
        (datetime(2025, 12, 15, tzinfo=UTC), DECEMBER_15, "ANNUAL:2025-12-15@15"),
        (DECEMBER_15, datetime(2025, 12, 15, tzinfo=UTC), None),
        (DECEMBER_15, OCTOBER_15, None),
    ],
)
def test_s1_d18_the_year_up_to_the_end_of_the_period_is_billed(
    world: World, end: datetime, today: datetime, run_id: str | None
) -> None:
    began = datetime(2025, 12, 15, 9, tzinfo=UTC)
    customer(world, billing_cycle="ANNUAL", created_at=began, current_period_end=end)
    run = BillingRun(type="ANNUAL", at=today, zone="UTC", by_anniversary=True)
    assert [task.run_id for task in tasks(world, run)] == ([run_id] if run_id else [])


@pytest.mark.parametrize(
    ("type", "cycle", "last"),
    [
        ("MONTHLY", "MONTHLY", datetime(2026, 11, 1, tzinfo=UTC)),
        ("MONTHLY_DEBUG", "MONTHLY", datetime(2026, 11, 1, tzinfo=UTC)),
        ("MONTHLY", "ANNUAL", datetime(2026, 11, 1, tzinfo=UTC)),
        ("ANNUAL", "ANNUAL", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_s1_d11_a_run_that_comes_late_bills_who_was_there_in_its_period(
    world: World, type: str, cycle: str, last: datetime
) -> None:
    """Who came in its last moment is billed for all of it; who came after it is not."""
    came = customer(world, billing_cycle=cycle, created_at=last - timedelta(microseconds=1))
    customer(world, billing_cycle=cycle, created_at=last)
    run = BillingRun(type=type, at=datetime(2026, 11, 20, tzinfo=UTC), zone="UTC")
    assert [task.subscription_id for task in tasks(world, run)] == [came]


def test_s1_d41_the_month_is_that_of_the_zone(world: World) -> None:
    customer(world)
    at = datetime(2026, 10, 31, 23, tzinfo=UTC)  # midnight in Berlin, where it is winter by now
    assert [
        task.run_id
        for task in tasks(world, BillingRun(type="MONTHLY", at=at, zone="Europe/Berlin"))
    ] == ["MONTHLY:2026-10"]
    assert [
        task.run_id for task in tasks(world, BillingRun(type="MONTHLY", at=at, zone="UTC"))
    ] == ["MONTHLY:2026-09"]
