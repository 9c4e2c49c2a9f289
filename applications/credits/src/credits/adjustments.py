"""Paid credits given by hand, with one audit row each."""

from datetime import datetime
from typing import Final, Literal

from credits.database import Session, stamp

Prefix = Literal["Admin", "Gift"]
REASON_CHARS_MAX: Final = 255
CREDITS_MAX: Final = 2_147_483_647
"""So many paid credits a user may have: what the column holds on MySQL."""


class RefusedError(ValueError):
    """What was asked for cannot be done; nothing was changed."""


async def add(
    session: Session, email: str, credits: int, reason: str, prefix: Prefix, at: datetime
) -> None:
    """Give a user paid credits. Raises `RefusedError`."""
    text = f"{prefix}: {reason}" if reason else prefix
    if not 0 < credits <= CREDITS_MAX:
        raise RefusedError(f"the amount must be above 0, and at most {CREDITS_MAX}")
    if len(text) > REASON_CHARS_MAX:
        raise RefusedError(f"the reason may have {REASON_CHARS_MAX} characters with its prefix")
    async with session.transaction():
        found = await session.rows("SELECT paid_credits FROM users WHERE email = ? {lock}", email)
        if not found:
            raise RefusedError(f"no user has the e-mail address {email}")
        if found[0][0] + credits > CREDITS_MAX:
            raise RefusedError(f"the user would have more than {CREDITS_MAX} credits")
        await session.run(
            "UPDATE users SET paid_credits = paid_credits + ? WHERE email = ?", credits, email
        )
        await session.run(
            "INSERT INTO credit_adjustments (id, created_at, user_id, credits, reason)"
            " SELECT {new_id}, ?, id, ?, ? FROM users WHERE email = ?",
            stamp(at),
            credits,
            text,
            email,
        )
