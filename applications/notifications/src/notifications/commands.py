"""What an operator does by hand. Each command may be repeated."""

import json
import re
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final, cast
from uuid import uuid4

from notifications import people, topics
from notifications.app import SOURCE, Program, marks
from notifications.hours import minutes_of, open_hours
from notifications.links import Wish, link
from notifications.outcomes import outcomes_of, publish_key
from notifications.people import Address, Recipient, RefusedError
from notifications.schema import migrate as make_tables
from notifications.topics import Text, Topic
from notifications.usage import LIMIT_MAX
from onbeat import Invalid, cron

UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
UNIQUE_FOR: Final = "7d"
Answer = dict[str, Any] | list[dict[str, Any]]


async def migrate(_: Namespace, program: Program) -> Answer:
    await make_tables(program.database)
    return {"tables": "made"}


async def recipient_add(given: Namespace, program: Program) -> Answer:
    one = Recipient(
        id=given.id,
        name=given.name,
        language=given.language,
        zone=given.zone,
        hours=hours_of(given.window, given.quiet),
    )
    async with program.database.session() as session:
        created = await people.put_recipient(session, one)
    return {"recipient": one.id, "created": created}


def hours_of(windows: Sequence[str], quiet: Sequence[str]) -> tuple[str, ...]:
    """The windows in which none of the quiet times is. Onbeat itself reads windows alone."""
    if not quiet:
        return tuple(windows)
    left = open_hours(times_of("window", windows), times_of("quiet", quiet))
    if not left:
        raise RefusedError("quiet", "it leaves no time at which a notice may be sent")
    return left


def times_of(field: str, texts: Sequence[str]) -> list[set[int]]:
    if len(texts) > people.HOURS_MAX:
        raise RefusedError(field, f"give at most {people.HOURS_MAX}")
    try:
        return [minutes_of(text) for text in texts]
    except ValueError as error:
        example = "hours such as 22:00-07:00" if field == "quiet" else "such as MON-FRI 08:00-20:00"
        raise RefusedError(field, f"give {example}; {error}") from None


async def recipient_list(given: Namespace, program: Program) -> Answer:
    limit = limit_of(given)
    async with program.database.session() as session:
        return [asdict(one) for one in await people.recipients(session, given.after, limit)]


async def address_add(given: Namespace, program: Program) -> Answer:
    one = Address(
        recipient=given.recipient,
        channel=given.channel,
        address=given.address,
        verified=given.verified,
    )
    async with program.database.session() as session:
        created = await people.put_address(session, one)
    return {"recipient": one.recipient, "channel": one.channel, "created": created}


async def address_list(given: Namespace, program: Program) -> Answer:
    async with program.database.session() as session:
        found = await people.addresses(session, given.recipient, given.recipient)
    return [asdict(one) for one in found]


async def topic_add(given: Namespace, program: Program) -> Answer:
    topic = Topic(
        name=given.name,
        critical=given.critical,
        sensitive=given.sensitive,
        good_for=seconds_of(given.good_for),
        language=given.language,
        texts={given.language: Text(given.title, given.text, given.html)},
    )
    async with program.database.session() as session:
        created = await topics.put_topic(session, topic, program.config.events)
    if topic.sensitive:
        await program.hide(topic.name)
    return {"topic": topic.name, "created": created}


