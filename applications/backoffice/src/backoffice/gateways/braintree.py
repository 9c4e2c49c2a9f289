"""Charge at Braintree, by a sale.

Braintree has no idempotency keys. The key of a charge is the order id of its sale: each sale is
preceded by a search for the order id. Two at once are told apart by Braintree, which rejects the
second one as a duplicate.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit
from warnings import catch_warnings, simplefilter

from backoffice.gateways.protocol import Answer, Declined, Demand, GatewayFailed, Paid, Pending

with catch_warnings():
    # The library warns of names of its own when it is imported.
    simplefilter("ignore", DeprecationWarning)
    import braintree
    from braintree.exceptions.braintree_error import BraintreeError

library: Any = braintree  # it has no types

THREADS: Final = 8
DUPLICATE: Final = "duplicate"

PAID: Final = frozenset({
    "authorized", "settled", "settlement_confirmed", "settling", "submitted_for_settlement",
})  # fmt: skip
PENDING: Final = frozenset({"authorizing", "settlement_pending"})

OF_THE_CARD: Final = frozenset({"amount", "payment_method_token"})
"""Attributes that are of the bill or of its card; the others are the same for all bills."""


@dataclass(frozen=True, kw_only=True)
class BraintreeCredentials:
    merchant_id: str
    public_key: str
    private_key: str = field(repr=False)


class Braintree:
    name = "braintree"

    def __init__(
        self, credentials: BraintreeCredentials, *, url: str = "", timeout: float = 20
    ) -> None:
        """`url` is `sandbox` or an address, production without; `timeout` is in seconds."""
        configuration = library.Configuration(
            environment(url),
            credentials.merchant_id,
            credentials.public_key,
            credentials.private_key,
            timeout=timeout,
            wrap_http_exceptions=True,
        )
        self.transactions = library.BraintreeGateway(configuration).transaction
        # It blocks, and keeps a connection for each thread.
        self.threads = ThreadPoolExecutor(THREADS, "braintree")

    async def charge(self, demand: Demand) -> Answer:
        return await self.in_thread(self.sale, demand)

    async def cancel(self, demand: Demand) -> Answer:
        return await self.in_thread(self.ended, demand)

    async def in_thread(self, work: Callable[[Demand], Answer], demand: Demand) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work, demand)
        except BraintreeError as error:
            raise GatewayFailed(f"braintree: {type(error).__name__}") from None

    async def close(self) -> None:
        await asyncio.to_thread(self.threads.shutdown)

    def sale(self, demand: Demand) -> Answer:
        return self.found(demand.key) or self.sold(demand)

    def ended(self, demand: Demand) -> Answer:
        known = self.expected(demand)
        if not isinstance(known, Pending):
            return known
        if self.transactions.void(known.reference).is_success:
            return Declined("braintree: voided", reference=known.reference)
        return self.expected(demand)  # it has gone on since it was read

    def expected(self, demand: Demand) -> Answer:
        known = self.found(demand.key)
        if known is None:
            raise GatewayFailed("braintree: the order is not found")
        return known

    def found(self, key: str) -> Answer | None:
        """What has become of the order."""
        query = library.TransactionSearch.order_id == key
        found = [answer(each) for each in self.transactions.search(query).items]
        return most_certain(each for each in found if each is not None)

    def sold(self, demand: Demand) -> Answer:
        result = self.transactions.sale(parameters(demand))
        if result.transaction is None:
            return invalid(result)
        known = answer(result.transaction) or self.found(demand.key)
        if known is None:
            raise GatewayFailed("braintree: the same order is in work")
        return known


def environment(url: str) -> Any:
    if url in {"", "production"}:
        return library.Environment.Production
    if url == "sandbox":
        return library.Environment.Sandbox
    parts = urlsplit(url)
    is_ssl = parts.scheme == "https"
    port = str(parts.port or (443 if is_ssl else 80))
    return library.Environment("local", parts.hostname, port, url, is_ssl, None)


def parameters(demand: Demand) -> Mapping[str, object]:
    return {
        "amount": f"{demand.cents // 100}.{demand.cents % 100:02}",
        "payment_method_token": demand.card.token,
        "order_id": demand.key,
        "options": {"submit_for_settlement": True},
    }


def answer(transaction: Any) -> Answer | None:
    """None for a duplicate, which says nothing of the first."""
    status, id = str(transaction.status), str(transaction.id)
    if status in PAID:
        return Paid(id)
    if status in PENDING:
        return Pending(status, id)
    rejection = attribute(transaction, "gateway_rejection_reason")
    if rejection == DUPLICATE:
        return None
    code = rejection or attribute(transaction, "processor_response_code") or "declined"
    is_final = attribute(transaction, "processor_response_type") == "hard_declined"
    return Declined(f"braintree: {status} {code}", is_final, id)


def attribute(transaction: Any, name: str) -> str:
    return str(getattr(transaction, name, None) or "")


def most_certain(answers: Iterable[Answer]) -> Answer | None:
    order = (Paid, Pending, Declined)
    return min(answers, key=lambda each: order.index(type(each)), default=None)


def invalid(result: Any) -> Declined:
    """The request was refused, and no transaction made. Final if the bill or its card is wrong."""
    errors = result.errors.deep_errors
    codes = ", ".join(str(each.code) for each in errors)
    attributes = ", ".join(sorted({str(each.attribute) for each in errors}))
    is_final = any(each.attribute in OF_THE_CARD for each in errors)
    return Declined(f"braintree: invalid {attributes or 'request'}, {codes}", is_final)
