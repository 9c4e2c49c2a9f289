"""The rows of `charges`: what is demanded of a gateway, written before it is asked."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backoffice.database import Session
from backoffice.gateways.protocol import Answer, Card, Declined, Demand, Paid, Pending
from backoffice.invoices import Invoice, credits_left

OPEN: Final = frozenset({"DEMANDED", "PENDING", "UNKNOWN"})
"""The money may still come under the key of such an intent."""

PENDING: Final = "PENDING"
UNKNOWN: Final = "UNKNOWN"
"""Nobody has answered for so long that it is asked for by hand only."""

DECLINED: Final = "DECLINED"
REFUSED: Final = "REFUSED"
"""Declined for as long as the card and the amount are the same."""

REASON_MAX: Final = 1_024


@dataclass(frozen=True, kw_only=True)
class Intent:
    id: int
    attempt: int
    key: str
    provider: str
    cents: int
    card: Card
    state: str
    reference: str
    reason: str
    created_at: datetime

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def demand(self, invoice: Invoice, *, is_repeat: bool) -> Demand:
        """The same for each repeat: a gateway refuses a key with other parameters."""
        return Demand(
            key=self.key,
            cents=self.cents,
            card=self.card,
            description=f"LineBlocs invoice {invoice.id} for {invoice.period}",
            is_repeat=is_repeat,
            reference=self.reference,
        )


async def latest(session: Session, invoice: int) -> Intent | None:
    row = await session.row(
        """
        SELECT id, attempt, idempotency_key, provider, cents, customer, token, state,
          coalesce(reference, ''), coalesce(reason, ''), created_at
        FROM charges WHERE invoice_id = ? ORDER BY attempt DESC LIMIT 1
        """,
        invoice,
    )
    if row is None:
        return None
    id, attempt, key, provider, cents, customer, token, state, reference, reason, at = row
    return Intent(
        id=id,
        attempt=attempt,
        key=key,
        provider=provider,
        cents=cents,
        card=Card(customer=customer, token=token),
        state=state,
        reference=reference,
        reason=reason,
        created_at=at,
    )


async def new_intent(
    session: Session,
    invoice: Invoice,
    before: Intent | None,
    provider: str,
    cents: int,
    card: Card,
    at: datetime,
) -> Intent:
    """A new intent, after `before` was declined. To be committed before the gateway is asked."""
    attempt = before.attempt + 1 if before else 1
    key = key_of(invoice, attempt)
    id = await session.insert(
        """
        INSERT INTO charges (invoice_id, attempt, idempotency_key, provider, cents, customer, token,
          state, created_at, updated_at)
        VALUES (?, ?, ?, ?, ?, ?, ?, 'DEMANDED', ?, ?)
        """,
        *(invoice.id, attempt, key, provider, cents, card.customer, card.token, at, at),
    )
    return Intent(
        id=id,
        attempt=attempt,
        key=key,
        provider=provider,
        cents=cents,
        card=card,
        state="DEMANDED",
        reference="",
        reason="",
        created_at=at,
    )


def key_of(invoice: Invoice, attempt: int) -> str:
    """From the period of the invoice, never from today; with a number after a definite decline."""
    key = (
        f"lineblocs_{invoice.workspace_id}_{invoice.period}_{invoice.cycle}"
        f"_{invoice.subscription_id}"
    )
    return key if attempt == 1 else f"{key}_{attempt}"


async def note(session: Session, intent: Intent, answer: Answer, at: datetime) -> None:
    reason = "" if isinstance(answer, Paid) else answer.reason
    await session.run(
        "UPDATE charges SET state = ?, reference = ?, reason = ?, updated_at = ? WHERE id = ?",
        *(state_after(answer), answer.reference, reason[:REASON_MAX], at, intent.id),
    )


async def give_up(session: Session, intent: Intent, reason: str, at: datetime) -> None:
    """What came of it is not known, and nobody asks any more by itself."""
    await session.run(
        "UPDATE charges SET state = ?, reason = ?, updated_at = ? WHERE id = ?",
        *(UNKNOWN, reason[:REASON_MAX], at, intent.id),
    )


def state_after(answer: Answer) -> str:
    match answer:
        case Paid():
            return "PAID"
        case Pending():
            return PENDING
        case Declined(is_final=True):
            return REFUSED
        case Declined():
            return DECLINED


async def card_part(session: Session, workspace: int, *, plan: int, cents: int) -> int:
    """What of `cents` the credits do not pay.

    Lock the workspace to spend them: then nobody else does.
    """
    row = await session.row("SELECT pay_as_you_go FROM service_plans WHERE id = ?", plan)
    if not cents or row is None or not row[0]:
        return cents
    free = await credits_left(session, workspace) - await reserved(session, workspace)
    return cents - min(cents, max(0, free))


async def reserved(session: Session, workspace: int) -> int:
    """Cents of credits that open intents of a workspace count on, beside what the card pays."""
    row = await session.row(
        """
        SELECT coalesce(sum(i.cents - c.cents), 0)
        FROM users_invoices i JOIN charges c ON c.invoice_id = i.id
        WHERE i.workspace_id = ? AND i.status = 'INCOMPLETE'
          AND c.state IN ('DEMANDED', 'PENDING', 'UNKNOWN')
        """,
        workspace,
    )
    return int(row[0]) if row else 0


async def primary_card(session: Session, invoice: Invoice, provider: str) -> Card:
    """The card of the workspace as the provider knows it; without a token if there is none."""
    row = await session.row(
        """
        SELECT coalesce(u.stripe_id, ''), coalesce(c.stripe_payment_method_id, ''),
          coalesce(c.braintree_token, '')
        FROM users_cards c JOIN users u ON u.id = ?
        WHERE c.workspace_id = ? AND c.`primary` = 1 ORDER BY c.id DESC LIMIT 1
        """,
        invoice.user_id,
        invoice.workspace_id,
    )
    customer, stripe, braintree = row or ("", "", "")
    match provider:
        case "stripe":
            return Card(customer=customer, token=stripe)
        case "braintree":
            return Card(customer="", token=braintree)
        case _:
            raise ValueError(provider)
