"""What of the use of a workspace is charged."""

import logging
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backoffice.database import Row, Session
from backoffice.periods import parse
from backoffice.rules import Rules
from backoffice.usage import Lines, Plan, Used, Workspace, priced, usage_lines
from tenant import INVOICE, OCTOBER, PRICES, STARTER, Explained, Tenant, crowd, in_cents
from world import World

COUNTS = st.integers(0, 10**6)
USES = st.builds(
    Used,
    call_cents=COUNTS,
    lost_cents=COUNTS,
    minutes=COUNTS,
    rental_cents=COUNTS,
    recorded_bytes=COUNTS,
    faxes=COUNTS,
)


@pytest.fixture
def tenant(world: World) -> Tenant:
    return Tenant(world)


def test_s1_25_calls_beyond_the_included_minutes_are_charged(tenant: Tenant) -> None:
    tenant.call(13_000, int(in_cents("1000")))
    assert tenant.lines() == Lines(call_tolls=int(in_cents("74.07")))
    assert tenant.lines(Rules(share="seed")) == Lines(call_tolls=int(in_cents("160")))


def test_s1_25_included_minutes_are_free(tenant: Tenant) -> None:
    tenant.calls([(6_000, 700), (6_059, 700)])
    assert tenant.lines() == Lines()


@pytest.mark.parametrize("share", ["proportional", "seed"])
def test_s1_25_calls_under_a_minute_are_charged_where_no_minutes_are_included(
    tenant: Tenant, share: str
) -> None:
    tenant.calls(100 * [(59, 500)])
    bare = replace(STARTER, minutes=0)
    assert tenant.lines(Rules(share=share), plan=bare) == Lines(call_tolls=50_000)
    assert tenant.lines(Rules(share=share)) == Lines()


@pytest.mark.parametrize(
    ("calls", "cents"),
    [
        ([(24_000, -500)], 0),
        ([(24_000, 1_000), (24_000, -400)], 450),  # 600 of 800 minutes
        ([(24_000, 1_000), (24_000, -1_400)], 0),
    ],
)
def test_a_credit_note_pays_no_more_than_the_calls_of_its_bill(
    tenant: Tenant, calls: list[tuple[int, int]], cents: int
) -> None:
    """It was an error that held up the whole bill."""
    tenant.number(300)
    tenant.calls(calls)
    assert tenant.lines() == Lines(call_tolls=cents, number_rentals=300)


def test_a_number_may_have_a_price_below_0(tenant: Tenant) -> None:
    tenant.number(-300)
    assert tenant.lines() == Lines()


def test_s1_d23_the_order_of_calls_changes_nothing(tenant: Tenant, world: World) -> None:
    """The old system gave the included minutes to the rows as they came."""
    calls = [(9_000, 1_001), (600, 9_999), (4_500, 3)]
    found = set()
    for order in permutations(calls):
        world.run("DELETE FROM users_debits")
        tenant.calls(order)
        found.add(tenant.lines())
    assert found == {Lines(call_tolls=1_639)}  # 11,003 cents for 235 minutes, 35 not included


def test_s1_d23_a_call_that_is_split_costs_the_same(tenant: Tenant, world: World) -> None:
    found = set()
    for calls in ([(24_000, 999)], [(12_000, 500), (12_000, 499)], [(60, 999)] + 399 * [(60, 0)]):
        world.run("DELETE FROM users_debits")
        tenant.calls(calls)
        found.add(tenant.lines())
    assert found == {Lines(call_tolls=500)}


def test_s1_26_a_number_has_one_debit_in_a_period(tenant: Tenant, world: World) -> None:
    number = tenant.number(1_000)
    assert tenant.lines() == tenant.lines() == Lines(number_rentals=1_000)
    rentals = (
        "SELECT source, status, cents, module_id, user_id, workspace_id, cast(period AS CHAR),"
        " created_at FROM users_debits"
    )
    of_number = (number, tenant.user, tenant.id, "2026-10-01", OCTOBER.begin)
    assert world.rows(rentals) == [("NUMBER_RENTAL", "INCOMPLETE", 1_000, *of_number)]
    world.run("UPDATE did_numbers SET monthly_cost = 1200")
    assert tenant.lines() == Lines(number_rentals=1_200)
    november = parse("2026-11", "MONTHLY", "UTC")
    assert tenant.lines(period=november, invoice=2) == Lines(number_rentals=1_200)
    assert len(world.rows(rentals)) == 2


