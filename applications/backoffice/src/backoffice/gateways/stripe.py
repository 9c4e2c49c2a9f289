"""Charge at Stripe, by a payment intent that is confirmed at once.

Stripe keeps an idempotency key for 24 hours. So a charge that is demanded again is looked up first,
by its reference or by the key in its metadata, and what was found decides. The search is behind by
a minute or so, in which the key is still known.
"""

import logging
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import aiohttp
import stripe
from stripe.params import PaymentIntentCreateParams

from backoffice.gateways.protocol import Answer, Declined, Demand, GatewayFailed, Paid, Pending

Value = TypeVar("Value")

# The library logs requests and answers in full, and with them what a gateway repeats of a key.
logging.getLogger("stripe").setLevel(logging.WARNING)

NETWORK_RETRIES: Final = 2
SUFFIX_MAX: Final = 22
"""Characters of a statement suffix that Stripe accepts."""

FINAL: Final = frozenset({
    "amount_too_large", "amount_too_small", "card_not_supported", "currency_not_supported",
    "expired_card", "incorrect_number",
    "invalid_account", "invalid_expiry_month", "invalid_expiry_year", "invalid_number",
    "lost_card", "payment_method_unactivated", "pickup_card", "resource_missing",
    "restricted_card", "revocation_of_all_authorizations", "revocation_of_authorization",
    "stolen_card",
})  # fmt: skip
"""Codes after which this amount is never taken from the same card."""

MISSING: Final = "resource_missing"
"""There is no such card, or no such customer."""

OF_THE_CARD: Final = frozenset({"amount", "customer", "payment_method"})
"""Parameters that are of the bill or of its card; the others are the same for all bills."""

CANCELLABLE: Final = frozenset({
    "requires_action", "requires_confirmation", "requires_payment_method",
})  # fmt: skip
"""States of an intent that waits for somebody, and is not on its way."""

UNANSWERED: Final = (stripe.StripeError, aiohttp.ClientError, OSError)


class Stripe:
    name = "stripe"

    def __init__(self, key: str, *, url: str = "", domain: str = "", timeout: float = 20) -> None:
        """`timeout` is in seconds, for each request; `domain` is shown on the card's statement.

        Of the event loop that runs.
        """
        self.domain = domain
        total = aiohttp.ClientTimeout(total=timeout)
        self.session = aiohttp.ClientSession()
        self.intents = stripe.StripeClient(
            key,
            base_addresses={"api": url} if url else {},
            max_network_retries=NETWORK_RETRIES,
            http_client=stripe.AIOHTTPClient(timeout=total, session=self.session),
        ).v1.payment_intents

    async def charge(self, demand: Demand) -> Answer:
        intent = await self.found(demand) if demand.is_repeat else None
        if intent is None:
            return await self.created(demand)
        return await self.answer(intent)

    async def cancel(self, demand: Demand) -> Answer:
        intent = await self.found(demand)
        if intent is None:
            raise GatewayFailed("stripe: the charge is not found yet")
        if intent.status in CANCELLABLE:
            intent = await self.cancelled(intent.id)
        return await self.answer(intent)

    async def cancelled(self, id: str) -> stripe.PaymentIntent:
        """The intent as it is then: it may have gone on since it was read."""
        try:
            return await self.intents.cancel_async(id)
        except stripe.InvalidRequestError:
            return await answered(self.intents.retrieve_async(id))
        except UNANSWERED as error:
            raise failed(error) from None

    async def close(self) -> None:
        await self.session.close()

    async def found(self, demand: Demand) -> stripe.PaymentIntent | None:
        if demand.reference:
            return await answered(self.intents.retrieve_async(demand.reference))
        query = f"metadata['key']:'{demand.key}'"
        page = await answered(self.intents.search_async({"query": query, "limit": 1}))
        return next(iter(page.data), None)

    async def created(self, demand: Demand) -> Answer:
        try:
            intent = await self.intents.create_async(
                self.parameters(demand), {"idempotency_key": demand.key}
            )
        except (stripe.CardError, stripe.InvalidRequestError) as error:
            made: Any = getattr(error.error, "payment_intent", None)
            if made is None:
                return refused(error)
            intent = made
        except UNANSWERED as error:
            raise failed(error) from None
        return await self.answer(intent)

    def parameters(self, demand: Demand) -> PaymentIntentCreateParams:
        result = PaymentIntentCreateParams(
            amount=demand.cents,
            currency="usd",
            payment_method=demand.card.token,
            description=demand.description,
            metadata={"key": demand.key},
            automatic_payment_methods={"enabled": True},
            off_session=True,
            confirm=True,
        )
        if demand.card.customer:
            result["customer"] = demand.card.customer
        if self.domain:
            result["return_url"] = f"https://app.{self.domain}/confirm-payment-intent"
            result["statement_descriptor_suffix"] = f"{self.domain} invoice"[:SUFFIX_MAX]
        return result

    async def answer(self, intent: stripe.PaymentIntent) -> Answer:
        """Only a success is paid."""
        error: Any = getattr(intent, "last_payment_error", None)
        match intent.status:
            case "succeeded":
                return Paid(intent.id)
            case "canceled":
                return declined(error, intent.id)
            case "requires_payment_method" if code_of(error) != "authentication_required":
                # Only when it is cancelled nobody can pay it any more, beside the next attempt.
                await answered(self.intents.cancel_async(intent.id))
                return declined(error, intent.id)
            case _:
                return Pending(intent.status, intent.id)


async def answered(request: Awaitable[Value]) -> Value:
    try:
        return await request
    except UNANSWERED as error:
        raise failed(error) from None


def failed(error: Exception) -> GatewayFailed:
    status = getattr(error, "http_status", None)
    return GatewayFailed(f"stripe: {type(error).__name__}, status {status}")


def refused(error: stripe.CardError | stripe.InvalidRequestError) -> Declined:
    """Nothing was made under the key. Only what is about the bill or its card is final."""
    if isinstance(error, stripe.CardError):
        return declined(error, "")
    code = str(error.code or (MISSING if error.http_status == 404 else "invalid_request"))
    parameter = str(getattr(error, "param", None) or "")
    is_final = code in FINAL or code.startswith("payment_method") or parameter in OF_THE_CARD
    return Declined(f"stripe: {code} {parameter}".rstrip(), is_final)


def declined(error: object, reference: str) -> Declined:
    """`error` has Stripe's `code` and `decline_code`, the second being the bank's."""
    code = code_of(error)
    return Declined(f"stripe: {code}", code in FINAL, reference)


def code_of(error: object) -> str:
    codes = (getattr(error, "decline_code", None), getattr(error, "code", None))
    return next(filter(None, codes), "declined")
