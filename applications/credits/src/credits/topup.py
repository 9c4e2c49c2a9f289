"""Free credits, once a month for each user.

A month goes through the users in portions. The transaction of a portion writes its audit rows, the
credits and the portion itself, so a portion that is repeated finds that it is done; where it is
repeated up to a later user, it becomes wider. A user who
spends later in the month is in a portion that is done, or in a month that is: no second top-up.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4
from zoneinfo import ZoneInfo

from credits.database import Session, stamp

PORTION: Final = 1_000
REASON: Final = "Monthly free credit top-up"


@dataclass(frozen=True)
class Month:
    """A month of a zone: from `begin`, before `end`. `name` is such as 2024-09."""

    name: str
    begin: datetime
    end: datetime


def month_of(at: datetime, zone: str) -> Month:
    local = at.astimezone(ZoneInfo(zone))
    begin = datetime(local.year, local.month, 1, tzinfo=ZoneInfo(zone))
    year, month = divmod(local.year * 12 + local.month, 12)
    end = datetime(year, month + 1, 1, tzinfo=ZoneInfo(zone))
    return Month(f"{local:%Y-%m}", begin.astimezone(UTC), end.astimezone(UTC))


@dataclass(frozen=True)
class Portion:
    """Users with ids above `after`, up to `last`. The `final` one has nobody behind it."""

    after: str
    last: str
    final: bool


async def is_done(session: Session, month: str) -> bool:
    """Whether all users of the month have been gone through, whatever they got.

    So each portion is there: from the first to a final one they leave no gap.
    """
    ((final, gaps),) = await session.rows(
        "SELECT coalesce(max(final), 0), coalesce(sum(after_id > reached), 0) FROM"
        " (SELECT final, after_id, coalesce(max(last_id) OVER (ORDER BY after_id"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), '') AS reached"
        " FROM credit_topup_portions WHERE period = ?) AS portions",
        month,
    )
    return bool(final) and not gaps


async def next_portion(session: Session, after: str, size: int = PORTION) -> Portion | None:
    """The next users by id; None when there are none."""
    ((last, count),) = await session.rows(
        "SELECT max(id), count(*) FROM"
        " (SELECT id FROM users WHERE id > ? ORDER BY id LIMIT ?) AS next_users",
        after,
        size,
    )
    if not count:
        return None
    more = await session.rows("SELECT 1 FROM users WHERE id > ? LIMIT 1", last)
    return Portion(after, last, final=not more)


@dataclass(frozen=True)
class ToppedUp:
    """What a portion has given."""

    users: int
    credits: int


WANTING: Final = """
    id > ? AND id <= ? AND free_credits < monthly_credit_limit
    AND NOT EXISTS (
      SELECT 1 FROM credit_topup_portions p
      WHERE p.period = ? AND p.after_id < users.id AND users.id <= p.last_id)
    AND NOT EXISTS (
      SELECT 1 FROM credit_topups t WHERE t.user_id = users.id AND t.period = ?)
    AND NOT EXISTS (
      SELECT 1 FROM credit_adjustments a
      WHERE a.user_id = users.id AND a.created_at >= ? AND a.created_at < ?
      AND a.reason LIKE ?)
"""
"""Below their limit, and not topped up in this month: by us, or by the system before us."""


async def top_up(session: Session, month: Month, portion: Portion, at: datetime) -> ToppedUp:
    """Give each user of the portion what is missing to the user's own limit, once a month."""
    batch = uuid4().hex
    ids = (portion.after, portion.last)
    values = (*ids, month.name, month.name, stamp(month.begin), stamp(month.end), f"{REASON}%")
    async with session.transaction():
        # Nobody spends between the audit and the credit, also not who has all of them yet.
        await session.rows("SELECT id FROM users WHERE id > ? AND id <= ? {lock}", *ids)
        await session.run(
            "INSERT INTO credit_topups (user_id, period, credits, topped_up_to, batch)"  # noqa: S608
            " SELECT id, ?, monthly_credit_limit - free_credits, monthly_credit_limit, ?"
            f" FROM users WHERE {WANTING}",
            month.name,
            batch,
            *values,
        )
        of_batch = (*ids, month.name, batch)
        await session.run(
            "INSERT INTO credit_adjustments (id, created_at, user_id, credits, reason)"
            " SELECT {new_id}, ?, user_id, credits, concat(?, topped_up_to) FROM credit_topups"
            " WHERE user_id > ? AND user_id <= ? AND period = ? AND batch = ?",
            stamp(at),
            f"{REASON}: topped up to ",
            *of_batch,
        )
        await session.run(
            "UPDATE users SET free_credits = monthly_credit_limit WHERE id > ? AND id <= ?"
            " AND id IN (SELECT user_id FROM credit_topups WHERE user_id > ? AND user_id <= ?"
            " AND period = ? AND batch = ?)",
            *ids,
            *of_batch,
        )
        ((users, credits),) = await session.rows(
            "SELECT count(*), coalesce(sum(credits), 0) FROM credit_topups"
            " WHERE user_id > ? AND user_id <= ? AND period = ? AND batch = ?",
            *of_batch,
        )
        result = ToppedUp(int(users), int(credits))
        await session.run(
            "INSERT INTO credit_topup_portions"
            " (period, after_id, last_id, users, credits, final, done_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) {widen}",
            month.name,
            *ids,
            result.users,
            result.credits,
            int(portion.final),
            stamp(at),
        )
    return result
