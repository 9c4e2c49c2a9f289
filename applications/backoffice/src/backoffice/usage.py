"""What a workspace used in a period, and what of it is charged.

A row of use is taken by one invoice, whose id it keeps; it never is part of another. A workspace is
billed for its own rows, whoever made them: a recording without a workspace, as old ones are, is in
no bill.
"""

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Final

from backoffice.database import Session
from backoffice.money import Cents, charged
from backoffice.periods import Period
from backoffice.rules import Rules

log = logging.getLogger(__name__)

TABLES: Final = {
    "users_debits": " AND source = 'CALL' AND status = 'INCOMPLETE'",
    "recordings": "",
    "faxes": "",
}
"""Where a use leaves a row, and which of the rows are to be billed."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """`users` is their number."""

    id: int
    creator_id: int
    users: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a month of a plan costs and includes; `recorded_bytes` of recordings."""

    id: int
    monthly_cents: Cents
    annual_cents: Cents
    minutes: int
    recorded_bytes: int
    faxes: int


@dataclass(frozen=True, kw_only=True)
class Used:
    """Sums over the rows of one invoice, at full prices; `lost_cents` of calls that are gone."""

    call_cents: Cents = 0
    lost_cents: Cents = 0
    minutes: int = 0
    rental_cents: Cents = 0
    recorded_bytes: int = 0
    faxes: int = 0


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The five categories of an invoice, each rounded, in cents."""

    call_tolls: Cents = 0
    recordings: Cents = 0
    faxes: Cents = 0
    membership: Cents = 0
    number_rentals: Cents = 0

    @property
    def total(self) -> Cents:
        lines = (self.call_tolls, self.recordings, self.faxes, self.membership)
        return sum(lines) + self.number_rentals


async def usage_lines(
    session: Session,
    workspace: Workspace,
    plan: Plan,
    period: Period,
    rules: Rules,
    invoice: int,
    *,
    since: datetime | None = None,
) -> Lines:
    """Take the rows of the period for the invoice and price them; without the membership.

    In the caller's transaction. Rows that are with the invoice already stay with it. `since` takes
    those of before the period too, from then on, which no invoice has.
    """
    taken = replace(period, begin=min(period.begin, since or period.begin))
    await take_rows(session, workspace, taken, invoice)
    await rent_numbers(session, workspace, period, invoice)
    return priced(await used_by(session, workspace, invoice), plan, rules)


async def has_rows(session: Session, workspace: Workspace, invoice: int) -> bool:
    """Whether the invoice, which nobody has paid, has use."""
    for table, condition in TABLES.items():
        sql = f"SELECT 1 FROM {table} WHERE workspace_id = ? AND invoice_id = ?{condition} LIMIT 1"  # noqa: S608
        if await session.row(sql, workspace.id, invoice):
            return True
    return False


async def take_rows(session: Session, workspace: Workspace, period: Period, invoice: int) -> None:
    for table, condition in TABLES.items():
        await session.run(
            f"UPDATE {table} SET invoice_id = ? WHERE workspace_id = ?"  # noqa: S608
            f" AND created_at >= ? AND created_at < ? AND invoice_id IS NULL{condition}",
            *(invoice, workspace.id, period.begin, period.end),
        )


async def rent_numbers(
    session: Session, workspace: Workspace, period: Period, invoice: int
) -> None:
    """One debit for each number in the period, at its price of now; another bill's is kept."""
    await session.run(
        """
        INSERT INTO users_debits
          (source, status, cents, module_id, user_id, workspace_id, created_at, period, invoice_id)
        SELECT 'NUMBER_RENTAL', 'INCOMPLETE', monthly_cost, id, ?, workspace_id, ?, ?, ?
        FROM did_numbers WHERE workspace_id = ? ORDER BY id
        ON DUPLICATE KEY UPDATE users_debits.cents =
          IF(users_debits.invoice_id = VALUES(invoice_id), VALUES(cents), users_debits.cents)
        """,
        *(workspace.creator_id, period.begin, period.date, invoice, workspace.id),
    )


async def used_by(session: Session, workspace: Workspace, invoice: int) -> Used:
    debits = await debits_of(session, workspace, invoice)
    ((recorded_bytes,),) = await session.rows(
        "SELECT coalesce(sum(size), 0) FROM recordings WHERE workspace_id = ? AND invoice_id = ?",
        *(workspace.id, invoice),
    )
    ((faxes,),) = await session.rows(
        "SELECT count(*) FROM faxes WHERE workspace_id = ? AND invoice_id = ?",
        *(workspace.id, invoice),
    )
    return replace(debits, recorded_bytes=int(recorded_bytes), faxes=faxes)


async def debits_of(session: Session, workspace: Workspace, invoice: int) -> Used:
    """Cents of calls, their whole minutes, and cents of rentals."""
    ((call_cents, lost_cents, minutes, rental_cents, unknown),) = await session.rows(
        """
        SELECT coalesce(sum(IF(c.id IS NOT NULL, d.cents, 0)), 0),
          coalesce(sum(IF(d.source = 'CALL' AND c.id IS NULL, d.cents, 0)), 0),
          coalesce(sum(floor(greatest(coalesce(c.duration, 0), 0) / 60)), 0),
          coalesce(sum(IF(d.source = 'NUMBER_RENTAL', d.cents, 0)), 0),
          coalesce(sum(d.source = 'CALL' AND c.id IS NULL), 0)
        FROM users_debits d LEFT JOIN calls c ON d.source = 'CALL' AND c.id = d.module_id
        WHERE d.workspace_id = ? AND d.status = 'INCOMPLETE' AND d.invoice_id = ?
        """,
        *(workspace.id, invoice),
    )
    if unknown:
        log.warning(
            "%d debits of workspace %d have no call: they are billed in full, and use no minutes",
            *(unknown, workspace.id),
            extra={"component": "billing", "workspace_id": workspace.id},
        )
    return Used(
        call_cents=int(call_cents),
        lost_cents=int(lost_cents),
        minutes=int(minutes),
        rental_cents=int(rental_cents),
    )


def priced(used: Used, plan: Plan, rules: Rules) -> Lines:
    """Each category has one share of its sum: rows in any order cost the same.

    Nobody knows whether a call that is gone was in the included minutes, so it has no share. Credit
    notes, which are debits below 0, pay no more than the rest of their category.
    """
    stored = rules.cents_per_recorded_byte * used.recorded_bytes
    sent = rules.cents_per_fax * used.faxes
    tolls = used.call_cents * rules.share_of(plan.minutes, used.minutes) + used.lost_cents
    return Lines(
        call_tolls=charged(max(Fraction(0), tolls), Fraction(1)),
        recordings=charged(stored, rules.share_of(plan.recorded_bytes, used.recorded_bytes)),
        faxes=charged(sent, rules.share_of(plan.faxes, used.faxes)),
        number_rentals=charged(max(0, used.rental_cents), Fraction(1)),
    )
