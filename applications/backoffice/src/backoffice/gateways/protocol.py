"""What the back office asks of a payment gateway, and what it is answered."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Card:
    """The primary card of a workspace, as the gateways know it; `customer` is the creator's id."""

    customer: str
    token: str


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One charge. The same `key` is never charged twice, however often it is demanded.

    `is_repeat` says that the gateway may know the key, and `reference` as what, if that is known.
    """

    key: str
    cents: int
    card: Card
    description: str
    is_repeat: bool = False
    reference: str = ""


@dataclass(frozen=True)
class Paid:
    reference: str


@dataclass(frozen=True)
class Declined:
    """A definite no: nothing was charged under this key, nor will be.

    That is a card that is declined, or a request that is refused. `is_final` says that the same
    card will never be charged this bill, as for a token that is invalid.
    """

    reason: str
    is_final: bool = False
    reference: str = ""


@dataclass(frozen=True)
class Pending:
    """The owner or the bank has to act first; the money may still come under the same key."""

    reason: str
    reference: str = ""


Answer = Paid | Declined | Pending


class GatewayFailed(Exception):
    """No answer: whether the card was charged is not known. Demand it again under the same key.

    The message holds no text of the gateway, which might repeat a credential.
    """


class Gateway(Protocol):
    @property
    def name(self) -> str:
        """As it stands in `customizations.payment_gateway` and in `charges.provider`."""
        ...

    async def charge(self, demand: Demand) -> Answer:
        """Charge once for `demand.key`. Repeats answer as the first time, also after days.

        Raises `GatewayFailed` for all that is not an answer, as a network that fails.
        """
        ...

    async def cancel(self, demand: Demand) -> Answer:
        """End a charge that is pending. `Declined` if nobody can pay it any more.

        `Paid` if it was too late, and `Pending` if it cannot be cancelled, or not yet. Raises
        `GatewayFailed` as `charge` does.
        """
        ...

    async def close(self) -> None: ...
