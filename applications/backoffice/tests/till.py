"""A program that charges the invoices of a world, each by a job of its own."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import braintree_server
import stripe_server
from backoffice.charging import PENDING_EVENT, Charged, charge
from backoffice.database import Database
from backoffice.environment import BROKER, DISTRIBUTION
from backoffice.gateways.choice import Gateways
from backoffice.invoices import COLUMNS, Invoice
from backoffice.rules import Rules
from backoffice.tasks import FAILED_QUEUE
from onbeat import Context, Event, Onbeat, Options, Retry, Task
from world import NOW, World

PERIOD = "2026-10-01"
PATIENCE = 30


class Counterparty:
    """A workspace with a card, and what it owes."""

    def __init__(self, world: World, *, customer: str = "", **plan: Any) -> None:
        self.world = world
        self.user = world.user(stripe_id=customer or None)
        self.plan = world.plan(**plan)
        self.workspace = world.workspace(self.user)

    def card(self, token: str = "pm_card_visa", braintree_token: str = "visa") -> int:
        """A new primary card; the one before it is none any more."""
        self.world.run(
            "UPDATE users_cards SET `primary` = 0 WHERE workspace_id = ?", self.workspace
        )
        return self.world.card(
            self.workspace,
            self.user,
            stripe_payment_method_id=token,
            braintree_token=braintree_token,
        )

    def credits(self, cents: int) -> None:
        self.world.add("users_credits", cents=cents, workspace_id=self.workspace, created_at=NOW)

    def invoice(self, cents: int, cycle: str = "MONTHLY") -> int:
        """Of a new subscription."""
        subscription = self.world.subscription(self.workspace, self.plan, billing_cycle=cycle)
        return self.world.add(
            "users_invoices",
            workspace_id=self.workspace,
            subscription_id=subscription,
            user_id=self.user,
            plan_id=self.plan,
            cents=cents,
            cents_including_taxes=cents,
            status="INCOMPLETE",
            source="SUBSCRIPTION",
            cycle=cycle,
            period=PERIOD,
            run_id=f"{cycle}:2026-10",
            created_at=NOW,
            updated_at=NOW,
        )

    def key(self, invoice: int, suffix: str = "") -> str:
        (subscription, cycle) = self.world.rows(
            "SELECT subscription_id, cycle FROM users_invoices WHERE id = ?", invoice
        )[0]
        return f"lineblocs_{self.workspace}_{PERIOD}_{cycle}_{subscription}{suffix}"


def choose(world: World, provider: str) -> None:
    """The setting and the credentials, as the provider has stored them."""
    world.run("DELETE FROM customizations")
    world.run("DELETE FROM api_credentials")
    world.add("customizations", payment_gateway=provider)
    world.add(
        "api_credentials",
        stripe_private_key=stripe_server.KEY,
        braintree_merchant_id=braintree_server.MERCHANT,
        braintree_public_key=braintree_server.PUBLIC_KEY,
        braintree_private_key=braintree_server.PRIVATE_KEY,
    )


def standing(world: World, invoice: int) -> tuple[object, ...]:
    """Status, source, collected cents and attempts."""
    (row,) = world.rows(
        "SELECT status, source, cents_collected, num_attempts FROM users_invoices WHERE id = ?",
        invoice,
    )
    return row


def states(world: World, invoice: int) -> list[str]:
    """Of the charges, in their order."""
    rows = world.rows("SELECT state FROM charges WHERE invoice_id = ? ORDER BY attempt", invoice)
    return [state for (state,) in rows]


@dataclass
class Till:
    beat: Onbeat
    database: Database
    gateways: Gateways
    task: Task[[int, datetime], Coroutine[Any, Any, Charged], Charged]
    failed: list[str]
    """The jobs of the events of final failures."""
    pending: list[int]
    """The invoices of the events of pending charges."""

    async def messages(self, workspace: int) -> list[Any]:
        """The bodies of those to `failed_payments` about the workspace."""
        jobs = await self.beat.jobs.alist(queue=DISTRIBUTION, limit=1_000)
        sent = [job.target.message for job in jobs if job.target.message]
        bodies: list[Any] = [each.body for each in sent if each.queue == FAILED_QUEUE]
        return [body for body in bodies if body["workspace_id"] == workspace]

    async def charge(self, invoice: int, at: datetime = NOW) -> Charged:
        """Raises `JobFailed`."""
        job = await self.task.asend(invoice, at)
        return await job.aresult(timeout=PATIENCE)


def build(
    world: World,
    jobs: str,
    *,
    stripe: str = "",
    braintree: str = "",
    rules: Rules | None = None,
    timeout: float = 20,
    **options: Any,
) -> Till:
    # Nobody is at this port: the messages wait.
    connections = {BROKER: "amqp://guest:guest@127.0.0.1:1/"}
    beat = Onbeat(jobs, options=Options(connections=connections, **options))
    database = Database(world.url)
    gateways = Gateways(
        domain="example.com", stripe_url=stripe, braintree_url=braintree, timeout=timeout
    )
    failed: list[str] = []
    pending: list[int] = []

    @beat.task(
        "billing.charge",
        retry=Retry(
            attempts_max=4, backoff="fixed", delay=timedelta(milliseconds=20), jitter=False
        ),
    )
    async def charge_invoice(context: Context, invoice: int, at: datetime) -> Charged:
        async with database.session() as session:
            row = await session.row(f"SELECT {COLUMNS} FROM users_invoices WHERE id = ?", invoice)
        assert row is not None
        found = Invoice(*row)
        return await charge(
            *(context, database, gateways, found, rules or Rules(), at), beat=beat, reports=True
        )

    @beat.schedule(on="onbeat.job.failed", key="failed")
    @beat.task("test.failed")
    def note_failed(event: Event[dict[str, Any]]) -> None:
        failed.append(event.data["job"])

    @beat.schedule(on=PENDING_EVENT, key="pending")
    @beat.task("test.pending")
    def note_pending(event: Event[dict[str, Any]]) -> None:
        pending.append(event.data["invoice_id"])

    return Till(beat, database, gateways, charge_invoice, failed, pending)


@asynccontextmanager
async def running(till: Till) -> AsyncIterator[Till]:
    try:
        async with till.beat:
            yield till
    finally:
        await till.beat.aclose()
        await till.gateways.close()
        await till.database.close()


async def eventually(condition: Callable[[], Any], what: str) -> Any:
    """The first true answer of `condition`, which may be a coroutine function."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"it does not happen: {what}"
        await asyncio.sleep(0.01)
