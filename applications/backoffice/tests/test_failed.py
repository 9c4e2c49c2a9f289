"""What is not paid is charged again after its wait, until its attempts are used up."""

from datetime import datetime, timedelta

import pytest

from backoffice import failed
from backoffice.database import Database
from backoffice.failed import Bill, due_bills
from backoffice.rules import Rules
from onbeat import JobFailed
from stripe_server import StripeServer
from till import Counterparty, Till, build, choose, running, standing, states
from world import NOW, World

DECLINED = "pm_card_chargeDeclinedInsufficientFunds"
EXPIRED = "pm_card_chargeDeclinedExpiredCard"
DAY = timedelta(days=1)


@pytest.fixture
def till(world: World, jobs: str, stripe_server: StripeServer) -> Till:
    choose(world, "stripe")
    return build(world, jobs, stripe=stripe_server.url)


@pytest.fixture
def ada(world: World, stripe_server: StripeServer) -> Counterparty:
    return Counterparty(world, customer=stripe_server.customer())


async def due(world: World, at: datetime, after: int = 0) -> list[Bill]:
    database = Database(world.url)
    bills = [bill async for bill in due_bills(database, Rules(), at, after)]
    await database.close()
    return bills


async def due_ids(world: World, at: datetime, after: int = 0) -> list[int]:
    return [bill.id for bill in await due(world, at, after)]


async def retry_daily(till: Till, world: World, days: int) -> list[int]:
    """The days on which a daily run charges something; the charges take a moment."""
    result = []
    for day in range(1, days + 1):
        at = NOW + day * DAY
        for bill in await due(world, at):
            result.append(day)
            try:
                await till.charge(bill.id, at + timedelta(minutes=5))
            except JobFailed:
                result.append(-day)
    return result


async def test_s1_37_a_declined_invoice_is_charged_again_until_its_attempts_are_used_up(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    """After 1, 2 and 4 days; the last attempt fails for good, once."""
    ada.card(DECLINED)
    invoice = ada.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        assert await retry_daily(till, world, 12) == [1, 3, 7, -7]
    assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 4)
    keys = [intent["metadata"]["key"] for intent in stripe_server.intents]
    assert keys == [ada.key(invoice, suffix) for suffix in ("", "_2", "_3", "_4")]
    assert stripe_server.charges == {}


async def test_s1_d30_a_retry_that_succeeds_is_paid_by_card(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    ada.card(DECLINED)
    invoice = ada.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        ada.card()
        assert await retry_daily(till, world, 3) == [1]
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 2)
    assert stripe_server.charges == {ada.key(invoice, "_2"): [2_499]}
    assert await due_ids(world, NOW + 30 * DAY) == []


