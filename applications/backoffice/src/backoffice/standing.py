"""How an invoice stands, and whether it may be attempted again."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from backoffice.database import Session
from backoffice.invoices import COLUMNS, Invoice, lock
from backoffice.rules import Rules

SLACK: Final = timedelta(hours=1)
"""A daily run is in time although the one before it charged a little after its begin."""


@dataclass(frozen=True)
class Standing:
    """`invoice` as it is now: its draft may have been worked out again."""

    invoice: Invoice
    last_attempted: datetime | None
    confirmation: str

    @property
    def is_paid(self) -> bool:
        return self.invoice.status == "COMPLETE"


async def locked(session: Session, invoice: Invoice) -> Standing:
    """Until the commit. The workspace comes first, whose credits are spent."""
    await lock(session, invoice.workspace_id)
    row = await session.row(
        f"SELECT {COLUMNS}, last_attempted, coalesce(confirmation_number, '')"  # noqa: S608
        " FROM users_invoices WHERE id = ? FOR UPDATE",
        invoice.id,
    )
    if row is None:
        raise LookupError(f"invoice {invoice.id} is gone")
    *columns, last_attempted, confirmation = row
    return Standing(Invoice(*columns), last_attempted, confirmation)


def is_other_amount(before: int, cents: int, whole: int) -> bool:
    """Whether a card that did not pay `before` of a bill is asked anew for `cents` of `whole`.

    It is when credits pay more than they did, or nothing any more. That they pay a little less is
    no reason: use takes them cent by cent, and a bad card would be asked each day.
    """
    return cents < before or before < cents == whole


def has_waited(attempts: int, last: datetime | None, rules: Rules, at: datetime) -> bool:
    """Whether the wait after so many attempts is over: it doubles with each."""
    return last is None or at >= last + rules.backoff * 2 ** max(0, attempts - 1) - SLACK
