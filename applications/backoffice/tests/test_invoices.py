"""Invoices from their draft to their end."""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from backoffice import invoices
from backoffice.database import Database, Session, connected
from backoffice.invoices import Invoice, NoSuchPlan, NoSuchSubscription
from backoffice.periods import Period, parse
from backoffice.rules import Rules
from backoffice.tasks import BillingTask
from tenant import OCTOBER, Explained, Tenant, crowd, in_cents
from world import NOW, World

RULES = Rules()
SEED = Rules(share="seed")
YEAR = parse("2026", "ANNUAL", "UTC")
DAY = timedelta(days=1)


class Customer(Tenant):
    """A workspace with a subscription."""

    def __init__(
        self, world: World, *, users: int = 1, cycle: str = "MONTHLY", **plan: Any
    ) -> None:
        super().__init__(world)
        world.run("DELETE FROM workspaces_users WHERE workspace_id = ?", self.id)
        rows = [(self.id, self.user + number) for number in range(users)]
        world.many("INSERT INTO workspaces_users (workspace_id, user_id) VALUES (?, ?)", rows)
        self.plan = world.plan(**plan)
        self.subscription = world.subscription(self.id, self.plan, billing_cycle=cycle)

    def task(self, period: Period = OCTOBER, **fields: Any) -> BillingTask:
        type = "ANNUAL" if period == YEAR else "MONTHLY"
        task = BillingTask(
            run_id=f"{type}:{period.name}",
            billing_type=type,
            workspace_id=self.id,
            creator_id=self.user,
            subscription_id=self.subscription,
            action="renewal",
            plan_to_bill=self.plan,
            provider_subscription_id="",
        )
        return replace(task, **fields)

    def draft(
        self, period: Period = OCTOBER, rules: Rules = RULES, **fields: Any
    ) -> Invoice | None:
        task = self.task(period, **fields)
        return self.world.do(lambda session: invoices.draft(session, task, period, rules, NOW))

    def drafted(self, *values: Any, **fields: Any) -> Invoice:
        invoice = self.draft(*values, **fields)
        assert invoice is not None
        return invoice

    def complete(self, invoice: Invoice, source: invoices.Source, collected: int) -> str:
        number = done(
            self.world,
            lambda session: invoices.complete(
                session, invoice, source=source, collected=collected, at=NOW
            ),
        )
        return str(number)

    def demand(self, invoice: Invoice, cents: int) -> None:
        """As if a gateway were about to be asked."""
        self.world.add(
            "charges",
            **dict.fromkeys(("created_at", "updated_at"), NOW),
            invoice_id=invoice.id,
            attempt=1,
            idempotency_key=f"key {invoice.id}",
            provider="stripe",
            cents=cents,
            state="DEMANDED",
        )

    def credit(self, cents: int) -> None:
        self.world.add("users_credits", cents=cents, workspace_id=self.id, created_at=NOW)

    @property
    def balance(self) -> int:
        return self.world.do(lambda session: invoices.balance(session, self.id))

    @property
    def credits_left(self) -> int:
        return self.world.do(lambda session: invoices.credits_left(session, self.id))


def done(world: World, work: Callable[[Session], Any]) -> Any:
    """In a transaction."""

    async def whole(session: Session) -> Any:
        async with session.transaction():
            return await work(session)

    return world.do(whole)


@dataclass(frozen=True)
class Kept:
    """What the row of an invoice says."""

    cents: int
    calls: int
    recordings: int
    faxes: int
    membership: int
    numbers: int
    status: str
    source: str
    collected: int


def kept(world: World, invoice: Invoice) -> Kept:
    (row,) = world.rows(
        "SELECT cents, call_costs, recording_costs, fax_costs, membership_costs, number_costs,"
        " status, source, cents_collected FROM users_invoices WHERE id = ?",
        invoice.id,
    )
    found = Kept(*row)
    assert found.cents == sum(astuple(found)[1:6])
    return found


def cents(figure: str) -> int:
    return int(in_cents(figure))


@pytest.fixture
def customer(world: World) -> Customer:
    return Customer(world)


def test_s1_a01_membership_and_a_number_are_paid_by_card(world: World) -> None:
    customer = Customer(world, users=3)
    customer.number(cents("1000"))
    invoice = customer.drafted()
    customer.complete(invoice, "CARD", invoice.cents)
    assert kept(world, invoice) == Kept(
        cents=cents("1074.97"),
        calls=0,
        recordings=0,
        faxes=0,
        membership=cents("74.97"),
        numbers=cents("1000"),
        status="COMPLETE",
        source="CARD",
        collected=cents("1074.97"),
    )


