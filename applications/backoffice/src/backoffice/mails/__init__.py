"""Mails, each once for its cause, by the provider's mail API.

`add_mails(beat, database, mail_api, zone, balance)` declares five selections, each a task with a
schedule of the same key: `mails.usage_trigger` hourly, and at 09:00 of `zone`
`mails.inactive_user`, `mails.free_trial_expiring`, `mails.card_expiring` and
`mails.customer_satisfaction_survey`. They take `at`, the time that they judge by, by default that
of their occurrence, and yield one `mails.send` for each cause, on the queue `mails`.

`balance` is `backoffice.invoices.balance`.

The row that says that a mail was sent is written in the transaction that ends the job, after the
API has taken the mail. A process that is killed between the two sends it again, under the same
`Idempotency-Key`: an API that ignores this header sends such a mail twice.
"""

import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from backoffice.database import Database
from backoffice.mails.dispatch import Answer, Later, MailApi, Refused, Taken, post
from backoffice.mails.selections import KINDS, Balance, Cause, Kind, Selection, read_mail
from backoffice.occurrences import time_of
from onbeat import Call, Context, Fail, FanOut, Onbeat, Recurrence, Retry, Snooze, Task, cron, daily

log = logging.getLogger(__name__)

__all__ = ["QUEUE", "SEND", "MailApi", "SelectTask", "add_mails"]

SEND: Final = "mails.send"
QUEUE: Final = "mails"
RETRY: Final = Retry(attempts_max=12, delay="30s", delay_max="1h")
UNIQUE_FOR: Final = "31d"
"""A mail that could not be sent is tried again after that, if its cause still holds."""
GIVE_UP_AFTER: Final = timedelta(days=7)
"""The API may put a mail off for so long."""

SendTask = Task[[Cause, datetime], Coroutine[Any, Any, str], str]
SelectTask = Task[[datetime | None], AsyncIterator[Call[str]], FanOut]


def add_mails(
    beat: Onbeat, database: Database, mail_api: MailApi, zone: str, balance: Balance
) -> Mapping[str, SelectTask]:
    """Declare the selections and `mails.send`; the selections by the kind of their mails."""
    send = send_task(beat, database, mail_api)
    selection = Selection(database, zone, balance)
    times = dict.fromkeys(KINDS, daily("09:00", tz=zone))
    times["usage_trigger"] = cron("0 * * * *", tz=zone)
    return {
        name: add_selection(beat, send, kind, times[name], selection)
        for name, kind in KINDS.items()
    }


def add_selection(
    beat: Onbeat, send: SendTask, kind: Kind, times: Recurrence, selection: Selection
) -> SelectTask:
    @beat.schedule(times, key=f"mails.{kind.name}", overlap="skip")
    @beat.task(f"mails.{kind.name}", retry=Retry(attempts_max=5, delay="10s"), timeout="2h")
    async def select(context: Context, at: datetime | None = None) -> AsyncIterator[Call[str]]:
        # Started again it selects anew: what was sent, or is to be sent, has its key.
        async for cause in kind.select(selection, time_of(context, at)):
            once = send.options(unique=cause.key, unique_for=UNIQUE_FOR)
            yield once.call(cause, datetime.now(UTC) + GIVE_UP_AFTER)

    return select


def send_task(beat: Onbeat, database: Database, mail_api: MailApi) -> SendTask:
    @beat.task(SEND, queue=QUEUE, retry=RETRY, timeout="2m")
    async def send(context: Context, cause: Cause, give_up_at: datetime) -> str:
        async with database.session() as session:
            mail = await read_mail(session, cause)
        if mail is None:
            return "not wanted any more"
        now = datetime.now(UTC)
        check(await post(mail_api, mail, cause.key, now), may_wait=now < give_up_at)
        async with database.session() as session, session.transaction():
            await KINDS[cause.kind].mark(session, cause)
            await context.finish_in_transaction(session.connection, result="sent")
        run = {"component": "mails", "run_id": f"{cause.kind}:{cause.at.isoformat()}"}
        context.log.info("sent %s", cause.key, extra={**run, "workspace_id": mail.workspace["id"]})
        return "sent"

    return send


def check(answer: Answer, *, may_wait: bool) -> None:
    """Return if the mail was taken; else raise what the job is to do."""
    match answer:
        case Taken():
            return
        case Refused(reason):
            raise Fail(reason, retryable=False)
        case Later(reason, seconds):
            if seconds is not None and may_wait:
                log.info("a mail is put off for %d s: %s", seconds, reason)
                raise Snooze(seconds)
            raise Fail(reason, retryable=may_wait)
