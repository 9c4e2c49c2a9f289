"""An invoice is charged once, whatever happens, and what is recorded is what was charged."""

import asyncio
from datetime import timedelta

import pytest

from backoffice.charging import PENDING_EVENT, Charged
from backoffice.database import connected
from backoffice.gateways.choice import Gateways, NoGateway
from braintree_server import BraintreeServer
from onbeat import Job, JobFailed
from stripe_server import KEY, StripeServer
from till import Counterparty, Till, build, choose, eventually, running, standing, states
from world import NOW, World

DECLINED = "pm_card_chargeDeclinedInsufficientFunds"
STOLEN = "pm_card_chargeDeclinedStolenCard"
PAYG = {"pay_as_you_go": 1}


@pytest.fixture
def till(world: World, jobs: str, stripe_server: StripeServer) -> Till:
    choose(world, "stripe")
    return build(world, jobs, stripe=stripe_server.url)


@pytest.fixture
def ada(world: World, stripe_server: StripeServer) -> Counterparty:
    """With a good card, and a plan that is paid in full."""
    result = Counterparty(world, customer=stripe_server.customer())
    result.card()
    return result


@pytest.fixture
def bob(world: World, stripe_server: StripeServer) -> Counterparty:
    """With a good card, and a plan that is paid as it goes."""
    result = Counterparty(world, customer=stripe_server.customer(), **PAYG)
    result.card()
    return result


async def test_s1_32_the_card_is_charged_the_full_amount(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    invoice = ada.invoice(107_497)
    async with running(till):
        charged = await till.charge(invoice)
    assert (charged.outcome, charged.cents) == ("paid", 107_497)
    assert stripe_server.charges == {ada.key(invoice): [107_497]}
    assert standing(world, invoice) == ("COMPLETE", "CARD", 107_497, 1)
    assert states(world, invoice) == ["PAID"]
    rows = world.rows("SELECT confirmation_number FROM users_invoices")
    assert rows == [(charged.confirmation,)]


async def test_s1_40_braintree_charges_the_full_amount(
    world: World, jobs: str, braintree_server: BraintreeServer
) -> None:
    choose(world, "braintree")
    one = Counterparty(world)
    one.card()
    invoice = one.invoice(2_499)
    async with running(build(world, jobs, braintree=braintree_server.url)) as till:
        assert (await till.charge(invoice)).outcome == "paid"
    assert braintree_server.charges == {one.key(invoice): [2_499]}
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 1)


async def test_s1_a06_an_annual_charge_that_is_declined_lets_the_next_one_go_on(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(DECLINED)
    declined, paid = one.invoice(24_990, "ANNUAL"), ada.invoice(24_990, "ANNUAL")
    async with running(till):
        assert await till.charge(declined) == Charged("declined")
        assert (await till.charge(paid)).outcome == "paid"
    assert standing(world, declined) == ("INCOMPLETE", "CARD", 0, 1)
    assert standing(world, paid) == ("COMPLETE", "CARD", 24_990, 1)
    assert stripe_server.charges == {ada.key(paid): [24_990]}


async def test_s1_a08_an_invoice_that_is_delivered_five_times_is_charged_once(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    invoice = ada.invoice(2_499)
    async with running(till):
        together = await asyncio.gather(*(till.charge(invoice) for _ in range(4)))
        charged = {*together, await till.charge(invoice)}
    assert [one.outcome for one in charged] == ["paid"]
    assert stripe_server.charges == {ada.key(invoice): [2_499]}
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 1)
    assert states(world, invoice) == ["PAID"]


async def test_s1_a08_deliveries_at_once_are_one_sale_at_braintree(
    world: World, jobs: str, braintree_server: BraintreeServer
) -> None:
    choose(world, "braintree")
    one = Counterparty(world)
    one.card()
    invoice = one.invoice(2_499)
    async with running(build(world, jobs, braintree=braintree_server.url)) as till:
        await asyncio.gather(*(till.charge(invoice) for _ in range(5)))
    assert braintree_server.charges == {one.key(invoice): [2_499]}
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 1)


