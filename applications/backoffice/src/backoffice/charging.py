"""Charge an invoice: from credits where the plan pays as it goes, else the card of the workspace.

What is demanded of a gateway is committed before the gateway is asked, and its answer together with
the invoice and the end of the job. A job that was killed in between demands the same again under
the same key, which charges once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backoffice import invoices
from backoffice.database import Database, Session
from backoffice.gateways.choice import Gateways
from backoffice.gateways.protocol import Answer, Declined, Gateway, GatewayFailed, Paid, Pending
from backoffice.intents import (
    REFUSED,
    Intent,
    latest,
    new_intent,
    note,
    primary_card,
    reserved,
)
from backoffice.invoices import Invoice, Source
from backoffice.rules import Rules
from backoffice.standing import Standing, has_waited, locked
from onbeat import Context, Fail, Onbeat

PENDING_EVENT: Final = "backoffice.invoice.pending"


@dataclass(frozen=True)
class Charged:
    """How an invoice stands: `zero`, `credits`, `paid`, `declined` or `pending`.

    `cents` came from the credits if these were enough, else from the card.
    """

    outcome: str
    cents: int = 0
    confirmation: str = ""


@dataclass(frozen=True)
class Unpaid:
    """Nobody pays the invoice by another attempt with the same card."""

    reason: str


@dataclass(frozen=True)
class Ready:
    """An intent that is committed, with the gateway that is to be asked."""

    gateway: Gateway
    intent: Intent
    is_repeat: bool


@dataclass(frozen=True, kw_only=True)
class Charging:
    """What the steps of one charge share."""

    context: Context
    beat: Onbeat
    database: Database
    gateways: Gateways
    rules: Rules
    at: datetime


async def charge(
    context: Context,
    database: Database,
    gateways: Gateways,
    invoice: Invoice,
    rules: Rules,
    at: datetime,
    *,
    beat: Onbeat,
) -> Charged:
    """Charge once, and end the job of `context` in the transaction of the answer.

    The store of `beat` is on the server of `database`. An invoice that is paid answers as before.
    Raises `Fail` when it was declined for good, after that is committed; `GatewayFailed`,
    `NoGateway` or an error of the database when it is to be tried again.
    """
    charging = Charging(
        context=context, beat=beat, database=database, gateways=gateways, rules=rules, at=at
    )
    fields = fields_of(invoice)
    step = await begin(charging, invoice)
    if isinstance(step, Ready):
        demand = step.intent.demand(invoice, is_repeat=step.is_repeat)
        try:
            answer = await step.gateway.charge(demand)
        except GatewayFailed as error:
            context.log.warning("no answer to %s: %s", demand.key, error, extra=fields)
            raise
        step = await settle(charging, invoice, step.intent, answer)
    if isinstance(step, Unpaid):
        context.log.error("invoice %d is not paid: %s", invoice.id, step.reason, extra=fields)
        raise Fail(step.reason, retryable=False)
    context.log.info("invoice %d: %s, %d cents", invoice.id, step.outcome, step.cents, extra=fields)
    return step


def fields_of(invoice: Invoice) -> Mapping[str, object]:
    return {
        "component": "billing",
        "workspace_id": invoice.workspace_id,
        "run_id": invoice.run_id,
    }


async def begin(charging: Charging, invoice: Invoice) -> Charged | Unpaid | Ready:
    """Commit what is to be demanded, unless the invoice needs no card or has its answer."""
    async with charging.database.session() as session, session.transaction():
        standing = await locked(session, invoice)
        before = await latest(session, invoice.id)
        if standing.is_paid:
            step: Charged | Unpaid | Ready = as_before(standing)
        elif before and before.is_open:
            gateway = await charging.gateways.named(session, before.provider)
            step = Ready(gateway, before, is_repeat=True)
        else:
            step = await first_step(charging, session, standing, before)
        await end(charging, session, step)
    return step


async def end(charging: Charging, session: Session, step: Charged | Unpaid | Ready) -> None:
    """The job succeeds with the transaction, when its invoice has an answer."""
    if isinstance(step, Charged):
        await charging.context.finish_in_transaction(session.connection, step)


def as_before(standing: Standing) -> Charged:
    invoice = standing.invoice
    outcome = {"CARD": "paid", "CREDITS": "credits", "SUBSCRIPTION": "zero"}[invoice.source]
    return Charged(outcome, invoice.cents_collected, standing.confirmation)


async def first_step(
    charging: Charging, session: Session, standing: Standing, before: Intent | None
) -> Charged | Unpaid | Ready:
    invoice = standing.invoice
    cents = await card_part(session, invoice)
    if not cents:
        return await complete_without_card(session, invoice, charging.at)
    gateway = await charging.gateways.chosen(session)
    card = await primary_card(session, invoice, gateway.name)
    if before and before.card == card:
        if is_over(before, standing.invoice.num_attempts, charging.rules):
            return Unpaid(before.reason)
        attempts, last = standing.invoice.num_attempts, standing.last_attempted
        if not has_waited(attempts, last, charging.rules, charging.at):
            return Charged("declined")
    intent = await new_intent(session, invoice, before, gateway.name, cents, card, charging.at)
    if not card.token:
        no_card = Declined(f"the workspace has no primary card at {gateway.name}", is_final=True)
        return await declined(charging, session, standing, intent, no_card)
    return Ready(gateway, intent, is_repeat=False)


async def card_part(session: Session, invoice: Invoice) -> int:
    """Cents that the credits do not pay. The workspace is locked: nobody else spends them."""
    plan = await session.row(
        "SELECT pay_as_you_go FROM service_plans WHERE id = ?", invoice.plan_id
    )
    if not invoice.cents or plan is None or not plan[0]:
        return invoice.cents
    balance = await invoices.balance(session, invoice.workspace_id)
    free = balance - await reserved(session, invoice.workspace_id)
    return invoice.cents - min(invoice.cents, max(0, free))


async def complete_without_card(session: Session, invoice: Invoice, at: datetime) -> Charged:
    outcome = "credits" if invoice.cents else "zero"
    source: Source = "CREDITS" if invoice.cents else "SUBSCRIPTION"
    confirmation = await invoices.complete(
        session, invoice, source=source, collected=invoice.cents, at=at
    )
    return Charged(outcome, invoice.cents, confirmation)


async def settle(
    charging: Charging, invoice: Invoice, intent: Intent, answer: Answer
) -> Charged | Unpaid:
    async with charging.database.session() as session, session.transaction():
        standing = await locked(session, invoice)
        now = await latest(session, invoice.id)
        if now is None or now.id != intent.id or not now.is_open:
            step = settled_by_another(charging.rules, standing, now)
        else:
            step = await settle_open(charging, session, standing, now, answer)
        await end(charging, session, step)
    return step


def settled_by_another(rules: Rules, standing: Standing, intent: Intent | None) -> Charged | Unpaid:
    """A worker whose lease was lost, or a job of the same invoice, had the answer first."""
    if standing.is_paid:
        return as_before(standing)
    if intent and is_over(intent, standing.invoice.num_attempts, rules):
        return Unpaid(intent.reason)
    return Charged("declined")


def is_over(declined: Intent, attempts: int, rules: Rules) -> bool:
    """Whether this was the last attempt with its card."""
    return declined.state == REFUSED or attempts >= rules.attempts_cap


async def settle_open(
    charging: Charging, session: Session, standing: Standing, intent: Intent, answer: Answer
) -> Charged | Unpaid:
    match answer:
        case Paid():
            await note(session, intent, answer, charging.at)
            confirmation = await invoices.complete(
                session, standing.invoice, source="CARD", collected=intent.cents, at=charging.at
            )
            return Charged("paid", intent.cents, confirmation)
        case Pending():
            await note(session, intent, answer, charging.at)
            await pend(charging, session, standing, intent, answer)
            return Charged("pending")
        case Declined():
            return await declined(charging, session, standing, intent, answer)


async def pend(
    charging: Charging, session: Session, standing: Standing, intent: Intent, answer: Pending
) -> None:
    """One attempt and one event, however often the gateway is asked for what came of it.

    The store forgets events, and with them their ids, so the intent decides.
    """
    if intent.state == "PENDING":
        return
    invoice = standing.invoice
    await invoices.pend(session, invoice, charging.at)
    await charging.beat.in_transaction(session.connection).apublish(
        PENDING_EVENT,
        {
            "invoice_id": invoice.id,
            "workspace_id": invoice.workspace_id,
            "subscription_id": invoice.subscription_id,
            "run_id": invoice.run_id,
            "reason": answer.reason,
            "reference": answer.reference,
        },
        id=intent.key,
    )


async def declined(
    charging: Charging, session: Session, standing: Standing, intent: Intent, answer: Declined
) -> Charged | Unpaid:
    await note(session, intent, answer, charging.at)
    await invoices.decline(session, standing.invoice, charging.at)
    if answer.is_final or standing.invoice.num_attempts + 1 >= charging.rules.attempts_cap:
        return Unpaid(answer.reason)
    return Charged("declined")
