"""The tasks and schedules: an event becomes a notice for each recipient and allowed channel."""

from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final, TypedDict

from notifications import notices, people
from notifications.config import Config
from notifications.database import Database, open_database
from notifications.links import Wish, link
from notifications.planning import Cause, Notice
from notifications.topics import Topic, topic
from onbeat import (
    Call,
    Condition,
    Conflict,
    Context,
    Event,
    NotFound,
    Onbeat,
    Options,
    Retry,
    Task,
    daily,
    notify,
)

PLAN: Final = "notifications.plan"
PUBLISH: Final = "notifications.publish"
QUEUE: Final = "notices"
SOURCE: Final = "/notifications"
FIRST: Final = -5  # critical notices go before others
UNIQUE_FOR: Final = "30d"
"""Events are kept for 7 days; one that is sent again later than that still tells nobody twice."""
PAGE: Final = 100
GATHERED: Final = "5s"
RETRY: Final = Retry(attempts_max=5, delay="2s", delay_max="1m")
OUTCOMES: Final[dict[str, notices.Outcome]] = {
    "succeeded": "sent",
    "failed": "failed",
    "cancelled": "cancelled",
}


class May(TypedDict):
    """An answer to the condition of a notice."""

    start: bool


Ask = Task[[str, str], Coroutine[Any, Any, May], May]
Publish = Task[[str, dict[str, object], str], Coroutine[Any, Any, str], str]


@dataclass(frozen=True)
class Program:
    """`publish` is a task that publishes an event: it may be delayed, or on a schedule."""

    beat: Onbeat
    config: Config
    database: Database
    publish: Publish

    async def prefer(self, wish: Wish, *, allowed: bool) -> None:
        """Keep the preference, and stop what is on the way. May be repeated.

        Raises `people.RefusedError`.
        """
        async with self.database.session() as session:
            jobs = await people.prefer(
                session, wish.recipient, wish.topic, wish.channel, allowed=allowed
            )
        for job in jobs:
            try:
                await self.beat.jobs.acancel(job, "unsubscribed")
            except (Conflict, NotFound):  # it has ended
                continue

    async def hide(self, subject: str) -> None:
        """Let the schedules that publish this topic show no data. May be repeated."""
        async for id in self.schedules_of(subject):
            await self.beat.schedules.aupdate(id, sensitive=True)

    async def schedules_of(self, subject: str) -> AsyncIterator[str]:
        """Ids of those that show their data, and so the topic."""
        for page in count(1):
            found = await self.beat.schedules.alist(limit=PAGE, page=page)
            for schedule in found:
                target = schedule.target
                if target.task == PUBLISH and target.args and target.args[0] == subject:
                    yield schedule.id
            if len(found) < PAGE:
                return


def build(config: Config, options: Options | None = None) -> Program:
    beat, database = Onbeat(config.jobs_store, options=options), open_database(config.database)
    add_plan(beat, config, database, ask_task(beat, database))
    add_record(beat, database)
    add_clean_up(beat, config, database)
    return Program(beat, config, database, publish_task(beat, database))


def ask_task(beat: Onbeat, database: Database) -> Ask:
    @beat.task("notifications.may_start", timeout="30s")
    async def may_start(context: Context, name: str, address: str) -> May:
        # Asked within the job of the notice, whose id this is.
        async with database.session() as session:
            return May(start=await notices.start(session, name, address, context.job_id))

    return may_start


def add_plan(beat: Onbeat, config: Config, database: Database, may_start: Ask) -> None:
    def call_of(notice: Notice, cause: Cause, subject: Topic, context: Context) -> Call[None]:
        recipient, address = notice.recipient, notice.address
        name = cause.name(recipient.id, address.channel)
        wish = Wish(recipient.id, subject.name, address.channel)
        return notify(
            address.channel,
            address.address or None,
            title=notice.text.title,
            text=notice.text.body,
            html=notice.text.html or None,
            data={
                "event": context.events[0].data,
                "name": recipient.name,
                "language": notice.language,
                "unsubscribe": link(config.public_url, config.link_keys, wish),
            },
            condition=Condition("answer.start", ask=may_start.call(name, address.address)),
            window=None if subject.critical else recipient.windows or None,
            run_at=happened_at(context),
            expires_in=subject.good_for or None,
            sensitive=subject.sensitive,
            priority=FIRST if subject.critical else None,
            unique=name,
            unique_for=UNIQUE_FOR,
            queue=QUEUE,
            retry=Retry(config.attempts_max, delay="30s", delay_max="30m", jitter=False),
            labels={"topic": subject.name, "recipient": recipient.id},
        )

    @beat.schedule(
        on=[{"type": pattern} for pattern in config.events], key=PLAN, name="Notices of events"
    )
    @beat.task(PLAN, retry=RETRY, timeout="1h")
    async def plan(context: Context, event: Event[dict[str, Any]]) -> AsyncIterator[Call[None]]:
        cause, after = Cause(event.source, event.id), str(context.saved or "")
        async with database.session() as session:
            subject = await topic(session, event.type)
            if subject is None:
                why = "no topic has the name of the event's type"
                await notices.skip(session, cause, event.type[:100], why, context.due_at)
                return
        while portion := await next_portion(database, cause, subject, event, after, context.due_at):
            for notice in portion.notices:
                yield call_of(notice, cause, subject, context)
            after = portion.last
            context.save(after)