async def test_s1_a10_an_invalid_token_fails_for_good_with_one_event(
    world: World, till: Till, stripe_server: StripeServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_invalid")
    invoice = one.invoice(2_499)
    async with running(till):
        job = await till.task.asend(invoice, NOW)
        with pytest.raises(JobFailed, match="stripe: resource_missing"):
            await job.aresult(timeout=20)
        await eventually(lambda: job.id in till.failed, "the event")
        await eventually(lambda: is_idle(till), "an empty queue")
        info = await job.ainfo()
    assert (info.state, info.attempt, info.reason) == ("failed", 1, "not retryable")
    assert till.failed.count(job.id) == 1
    assert f"invoice {invoice} is not paid: stripe: resource_missing" in caplog.text
    assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 1)
    assert states(world, invoice) == ["REFUSED"]


async def is_idle(till: Till) -> bool:
    queues = await till.beat.queues.alist()
    return not sum(queue.due + queue.running for queue in queues)


async def test_a_workspace_without_a_card_fails_for_good(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world)
    invoice = one.invoice(2_499)
    async with running(till):
        with pytest.raises(JobFailed, match="no primary card at stripe"):
            await till.charge(invoice)
    assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 1)
    assert stripe_server.intents == []


async def test_s1_a11_a_network_that_fails_at_first_is_tried_again(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    invoice = ada.invoice(2_499)
    stripe_server.fail("drop", times=3)
    async with running(till):
        job = await till.task.asend(invoice, NOW)
        assert (await job.aresult(timeout=20)).outcome == "paid"
        assert (await job.ainfo()).attempt == 2
    assert stripe_server.charges == {ada.key(invoice): [2_499]}
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 1)