def test_s1_d07_a_number_that_another_invoice_bills_is_not_billed_again(
    tenant: Tenant, world: World
) -> None:
    tenant.number(1_000)
    assert tenant.lines(invoice=1) == Lines(number_rentals=1_000)
    world.run("UPDATE did_numbers SET monthly_cost = 1200")
    assert tenant.lines(invoice=2) == Lines()
    assert world.rows("SELECT cents, invoice_id FROM users_debits") == [(1_000, 1)]


def test_s1_d25_a_rental_is_in_its_period_in_every_zone(tenant: Tenant, world: World) -> None:
    tenant.number(1_000)
    for n, zone in enumerate(["Pacific/Auckland", "America/Los_Angeles", "UTC"]):
        world.run("DELETE FROM users_debits")
        period = parse("2026-10", "MONTHLY", zone)
        assert tenant.lines(period=period, invoice=n) == Lines(number_rentals=1_000)


def test_s1_27_recordings_beyond_the_included_bytes_are_charged(tenant: Tenant) -> None:
    for size in (1_024, 500_000, 499_500):
        tenant.record(size)
    assert tenant.lines() == Lines(recordings=1_000)  # 999,500 bytes of 1,000,524: 999.5 cents
    assert tenant.lines(Rules()) == Lines()


def test_s1_28_faxes_beyond_the_included_ones_are_charged(tenant: Tenant) -> None:
    for _ in range(3):
        tenant.fax()
    assert tenant.lines() == Lines(faxes=38)  # 37.5 cents
    assert priced(Used(faxes=3), with_faxes(2), PRICES) == Lines(faxes=13)
    assert priced(Used(faxes=3), with_faxes(3), PRICES) == Lines()


def with_faxes(included: int) -> Plan:
    return Plan(id=1, monthly_cents=0, annual_cents=0, minutes=0, recorded_bytes=0, faxes=included)


def test_s1_d20_nothing_is_charged_within_the_free_faxes() -> None:
    """The old system took at least a cent."""
    assert priced(Used(faxes=1), with_faxes(1), Rules()) == Lines()


def test_s1_d26_the_end_of_a_period_is_in_the_next_one(tenant: Tenant) -> None:
    last = OCTOBER.end - timedelta(microseconds=1)
    for at in (OCTOBER.begin - timedelta(microseconds=1), OCTOBER.begin, last, OCTOBER.end):
        tenant.call(13_000, 10_000, at)
        tenant.record(1_024, at)
        tenant.fax(at)
    # 20,000 cents for 432 minutes, 232 not included; half of the 2,048 bytes
    assert tenant.lines() == Lines(call_tolls=10_741, recordings=1, faxes=25)
    september = parse("2026-09", "MONTHLY", "UTC")
    november = parse("2026-11", "MONTHLY", "UTC")
    one_each = Lines(call_tolls=741, faxes=13)
    assert tenant.lines(period=september, invoice=2) == one_each
    assert tenant.lines(period=november, invoice=3) == one_each


def test_s1_d19_two_workspaces_of_a_creator_pay_each_for_their_own(world: World) -> None:
    one, other = Tenant(world), Tenant(world)
    other.user = one.user
    for tenant, cents in [(one, 1_000), (other, 3_000)]:
        tenant.call(24_000, cents)
        tenant.record(2_048)
        tenant.fax()
    assert one.lines(invoice=1) == Lines(call_tolls=500, recordings=1, faxes=13)
    assert other.lines(invoice=2) == Lines(call_tolls=1_500, recordings=1, faxes=13)