@pytest.mark.parametrize(
    ("rules", "tolls", "total"), [(SEED, "160", "234.97"), (Rules(), "74.07", "149.04")]
)
def test_s1_a02_a_call_beyond_the_included_minutes(
    world: World, rules: Rules, tolls: str, total: str
) -> None:
    customer = Customer(world, users=3)
    customer.call(13_000, cents("1000"))
    found = kept(world, customer.drafted(rules=rules))
    assert (found.calls, found.membership) == (cents(tolls), cents("74.97"))
    assert found.cents == cents(total)


def test_s1_a03_a_plan_for_many_users(world: World) -> None:
    customer = Customer(world, users=20, key_name="pro", monthly_cost_cents=cents("49.99"))
    customer.call(13_000, cents("2499"))
    found = kept(world, customer.drafted(rules=SEED))
    assert (found.calls, found.membership) == (cents("399.84"), cents("999.80"))
    assert found.cents == cents("1399.64")


def test_a_call_within_the_plan_costs_only_the_membership(world: World) -> None:
    """The case "Low" of the old system's tests."""
    customer = Customer(world)
    customer.call(0, cents("2499"))
    assert kept(world, customer.drafted(rules=SEED)).cents == cents("24.99")


def test_s1_a04_a_creator_who_is_gone_is_not_billed(
    customer: Customer, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    customer.number(1_000)
    customer.call(13_000, 1_000)
    world.run("DELETE FROM users")
    with caplog.at_level(logging.ERROR):
        assert customer.draft() is None
    assert world.rows("SELECT id FROM users_invoices") == []
    assert world.rows("SELECT source, invoice_id FROM users_debits") == [("CALL", None)]
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    fields = {name: record.__dict__[name] for name in ("component", "workspace_id", "run_id")}
    assert fields == {
        "component": "monthly_billing",
        "workspace_id": customer.id,
        "run_id": "MONTHLY:2026-10",
    }


def test_s1_24_each_user_is_a_membership(world: World) -> None:
    assert Customer(world, users=3).drafted().cents == 3 * 2_499


@pytest.mark.parametrize("cycle", ["monthly", "Monthly"])
def test_a_cycle_may_be_in_either_case(world: World, cycle: str) -> None:
    """The database finds it so, and the provider's other programs may write it so."""
    assert Customer(world, cycle=cycle).drafted().cents == 2_499


def test_s1_d22_a_workspace_without_users_has_no_membership(world: World) -> None:
    assert Customer(world, users=0).drafted().cents == 0


def test_s1_29_the_row_has_costs_by_category_and_for_taxes(world: World) -> None:
    customer = Customer(world, fax=0)
    customer.number(1_000)
    customer.call(24_000, 500)
    customer.record(2_048)
    customer.fax()
    rules = Rules(cents_per_recorded_byte=Fraction(1), cents_per_fax=Fraction(7))
    invoice = customer.drafted(rules=rules)
    found = kept(world, invoice)
    assert astuple(found)[:6] == (4_780, 250, 1_024, 7, 2_499, 1_000)
    ((taxed, metadata, user, created_at, updated_at),) = world.rows(
        "SELECT cents_including_taxes, tax_metadata, user_id, created_at, updated_at"
        " FROM users_invoices"
    )
    assert (taxed, user, created_at, updated_at) == (4_780, customer.user, NOW, NOW)
    assert json.loads(metadata) == {
        "call_tolls_costs": 250,
        "fax_costs": 7,
        "membership_costs": 2_499,
        "number_rental_costs": 1_000,
        "recording_costs": 1_024,
    }


def test_s1_34_s1_d01_a_year_is_the_annual_price_of_each_user(world: World) -> None:
    customer = Customer(world, users=3, cycle="ANNUAL")
    customer.number(1_000)
    invoice = customer.drafted(YEAR)
    found = kept(world, invoice)
    assert (found.cents, found.membership, found.numbers) == (74_970, 74_970, 0)
    assert (invoice.cycle, invoice.period) == ("ANNUAL", "2026-01-01")


def test_s1_34_a_year_that_costs_nothing_is_complete_without_a_charge(world: World) -> None:
    """Of the old system's tests: 3 users at 0."""
    customer = Customer(world, users=3, cycle="ANNUAL", annual_cost_cents=0)
    invoice = customer.drafted(YEAR)
    customer.complete(invoice, "SUBSCRIPTION", 0)
    found = kept(world, invoice)
    assert (found.cents, found.status, found.collected) == (0, "COMPLETE", 0)


def test_s1_34_the_use_of_annual_customers_is_billed_monthly(world: World) -> None:
    customer = Customer(world, cycle="ANNUAL")
    customer.number(1_000)
    found = kept(world, customer.drafted(OCTOBER))
    assert (found.cents, found.membership, found.numbers) == (1_000, 0, 1_000)


def test_s1_35_a_monthly_subscription_pays_no_year(customer: Customer) -> None:
    assert customer.drafted(YEAR).cents == 0


def test_s1_35_a_year_leaves_out_months_that_were_billed(world: World) -> None:
    """Monthly from January to September, and annual from October on: three twelfths are left."""
    customer = Customer(world, users=2)
    for month in range(1, 10):
        invoice = customer.drafted(parse(f"2026-{month:02}", "MONTHLY", "UTC"))
        customer.complete(invoice, "CARD", invoice.cents)
    world.run("UPDATE subscriptions SET billing_cycle = 'ANNUAL'")
    assert customer.drafted(OCTOBER).cents == 0
    assert customer.drafted(YEAR).cents == 24_990 * 2 * 3 // 12
    assert customer.drafted(parse("2027", "ANNUAL", "UTC"), billing_type="ANNUAL").cents == 49_980


def test_s1_35_a_month_that_is_drafted_again_is_in_the_year(world: World) -> None:
    """Its charge could not begin before the customer has gone to years."""
    customer = Customer(world)
    assert customer.drafted().cents == 2_499
    world.run("UPDATE subscriptions SET billing_cycle = 'ANNUAL'")
    assert customer.drafted(YEAR).cents == 24_990
    assert customer.drafted().cents == 0


@pytest.mark.parametrize(
    ("year", "month", "cents"),
    [
        ("2026", "2026-01", 0),
        ("2026", "2026-12", 0),
        ("2026", "2027-01", 2_499),
        ("2026-03-31@31", "2027-02-28@31", 0),
        ("2026-03-31@31", "2027-03-31@31", 2_499),
        ("2024-02-29@29", "2025-01-29@29", 0),
        ("2024-02-29@29", "2025-02-28@29", 2_499),
    ],
)
def test_s1_35_a_month_of_a_year_that_was_billed_has_no_membership(
    world: World, year: str, month: str, cents: int
) -> None:
    """The customer has gone back to months before its bill was made."""
    customer = Customer(world, cycle="ANNUAL")
    customer.number(1_000)
    period = parse(year, "ANNUAL", "UTC")
    paid = customer.drafted(period, billing_type="ANNUAL", run_id=f"ANNUAL:{year}")
    customer.complete(paid, "CARD", paid.cents)
    world.run("UPDATE subscriptions SET billing_cycle = 'MONTHLY'")
    assert customer.drafted(parse(month, "MONTHLY", "UTC")).cents == 1_000 + cents


def test_s1_d17_the_plan_of_the_task_is_billed_and_becomes_the_current_one(
    customer: Customer, world: World
) -> None:
    pro = world.plan("pro", monthly_cost_cents=4_999)
    world.run(
        "UPDATE subscriptions SET scheduled_plan_id = ?, scheduled_effective_date = ?",
        *(pro, NOW - DAY),
    )
    plans = "SELECT current_plan_id, scheduled_plan_id, scheduled_effective_date FROM subscriptions"
    invoice = customer.drafted(action="upgrade", plan_to_bill=pro)
    assert (invoice.cents, invoice.plan_id) == (4_999, pro)
    assert world.rows(plans) == [(customer.plan, pro, NOW - DAY)]
    customer.complete(invoice, "CARD", 4_999)
    assert world.rows(plans) == [(pro, None, None)]


@pytest.mark.parametrize("days", [0, 1])
def test_s1_d17_a_plan_of_later_or_another_one_stays_scheduled(
    customer: Customer, world: World, days: int
) -> None:
    other = world.plan("pro") if days == 0 else customer.plan
    world.run(
        "UPDATE subscriptions SET scheduled_plan_id = ?, scheduled_effective_date = ?",
        *(other, NOW + days * DAY),
    )
    customer.complete(customer.drafted(), "CARD", 2_499)
    scheduled = "SELECT current_plan_id, scheduled_plan_id FROM subscriptions"
    assert world.rows(scheduled) == [(customer.plan, other)]


def test_s1_d17_an_annual_plan_is_billed_before_it_becomes_the_current_one(world: World) -> None:
    """The month's invoice of its use, which has no membership, leaves it scheduled."""
    customer = Customer(world, cycle="ANNUAL", annual_cost_cents=1_000)
    large = world.plan("large", annual_cost_cents=100_000)
    world.run(
        "UPDATE subscriptions SET scheduled_plan_id = ?, scheduled_effective_date = ?",
        *(large, NOW - DAY),
    )
    plans = "SELECT current_plan_id, scheduled_plan_id FROM subscriptions"
    use = customer.drafted(action="upgrade", plan_to_bill=large)
    customer.complete(use, "SUBSCRIPTION", 0)
    assert world.rows(plans) == [(customer.plan, large)]
    year = customer.drafted(YEAR, action="upgrade", plan_to_bill=large)
    assert year.cents == 100_000
    customer.complete(year, "CARD", 100_000)
    assert world.rows(plans) == [(large, None)]


def test_s1_d07_a_draft_that_is_repeated_finds_its_invoice(
    customer: Customer, world: World
) -> None:
    customer.number(1_000)
    customer.call(24_000, 500)
    found = {customer.drafted() for _ in range(5)}
    assert len(found) == 1
    assert world.rows("SELECT cents FROM users_invoices") == [(2_499 + 1_000 + 250,)]
    assert world.rows("SELECT source, cents FROM users_debits ORDER BY id") == [
        ("CALL", 500),
        ("NUMBER_RENTAL", 1_000),
    ]


def test_figures_follow_the_use_until_something_is_demanded(
    customer: Customer, world: World
) -> None:
    first = customer.drafted()
    customer.number(1_000)
    second = customer.drafted()
    assert (second.id, second.cents) == (first.id, first.cents + 1_000)
    customer.demand(second, second.cents)
    customer.call(24_000, 500)
    world.run("UPDATE service_plans SET monthly_cost_cents = 1")
    assert customer.drafted() == second
    assert customer.balance == -500  # the call is in no invoice


def test_figures_stay_when_the_invoice_is_complete(customer: Customer, world: World) -> None:
    invoice = customer.drafted()
    customer.complete(invoice, "CREDITS", invoice.cents)
    customer.number(1_000)
    again = customer.drafted()
    assert (again.id, again.cents, again.status) == (invoice.id, invoice.cents, "COMPLETE")
    assert world.rows("SELECT id FROM users_debits") == []


def test_periods_and_cycles_have_invoices_of_their_own(customer: Customer) -> None:
    november = parse("2026-11", "MONTHLY", "UTC")
    drafted = [customer.drafted(period) for period in (OCTOBER, november, YEAR)]
    assert len({invoice.id for invoice in drafted}) == 3


def test_s1_d15_the_use_of_a_workspace_is_on_the_invoice_of_its_first_subscription(
    customer: Customer, world: World
) -> None:
    customer.number(1_000)
    customer.call(24_000, 500)
    first = customer.subscription
    second = world.subscription(customer.id, customer.plan)
    assert customer.drafted(subscription_id=second).cents == 2_499
    assert customer.drafted().cents == 2_499 + 1_000 + 250
    world.run("UPDATE subscriptions SET status = 'CANCELLED' WHERE id = ?", first)
    assert customer.drafted(subscription_id=second).cents == 2_499
    november = parse("2026-11", "MONTHLY", "UTC")
    assert customer.drafted(november, subscription_id=second).cents == 2_499 + 1_000


def test_s1_d15_an_invoice_that_has_use_keeps_it_when_another_subscription_is_the_first(
    customer: Customer, world: World
) -> None:
    """Its charge could not begin; then the customer has changed the plan by a new subscription."""
    customer.call(24_000, 500)
    first = customer.drafted()
    world.run("UPDATE subscriptions SET status = 'CANCELLED' WHERE id = ?", first.subscription_id)
    second = world.subscription(customer.id, customer.plan)
    assert customer.drafted() == first
    assert customer.drafted(subscription_id=second).cents == 2_499


def test_s1_d15_a_subscription_that_no_run_bills_is_not_the_first(
    customer: Customer, world: World
) -> None:
    world.run("UPDATE subscriptions SET billing_cycle = 'TRIAL'")
    customer.call(24_000, 500)
    second = world.subscription(customer.id, customer.plan)
    assert customer.drafted(subscription_id=second).cents == 2_499 + 250


NOVEMBER = parse("2026-11", "MONTHLY", "UTC")


def test_s1_d15_use_that_no_invoice_has_is_on_the_next_one(
    customer: Customer, world: World
) -> None:
    """The first subscription ended between the bills of one run: neither had the use."""
    customer.call(24_000, 500)
    customer.record(2_048)
    customer.fax()
    second = world.subscription(customer.id, customer.plan)
    rules = Rules(cents_per_recorded_byte=Fraction(1), cents_per_fax=Fraction(7))
    assert customer.drafted(rules=rules, subscription_id=second).cents == 2_499
    world.run("UPDATE subscriptions SET status = 'CANCELLED' WHERE id <> ?", second)
    assert customer.drafted(rules=rules).cents == 2_499
    november = customer.drafted(NOVEMBER, rules, subscription_id=second)
    assert november.cents == 2_499 + 250 + 1_024 + 7


def test_s1_d15_use_between_the_periods_of_two_subscriptions_is_billed_once(
    customer: Customer, world: World
) -> None:
    """The first, of the 20th, ends on Oct 10; the other one's periods begin with months."""
    second = world.subscription(customer.id, customer.plan)
    september = parse("2026-09", "MONTHLY", "UTC")
    for day in (1, 25, 35):
        customer.call(60 * 60, 1_000, september.begin + day * DAY)
    world.run("UPDATE service_plans SET minutes_per_month = 0")
    assert customer.drafted(parse("2026-08-20@20", "MONTHLY", "UTC")).cents == 3_499
    assert customer.drafted(september, subscription_id=second).cents == 2_499
    world.run("UPDATE subscriptions SET status = 'CANCELLED' WHERE id <> ?", second)
    found = [customer.drafted(each, subscription_id=second).cents for each in (OCTOBER, NOVEMBER)]
    assert found == [2_499 + 2_000, 2_499]


def test_use_before_a_new_subscription_is_on_its_first_bill(
    customer: Customer, world: World
) -> None:
    """The days from the 20th of the one before it, which ended, to its own."""
    customer.call(24_000, 500, parse("2026-09", "MONTHLY", "UTC").begin)
    customer.call(24_000, 500, OCTOBER.begin)
    assert customer.drafted(parse("2026-08-20@20", "MONTHLY", "UTC")).cents == 2_499 + 250
    world.run("UPDATE subscriptions SET status = 'CANCELLED'")
    began = OCTOBER.begin + 9 * DAY
    second = world.subscription(customer.id, customer.plan, created_at=began)
    period = parse("2026-10-10@10", "MONTHLY", "UTC")
    assert customer.drafted(period, subscription_id=second).cents == 2_499 + 250


def test_bills_of_an_outage_that_are_made_in_any_order_have_their_own_use(
    customer: Customer,
) -> None:
    """Or November would take October's use, and one month's included minutes were gone."""
    customer.drafted(parse("2026-09", "MONTHLY", "UTC"))
    for at in (OCTOBER.begin - DAY, OCTOBER.begin, NOVEMBER.begin):
        customer.call(24_000, 500, at)
    assert customer.drafted(NOVEMBER).cents == 2_499 + 250
    october = customer.drafted(OCTOBER)
    assert october.cents == 2_499 + 750  # with the late call of September: 600 of 800 minutes
    assert customer.drafted(NOVEMBER).cents == 2_499 + 250


def test_use_that_the_old_system_has_billed_is_on_no_invoice(customer: Customer) -> None:
    """Its rows have no invoice, as those that come late: the first month that is billed here tells."""
    for at in (OCTOBER.begin - DAY, OCTOBER.begin):
        customer.call(24_000, 500, at)
        customer.record(2_048, at)
        customer.fax(at)
    rules = Rules(cents_per_recorded_byte=Fraction(1), cents_per_fax=Fraction(7))
    assert customer.drafted(rules=rules).cents == 2_499 + 250 + 1_024 + 7
    assert customer.drafted(NOVEMBER, rules).cents == 2_499


def test_use_that_is_written_after_its_bill_is_on_the_next_one(customer: Customer) -> None:
    october = customer.drafted()
    customer.complete(october, "CARD", october.cents)
    customer.call(24_000, 500)
    assert customer.drafted(NOVEMBER).cents == 2_499 + 250
    assert customer.drafted().cents == october.cents


def test_s1_d18_a_subscription_may_be_billed_by_its_anniversary(customer: Customer) -> None:
    period = parse("2026-09-15@15", "MONTHLY", "UTC")
    customer.call(24_000, 500, period.end - DAY)
    customer.call(24_000, 500, period.end)
    invoice = customer.drafted(period)
    assert (invoice.cents, invoice.period) == (2_499 + 250, "2026-09-15")


def test_a_plan_that_is_gone_is_an_error_and_nothing_is_written(
    customer: Customer, world: World
) -> None:
    with pytest.raises(NoSuchPlan, match="plan not found for subscription"):
        customer.draft(plan_to_bill=customer.plan + 1)
    assert world.rows("SELECT id FROM users_invoices") == []


def test_a_subscription_or_a_workspace_that_is_gone_is_an_error(
    customer: Customer, world: World
) -> None:
    with pytest.raises(NoSuchSubscription, match=f"{customer.id} has no subscription 999999"):
        customer.draft(subscription_id=999_999)
    with pytest.raises(NoSuchSubscription, match="workspace 999999 is not there"):
        customer.draft(workspace_id=999_999)
    assert world.rows("SELECT id FROM users_invoices") == []


async def test_two_drafts_at_the_same_moment_are_one_invoice(world: World) -> None:
    """In many rounds, each with two sessions that begin together."""
    customer = Customer(world)
    customer.number(1_000)
    periods = [parse(f"20{year}-10", "MONTHLY", "UTC") for year in range(10, 40)]
    sessions = [await connected(world.url) for _ in range(2)]
    try:
        for period in periods:
            found = await asyncio.gather(
                *(
                    invoices.draft(session, customer.task(period), period, Rules(), NOW)
                    for session in sessions
                )
            )
            assert found[0] == found[1] is not None
    finally:
        for session in sessions:
            await session.connection.ensure_closed()
    assert world.rows("SELECT count(*), min(cents), max(cents) FROM users_invoices") == [
        (30, 3_499, 3_499)
    ]
    assert world.rows("SELECT count(*) FROM users_debits") == [(30,)]


async def test_drafts_of_many_workspaces_share_a_pool_of_two(world: World) -> None:
    customers = [Customer(world) for _ in range(20)]
    database = Database(world.url, pool_max=2)

    async def draft(customer: Customer) -> Invoice | None:
        async with database.session() as session:
            return await invoices.draft(session, customer.task(), OCTOBER, Rules(), NOW)

    try:
        found = await asyncio.gather(*map(draft, customers))
    finally:
        await database.close()
    assert {invoice and invoice.workspace_id for invoice in found} == {
        customer.id for customer in customers
    }


def test_s1_36_an_invoice_begins_incomplete(customer: Customer, world: World) -> None:
    invoice = customer.drafted()
    found = kept(world, invoice)
    assert (found.status, found.source, found.collected) == ("INCOMPLETE", "SUBSCRIPTION", 0)
    assert (invoice.status, invoice.source, invoice.num_attempts) == (
        "INCOMPLETE",
        "SUBSCRIPTION",
        0,
    )


def test_s1_36_an_attempt_that_brought_nothing_is_counted(customer: Customer, world: World) -> None:
    invoice = customer.drafted()
    for number, attempts in enumerate((1, 2, 2)):
        at = NOW + number * DAY
        counts = number < 2
        done(world, partial(invoices.attempt, invoice=invoice, at=at, counts=counts))
        assert world.rows(
            "SELECT status, source, cents_collected, num_attempts, last_attempted,"
            " confirmation_number FROM users_invoices"
        ) == [("INCOMPLETE", "CARD", 0, attempts, at, None)]


def test_s1_36_what_is_complete_is_not_declined_any_more(customer: Customer, world: World) -> None:
    invoice = customer.drafted()
    customer.complete(invoice, "CREDITS", 2_499)
    before = world.rows("SELECT * FROM users_invoices")
    done(world, lambda session: invoices.attempt(session, invoice, NOW + DAY))
    assert world.rows("SELECT * FROM users_invoices") == before


def test_s1_36_an_invoice_is_completed_once(customer: Customer, world: World) -> None:
    invoice = customer.drafted()
    number = customer.complete(invoice, "CARD", 2_499)
    before = world.rows("SELECT * FROM users_invoices")
    assert customer.complete(invoice, "CREDITS", 2_499) == number
    assert world.rows("SELECT * FROM users_invoices") == before
    ((attempts, last),) = world.rows("SELECT num_attempts, last_attempted FROM users_invoices")
    assert (attempts, last) == (1, NOW)


@pytest.mark.parametrize(
    ("source", "collected"),
    [("CARD", 0), ("CARD", 2_500), ("CARD", -1), ("CREDITS", 2_498), ("SUBSCRIPTION", 2_499)],
)
def test_s1_d02_what_is_collected_must_be_possible(
    customer: Customer, world: World, source: invoices.Source, collected: int
) -> None:
    invoice = customer.drafted()
    with pytest.raises(ValueError, match=f"{source} cannot have given {collected} of 2499 cents"):
        customer.complete(invoice, source, collected)
    assert kept(world, invoice).status == "INCOMPLETE"


def test_s1_33_a_confirmation_number_has_eight_hex_digits(customer: Customer) -> None:
    number = customer.complete(customer.drafted(), "CARD", 2_499)
    assert re.fullmatch(r"INV-[0-9A-F]{8}", number)


def source_of(*texts: str) -> Callable[[int], str]:
    """A source of randomness that gives these texts."""
    left: Iterator[str] = iter(texts)

    def random_hex(size: int) -> str:
        text = next(left)
        assert len(text) == 2 * size
        return text

    return random_hex


def confirmed(world: World, invoice: Invoice, random_hex: Callable[[int], str]) -> str:
    return str(
        done(
            world,
            lambda session: invoices.complete(
                session, invoice, source="CARD", collected=2_499, at=NOW, random_hex=random_hex
            ),
        )
    )


def test_s1_33_a_number_that_is_taken_is_made_again(world: World) -> None:
    one, other, third = (Customer(world).drafted() for _ in range(3))
    assert confirmed(world, one, source_of("0badcafe")) == "INV-0BADCAFE"
    repeated = source_of("0badcafe", "0badcafe", "00000001")
    assert confirmed(world, other, repeated) == "INV-00000001"
    with pytest.raises(RuntimeError, match="10 random confirmation numbers were all taken"):
        confirmed(world, third, source_of(*10 * ["0badcafe"]))
    assert kept(world, third).status == "INCOMPLETE"


def test_s1_33_numbers_of_the_old_system_are_not_given_again(world: World) -> None:
    """Where some may be double."""
    for _ in range(2):
        world.add(
            "users_invoices",
            **dict.fromkeys(("cents", "cents_including_taxes", "user_id", "workspace_id"), 1),
            **dict.fromkeys(("created_at", "updated_at"), NOW),
            status="COMPLETE",
            source="CARD",
            confirmation_number="INV-0BADCAFE",
        )
    invoice = Customer(world).drafted()
    assert confirmed(world, invoice, source_of("0badcafe", "00000001")) == "INV-00000001"


async def test_s1_33_two_that_make_the_same_number_at_once_have_two(world: World) -> None:
    """The second has looked before the first commits: the index decides."""
    one, other = (Customer(world).drafted() for _ in range(2))
    first, second, third = [await connected(world.url) for _ in range(3)]
    terms: dict[str, Any] = {"source": "CARD", "collected": 2_499, "at": NOW}
    try:
        async with first.transaction():
            await invoices.complete(first, one, **terms, random_hex=source_of("0badcafe"))

            async def complete_other() -> str:
                async with second.transaction():
                    texts = source_of("0badcafe", "00000001")
                    return await invoices.complete(second, other, **terms, random_hex=texts)

            waiting = asyncio.create_task(complete_other())
            await begun(third, "UPDATE users_invoices SET confirmation_number")
        assert await waiting == "INV-00000001"
    finally:
        for session in (first, second, third):
            await session.connection.ensure_closed()
    numbers = world.rows("SELECT confirmation_number FROM users_invoices ORDER BY id")
    assert numbers == [("INV-0BADCAFE",), ("INV-00000001",)]


async def begun(session: Session, statement: str) -> None:
    """Until a statement of this database that begins so is under way."""
    sql = "SELECT 1 FROM information_schema.processlist WHERE db = database() AND info LIKE ?"
    async with asyncio.timeout(10):
        while not await session.row(sql, f"{statement}%"):
            pass


def test_debits_are_settled_with_their_invoice(customer: Customer, world: World) -> None:
    customer.number(1_000)
    customer.call(24_000, 500)
    customer.call(24_000, 500, OCTOBER.end)
    customer.complete(customer.drafted(), "CARD", 3_749)
    states = "SELECT source, status FROM users_debits ORDER BY id"
    assert world.rows(states) == [
        ("CALL", "COMPLETE"),
        ("CALL", "INCOMPLETE"),
        ("NUMBER_RENTAL", "COMPLETE"),
    ]


def test_s1_d24_a_balance_counts_each_cent_once(customer: Customer) -> None:
    customer.credit(10_000)
    customer.call(24_000, 500)
    assert customer.balance == 9_500  # at its full price, until it is invoiced
    invoice = customer.drafted()
    assert (invoice.cents, customer.balance) == (2_749, 10_000)
    customer.complete(invoice, "CREDITS", 2_749)
    assert customer.balance == 10_000 - 2_749
    customer.call(24_000, 300, OCTOBER.end)
    assert customer.balance == 10_000 - 2_749 - 300


def test_s1_d24_what_is_owed_of_a_plan_that_pays_as_it_goes_is_in_the_balance(
    world: World,
) -> None:
    """Once: as a debit until it is invoiced, then with its invoice until that is paid."""
    customer = Customer(world, pay_as_you_go=1, monthly_cost_cents=0)
    customer.credit(1_000)
    customer.number(2_500)
    invoice = customer.drafted()
    assert (invoice.cents, customer.balance, customer.credits_left) == (2_500, -1_500, 1_000)
    customer.demand(invoice, 1_500)
    customer.call(24_000, 300, OCTOBER.end)
    assert (customer.balance, customer.credits_left) == (-1_800, 700)
    customer.complete(invoice, "CARD", 1_500)
    assert (customer.balance, customer.credits_left) == (-300, -300)


def test_s1_d21_credits_give_what_the_card_did_not(customer: Customer) -> None:
    customer.credit(1_000)
    invoice = customer.drafted()
    customer.complete(invoice, "CARD", 1_499)
    assert customer.balance == 0
    customer.credit(5_000)
    november = customer.drafted(parse("2026-11", "MONTHLY", "UTC"))
    customer.complete(november, "CARD", november.cents)
    assert customer.balance == 5_000


def test_s1_d24_a_balance_is_of_one_workspace(customer: Customer, world: World) -> None:
    other = Customer(world)
    other.credit(10_000)
    other.call(24_000, 500)
    other.complete(other.drafted(), "CREDITS", 2_749)
    assert (customer.balance, other.balance) == (0, 7_251)


def test_a_balance_knows_the_invoices_of_the_old_system(customer: Customer, world: World) -> None:
    customer.credit(10_000)
    for source, cents in [("CREDITS", 2_000), ("CARD", 3_000), ("SUBSCRIPTION", 4_000)]:
        old_invoice(world, customer, source, cents)
    assert customer.balance == 8_000


def old_invoice(world: World, customer: Customer, source: str, cents: int) -> int:
    return world.add(
        "users_invoices",
        **dict.fromkeys(("cents", "cents_including_taxes"), cents),
        **dict.fromkeys(("created_at", "updated_at"), NOW - 100 * DAY),
        status="INCOMPLETE",
        source=source,
        user_id=customer.user,
        workspace_id=customer.id,
    )


async def test_drafts_and_ends_of_one_workspace_wait_for_each_other(world: World) -> None:
    """In one order, so that none is a victim of a deadlock: each half begins with the other."""
    customer = Customer(world)
    customer.number(1_000)
    customer.calls(20 * [(24_000, 500)])
    periods = [parse(f"20{year}-10", "MONTHLY", "UTC") for year in range(10, 30)]
    drafted = [customer.drafted(period) for period in periods]
    one, other = [await connected(world.url) for _ in range(2)]

    async def complete(invoice: Invoice) -> str:
        async with one.transaction():
            return await invoices.complete(
                one, invoice, source="CARD", collected=invoice.cents, at=NOW
            )

    async def draft(period: Period) -> Invoice | None:
        return await invoices.draft(other, customer.task(period), period, RULES, NOW)

    try:
        for invoice, period in zip(drafted, periods, strict=True):
            _, found = await asyncio.gather(complete(invoice), draft(period))
            assert found
            assert (found.id, found.cents) == (invoice.id, invoice.cents)
    finally:
        for session in (one, other):
            await session.connection.ensure_closed()
    assert world.rows("SELECT DISTINCT status, cents_collected - cents FROM users_invoices") == [
        ("COMPLETE", 0)
    ]


def test_s1_d40_an_invoice_reads_only_what_is_its_own(world: World) -> None:
    customer = Customer(world)
    customer.number(1_000)
    customer.call(24_000, 500)
    crowd(world)
    task = customer.task()

    async def plans(session: Session) -> list[tuple[str, str]]:
        explained = Explained(session)
        invoice = await invoices.draft(explained, task, OCTOBER, RULES, NOW)
        assert invoice is not None
        terms: dict[str, Any] = {"source": "CARD", "collected": 1, "at": NOW}
        await invoices.complete(explained, invoice, **terms)
        await invoices.balance(explained, customer.id)
        return [(table, kind) for _, _, table, kind, *_ in explained.plans if table]

    found = world.do(plans)
    assert {"users_invoices", "users_debits", "subscriptions"} < {table for table, _ in found}
    assert [(table, kind) for table, kind in found if kind in {"ALL", "index"}] == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("share", "half"),
        ("attempts_cap", 0),
        ("backoff", -DAY),
        ("open_max", 0 * DAY),
        ("cents_per_fax", Fraction(-1)),
        ("zone", "Mars/Base"),
        ("zone", "../etc"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        Rules(**{field: value})
