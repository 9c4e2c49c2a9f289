"""The operation of notifications."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import TooLarge
from onbeat.model.job import Job
from onbeat.model.limits import ASIDE_JOBS_MIN, BULK_REQUEST_BYTES_MAX
from onbeat.model.target import NotifyTarget
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import job_from
from onbeat.ports.store import Enqueued
from onbeat.rules.notices import ALWAYS_KNOWN, distinct_recipients, key_for
from onbeat.wire.jobs import read_draft
from onbeat.wire.notifications import NotificationAnswer, NotificationBody, SendNotification
from onbeat.wire.targets import NoticeBody, notice_target

CONTENT: Final = NoticeBody.__struct_fields__


async def send(context: OperationContext, request: SendNotification) -> NotificationAnswer:
    """A job for each recipient, all in one transaction."""
    await context.check_capacity()
    body, now = request.notification, context.clock.now()
    recipients = recipients_of(body)
    ids = context.randomness.ids(len(recipients))
    with context.sending() as span:
        if len(recipients) >= ASIDE_JOBS_MIN:
            jobs = await asyncio.to_thread(jobs_of, context, body, recipients, now, ids)
        else:
            jobs = jobs_of(context, body, recipients, now, ids)
        span.describe(jobs)
        return answer(await context.store.enqueue(jobs, context.keyed_request(answer, ids)))


def recipients_of(body: NotificationBody) -> Mapping[str | None, str]:
    """Each recipient once, with its field; None alone for a channel that is one place."""
    if body.to is UNSET or body.to is None:
        return {None: "to"}
    if isinstance(body.to, str):
        return {body.to.strip(): "to"}
    return distinct_recipients(body.to)


def jobs_of(
    context: OperationContext,
    body: NotificationBody,
    recipients: Mapping[str | None, str],
    now: datetime,
    ids: Sequence[str],
) -> list[Job]:
    target = notice_target(NoticeBody(**{name: getattr(body, name) for name in CONTENT}))
    check_size(target, len(recipients))
    draft = read_draft(body, target)
    result: list[Job] = []
    for (to, field), id in zip(recipients.items(), ids, strict=True):
        own = replace(target, to=to)
        context.notices.check(own, "", ALWAYS_KNOWN, to_field=field)
        options = draft.options
        if "unique" in options:
            options = options | {"unique": key_for(options["unique"], to)}
        result.append(job_from(context, replace(draft, target=own, options=options), now, id))
    return result


def check_size(target: NotifyTarget, count: int) -> None:
    """Each recipient's job has its own copy of the content."""
    size = len(msgspec.json.encode(target)) * count
    if size > BULK_REQUEST_BYTES_MAX:
        raise TooLarge(
            f"the notice for all recipients has {size} bytes, and may have at most"
            f" {BULK_REQUEST_BYTES_MAX}: send it to fewer, or as a template",
            "to",
        )


def answer(stored: Sequence[Enqueued]) -> NotificationAnswer:
    existing = tuple(one.id for one in stored if not one.created)
    return NotificationAnswer(ids=tuple(one.id for one in stored), existing=existing or UNSET)
