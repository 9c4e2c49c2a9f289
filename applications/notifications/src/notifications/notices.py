"""The table of notices: planned in portions, judged when they start, and what became of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from notifications import people
from notifications.database import Row, Session
from notifications.planning import Cause, Notice, Skipped, plan
from notifications.topics import Topic

PORTION: Final = 200
WHY_CHARS_MAX: Final = 1_200
Outcome = Literal["planned", "started", "sent", "failed", "cancelled", "skipped"]


@dataclass(frozen=True)
class Portion:
    """Of the recipients of an event. `last` is the id of the last one."""

    notices: Sequence[Notice]
    last: str


async def plan_portion(
    session: Session, cause: Cause, topic: Topic, after: str, at: datetime
) -> Portion | None:
    """Decide about the recipients after this id, and keep it. None behind the last one."""
    found = await people.recipients(session, after, PORTION)
    if not found:
        return None
    return await plan_for(session, cause, topic, found, at)


async def plan_for(
    session: Session,
    cause: Cause,
    topic: Topic,
    recipients: Sequence[people.Recipient],
    at: datetime,
) -> Portion:
    """In one transaction. What has been planned before stays, so it may be repeated."""
    first, last = recipients[0].id, recipients[-1].id
    async with session.transaction():
        own = await people.addresses(session, first, last)
        refused = await people.refusals(session, topic.name, first, last)
        planned = list(plan(topic, recipients, own, refused))
        await keep(session, cause, topic.name, map(outcome_of, planned), at)
    return Portion([one for one in planned if isinstance(one, Notice)], last)


def outcome_of(planned: Notice | Skipped) -> tuple[str, str, Outcome, str]:
    match planned:
        case Notice(recipient=recipient, address=address):
            return recipient.id, address.channel, "planned", ""
        case Skipped(recipient=id, why=why):
            return id, "", "skipped", why


async def skip(session: Session, cause: Cause, topic: str, why: str, at: datetime) -> None:
    """Keep why nobody at all is told."""
    await keep(session, cause, topic, [("", "", "skipped", why)], at)


async def keep(
    session: Session,
    cause: Cause,
    topic: str,
    outcomes: Iterable[tuple[str, str, Outcome, str]],
    at: datetime,
) -> None:
    seconds = int(at.timestamp())
    rows: list[Row] = [
        (cause.name(id, way), cause.source, cause.id, topic, id, way, outcome, why[:WHY_CHARS_MAX],
         "", seconds)
        for id, way, outcome, why in outcomes
    ]  # fmt: skip
    await session.many(
        "INSERT INTO notices (name, source, event, topic, recipient, channel, outcome, why, job,"
        " planned_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING",
        rows,
    )


async def start(session: Session, name: str, address: str, job: str) -> bool:
    """Whether this job may send the notice now: it is still wanted, there, and sent by no other.

    Locks the recipient's row, as `people.prefer` does: of a notice that starts and a preference
    that forbids it, one sees the other. A job that comes again is judged again.
    """
    async with session.transaction():
        rows = await session.rows(
            "SELECT recipient, topic, channel FROM notices WHERE name = ?", name
        )
        if not rows:
            return False
        recipient, topic, channel = rows[0]
        await people.lock(session, recipient)
        why = await reason_against(session, recipient, topic, channel, address)
        is_ours = await session.run(
            "UPDATE notices SET job = ?, outcome = ?, why = ? WHERE name = ? AND job IN (?, '')",
            job,
            "skipped" if why else "started",
            why,
            name,
            job,
        )
    return bool(is_ours) and not why


async def reason_against(
    session: Session, recipient: str, topic: str, channel: str, address: str
) -> str:
    """As it is now, which need not be as it was planned; empty where there is none."""
    own = await people.addresses(session, recipient, recipient)
    if not any(one.channel == channel and one.address == address and one.verified for one in own):
        return "the address was changed"
    refused = await people.refusals(session, topic, recipient, recipient)
    return "unsubscribed" if (recipient, channel) in refused else ""


@dataclass(frozen=True)
class End:
    """How the job of a notice has ended."""

    name: str
    job: str
    outcome: Outcome
    why: str


async def finish(session: Session, ends: Iterable[End]) -> None:
    """Keep how jobs have ended, but for why one was not wanted, which is known better here."""
    await session.many(
        "UPDATE notices SET outcome = ?, why = ?"
        " WHERE name = ? AND job IN (?, '') AND outcome <> 'skipped'",
        [(end.outcome, end.why[-WHY_CHARS_MAX:], end.name, end.job) for end in ends],
    )


async def forget(session: Session, before: datetime) -> int:
    """Delete what was planned before, in portions; how many rows."""
    seconds, total = int(before.timestamp()), 0
    while deleted := await session.run(
        "DELETE FROM notices WHERE name IN"
        " (SELECT name FROM notices WHERE planned_at < ? ORDER BY planned_at LIMIT 1000)",
        seconds,
    ):
        total += deleted
    return total


async def of_event(session: Session, event: str, after: str, limit: int) -> list[dict[str, Any]]:
    """What became of an event, in portions by name."""
    columns = ("name", "source", "event", "topic", "recipient", "channel", "outcome", "why", "job")
    rows = await session.rows(
        f"SELECT {', '.join(columns)} FROM notices WHERE event = ? AND name > ?"  # noqa: S608
        " ORDER BY name LIMIT ?",
        event,
        after,
        limit,
    )
    return [dict(zip(columns, row, strict=True)) for row in rows]
