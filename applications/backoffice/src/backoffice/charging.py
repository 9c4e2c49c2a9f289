"""Charge an invoice: from credits where the plan pays as it goes, else the card of the workspace.

What is demanded of a gateway is committed before the gateway is asked, and its answer together with
the invoice and the end of the job. A job that was killed in between demands the same again under
the same key, which charges once.

A charge that is pending is cancelled before another card is charged, and when its time is over; the
gateway says whether that was too late.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from backoffice import invoices
from backoffice.database import Database, Session
from backoffice.gateways.choice import Gateways
from backoffice.gateways.protocol import Answer, Declined, Gateway, GatewayFailed, Paid, Pending
from backoffice.intents import (
    PENDING,
    REFUSED,
    UNKNOWN,
    Intent,
    card_part,
    give_up,
    latest,
    new_intent,
    note,
    primary_card,
)
from backoffice.invoices import Invoice, Source
from backoffice.reports import report
from backoffice.rules import Rules
from backoffice.standing import Standing, has_waited, is_other_amount, locked
from backoffice.tasks import FailedBillingTask
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
    """An intent that is committed, with the gateway that is to be asked.

    `is_ending` asks it to cancel what is pending.
    """

    gateway: Gateway
    intent: Intent
    is_repeat: bool
    is_ending: bool = False


@dataclass(frozen=True, kw_only=True)
class Charging:
    """What the steps of one charge share. With `reports` there are messages of final failures."""

    context: Context
    beat: Onbeat
    database: Database
    gateways: Gateways
    rules: Rules
    at: datetime
    reports: bool


Step = Charged | Unpaid | Ready


async def charge(
    context: Context,
    database: Database,
    gateways: Gateways,
    invoice: Invoice,
    rules: Rules,
    at: datetime,
    *,
    beat: Onbeat,
    reports: bool = False,
) -> Charged:
    """Charge once, and end the job of `context` in the transaction of the answer.

    The store of `beat` is on the server of `database`. An invoice that is paid answers as before.
    With `reports` the transaction that gives an invoice up stores a message about it. Raises `Fail`
    when it was declined for good, after that is committed; `GatewayFailed`, `NoGateway` or an error
    of the database when it is to be tried again.
    """
    charging = Charging(
        context=context,
        beat=beat,
        database=database,
        gateways=gateways,
        rules=rules,
        at=at,
        reports=reports,
    )
    fields = fields_of(invoice)
    step = await begin(charging, invoice)
    while isinstance(step, Ready):
        step = await answered(charging, invoice, step)
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


async def answered(charging: Charging, invoice: Invoice, ready: Ready) -> Step:
    """Ask the gateway, and write its answer; a new intent if that was the end of an old card's."""
    demand = ready.intent.demand(invoice, is_repeat=ready.is_repeat)
    try:
        ask = ready.gateway.cancel if ready.is_ending else ready.gateway.charge
        answer = await ask(demand)
    except GatewayFailed as error:
        fields = fields_of(invoice)
        charging.context.log.warning("no answer to %s: %s", demand.key, error, extra=fields)
        if charging.context.attempt < charging.context.attempts_max:
            raise
        given_up = await given_up_without_answer(charging, invoice, ready.intent)
        if given_up is None:
            raise
        return given_up
    return await settle(charging, invoice, ready, answer)


async def begin(charging: Charging, invoice: Invoice) -> Step:
    """Commit what is to be demanded, unless the invoice needs no card or has its answer."""
    async with charging.database.session() as session, session.transaction():
        standing = await locked(session, invoice)
        before = await latest(session, invoice.id)
        if standing.is_paid:
            step: Step = as_before(standing)
        elif before and before.is_open:
            step = await repeated(charging, session, invoice, before)
        else:
            step = await first_step(charging, session, standing, before)
        await end(charging, session, step)
    return step


async def repeated(charging: Charging, session: Session, invoice: Invoice, intent: Intent) -> Ready:
    """Ask for what came of it, or end it where nobody is to pay it any more."""
    gateway = await charging.gateways.named(session, intent.provider)
    is_over = is_late(charging, intent) or await is_replaced(session, invoice, intent)
    return Ready(gateway, intent, is_repeat=True, is_ending=intent.state == PENDING and is_over)


def is_late(charging: Charging, intent: Intent, times: int = 1) -> bool:
    return charging.at >= intent.created_at + times * charging.rules.open_max


async def is_replaced(session: Session, invoice: Invoice, intent: Intent) -> bool:
    """Whether the workspace has another primary card at the gateway."""
    card = await primary_card(session, invoice, intent.provider)
    return card.token not in {"", intent.card.token}