def seconds_of(span: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", span, re.ASCII)
    if span and match is None:
        raise RefusedError("good_for", f"give a span such as 2m or 12h, not {span!r:.100}")
    return int(match[1]) * UNITS[match[2]] if match else 0


async def text_add(given: Namespace, program: Program) -> Answer:
    text = Text(given.title, given.text, given.html)
    async with program.database.session() as session:
        created = await topics.put_text(session, given.topic, given.language, text)
    return {"topic": given.topic, "language": given.language, "created": created}


async def topic_list(_: Namespace, program: Program) -> Answer:
    async with program.database.session() as session:
        names = await topics.topic_names(session)
        found = [await topics.topic(session, name) for name in names]
    return [asdict(topic) for topic in found if topic is not None]


async def preference_set(given: Namespace, program: Program) -> Answer:
    wish = Wish(given.recipient, given.topic, given.channel)
    await program.prefer(wish, allowed=given.allowed == "yes")
    return asdict(wish) | {"allowed": given.allowed == "yes"}


async def link_show(given: Namespace, program: Program) -> Answer:
    wish = Wish(given.recipient, given.topic, given.channel)
    return {"link": link(program.config.public_url, program.config.link_keys, wish)}


async def publish(given: Namespace, program: Program) -> Answer:
    """At once as an event; else as a job that publishes it, which `onbeat job` shows."""
    subject = await the_topic(program, given.topic)
    id, data = given.id or str(uuid4()), data_of(given.data)
    if not (given.at or given.delay or given.condition):
        sent = await program.beat.events.apublish(
            given.topic, data, id=id, source=SOURCE, extensions=marks(subject)
        )
        return {"event": sent.id, "created": sent.created}
    task = program.publish.options(
        run_at=instant_of(given.at) if given.at else None,
        delay=given.delay or None,
        condition=given.condition or None,
        expires_in=subject.good_for or None,
        sensitive=subject.sensitive,
        labels={"topic": subject.name},
        unique=publish_key(id),
        unique_for=UNIQUE_FOR,
    )
    job = await task.asend(given.topic, data, id)
    return {"event": id, "created": job.created, "job": job.id}


async def schedule_put(given: Namespace, program: Program) -> Answer:
    """Publishes an event at each occurrence."""
    subject = await the_topic(program, given.topic)
    rule = cron(given.cron, tz=given.zone)
    call = program.publish.call(given.topic, data_of(given.data), given.key)
    id = await program.beat.schedules.aput(
        given.key,
        rule,
        call,
        expires_after=subject.good_for or None,
        sensitive=subject.sensitive,
    )
    return {"schedule": id, "key": given.key, "rule": rule.describe()}


async def the_topic(program: Program, name: str) -> Topic:
    async with program.database.session() as session:
        found = await topics.topic(session, name)
    if found is None:
        raise RefusedError("topic", f"there is none called {name!r:.100}; see `topic list`")
    return found


def data_of(text: str) -> dict[str, object]:
    try:
        data: object = json.loads(text)
    except ValueError as error:
        raise RefusedError("data", f"give a JSON object; {error}") from None
    if not isinstance(data, dict):
        raise RefusedError("data", "give a JSON object, such as '{\"order\": 7}'")
    return cast("dict[str, object]", data)


def instant_of(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min  # noqa: DTZ901  has no zone, and is refused
    if at.tzinfo is None:
        raise RefusedError(
            "at", f"give an instant with its offset, such as 2030-01-01T09:00+01:00, not {text!r}"
        )
    return at


async def notice_list(given: Namespace, program: Program) -> Answer:
    return await outcomes_of(program, given.event, given.after, limit_of(given))


def limit_of(given: Namespace) -> int:
    limit: int = given.limit
    if not 1 <= limit <= LIMIT_MAX:
        raise RefusedError("limit", f"give a whole number from 1 to {LIMIT_MAX}, not {limit}")
    return limit


COMMANDS: Final[dict[str, Callable[[Namespace, Program], Awaitable[Answer]]]] = {
    "migrate": migrate,
    "recipient add": recipient_add,
    "recipient list": recipient_list,
    "address add": address_add,
    "address list": address_list,
    "topic add": topic_add,
    "topic list": topic_list,
    "text add": text_add,
    "preference set": preference_set,
    "link show": link_show,
    "publish": publish,
    "schedule put": schedule_put,
    "notice list": notice_list,
}


async def run(given: Namespace, program: Program) -> Answer:
    """Raises `RefusedError` with the field that is wrong."""
    name = " ".join(filter(None, (given.noun, getattr(given, "verb", None))))
    try:
        return await COMMANDS[name](given, program)
    except Invalid as error:
        raise RefusedError(error.field or name, str(error)) from error
    finally:
        await program.beat.aclose()
