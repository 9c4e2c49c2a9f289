"""The tasks and schedules of bills: distribute, and charge.

A run is named by its occurrence, so one that comes late, or again, bills the same period. Missed
runs are made up, one after another: an outage loses no month.
"""

from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from backoffice.charging import Charged, charge
from backoffice.config import Config
from backoffice.database import Database
from backoffice.distributor import BillingRun, bills, key_of
from backoffice.environment import BROKER, DISTRIBUTION
from backoffice.failed import due_bills
from backoffice.gateways.choice import Gateways
from backoffice.intake import DeadMessage, open_queue, read_message
from backoffice.invoices import draft
from backoffice.occurrences import time_of
from backoffice.periods import Period, parse
from backoffice.reports import MESSAGE_RETRY, report
from backoffice.rules import Rules
from backoffice.tasks import (
    ANNUAL,
    BILLING_QUEUE,
    CHARGE,
    DEBUG,
    MONTHLY,
    RETRY_FAILED,
    RUN_LABEL,
    BillingTask,
    FailedBillingTask,
)
from onbeat import (
    Call,
    Context,
    Fail,
    FanOut,
    Onbeat,
    Recurrence,
    Retry,
    Snooze,
    Task,
    cron,
    daily,
    every,
    message,
)

TAKE: Final = "billing.take_old_tasks"

CHARGE_RETRY: Final = Retry(attempts_max=10, delay="2s", delay_max="10m")
"""Of what may pass: a lock, a network, a gateway that does not answer."""
RUN_RETRY: Final = Retry(attempts_max=10, delay="5s", delay_max="10m")
KEPT_REPORT: Final = "62d"
"""How long nobody is told a second time that the same bill cannot be made, by whichever job."""

CLOCKS_DIFFER_MAX: Final = timedelta(hours=1)
"""A publisher whose clock is ahead may send a bill before its period has ended here."""

ChargeTask = Task[[BillingTask], Coroutine[Any, Any, Charged | None], Charged | None]
RunTask = Task[[], AsyncIterator[Call[Charged | None]], FanOut]


@dataclass(frozen=True)
class Billing:
    charge: ChargeTask
    monthly: RunTask
    annual: RunTask


def add_billing(beat: Onbeat, config: Config, database: Database, gateways: Gateways) -> Billing:
    rules = Rules(
        share=config.share,
        attempts_cap=config.attempts_cap,
        backoff=config.backoff,
        open_max=config.open_max,
        zone=config.zone,
    )
    charge_bill = add_charge(beat, database, gateways, rules, reports=bool(config.queue_url))
    by_day = config.dates == "anniversary"
    monthly = add_run(beat, MONTHLY, "MONTHLY", config, database, charge_bill)
    annual = add_run(beat, ANNUAL, "ANNUAL", config, database, charge_bill)
    declare(beat, monthly, MONTHLY, cron("0 0 * * *" if by_day else "0 0 1 * *", tz=config.zone))
    declare(beat, annual, ANNUAL, cron("0 0 * * *" if by_day else "0 0 1 1 *", tz=config.zone))
    if config.debug:
        debug = add_run(beat, DEBUG, "MONTHLY_DEBUG", config, database, charge_bill)
        rule = cron("* * * * *", tz=config.zone)
        beat.schedule(rule, key=DEBUG, overlap="skip", catch_up="none")(debug)
    add_retry(beat, config, database, rules, charge_bill)
    if config.queue_url:
        add_take(beat, config, charge_bill)
    return Billing(charge_bill, monthly, annual)


def declare(beat: Onbeat, task: RunTask, key: str, rule: Recurrence) -> None:
    # A run waits for the one before it, where a skip would lose its period.
    beat.schedule(rule, key=key, overlap="wait", catch_up="all")(task)


def add_charge(
    beat: Onbeat, database: Database, gateways: Gateways, rules: Rules, *, reports: bool
) -> ChargeTask:
    @beat.task(CHARGE, queue=BILLING_QUEUE, retry=CHARGE_RETRY, timeout="10m")
    async def charge_bill(context: Context, task: BillingTask) -> Charged | None:
        log = {"workspace_id": task.workspace_id, "run_id": task.run_id, "component": "billing"}
        try:
            period = parse(task.run_id.partition(":")[2], task.billing_type, rules.zone)
            check_ended(period, context.now)
            async with database.session() as session:
                invoice = await draft(session, task, period, rules, context.now)
        except ValueError as error:
            context.log.warning("the bill cannot be made: %s", error, extra=log)
            if reports:
                told = report(failed_task(task, str(error)))
                key = f"failed:{key_of(task)}"
                await beat.asend(told.with_options(unique=key, unique_for=KEPT_REPORT))
            raise Fail(str(error), retryable=False) from error
        if invoice is None:
            return None
        return await charge(
            context,
            database,
            gateways,
            invoice,
            rules,
            context.now,
            beat=beat,
            reports=reports,
        )

    return charge_bill