async def test_s1_a11_a_lock_that_is_not_granted_at_first_is_tried_again(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    invoice = ada.invoice(2_499)
    other = await connected(world.url)
    waiting = (
        "SELECT id FROM information_schema.processlist"
        " WHERE db = database() AND id <> connection_id() AND info LIKE ?"
    )
    async with running(till):
        async with other.transaction():
            await other.row("SELECT id FROM workspaces WHERE id = ? FOR UPDATE", ada.workspace)
            job = await till.task.asend(invoice, NOW)
            row = await eventually(lambda: other.row(waiting, "%FOR UPDATE"), "a wait")
            await other.run(f"KILL {row[0]}")
            await eventually(lambda: attempted(job), "a second attempt")
        assert (await job.aresult(timeout=20)).outcome == "paid"
    await other.connection.ensure_closed()
    assert stripe_server.charges == {ada.key(invoice): [2_499]}


async def attempted(job: Job[Charged]) -> bool:
    return (await job.ainfo()).attempt > 1


async def test_s1_d28_nothing_to_pay_is_complete_without_a_charge(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    invoice = ada.invoice(0)
    async with running(till):
        charged = await till.charge(invoice)
    assert (charged.outcome, charged.cents) == ("zero", 0)
    assert standing(world, invoice)[0] == "COMPLETE"
    assert (stripe_server.intents, states(world, invoice)) == ([], [])


async def test_s1_30_credits_that_are_enough_pay_as_it_goes(
    world: World, till: Till, bob: Counterparty, stripe_server: StripeServer
) -> None:
    bob.credits(1_000)
    invoice = bob.invoice(1_000)
    async with running(till):
        charged = await till.charge(invoice)
    assert (charged.outcome, charged.cents) == ("credits", 1_000)
    assert standing(world, invoice)[:3] == ("COMPLETE", "CREDITS", 1_000)
    assert (stripe_server.intents, states(world, invoice)) == ([], [])


async def test_s1_d21_the_card_is_charged_what_the_credits_do_not_pay(
    world: World, till: Till, bob: Counterparty, stripe_server: StripeServer
) -> None:
    bob.credits(400)
    first, second = bob.invoice(1_000), bob.invoice(1_000)
    async with running(till):
        charged = await till.charge(first)
        rest = await till.charge(second)
    assert (charged.outcome, charged.cents) == ("paid", 600)
    assert standing(world, first) == ("COMPLETE", "CARD", 600, 1)
    assert rest.cents == 1_000
    assert stripe_server.charges == {bob.key(first): [600], bob.key(second): [1_000]}


async def test_s1_31_a_card_that_is_declined_consumes_no_credits(
    till: Till, bob: Counterparty, stripe_server: StripeServer
) -> None:
    bob.card(DECLINED)
    bob.credits(400)
    declined, paid = bob.invoice(1_000), bob.invoice(400)
    async with running(till):
        assert await till.charge(declined) == Charged("declined")
        assert (await till.charge(paid)).outcome == "credits"
    assert stripe_server.charges == {}


async def test_credits_are_not_spent_twice_by_charges_at_once(
    till: Till, bob: Counterparty, stripe_server: StripeServer
) -> None:
    bob.credits(500)
    invoices = [bob.invoice(400) for _ in range(6)]
    async with running(till):
        charged = await asyncio.gather(*(till.charge(invoice) for invoice in invoices))
    assert sorted((one.outcome, one.cents) for one in charged) == [
        ("credits", 400),
        ("paid", 300),
        *[("paid", 400)] * 4,
    ]
    assert sum(map(sum, stripe_server.charges.values())) == 6 * 400 - 500


async def test_s1_d09_an_attempt_after_a_decline_has_a_key_of_its_own(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(DECLINED)
    invoice = one.invoice(2_499)
    async with running(till):
        assert await till.charge(invoice) == Charged("declined")
        one.card()
        assert (await till.charge(invoice)).outcome == "paid"
    assert stripe_server.charges == {one.key(invoice, "_2"): [2_499]}
    assert states(world, invoice) == ["DECLINED", "PAID"]
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 2)


async def test_a_repeated_delivery_uses_up_no_attempt(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """The wait after a decline is kept: a day, then two, then four."""
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(DECLINED)
    invoice = one.invoice(2_499)
    async with running(till):
        for hours in (0, 1, 22, 24, 25, 70, 73):
            await till.charge(invoice, NOW + timedelta(hours=hours))
    assert states(world, invoice) == ["DECLINED"] * 3
    assert len(stripe_server.intents) == 3


async def test_s1_d10_an_invoice_whose_attempts_are_used_up_fails_once(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """Neither is it demanded again when its job is repeated."""
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(DECLINED)
    invoice = one.invoice(2_499)
    async with running(till):
        for days in (0, 1, 3):
            assert await till.charge(invoice, NOW + timedelta(days=days)) == Charged("declined")
        for days in (7, 20):
            with pytest.raises(JobFailed, match="stripe: insufficient_funds"):
                await till.charge(invoice, NOW + timedelta(days=days))
    assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 4)
    assert len(stripe_server.intents) == 4


async def test_s1_d10_there_is_one_message_for_each_card_that_has_failed_for_good(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """However often the job is run again."""
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(STOLEN)
    invoice = one.invoice(2_499)
    async with running(till):
        for _ in range(3):
            with pytest.raises(JobFailed, match="stripe: stolen_card"):
                await till.charge(invoice)
        (message,) = await till.messages(one.workspace)
        assert (message["run_id"], message["reason"]) == ("MONTHLY:2026-10", "stripe: stolen_card")
        assert (message["workspace_id"], message["creator_id"]) == (one.workspace, one.user)
        assert message.keys() == {
            "run_id", "workspace_id", "subscription_id", "creator_id", "reason"
        }  # fmt: skip
        world.run("UPDATE users_cards SET stripe_payment_method_id = 'pm_invalid'")
        with pytest.raises(JobFailed, match="resource_missing"):
            await till.charge(invoice)
        assert len(await till.messages(one.workspace)) == 2


async def test_s1_d10_attempts_that_are_used_up_have_one_message(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card(DECLINED)
    invoice = one.invoice(2_499)
    async with running(till):
        for days in (0, 1, 3):
            await till.charge(invoice, NOW + timedelta(days=days))
            assert await till.messages(one.workspace) == []
        for days in (7, 20):
            with pytest.raises(JobFailed):
                await till.charge(invoice, NOW + timedelta(days=days))
        (message,) = await till.messages(one.workspace)
    assert message["reason"] == "stripe: insufficient_funds"


async def test_s1_d10_an_outage_is_no_failed_payment(
    world: World, till: Till, ada: Counterparty, stripe_server: StripeServer
) -> None:
    """Until the gateway has not answered for so long that nobody asks any more, which is told."""
    invoice = ada.invoice(2_499)
    stripe_server.fail("drop after", times=3)
    stripe_server.fail("503", times=1_000, path="/v1/payment_intents/search")
    async with running(till):
        for days in (0, 1, 2, 13):
            with pytest.raises(JobFailed, match="GatewayFailed"):
                await till.charge(invoice, NOW + timedelta(days=days))
        assert await till.messages(ada.workspace) == []
        assert states(world, invoice) == ["DEMANDED"]
        for days in (14, 15):
            with pytest.raises(JobFailed, match="no answer in 14 days"):
                await till.charge(invoice, NOW + timedelta(days=days))
        (message,) = await till.messages(ada.workspace)
        assert message["reason"].startswith("stripe: no answer in 14 days")
        assert states(world, invoice) == ["UNKNOWN"]
        ada.card()  # another one is not charged beside it
        stripe_server.heal()
        assert (await till.charge(invoice, NOW + timedelta(days=16))).outcome == "paid"
    assert stripe_server.charges == {ada.key(invoice): [2_499]}


async def test_a_pending_charge_makes_way_for_another_card(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_authenticationRequired")
    invoice = one.invoice(2_499)
    async with running(till):
        assert await till.charge(invoice) == Charged("pending")
        one.card()
        assert (await till.charge(invoice, NOW + timedelta(days=1))).outcome == "paid"
        assert await till.messages(one.workspace) == []
    assert [intent["status"] for intent in stripe_server.intents] == ["canceled", "succeeded"]
    assert stripe_server.charges == {one.key(invoice, "_2"): [2_499]}
    assert states(world, invoice) == ["DECLINED", "PAID"]
    assert standing(world, invoice) == ("COMPLETE", "CARD", 2_499, 2)


async def test_a_pending_charge_ends_with_one_message(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_requiresAction")
    invoice = one.invoice(2_499)
    async with running(till):
        for days in (0, 1, 13):
            assert await till.charge(invoice, NOW + timedelta(days=days)) == Charged("pending")
        for days in (14, 15):
            with pytest.raises(JobFailed, match="nobody has acted in 14 days"):
                await till.charge(invoice, NOW + timedelta(days=days))
        assert len(await till.messages(one.workspace)) == 1
        assert states(world, invoice) == ["REFUSED"]
        assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 1)
        one.card()
        assert (await till.charge(invoice, NOW + timedelta(days=16))).outcome == "paid"
    assert stripe_server.charges == {one.key(invoice, "_2"): [2_499]}


async def test_a_pending_charge_that_was_paid_meanwhile_is_not_charged_again(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_requiresAction")
    invoice = one.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        one.card()
        stripe_server.finish(stripe_server.intents[0]["id"])
        assert (await till.charge(invoice, NOW + timedelta(days=20))).outcome == "paid"
    assert stripe_server.charges == {one.key(invoice): [2_499]}
    assert states(world, invoice) == ["PAID"]


async def test_a_charge_that_is_on_its_way_is_waited_for(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    """It cannot be cancelled, so no other card is charged beside it."""
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_processing")
    invoice = one.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        one.card()
        for days in (1, 14, 40):
            assert await till.charge(invoice, NOW + timedelta(days=days)) == Charged("pending")
        stripe_server.finish(stripe_server.intents[0]["id"])
        assert (await till.charge(invoice, NOW + timedelta(days=41))).outcome == "paid"
    assert stripe_server.charges == {one.key(invoice): [2_499]}


async def test_s1_d27_a_pending_charge_is_asked_for_until_it_is_paid(
    world: World, till: Till, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_requiresAction")
    invoice = one.invoice(2_499)
    async with running(till):
        assert await till.charge(invoice) == Charged("pending")
        stripe_server.expire()
        assert await till.charge(invoice, NOW + timedelta(days=1)) == Charged("pending")
        assert standing(world, invoice) == ("INCOMPLETE", "CARD", 0, 1)
        await eventually(lambda: invoice in till.pending, "the event")
        (intent,) = stripe_server.intents
        stripe_server.finish(intent["id"])
        assert (await till.charge(invoice, NOW + timedelta(days=2))).outcome == "paid"
    assert till.pending.count(invoice) == 1
    assert stripe_server.charges == {one.key(invoice): [2_499]}
    assert states(world, invoice) == ["PAID"]


async def test_a_charge_that_is_pending_for_weeks_has_one_event(
    world: World, till: Till, jobs: str, stripe_server: StripeServer
) -> None:
    one = Counterparty(world, customer=stripe_server.customer())
    one.card("pm_card_requiresAction")
    invoice = one.invoice(2_499)
    async with running(till):
        await till.charge(invoice)
        await eventually(lambda: invoice in till.pending, "the event")
        World(jobs).run("DELETE FROM events")  # as after `prune.events_after`
        assert await till.charge(invoice, NOW + timedelta(days=13)) == Charged("pending")
        assert not await till.beat.events.alist(type=PENDING_EVENT)


async def test_an_open_intent_keeps_its_gateway_when_the_setting_changes(
    world: World,
    jobs: str,
    ada: Counterparty,
    stripe_server: StripeServer,
    braintree_server: BraintreeServer,
) -> None:
    """Stripe has charged, and its answer is lost; then Braintree is chosen."""
    choose(world, "stripe")
    first, second = ada.invoice(2_499), ada.invoice(1_000)
    stripe_server.fail("drop after", times=3)
    stripe_server.fail("500", times=9, path="/v1/payment_intents/search")
    till = build(world, jobs, stripe=stripe_server.url, braintree=braintree_server.url)
    async with running(till):
        with pytest.raises(JobFailed):
            await till.charge(first)
        choose(world, "braintree")
        assert (await till.charge(first)).outcome == "paid"
        assert (await till.charge(second)).outcome == "paid"
    assert stripe_server.charges == {ada.key(first): [2_499]}
    assert braintree_server.charges == {ada.key(second): [1_000]}


@pytest.mark.parametrize("provider", ["paypal", ""])
async def test_s1_41_an_unknown_gateway_is_refused(
    world: World, till: Till, ada: Counterparty, provider: str
) -> None:
    choose(world, provider)
    invoice = ada.invoice(2_499)
    session = await connected(world.url)
    with pytest.raises(NoGateway, match=r"customizations.payment_gateway .* stripe or braintree"):
        await Gateways().chosen(session)
    await session.connection.ensure_closed()
    async with running(till):
        with pytest.raises(JobFailed, match="NoGateway"):
            await till.charge(invoice)
    assert standing(world, invoice) == ("INCOMPLETE", "SUBSCRIPTION", 0, 0)
    assert states(world, invoice) == []


async def test_s1_41_a_credential_that_is_missing_is_named(world: World) -> None:
    choose(world, "braintree")
    world.run("UPDATE api_credentials SET braintree_private_key = NULL")
    session = await connected(world.url)
    with pytest.raises(NoGateway, match="braintree_private_key is not set"):
        await Gateways().chosen(session)
    await session.connection.ensure_closed()


async def test_the_keys_of_gateways_stay_secret(
    world: World,
    till: Till,
    ada: Counterparty,
    stripe_server: StripeServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also if Stripe repeats its key: not in logs, not in what is stored of the job."""
    caplog.set_level("DEBUG")
    stripe_server.fail("echo", times=4)
    async with running(till):
        job = await till.task.asend(ada.invoice(2_499), NOW)
        with pytest.raises(JobFailed) as raised:
            await job.aresult(timeout=20)
        info = await job.ainfo()
    assert "AuthenticationError" in str(info.error)
    stored = world.rows("SELECT * FROM charges")
    shown = f"{raised.value} {info} {stored} {caplog.text}"
    assert KEY not in shown
