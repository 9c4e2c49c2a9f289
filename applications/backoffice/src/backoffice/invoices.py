"""Invoices: one for each subscription, cycle and period, from its draft to its end.

The monthly invoice of a subscription has the use of its workspace and, if the subscription is
monthly, the membership. The annual invoice has the membership of a year and no use. Among several
active subscriptions of a workspace the first, by id, is billed the use; an invoice that has use
keeps it when another one becomes the first.

All who change an invoice lock its workspace first, so they wait for each other in one order.
"""

import json
import logging
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from fractions import Fraction
from secrets import token_hex
from typing import Final, Literal

import asyncmy.errors

from backoffice.database import Session
from backoffice.money import Cents, charged
from backoffice.periods import MONTHS, Period, instant
from backoffice.rules import Rules
from backoffice.tasks import BillingTask
from backoffice.usage import Lines, Plan, Workspace, has_rows, usage_lines

Source = Literal["CREDITS", "CARD", "SUBSCRIPTION"]

log = logging.getLogger(__name__)

CONFIRMATION_TRIES: Final = 10
COLUMNS: Final = (
    "id, workspace_id, subscription_id, user_id, cents, status, source, cents_collected,"
    " num_attempts, cycle, cast(period AS CHAR), plan_id, run_id"
)


class NoSuchPlan(ValueError):
    """plan not found for subscription"""


class NoSuchSubscription(ValueError):
    """the workspace has no such subscription"""


@dataclass(frozen=True)
class Invoice:
    """`source` is what pays: SUBSCRIPTION until that is known, then CREDITS or CARD.

    `cents_collected` came from the credits if `source` is CREDITS, else from the card. `period` is
    its first local day, `plan_id` the plan that is billed.
    """

    id: int
    workspace_id: int
    subscription_id: int
    user_id: int
    cents: Cents
    status: Literal["INCOMPLETE", "COMPLETE"]
    source: Source
    cents_collected: Cents
    num_attempts: int
    cycle: str
    period: str
    plan_id: int
    run_id: str


async def draft(
    session: Session, task: BillingTask, period: Period, rules: Rules, at: datetime
) -> Invoice | None:
    """The invoice of the task, from what is used and owed now, in a transaction of its own.

    Repeats find the same invoice. Its figures are worked out again until something is demanded for
    it. None, and nothing is written, if the creator of the workspace is gone, or the subscription
    began after the period. Raises `NoSuchPlan` and `NoSuchSubscription`.
    """
    async with session.transaction():
        if not await session.row("SELECT id FROM users WHERE id = ?", task.creator_id):
            tell(logging.ERROR, f"user {task.creator_id} is not there", task)
            return None
        workspace = await locked_workspace(session, task)
        key = (task.subscription_id, task.billing_type, period.date)
        invoice = await invoice_of(session, *key)
        if invoice is None:
            if await began_later(session, task, period):
                tell(logging.WARNING, f"its subscription began after {period.name}", task)
                return None
            await insert(session, task, period, at)
            invoice = await expected(session, *key)
        if not await is_fixed(session, invoice):
            lines = await lines_of(session, task, workspace, period, rules, invoice.id)
            await write(session, invoice.id, task, lines, at)
            invoice = await expected(session, *key)
        return invoice


def tell(level: int, why: str, task: BillingTask) -> None:
    log.log(
        level,
        "%s: workspace %d is not billed",
        *(why, task.workspace_id),
        extra={
            "component": f"{task.billing_type.lower()}_billing",
            "workspace_id": task.workspace_id,
            "run_id": task.run_id,
        },
    )


async def began_later(session: Session, task: BillingTask, period: Period) -> bool:
    """As a publisher of the old system may not have looked."""
    sql = "SELECT id FROM subscriptions WHERE id = ? AND created_at >= ?"
    return await session.row(sql, task.subscription_id, period.end) is not None


async def locked_workspace(session: Session, task: BillingTask) -> Workspace:
    if not await lock(session, task.workspace_id):
        raise NoSuchSubscription(f"workspace {task.workspace_id} is not there")
    ((users,),) = await session.rows(
        "SELECT count(*) FROM workspaces_users WHERE workspace_id = ?", task.workspace_id
    )
    return Workspace(id=task.workspace_id, creator_id=task.creator_id, users=users)


