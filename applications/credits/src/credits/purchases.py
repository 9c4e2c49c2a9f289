"""Purchases of credits: those that came to nothing are cleaned up, those that were paid are booked.

A payment may be told late, or again, or after its purchase was cleaned up: it is booked once. The
audit row of a purchase says that its credits were given, whatever became of the purchase since.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from credits.adjustments import RefusedError
from credits.config import Config
from credits.database import Session, stamp

TOLD_WITHIN: Final = timedelta(days=3)
"""For so long Stripe repeats an event whose receiver was away."""


GIVEN: Final = (
    "EXISTS (SELECT 1 FROM credit_adjustments a WHERE a.credit_purchase_id = credit_purchases.id)"
)


def stale_before(at: datetime, config: Config) -> datetime:
    """No purchase is stale while its checkout is open, or its event may still be on the way."""
    return at - max(config.stale_after, config.checkout + TOLD_WITHIN)


async def clean_up(session: Session, before: datetime) -> int:
    """How many purchases were deleted: pending or failed, and made before this instant.

    One that has given credits stays, so that its payment, told again, gives none.
    """
    async with session.transaction():
        return await session.run(
            "DELETE FROM credit_purchases WHERE status IN ('pending', 'failed') AND created_at < ?"  # noqa: S608
            f" AND NOT {GIVEN}",
            stamp(before),
        )


@dataclass(frozen=True, kw_only=True)
class Payment:
    """What the event of a completed checkout says; amounts are in cents."""

    session: str
    payment: str
    user: str
    credits: int
    cents: int
    receipt_url: str | None = None


async def book(session: Session, payment: Payment, at: datetime) -> bool:
    """Complete the purchase and give its credits. False when that was done before.

    Raises `RefusedError` for an unknown user.
    """
    async with session.transaction():
        await ensure_purchase(session, payment, at)
        completed = await session.run(
            "UPDATE credit_purchases SET status = 'completed', stripe_payment_id = ?,"  # noqa: S608
            " receipt_url = ?, updated_at = ?"
            f" WHERE stripe_session_id = ? AND status <> 'completed' AND NOT {GIVEN}",
            payment.payment,
            payment.receipt_url,
            stamp(at),
            payment.session,
        )
        if not completed:
            return False
        await session.run(
            "INSERT INTO credit_adjustments"
            " (id, created_at, user_id, credits, reason, credit_purchase_id)"
            " SELECT {new_id}, ?, user_id, credits, concat('Purchase: ', credits, ' credits'), id"
            " FROM credit_purchases WHERE stripe_session_id = ?",
            stamp(at),
            payment.session,
        )
        given = await session.run(
            "UPDATE users SET paid_credits = paid_credits + (SELECT credits FROM credit_purchases"
            " WHERE stripe_session_id = ?) WHERE id = (SELECT user_id FROM credit_purchases"
            " WHERE stripe_session_id = ?)",
            payment.session,
            payment.session,
        )
        if not given:
            raise RefusedError(f"the user {payment.user} of {payment.session} is not there")
    return True


async def ensure_purchase(session: Session, payment: Payment, at: datetime) -> None:
    """A purchase that was cleaned up is there again, from what the event says."""
    found = await session.rows(
        "SELECT id FROM credit_purchases WHERE stripe_session_id = ? {lock}", payment.session
    )
    if not found:
        await session.run(
            "INSERT INTO credit_purchases (id, user_id, credits, amount_paid, stripe_session_id,"
            " status, created_at, updated_at) VALUES (?, ?, ?, ?, ?, 'pending', ?, ?)",
            str(uuid5(NAMESPACE_URL, f"stripe:{payment.session}")),
            payment.user,
            payment.credits,
            payment.cents,
            payment.session,
            stamp(at),
            stamp(at),
        )