def failed_task(task: BillingTask, reason: str) -> FailedBillingTask:
    return FailedBillingTask(
        run_id=task.run_id,
        workspace_id=task.workspace_id,
        subscription_id=task.subscription_id,
        creator_id=task.creator_id,
        reason=reason,
    )


def check_ended(period: Period, now: datetime) -> None:
    """Raises `ValueError` for a period to come, `Snooze` for one that ends in a moment."""
    left = period.end - now
    if left > CLOCKS_DIFFER_MAX:
        raise ValueError(f"{period.name} has not ended: it is billed from {period.end} on")
    if left > timedelta(0):
        raise Snooze(left)


def add_run(
    beat: Onbeat,
    name: str,
    type: str,
    config: Config,
    database: Database,
    charge_bill: ChargeTask,
) -> RunTask:
    @beat.task(name, queue=DISTRIBUTION, retry=RUN_RETRY, timeout="2h")
    async def distribute(context: Context) -> AsyncIterator[Call[Charged | None]]:
        run = BillingRun(
            type=type,
            at=time_of(context),
            zone=config.zone,
            by_anniversary=config.dates == "anniversary",
        )
        # A run that an older release has begun has saved the first three.
        cycle, id, queued, billed = [*(context.saved or ()), 0, 0, 0, 0][:4]
        async for found in bills(database, run, (cycle, id)):
            if found.is_billed:
                billed += 1
            elif found.task is not None:
                yield call_of(charge_bill, found.task, context.job_id)
                queued += 1
            context.save((*found.place, queued, billed))
        context.log.info(
            "[%s] Distribution Finished. Total Billing Queued: %d. Billed before: %d",
            *(type, queued, billed),
            extra={
                "component": f"{run.billing_type.lower()}_billing",
                "run_id": f"{type}:{run.period}",
            },
        )

    return distribute


def call_of(charge_bill: ChargeTask, task: BillingTask, run: str = "") -> Call[Charged | None]:
    """One job at a time for a bill, whoever sends it. Its key is free again when it has ended.

    What was billed is in the invoice: a job that failed before there was one may be sent again.
    """
    labels = {RUN_LABEL: run} if run else None
    return charge_bill.options(unique=key_of(task), labels=labels).call(task)


def add_retry(
    beat: Onbeat, config: Config, database: Database, rules: Rules, charge_bill: ChargeTask
) -> None:
    @beat.schedule(daily("06:00", tz=config.zone), key=RETRY_FAILED, overlap="skip")
    @beat.task(RETRY_FAILED, queue=DISTRIBUTION, retry=RUN_RETRY, timeout="2h")
    async def retry_failed(context: Context) -> AsyncIterator[Call[Charged | None]]:
        at = time_of(context)
        async for bill in due_bills(database, rules, at, context.saved or 0):
            yield call_of(charge_bill, bill.task, context.job_id)
            context.save(bill.id)


def add_take(beat: Onbeat, config: Config, charge_bill: ChargeTask) -> None:
    @beat.schedule(every("1m"), key=TAKE, overlap="skip", catch_up="none")
    @beat.task(TAKE, queue=DISTRIBUTION, retry=Retry(attempts_max=1), timeout="1h")
    async def take_old_tasks(context: Context) -> int:
        """What publishers of the old system have sent. A failure is the next minute's to repeat."""
        queue = await open_queue(config.queue_url, config.billing_queue)
        taken = 0
        try:
            while messages := await queue.portion():
                by_anniversary = config.dates == "anniversary"
                found = [
                    read_message(each.body, by_anniversary=by_anniversary) for each in messages
                ]
                for each in found:
                    if isinstance(each, DeadMessage):
                        context.log.error("%s: %s", config.billing_queue, each.reason)
                await beat.asend([taken_call(each, config, charge_bill) for each in found])
                for taken_message in messages:
                    await taken_message.ack()
                taken += len(messages)
        finally:
            await queue.close()
        return taken


def taken_call(
    found: BillingTask | DeadMessage, config: Config, charge_bill: ChargeTask
) -> Call[Any]:
    if isinstance(found, DeadMessage):
        dead = f"{config.billing_queue}.dead"
        return message(BROKER, dead, found.body, headers={"reason": found.reason}).with_options(
            queue=DISTRIBUTION, retry=MESSAGE_RETRY, unique=found.key, unique_for="1d"
        )
    return call_of(charge_bill, found)