def happened_at(context: Context) -> datetime:
    """When what the notice is about happened, from which its time counts.

    The event says so, except that it cannot lie ahead. The time of the job would be later after an
    outage, and in each further attempt.
    """
    return min(context.events[0].time, context.due_at)


async def next_portion(
    database: Database,
    cause: Cause,
    subject: Topic,
    event: Event[dict[str, Any]],
    after: str,
    at: datetime,
) -> notices.Portion | None:
    """Of the one recipient that the event's data names, or of all where it names none.

    One that is empty names nobody: what was meant for one is not for all.
    """
    async with database.session() as session:
        if "recipient" not in event.data:
            return await notices.plan_portion(session, cause, subject, after, at)
        if after:
            return None
        named = event.data["recipient"]
        found = await people.recipient(session, str(named)) if named else None
        if found is None:
            why = f"the event names a recipient that is not there: {named!a:.100}"
            if not named:
                why = "the recipient that the event names is empty"
            await notices.skip(session, cause, subject.name, why, at)
            return None
        return await notices.plan_for(session, cause, subject, [found], at)


def add_record(beat: Onbeat, database: Database) -> None:
    ends = ("succeeded", "failed", "cancelled")
    own = f"event.data.queue == '{QUEUE}' && event.data.unique != null"

    @beat.schedule(
        key="notifications.record",
        name="What became of notices",
        on=[{"type": f"onbeat.job.{end}", "if": own} for end in ends],
        gather={"for": GATHERED},
    )
    @beat.task("notifications.record", retry=RETRY)
    async def record(context: Context, events: list[Event[dict[str, Any]]]) -> int:
        found = [event.data for event in events]
        for data in found:
            if data["state"] == "failed":
                context.log.warning("a notice failed: %s: %s", data["unique"], data["error"])
        async with database.session() as session, session.transaction():
            await notices.finish(session, map(end_of, found))
        return len(found)


def end_of(data: dict[str, Any]) -> notices.End:
    why = data["error"] if data["state"] == "failed" else data["reason"]
    return notices.End(data["unique"], data["job"], OUTCOMES[data["state"]], why or "")


def add_clean_up(beat: Onbeat, config: Config, database: Database) -> None:
    @beat.schedule(daily("03:00", tz="UTC"), key="notifications.clean_up", overlap="skip")
    @beat.task("notifications.clean_up", retry=RETRY, timeout="1h")
    async def clean_up(context: Context) -> int:
        async with database.session() as session:
            return await notices.forget(session, context.due_at - timedelta(days=config.keep_days))


def publish_task(beat: Onbeat, database: Database) -> Publish:
    @beat.task(PUBLISH, retry=RETRY)
    async def publish(context: Context, type: str, data: dict[str, object], id: str) -> str:
        """Its event is the same in each attempt: once for each occurrence, else once for `id`."""
        occurrence = f"{id} {context.occurrence.isoformat()}" if context.occurrence else id
        async with database.session() as session:
            subject = await topic(session, type)
        sent = await beat.events.apublish(
            type,
            data,
            id=occurrence,
            source=SOURCE,
            time=context.occurrence or await first_due_at(context),
            extensions=marks(subject),
        )
        return sent.id

    return publish


def marks(subject: Topic | None) -> dict[str, bool]:
    """The extensions of an event of the topic: Onbeat does not show the data of a sensitive one."""
    return {"sensitive": True} if subject is not None and subject.sensitive else {}


async def first_due_at(context: Context) -> datetime:
    """When the job was first due; a further attempt is due later."""

    def due_at() -> datetime:
        return context.due_at

    return await context.step("due_at", due_at)
