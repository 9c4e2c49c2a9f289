"""Each gateway charges once for a key, whatever goes wrong on the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

import pytest

import braintree_server as braintree_process
import stripe_server as stripe_process
from backoffice.gateways.braintree import Braintree, BraintreeCredentials
from backoffice.gateways.protocol import (
    Card,
    Declined,
    Demand,
    Gateway,
    GatewayFailed,
    Paid,
    Pending,
)
from backoffice.gateways.stripe import Stripe
from braintree_server import BraintreeServer
from stripe_server import StripeServer

KEY = "lineblocs_1_2026-10-01_MONTHLY_1"


class Server(Protocol):
    url: str

    def fail(self, kind: str, times: int = 1) -> None: ...

    @property
    def charges(self) -> Any: ...


class Place:
    """One of the gateways on its server, with what cards are called there."""

    def __init__(self, name: str, server: Any, cards: dict[str, str], customer: str = "") -> None:
        self.name = name
        self.server = server
        self.cards = cards
        self.customer = customer

    def demand(self, card: str = "good", cents: int = 107_497) -> Demand:
        token = self.cards.get(card, card)
        return Demand(
            key=KEY,
            cents=cents,
            card=Card(customer=self.customer, token=token),
            description="LineBlocs invoice",
        )

    @asynccontextmanager
    async def open(self, timeout: float = 20) -> AsyncIterator[Gateway]:
        gateway = self.gateway(timeout)
        yield gateway
        await gateway.close()

    def gateway(self, timeout: float) -> Gateway:
        if self.name == "stripe":
            return Stripe(
                stripe_process.KEY, url=self.server.url, domain="example.com", timeout=timeout
            )
        credentials = BraintreeCredentials(
            merchant_id=braintree_process.MERCHANT,
            public_key=braintree_process.PUBLIC_KEY,
            private_key=braintree_process.PRIVATE_KEY,
        )
        return Braintree(credentials, url=self.server.url, timeout=timeout)


@pytest.fixture(params=["stripe", "braintree"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "braintree":
        cards = {"good": "visa", "empty": "insufficient-funds", "expired": "expired-card"}
        return Place(
            "braintree", request.getfixturevalue("braintree_server"), {**cards, "slow": "slow"}
        )
    return at_stripe(request.getfixturevalue("stripe_server"))


def at_stripe(server: StripeServer) -> Place:
    cards = {
        "good": "pm_card_visa",
        "empty": "pm_card_chargeDeclinedInsufficientFunds",
        "expired": "pm_card_chargeDeclinedExpiredCard",
        "slow": "pm_card_processing",
    }
    return Place("stripe", server, cards, server.customer())


async def test_s1_d02_what_is_charged_is_the_amount_that_is_demanded(place: Place) -> None:
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand())
    assert isinstance(answer, Paid)
    assert answer.reference
    assert place.server.charges == {KEY: [107_497]}


async def test_s1_22_a_key_that_is_repeated_is_charged_once(place: Place) -> None:
    async with place.open() as gateway:
        first = await gateway.charge(place.demand())
        answers = [
            await gateway.charge(place.demand()),
            await gateway.charge(replace(place.demand(), is_repeat=True)),
            await gateway.charge(
                replace(place.demand(), is_repeat=True, reference=first.reference)
            ),
        ]
    assert answers == [first] * 3
    assert place.server.charges == {KEY: [107_497]}


@pytest.mark.parametrize(
    ("card", "is_final"), [("empty", False), ("expired", True), ("pm_unknown", True)]
)
async def test_a_decline_is_final_if_the_card_will_never_be_accepted(
    place: Place, card: str, is_final: bool
) -> None:
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand(card))
        again = await gateway.charge(replace(place.demand(card), is_repeat=True))
    assert isinstance(answer, Declined)
    assert answer.is_final == is_final
    assert answer.reason.startswith(place.name)
    assert again == answer
    assert place.server.charges == {}


REFUSALS = [
    ("stripe", "amount_too_small", "amount", True),
    ("stripe", "payment_method_invalid_parameter", "", True),
    ("stripe", "", "payment_method", True),  # as one of another customer
    ("stripe", "parameter_unknown", "statement_descriptor_suffix", False),
    ("braintree", "81528", "amount", True),
    ("braintree", "91513", "merchant_account_id", False),
]


@pytest.mark.parametrize(("name", "code", "about", "is_final"), REFUSALS)
async def test_s1_20_a_request_that_is_refused_is_a_decline(
    request: pytest.FixtureRequest, name: str, code: str, about: str, is_final: bool
) -> None:
    """Final where the bill or its card is wrong; anything else may be put right for all bills."""
    server = request.getfixturevalue(f"{name}_server")
    place = at_stripe(server) if name == "stripe" else Place(name, server, {"good": "visa"})
    server.refuse(code, about)
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand())
        assert isinstance(answer, Declined)
        assert answer.is_final == is_final
        assert answer.reason.startswith(name)
        assert (code or about) in answer.reason
        assert server.charges == {}
        assert isinstance(await gateway.charge(replace(place.demand(), key="next")), Paid)


async def test_a_key_with_other_parameters_is_no_decline(stripe_server: StripeServer) -> None:
    """What was demanded under it before may have been charged."""
    place = at_stripe(stripe_server)
    async with place.open() as gateway:
        await gateway.charge(place.demand())
        with pytest.raises(GatewayFailed, match="IdempotencyError"):
            await gateway.charge(place.demand(cents=1_000))
    assert stripe_server.charges == {KEY: [107_497]}


async def test_s1_d27_what_is_pending_is_not_paid(place: Place) -> None:
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand("slow"))
        again = await gateway.charge(replace(place.demand("slow"), is_repeat=True))
    assert isinstance(answer, Pending)
    assert again == answer
    assert place.server.charges == {}


@pytest.mark.parametrize("kind", ["drop after", "hang after"])
async def test_an_answer_that_was_lost_is_found_again(place: Place, kind: str) -> None:
    """The gateway has charged, and the connection breaks before it says so."""
    place.server.fail(kind)
    async with place.open(timeout=0.5) as gateway:
        try:
            answer = await gateway.charge(place.demand())
        except GatewayFailed:
            answer = await gateway.charge(replace(place.demand(), is_repeat=True))
    assert isinstance(answer, Paid)
    assert place.server.charges == {KEY: [107_497]}


@pytest.mark.parametrize("kind", ["drop", "500", "503"])
async def test_a_gateway_without_an_answer_has_failed(place: Place, kind: str) -> None:
    place.server.fail(kind, times=3)
    async with place.open() as gateway:
        if place.name == "stripe":
            with pytest.raises(GatewayFailed):
                await gateway.charge(place.demand())
        for _ in range(3 if place.name == "braintree" else 0):
            with pytest.raises(GatewayFailed):
                await gateway.charge(place.demand())
        assert place.server.charges == {}
        assert isinstance(await gateway.charge(place.demand()), Paid)
    assert place.server.charges == {KEY: [107_497]}


async def test_s1_d09_a_retry_after_days_charges_once(stripe_server: StripeServer) -> None:
    """Stripe has forgotten the key; the charge is found by its metadata."""
    place = at_stripe(stripe_server)
    async with place.open() as gateway:
        first = await gateway.charge(place.demand())
        stripe_server.expire()
        assert await gateway.charge(replace(place.demand(), is_repeat=True)) == first
    assert stripe_server.charges == {KEY: [107_497]}


async def test_a_charge_that_is_not_found_yet_is_replayed(stripe_server: StripeServer) -> None:
    """The search is behind for a minute, in which Stripe knows the key."""
    place = at_stripe(stripe_server)
    stripe_server.fail("empty", path="/v1/payment_intents/search")
    async with place.open() as gateway:
        first = await gateway.charge(place.demand())
        assert await gateway.charge(replace(place.demand(), is_repeat=True)) == first
    assert stripe_server.charges == {KEY: [107_497]}


async def test_nobody_pays_what_was_declined(stripe_server: StripeServer) -> None:
    """The intent is cancelled, so that the next attempt is the only one that can be paid."""
    place = at_stripe(stripe_server)
    async with place.open() as gateway:
        await gateway.charge(place.demand("empty"))
    assert [intent["status"] for intent in stripe_server.intents] == ["canceled"]


@pytest.mark.parametrize("card", ["pm_card_requiresAction", "pm_card_authenticationRequired"])
async def test_a_card_whose_owner_has_to_act_is_pending(
    stripe_server: StripeServer, card: str
) -> None:
    place = at_stripe(stripe_server)
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand(card))
    assert isinstance(answer, Pending)
    assert stripe_server.charges == {}


@pytest.mark.parametrize("name", ["stripe", "braintree"])
async def test_what_is_pending_can_be_cancelled(request: pytest.FixtureRequest, name: str) -> None:
    """Then nobody pays it any more, and the answer stays the same."""
    server = request.getfixturevalue(f"{name}_server")
    place = at_stripe(server) if name == "stripe" else Place(name, server, {})
    demand = place.demand("pm_card_requiresAction" if name == "stripe" else "slow")
    async with place.open() as gateway:
        pending = await gateway.charge(demand)
        assert isinstance(pending, Pending)
        repeat = replace(demand, is_repeat=True, reference=pending.reference)
        for ask in (gateway.cancel, gateway.cancel, gateway.charge):
            answer = await ask(repeat)
            assert isinstance(answer, Declined)
            assert answer.reference == pending.reference
    assert server.charges == {}


async def test_what_is_paid_is_not_cancelled(place: Place) -> None:
    async with place.open() as gateway:
        paid = await gateway.charge(place.demand())
        assert await gateway.cancel(replace(place.demand(), is_repeat=True)) == paid
    assert place.server.charges == {KEY: [107_497]}


@pytest.mark.parametrize("name", ["stripe", "braintree"])
async def test_what_cannot_be_cancelled_stays_pending(
    request: pytest.FixtureRequest, name: str
) -> None:
    server = request.getfixturevalue(f"{name}_server")
    place = at_stripe(server) if name == "stripe" else Place(name, server, {"slow": "stuck"})
    demand = place.demand("pm_card_processing" if name == "stripe" else "slow")
    async with place.open() as gateway:
        pending = await gateway.charge(demand)
        assert await gateway.cancel(replace(demand, is_repeat=True)) == pending


async def test_a_payment_in_the_moment_of_the_cancel_is_paid(stripe_server: StripeServer) -> None:
    """Stripe refuses to cancel what has succeeded since it was read."""
    place = at_stripe(stripe_server)
    demand = place.demand("pm_card_requiresAction")
    async with place.open() as gateway:
        pending = await gateway.charge(demand)
        assert isinstance(pending, Pending)
        path = f"/v1/payment_intents/{pending.reference}/cancel"
        stripe_server.fail("finish", path=path)
        repeat = replace(demand, is_repeat=True, reference=pending.reference)
        assert await gateway.cancel(repeat) == Paid(pending.reference)
    assert stripe_server.charges == {KEY: [107_497]}


async def test_what_was_pending_is_paid_under_the_same_key(stripe_server: StripeServer) -> None:
    place = at_stripe(stripe_server)
    async with place.open() as gateway:
        answer = await gateway.charge(place.demand("pm_card_requiresAction"))
        assert isinstance(answer, Pending)
        stripe_server.finish(answer.reference)
        repeat = replace(place.demand("pm_card_requiresAction"), is_repeat=True)
        assert await gateway.charge(repeat) == Paid(answer.reference)
    assert stripe_server.charges == {KEY: [107_497]}


async def test_a_sale_that_braintree_rejects_as_a_duplicate_was_charged_before(
    braintree_server: BraintreeServer,
) -> None:
    """Two sales at once: the second search has found nothing."""
    place = Place("braintree", braintree_server, {"good": "visa"})
    async with place.open() as gateway:
        first = await gateway.charge(place.demand())
        braintree_server.fail("empty", path="transactions/advanced_search_ids")
        assert await gateway.charge(place.demand()) == first
        braintree_server.fail("empty", times=2, path="transactions/advanced_search_ids")
        with pytest.raises(GatewayFailed, match="the same order is in work"):
            await gateway.charge(place.demand())
    assert braintree_server.charges == {KEY: [107_497]}


async def test_credentials_are_checked(braintree_server: BraintreeServer) -> None:
    credentials = BraintreeCredentials(merchant_id="merchant", public_key="x", private_key="y")
    gateway = Braintree(credentials, url=braintree_server.url)
    with pytest.raises(GatewayFailed, match="AuthenticationError"):
        await gateway.charge(Place("braintree", braintree_server, {}).demand("visa"))
    await gateway.close()


async def test_a_credential_is_in_no_error(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """Also not if the gateway repeats it."""
    caplog.set_level("DEBUG")
    place.server.fail("echo" if place.name == "stripe" else "500")
    async with place.open() as gateway:
        with pytest.raises(GatewayFailed) as raised:
            await gateway.charge(place.demand())
        shown = f"{raised.getrepr()} {gateway!r} {vars(gateway)} {caplog.text}"
    assert stripe_process.KEY not in shown
    assert braintree_process.PRIVATE_KEY not in shown