def test_a_row_is_billed_by_one_invoice(tenant: Tenant) -> None:
    """Also where the periods of two subscriptions overlap."""
    tenant.call(24_000, 1_000)
    tenant.record(2_048)
    tenant.fax()
    assert tenant.lines(invoice=1) == Lines(call_tolls=500, recordings=1, faxes=13)
    overlapping = parse("2026-09-15@15", "MONTHLY", "UTC")
    assert tenant.lines(period=overlapping, invoice=2) == Lines()
    assert tenant.lines(invoice=1) == Lines(call_tolls=500, recordings=1, faxes=13)


def test_a_recording_without_a_workspace_is_in_no_bill(tenant: Tenant, world: World) -> None:
    id = tenant.record(5_000_000, workspace_id=None)
    assert tenant.lines() == Lines()
    assert world.rows("SELECT invoice_id FROM recordings WHERE id = ?", id) == [(None,)]


def test_s1_d36_a_debit_without_its_call_is_billed_and_reported(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    tenant.call(24_000, 1_000)
    tenant.world.run("DELETE FROM calls")
    tenant.call(24_000, 1_000)
    with caplog.at_level(logging.WARNING):
        # In full; of the other, half is beyond the included minutes.
        assert tenant.lines() == Lines(call_tolls=1_500)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"1 debits of workspace {tenant.id} have no call")
    assert record.__dict__["workspace_id"] == tenant.id


def test_a_thousand_rows_take_no_more_statements_than_ten(tenant: Tenant) -> None:
    who = Workspace(id=tenant.id, creator_id=tenant.user, users=1)

    async def plans(session: Session) -> list[Row]:
        explained = Explained(session)
        await usage_lines(explained, who, STARTER, OCTOBER, PRICES, INVOICE)
        return explained.plans

    tenant.calls(10 * [(60, 7)])
    few = tenant.world.do(plans)
    tenant.calls(990 * [(60, 7)])
    tenant.records(1_000 * [2_048])
    assert len(tenant.world.do(plans)) == len(few)
    assert tenant.lines() == Lines(call_tolls=5_600, recordings=2_047)


def test_s1_d40_rows_of_other_workspaces_are_not_read(world: World) -> None:
    tenant = Tenant(world)
    tenant.number(1_000)
    tenant.fax()
    tenant.calls(5 * [(60, 7)])
    tenant.records(5 * [2_048])
    crowd(world)
    who = Workspace(id=tenant.id, creator_id=tenant.user, users=1)

    async def read(session: Session) -> list[tuple[str, str]]:
        explained = Explained(session)
        await usage_lines(explained, who, STARTER, OCTOBER, PRICES, INVOICE)
        return [(table, kind) for _, _, table, kind, *_ in explained.plans if table]

    found = world.do(read)
    assert {table for table, _ in found} > {"users_debits", "recordings", "faxes", "did_numbers"}
    assert [(table, kind) for table, kind in found if kind in {"ALL", "index"}] == []


@given(used=USES, minutes=COUNTS)
def test_lines_are_within_their_full_prices_and_add_up(used: Used, minutes: int) -> None:
    plan = Plan(
        id=1, monthly_cents=0, annual_cents=0, minutes=minutes, recorded_bytes=minutes, faxes=3
    )
    lines = priced(used, plan, PRICES)
    assert used.lost_cents <= lines.call_tolls <= used.call_cents + used.lost_cents
    assert 0 <= lines.recordings <= PRICES.cents_per_recorded_byte * used.recorded_bytes + 1
    assert 0 <= lines.faxes <= PRICES.cents_per_fax * used.faxes + 1
    assert lines.number_rentals == used.rental_cents
    assert lines.total == (
        lines.call_tolls + lines.recordings + lines.faxes + lines.membership + lines.number_rentals
    )


@given(one=USES, other=USES)
def test_s1_d20_more_use_is_no_cheaper_in_any_line(one: Used, other: Used) -> None:
    both = Used(**{name: value + vars(other)[name] for name, value in vars(one).items()})
    less, more = priced(one, STARTER, PRICES), priced(both, STARTER, PRICES)
    assert all(vars(less)[name] <= cents for name, cents in vars(more).items())
