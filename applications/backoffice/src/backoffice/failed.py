"""Bills that are not paid: which of them are to be charged again, and when.

An invoice is charged again when its wait is over, until its attempts are used up; at once when its
workspace has another primary card than the one that was declined, or credits that pay another part
of it; and each time while the gateway has not decided, as that only asks what came of it, until
that is given up.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backoffice.database import Database, Row, Session
from backoffice.distributor import key_of, marks
from backoffice.intents import DECLINED, REFUSED, card_part
from backoffice.rules import Rules
from backoffice.standing import has_waited, is_other_amount
from backoffice.tasks import BillingTask

PAGE: Final = 500

UNPAID: Final = """
    SELECT i.id, i.num_attempts, coalesce(i.last_attempted, i.created_at),
      coalesce(c.state, ''), coalesce(k.id, 0),
      i.cents, coalesce(c.cents, 0), coalesce(p.pay_as_you_go, 0),
      i.run_id, i.cycle, i.workspace_id, i.user_id, i.subscription_id, i.plan_id
    FROM users_invoices i
    JOIN workspaces w ON w.id = i.workspace_id
    LEFT JOIN service_plans p ON p.id = i.plan_id
    LEFT JOIN charges c ON c.invoice_id = i.id
      AND c.attempt = (SELECT max(attempt) FROM charges WHERE invoice_id = i.id)
    LEFT JOIN users_cards k ON k.id = (
        SELECT max(id) FROM users_cards WHERE workspace_id = i.workspace_id AND `primary` = 1)
      AND CASE c.provider WHEN 'stripe' THEN coalesce(k.stripe_payment_method_id, '')
        ELSE coalesce(k.braintree_token, '') END <> c.token
    WHERE i.status = 'INCOMPLETE' AND i.id > ? AND i.run_id IS NOT NULL
    ORDER BY i.id LIMIT ?
"""
"""With the last charge, and the primary card if that is another one. Old rows have no run.

Of a workspace that is gone nobody pays any more.
"""


@dataclass(frozen=True)
class Bill:
    """An invoice that is not paid. `state` is that of its last charge, empty without one."""

    id: int
    num_attempts: int
    last_attempted: datetime
    state: str
    has_new_card: bool
    has_other_amount: bool
    task: BillingTask


def is_due(bill: Bill, rules: Rules, at: datetime) -> bool:
    match bill.state:
        case "PENDING":
            return True
        case "UNKNOWN":
            return False
        case "DECLINED" | "REFUSED" if bill.has_new_card or bill.has_other_amount:
            return True
        case "DEMANDED":
            return has_waited(0, bill.last_attempted, rules, at)
        case _:
            is_over = bill.state == REFUSED or bill.num_attempts >= rules.attempts_cap
            return not is_over and has_waited(bill.num_attempts, bill.last_attempted, rules, at)


async def due_bills(
    database: Database, rules: Rules, at: datetime, after: int = 0
) -> AsyncGenerator[Bill]:
    """The bills to charge at `at`, with ids above `after`, in the order of their ids."""
    while True:
        async with database.session() as session:
            page = await read_page(session, after)
        for bill in page:
            if is_due(bill, rules, at):
                yield bill
        if len(page) < PAGE:
            return
        after = page[-1].id


async def read_page(session: Session, after: int) -> list[Bill]:
    return [await bill_of(session, row) for row in await session.rows(UNPAID, after, PAGE)]


async def declined_of(database: Database, tasks: Sequence[BillingTask]) -> set[str]:
    """The keys of those whose invoice was declined by its last charge, for good or not."""
    if not tasks:
        return set()
    ids, runs = [
        list({getattr(task, name) for task in tasks}) for name in ("subscription_id", "run_id")
    ]
    async with database.session() as session:
        rows = await session.rows(
            "SELECT i.subscription_id, i.run_id FROM users_invoices i"  # noqa: S608
            " JOIN charges c ON c.invoice_id = i.id"
            "  AND c.attempt = (SELECT max(attempt) FROM charges WHERE invoice_id = i.id)"
            f" WHERE i.subscription_id IN ({marks(ids)}) AND i.run_id IN ({marks(runs)})"
            " AND c.state IN ('DECLINED', 'REFUSED')",
            *ids,
            *runs,
        )
    declined = set(rows)
    return {key_of(task) for task in tasks if (task.subscription_id, task.run_id) in declined}


async def bill_of(session: Session, row: Row) -> Bill:
    id, attempts, last, state, card, cents, demanded, by_credits, *of_task = row
    run, cycle, workspace, creator, subscription, plan = of_task
    part = demanded
    if by_credits and state in {DECLINED, REFUSED}:
        part = await card_part(session, workspace, plan=plan, cents=cents)
    task = BillingTask(
        run_id=run,
        billing_type=cycle,
        workspace_id=workspace,
        creator_id=creator,
        subscription_id=subscription,
        action="renewal",
        plan_to_bill=plan,
        provider_subscription_id="",
    )
    is_other = is_other_amount(demanded, part, cents)
    return Bill(id, attempts, last, state, bool(card), is_other, task)