async def lock(session: Session, workspace_id: int) -> bool:
    """Nobody else changes its invoices until the transaction ends. False if it is not there."""
    sql = "SELECT id FROM workspaces WHERE id = ? FOR UPDATE"
    return await session.row(sql, workspace_id) is not None


async def invoice_of(
    session: Session, subscription_id: int, cycle: str, date: str
) -> Invoice | None:
    row = await session.row(
        f"SELECT {COLUMNS} FROM users_invoices"  # noqa: S608
        " WHERE subscription_id = ? AND cycle = ? AND period = ?",
        *(subscription_id, cycle, date),
    )
    return None if row is None else Invoice(*row)


async def expected(session: Session, subscription_id: int, cycle: str, date: str) -> Invoice:
    invoice = await invoice_of(session, subscription_id, cycle, date)
    assert invoice is not None, "it was found or written in this transaction"
    return invoice


async def is_fixed(session: Session, invoice: Invoice) -> bool:
    """Whether it is paid, or something may have been demanded for it."""
    if invoice.status == "COMPLETE":
        return True
    return bool(await session.row("SELECT 1 FROM charges WHERE invoice_id = ? LIMIT 1", invoice.id))


async def insert(session: Session, task: BillingTask, period: Period, at: datetime) -> None:
    await session.run(
        """
        INSERT INTO users_invoices (cents, cents_including_taxes, status, source, user_id,
          workspace_id, subscription_id, cycle, period, plan_id, run_id, created_at, updated_at)
        VALUES (0, 0, 'INCOMPLETE', 'SUBSCRIPTION', ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        *(task.creator_id, task.workspace_id, task.subscription_id, task.billing_type),
        *(period.date, task.plan_to_bill, task.run_id, at, at),
    )


async def lines_of(
    session: Session,
    task: BillingTask,
    workspace: Workspace,
    period: Period,
    rules: Rules,
    invoice: int,
) -> Lines:
    plan = await plan_of(session, task)
    cycle = await cycle_of(session, task)
    lines = Lines()
    if task.billing_type == "MONTHLY" and await has_usage(session, task, workspace, invoice):
        since = await unbilled_since(session, task, period, rules)
        lines = await usage_lines(session, workspace, plan, period, rules, invoice, since=since)
    if cycle != task.billing_type:
        return lines
    price = plan.annual_cents if cycle == "ANNUAL" else plan.monthly_cents
    left = await unbilled_share(session, task, period)
    return replace(lines, membership=charged(price * workspace.users, left))


async def unbilled_share(session: Session, task: BillingTask, period: Period) -> Fraction:
    """What of the membership of the period no bill of the other cycle has, in twelfths of a year.

    There are such bills when the customer has gone from months to years, or back. Those that may
    still be drafted again are none.
    """
    covered = (
        "SELECT count(*) FROM users_invoices i WHERE i.subscription_id = ? AND i.cycle = ?"
        " AND i.membership_costs > 0 AND {} AND (i.status = 'COMPLETE'"
        "  OR EXISTS (SELECT 1 FROM charges c WHERE c.invoice_id = i.id))"
    )
    if task.billing_type == "ANNUAL":
        months = covered.format("i.period >= ? AND i.period < ? + INTERVAL 1 YEAR")
        values = (task.subscription_id, "MONTHLY", period.date, period.date)
        ((billed,),) = await session.rows(months, *values)
        return 1 - Fraction(min(billed, MONTHS["ANNUAL"]), MONTHS["ANNUAL"])
    years = covered.format("i.period + INTERVAL 1 YEAR > ? AND i.period <= ?")
    values = (task.subscription_id, "ANNUAL", period.date, period.date)
    ((billed,),) = await session.rows(years, *values)
    return Fraction(not billed)


async def plan_of(session: Session, task: BillingTask) -> Plan:
    row = await session.row(
        "SELECT id, monthly_cost_cents, annual_cost_cents, minutes_per_month, recording_space, fax"
        " FROM service_plans WHERE id = ?",
        task.plan_to_bill,
    )
    if row is None:
        raise NoSuchPlan(
            f"plan not found for subscription {task.subscription_id}: {task.plan_to_bill}"
        )
    id, monthly, annual, minutes, recorded_bytes, faxes = row
    return Plan(
        id=id,
        monthly_cents=monthly,
        annual_cents=annual,
        minutes=minutes,
        recorded_bytes=recorded_bytes,
        faxes=faxes,
    )


async def cycle_of(session: Session, task: BillingTask) -> str:
    """In upper case: the database finds a subscription of the run in any."""
    row = await session.row(
        "SELECT billing_cycle FROM subscriptions WHERE id = ? AND workspace_id = ?",
        *(task.subscription_id, task.workspace_id),
    )
    if row is None:
        raise NoSuchSubscription(
            f"workspace {task.workspace_id} has no subscription {task.subscription_id}"
        )
    return str(row[0]).strip().upper()


async def has_usage(
    session: Session, task: BillingTask, workspace: Workspace, invoice: int
) -> bool:
    """Whether the use of the workspace is billed with this subscription, or already was."""
    ((first,),) = await session.rows(
        "SELECT min(id) FROM subscriptions WHERE workspace_id = ? AND status = 'ACTIVE'"
        " AND billing_cycle IN ('MONTHLY', 'ANNUAL')",  # no run bills another one
        workspace.id,
    )
    return first in {None, task.subscription_id} or await has_rows(session, workspace, invoice)


async def unbilled_since(
    session: Session, task: BillingTask, period: Period, rules: Rules
) -> datetime | None:
    """From when on rows that no invoice has are this bill's too.

    They were written late, or are of days that no bill covered, as between the periods of two
    subscriptions. What is before the first month that was billed here, the old system has billed.
    None while the bill of the month before is still to come, which takes its own.
    """
    before = await session.row(
        "SELECT 1 FROM users_invoices WHERE subscription_id = ? AND cycle = 'MONTHLY'"
        " AND period < ? AND period >= ? - INTERVAL 31 DAY"
        " UNION ALL SELECT 1 FROM subscriptions WHERE id = ? AND created_at >= ?",
        *(task.subscription_id, period.date, period.date, task.subscription_id, period.begin),
    )
    if before is None:
        return None
    ((first,),) = await session.rows(
        "SELECT min(period) FROM users_invoices WHERE workspace_id = ? AND cycle = 'MONTHLY'",
        task.workspace_id,
    )
    return instant(first, rules.zone)


async def write(session: Session, id: int, task: BillingTask, lines: Lines, at: datetime) -> None:
    await session.run(
        """
        UPDATE users_invoices SET cents = ?, cents_including_taxes = ?, call_costs = ?,
          recording_costs = ?, fax_costs = ?, membership_costs = ?, number_costs = ?,
          tax_metadata = ?, plan_id = ?, run_id = ?, updated_at = ?
        WHERE id = ?
        """,
        *(lines.total, lines.total, *astuple(lines), tax_metadata(lines)),
        *(task.plan_to_bill, task.run_id, at, id),
    )


def tax_metadata(lines: Lines) -> str:
    """The costs by the names that the tax software knows."""
    return json.dumps(
        {
            "call_tolls_costs": lines.call_tolls,
            "fax_costs": lines.faxes,
            "membership_costs": lines.membership,
            "number_rental_costs": lines.number_rentals,
            "recording_costs": lines.recordings,
        }
    )


async def complete(
    session: Session,
    invoice: Invoice,
    *,
    source: Source,
    collected: Cents,
    at: datetime,
    random_hex: Callable[[int], str] = token_hex,
) -> str:
    """The invoice is paid: answers its confirmation number, also when it had one before.

    `collected` came from the card if `source` is CARD, and the credits gave the rest; with CREDITS
    all came from them, with SUBSCRIPTION there was nothing to pay. Settles the debits, and the plan
    that was billed becomes the current one if it was scheduled. In the caller's transaction.
    """
    await lock(session, invoice.workspace_id)
    cents, number = await figures(session, invoice.id)
    if number:
        return number
    credit = credit_part(cents, source, collected)
    number = await confirm(session, invoice.id, random_hex)
    await session.run(
        "UPDATE users_invoices SET status = 'COMPLETE', source = ?, cents_collected = ?,"
        " credit_cents = ?, num_attempts = num_attempts + 1, last_attempted = ?, updated_at = ?"
        " WHERE id = ?",
        *(source, collected, credit, at, at, invoice.id),
    )
    await session.run(
        "UPDATE users_debits SET status = 'COMPLETE'"
        " WHERE workspace_id = ? AND status = 'INCOMPLETE' AND invoice_id = ?",
        *(invoice.workspace_id, invoice.id),
    )
    await promote(session, invoice, at)
    return number


async def figures(session: Session, id: int) -> tuple[Cents, str]:
    """What it costs now, and its confirmation number if it is paid."""
    ((cents, number),) = await session.rows(
        "SELECT cents, IF(status = 'COMPLETE', coalesce(confirmation_number, ''), '')"
        " FROM users_invoices WHERE id = ? FOR UPDATE",
        id,
    )
    return cents, number


def credit_part(cents: Cents, source: Source, collected: Cents) -> Cents:
    """What the credits give. Raises `ValueError` if the figures cannot be."""
    possible = range(1, cents + 1) if source == "CARD" else range(cents, cents + 1)
    if collected not in possible or (source == "SUBSCRIPTION" and cents):
        raise ValueError(f"{source} cannot have given {collected} of {cents} cents")
    return cents - collected if source == "CARD" else collected


async def confirm(session: Session, id: int, random_hex: Callable[[int], str]) -> str:
    """Give the invoice a number that no other has. A clash makes another one."""
    for _ in range(CONFIRMATION_TRIES):
        number = f"INV-{random_hex(4).upper()}"
        sql = "SELECT id FROM users_invoices WHERE confirmation_number = ? LIMIT 1"
        if await session.row(sql, number):
            continue
        try:
            await session.run(
                "UPDATE users_invoices SET confirmation_number = ? WHERE id = ?", number, id
            )
        except asyncmy.errors.IntegrityError:
            continue  # another transaction has it; the database undoes only this statement
        return number
    raise RuntimeError(f"{CONFIRMATION_TRIES} random confirmation numbers were all taken")


async def promote(session: Session, invoice: Invoice, at: datetime) -> None:
    """By the invoice that has billed the new plan: not by that of an annual customer's usage."""
    await session.run(
        "UPDATE subscriptions SET current_plan_id = scheduled_plan_id, scheduled_plan_id = NULL,"
        " scheduled_effective_date = NULL, updated_at = ?"
        " WHERE id = ? AND billing_cycle = ? AND scheduled_plan_id = ?"
        " AND scheduled_effective_date <= ?",
        *(at, invoice.subscription_id, invoice.cycle, invoice.plan_id, at),
    )


async def attempt(session: Session, invoice: Invoice, at: datetime, *, counts: bool = True) -> None:
    """Nothing is paid yet, or by a definite answer. In the caller's transaction.

    Without `counts` the attempt was counted before.
    """
    await lock(session, invoice.workspace_id)
    await session.run(
        "UPDATE users_invoices SET source = 'CARD', cents_collected = 0,"
        " num_attempts = num_attempts + ?, last_attempted = ?, updated_at = ?"
        " WHERE id = ? AND status = 'INCOMPLETE'",
        *(int(counts), at, at, invoice.id),
    )


CREDITS_LEFT: Final = """
    (SELECT coalesce(sum(cents), 0) FROM users_credits WHERE workspace_id = ?)
      - (SELECT coalesce(sum(coalesce(credit_cents, IF(source = 'CREDITS', cents, 0))), 0)
         FROM users_invoices WHERE workspace_id = ?)
      - (SELECT coalesce(sum(cents), 0) FROM users_debits
         WHERE workspace_id = ? AND status = 'INCOMPLETE' AND invoice_id IS NULL)
"""
OWED: Final = """
    (SELECT coalesce(sum(i.cents), 0) FROM users_invoices i JOIN service_plans p ON p.id = i.plan_id
     WHERE i.workspace_id = ? AND i.status = 'INCOMPLETE' AND p.pay_as_you_go = 1)
"""
"""What credits may have to pay of invoices. Those of the old system have no plan."""


async def credits_left(session: Session, workspace_id: int) -> Cents:
    """What an invoice may be paid from: credits less what they have paid, less the debits of later.

    A debit counts until an invoice takes it, at its full price; then only what credits pay of the
    invoice counts. So no cent is counted twice. The rows are read at one moment.
    """
    ((cents,),) = await session.rows(f"SELECT {CREDITS_LEFT}", *[workspace_id] * 3)
    return int(cents)


async def balance(session: Session, workspace_id: int) -> Cents:
    """What is left when all that is owed is paid: `credits_left` less the open invoices.

    These are of plans that pay as they go; others are paid by card.
    """
    ((cents,),) = await session.rows(f"SELECT {CREDITS_LEFT} - {OWED}", *[workspace_id] * 4)
    return int(cents)
