"""Choose the gateway by the stored setting, with stored credentials."""

from collections.abc import Callable, Mapping
from typing import Final

from backoffice.database import Row, Session
from backoffice.gateways.braintree import Braintree, BraintreeCredentials
from backoffice.gateways.protocol import Gateway
from backoffice.gateways.stripe import Stripe

CREDENTIALS: Final = """
    SELECT stripe_private_key, braintree_merchant_id, braintree_public_key, braintree_private_key
    FROM api_credentials LIMIT 1
"""


class NoGateway(Exception):
    """The stored setting or the credentials are not usable; nothing was charged."""


class Gateways:
    """Each gateway is opened once for its credentials. Of one event loop."""

    def __init__(
        self,
        *,
        domain: str = "",
        stripe_url: str = "",
        braintree_url: str = "",
        timeout: float = 20,
    ) -> None:
        """Without an address, that of the provider; `timeout` is in seconds, for a request."""
        self.domain = domain
        self.stripe_url = stripe_url
        self.braintree_url = braintree_url
        self.timeout = timeout
        self.opened: dict[tuple[str, ...], Gateway] = {}
        self.openers: Mapping[str, Callable[[Row], Gateway]] = {
            "stripe": self.open_stripe,
            "braintree": self.open_braintree,
        }

    async def chosen(self, session: Session) -> Gateway:
        """By `customizations.payment_gateway`, as it is now. Raises `NoGateway`.

        A program calls it when it starts too, so that it does not run into the first charge.
        """
        row = await session.row("SELECT payment_gateway FROM customizations LIMIT 1")
        return await self.named(session, str(row[0]).strip().lower() if row else "")

    async def named(self, session: Session, provider: str) -> Gateway:
        """Raises `NoGateway` for an unknown provider, and without its credentials."""
        if provider not in self.openers:
            known = " or ".join(self.openers)
            raise NoGateway(f"customizations.payment_gateway is {provider!r}: set it to {known}")
        credentials = await session.row(CREDENTIALS) or (None,) * 4
        key = (provider, *(str(value or "") for value in credentials))
        if key not in self.opened:
            self.opened[key] = self.openers[provider](key[1:])
        return self.opened[key]

    def open_stripe(self, credentials: Row) -> Gateway:
        key = str(credentials[0])
        check({"stripe_private_key": key})
        return Stripe(key, url=self.stripe_url, domain=self.domain, timeout=self.timeout)

    def open_braintree(self, credentials: Row) -> Gateway:
        _, merchant_id, public_key, private_key = map(str, credentials)
        check({
            "braintree_merchant_id": merchant_id,
            "braintree_public_key": public_key,
            "braintree_private_key": private_key,
        })  # fmt: skip
        found = BraintreeCredentials(
            merchant_id=merchant_id, public_key=public_key, private_key=private_key
        )
        return Braintree(found, url=self.braintree_url, timeout=self.timeout)

    async def close(self) -> None:
        while self.opened:
            _, gateway = self.opened.popitem()
            await gateway.close()


def check(credentials: Mapping[str, str]) -> None:
    for name, value in credentials.items():
        if not value:
            raise NoGateway(f"api_credentials.{name} is not set")