async def given_up_without_answer(
    charging: Charging, invoice: Invoice, intent: Intent
) -> Unpaid | None:
    """After so long nobody asks any more, and the failure is told once.

    Of what is pending it is known that the owner has to act: it has twice the time to be cancelled.
    """
    if not is_late(charging, intent, 2 if intent.state == PENDING else 1):
        return None
    days = charging.rules.open_max.days
    reason = f"{intent.provider}: no answer in {days} days; whether it was charged is not known"
    async with charging.database.session() as session, session.transaction():
        standing = await locked(session, invoice)
        now = await latest(session, invoice.id)
        if now is None or now.id != intent.id or not now.is_open:
            return None  # another one has had the answer
        if now.state != UNKNOWN:
            await give_up(session, now, reason, charging.at)
            await tell(charging, session, standing.invoice, reason)
    return Unpaid(reason)


async def tell(charging: Charging, session: Session, invoice: Invoice, reason: str) -> None:
    """The message of a final failure, in the transaction that makes it one."""
    if charging.reports:
        failed = FailedBillingTask(
            run_id=invoice.run_id,
            workspace_id=invoice.workspace_id,
            subscription_id=invoice.subscription_id,
            creator_id=invoice.user_id,
            reason=reason,
        )
        await charging.beat.in_transaction(session.connection).asend(report(failed))


async def end(charging: Charging, session: Session, step: Step) -> None:
    """The job succeeds with the transaction, when its invoice has an answer."""
    if isinstance(step, Charged):
        await charging.context.finish_in_transaction(session.connection, step)


def as_before(standing: Standing) -> Charged:
    invoice = standing.invoice
    outcome = {"CARD": "paid", "CREDITS": "credits", "SUBSCRIPTION": "zero"}[invoice.source]
    return Charged(outcome, invoice.cents_collected, standing.confirmation)


async def first_step(
    charging: Charging, session: Session, standing: Standing, before: Intent | None
) -> Step:
    invoice = standing.invoice
    cents = await card_part(
        session, invoice.workspace_id, plan=invoice.plan_id, cents=invoice.cents
    )
    if not cents:
        return await complete_without_card(session, invoice, charging.at)
    gateway = await charging.gateways.chosen(session)
    card = await primary_card(session, invoice, gateway.name)
    is_same = before and not is_other_amount(before.cents, cents, invoice.cents)
    if before and before.card == card and is_same:
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


async def complete_without_card(session: Session, invoice: Invoice, at: datetime) -> Charged:
    outcome = "credits" if invoice.cents else "zero"
    source: Source = "CREDITS" if invoice.cents else "SUBSCRIPTION"
    confirmation = await invoices.complete(
        session, invoice, source=source, collected=invoice.cents, at=at
    )
    return Charged(outcome, invoice.cents, confirmation)


async def settle(charging: Charging, invoice: Invoice, ready: Ready, answer: Answer) -> Step:
    async with charging.database.session() as session, session.transaction():
        standing = await locked(session, invoice)
        now = await latest(session, invoice.id)
        if now is None or now.id != ready.intent.id or not now.is_open:
            step: Step = settled_by_another(charging.rules, standing, now)
        elif ready.is_ending and isinstance(answer, Declined):
            step = await ended(charging, session, standing, now, answer)
        else:
            step = await settle_open(charging, session, standing, now, answer)
        await end(charging, session, step)
    return step


async def ended(
    charging: Charging, session: Session, standing: Standing, intent: Intent, answer: Declined
) -> Step:
    """Nobody can pay what was pending: the other card is next, or it has failed for good."""
    if await is_replaced(session, standing.invoice, intent):
        await note(session, intent, answer, charging.at)
        await invoices.attempt(session, standing.invoice, charging.at, counts=False)
        before = replace(intent, state="DECLINED", reason=answer.reason)
        return await first_step(charging, session, standing, before)
    reason = f"{answer.reason}: nobody has acted in {charging.rules.open_max.days} days"
    final = replace(answer, reason=reason, is_final=True)
    return await declined(charging, session, standing, intent, final)


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
    if intent.state == PENDING:
        return
    invoice = standing.invoice
    await invoices.attempt(session, invoice, charging.at)
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
    counts = intent.state != PENDING
    await note(session, intent, answer, charging.at)
    await invoices.attempt(session, standing.invoice, charging.at, counts=counts)
    attempts = standing.invoice.num_attempts + counts
    if answer.is_final or attempts >= charging.rules.attempts_cap:
        await tell(charging, session, standing.invoice, answer.reason)
        return Unpaid(answer.reason)
    return Charged("declined")