async def test_a_refused_card_is_not_charged_again_but_a_new_one_is(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    ada.card(EXPIRED)
    invoice = ada.invoice(2_499)
    async with running(till):
        with pytest.raises(JobFailed, match="stripe: expired_card"):
            await till.charge(invoice)
        assert await due_ids(world, NOW + 30 * DAY) == []
        with pytest.raises(JobFailed, match="stripe: expired_card"):
            await till.charge(invoice, NOW + 30 * DAY)
        assert len(stripe_server.intents) == 1
        ada.card()
        assert await retry_daily(till, world, 2) == [1]
    assert states(world, invoice) == ["REFUSED", "PAID"]
    assert stripe_server.charges == {ada.key(invoice, "_2"): [2_499]}


async def test_s1_20_a_request_that_is_refused_uses_up_the_attempts(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    """It is no outage, which would be tried again each day for ever."""
    ada.card()
    invoice = ada.invoice(2_499)
    stripe_server.refuse("parameter_unknown", "statement_descriptor_suffix", times=100)
    async with running(till):
        await till.charge(invoice)
        assert await retry_daily(till, world, 12) == [1, 3, 7, -7]
    assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 4)
    assert states(world, invoice) == ["DECLINED"] * 4


async def test_s1_20_an_amount_that_is_never_taken_fails_at_once(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    ada.card()
    invoice = ada.invoice(30)
    stripe_server.refuse("amount_too_small", "amount", times=100)
    async with running(till):
        with pytest.raises(JobFailed, match="stripe: amount_too_small"):
            await till.charge(invoice)
        assert await retry_daily(till, world, 12) == []
    assert states(world, invoice) == ["REFUSED"]


async def test_s1_30_credits_that_come_after_a_decline_pay_the_bill(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """Who pays as it goes has no card: the bill waits for a top-up, and is tried by no other day."""
    bob = Counterparty(world, customer=stripe_server.customer(), pay_as_you_go=1)
    bob.credits(100)
    invoice = bob.invoice(2_499)
    async with running(till):
        with pytest.raises(JobFailed, match="has no primary card"):
            await till.charge(invoice)
        assert await due_ids(world, NOW + 30 * DAY) == []
        bob.credits(2_399)
        assert await retry_daily(till, world, 3) == [1]
    assert standing(world, invoice) == ("COMPLETE", "CREDITS", 2_499, 2)
    assert len(await till.messages(bob.workspace)) == 1


async def test_s1_31_a_card_is_asked_anew_when_credits_pay_more_of_a_bill_or_nothing(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """Not when use has taken some of them: a bad card would be asked each day."""
    bob = Counterparty(world, customer=stripe_server.customer(), pay_as_you_go=1)
    bob.card(EXPIRED)
    bob.credits(1_000)
    invoice = bob.invoice(2_499)
    async with running(till):
        with pytest.raises(JobFailed, match="expired_card"):
            await till.charge(invoice)
        bob.credits(-400)
        assert await retry_daily(till, world, 3) == []
        bob.credits(600)
        assert await retry_daily(till, world, 3) == [1, -1]
        bob.credits(-1_200)
        assert await retry_daily(till, world, 3) == [1, -1]
    amounts = [intent["amount"] for intent in stripe_server.intents]
    assert amounts == [1_499, 1_299, 2_499]
    assert stripe_server.charges == {}


async def test_an_amount_that_was_never_taken_sticks_to_no_other_amount(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    bob = Counterparty(world, customer=stripe_server.customer(), pay_as_you_go=1)
    bob.card()
    bob.credits(2_470)
    invoice = bob.invoice(2_499)
    stripe_server.refuse("amount_too_small", "amount", times=1)
    async with running(till):
        with pytest.raises(JobFailed, match="amount_too_small"):
            await till.charge(invoice)
        bob.credits(-2_470)
        assert await retry_daily(till, world, 3) == [1]
    assert stripe_server.charges == {bob.key(invoice, "_2"): [2_499]}


async def test_what_is_pending_is_asked_for_each_day(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    """Also after more days than there are attempts: it demands nothing new."""
    ada.card("pm_card_requiresAction")
    invoice = ada.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        assert await retry_daily(till, world, 6) == [1, 2, 3, 4, 5, 6]
        (intent,) = stripe_server.intents
        stripe_server.finish(intent["id"])
        assert await retry_daily(till, world, 6) == [1]
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 2)
    assert stripe_server.charges == {ada.key(invoice): [2_499]}


async def test_a_charge_without_an_answer_is_demanded_again_under_its_key(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    """The gateway was away for longer than the job was tried; after a day it knows no key."""
    ada.card()
    invoice = ada.invoice(2_499)
    stripe_server.fail("drop after", times=3)
    stripe_server.fail("503", times=9, path="/v1/payment_intents/search")
    async with running(till):
        with pytest.raises(JobFailed, match="GatewayFailed"):
            await till.charge(invoice)
        stripe_server.expire()
        assert await retry_daily(till, world, 2) == [1]
    assert stripe_server.charges == {ada.key(invoice): [2_499]}
    assert states(world, invoice) == ["PAID"]


async def test_an_invoice_that_was_never_demanded_waits_for_its_own_job(
    world: World, ada: Counterparty
) -> None:
    invoice = ada.invoice(2_499)
    assert await due_ids(world, NOW + DAY / 2) == []
    assert await due_ids(world, NOW + DAY) == [invoice]


async def test_all_pages_are_read(
    world: World, ada: Counterparty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed, "PAGE", 2)
    ids = [ada.invoice(1) for _ in range(5)]
    assert await due_ids(world, NOW + DAY) == ids
    assert await due_ids(world, NOW + DAY, after=ids[2]) == ids[3:]


async def test_invoices_of_the_old_system_are_left_alone(world: World, ada: Counterparty) -> None:
    invoice = ada.invoice(2_499)
    world.run(
        "UPDATE users_invoices SET run_id = NULL, subscription_id = NULL WHERE id = ?", invoice
    )
    assert await due_ids(world, NOW + 30 * DAY) == []


async def test_s1_d10_bills_of_a_workspace_that_is_gone_are_left_alone(
    world: World, ada: Counterparty
) -> None:
    invoice = ada.invoice(2_499)
    assert await due_ids(world, NOW + 30 * DAY) == [invoice]
    world.run("DELETE FROM workspaces WHERE id = ?", ada.workspace)
    assert await due_ids(world, NOW + 30 * DAY) == []


async def test_the_task_of_a_bill_is_that_of_its_run(world: World, ada: Counterparty) -> None:
    invoice = ada.invoice(2_499, "ANNUAL")
    (bill,) = await due(world, NOW + DAY)
    assert bill.id == invoice
    assert (bill.task.run_id, bill.task.billing_type) == ("ANNUAL:2026-10", "ANNUAL")
    assert (bill.task.workspace_id, bill.task.creator_id) == (ada.workspace, ada.user)
    assert bill.task.plan_to_bill == ada.plan
