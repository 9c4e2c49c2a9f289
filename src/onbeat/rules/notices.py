"""Notices: what their templates may read, and for whom they are."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, Self

import msgspec

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.model.limits import KEY_CHARS_MAX, NOTICE_RECIPIENTS_MAX
from onbeat.model.schedule import ScheduleSpec
from onbeat.rules.facts import event_facts, job_facts

ALWAYS_KNOWN: Final = frozenset({"data", "job", "now", "to"})
"""The names in the templates of every notice."""

TIMED_KNOWN: Final = ALWAYS_KNOWN | {"occurrence"}
"""The names in those of a schedule that fires by time."""

EVENT_KNOWN: Final = ALWAYS_KNOWN | {"event", "events"}
"""The names in those of a schedule that fires on events."""

SCHEDULE_KNOWN: Final = TIMED_KNOWN | EVENT_KNOWN
"""The names in the templates of the configuration, which any schedule may use."""


class Instant(datetime):
    """A datetime that is written as RFC 3339; the filter `date` gives it another form."""

    def __str__(self) -> str:
        return self.isoformat().replace("+00:00", "Z")

    @classmethod
    def of(cls, at: datetime) -> Self:
        return cls.combine(at.date(), at.time(), at.tzinfo)


def facts_of(
    job: Job, data: msgspec.Raw, to: str | None, now: datetime, events: Sequence[Event] = ()
) -> dict[str, object]:
    """What the templates of a job's notice read; a name without a value is left out.

    `now` and `occurrence` are datetimes, times inside of the others are texts.
    """
    facts: dict[str, object] = {
        "data": msgspec.json.decode(data),
        "job": job_facts(job),
        "now": Instant.of(now),
    }
    if to is not None:
        facts["to"] = to
    if job.occurrence is not None:
        facts["occurrence"] = Instant.of(job.occurrence)
    if events:
        facts["events"] = [event_facts(event) for event in events]
        facts["event"] = event_facts(events[0])
    return facts


def distinct_recipients(to: Iterable[str]) -> dict[str | None, str]:
    """Each recipient once, in order, with its field. Raises `Invalid` for none or too many."""
    result: dict[str | None, str] = {}
    for place, text in enumerate(to):
        result.setdefault(text.strip(), f"to[{place}]")
    if not result:
        raise Invalid("to has no recipient", "to")
    if len(result) > NOTICE_RECIPIENTS_MAX:
        raise TooLarge(f"to may have at most {NOTICE_RECIPIENTS_MAX} recipients", "to")
    return result


def known_to(schedule: ScheduleSpec) -> Collection[str]:
    """The names in the templates of a schedule."""
    return EVENT_KNOWN if schedule.on else TIMED_KNOWN


def key_for(unique: str | None, to: str | None, field: str = "unique") -> str | None:
    """The unique key of one recipient's job: that of the request and the recipient."""
    if unique is None or to is None:
        return unique
    key = f"{unique}:{to}"
    if len(key) > KEY_CHARS_MAX:
        raise Invalid(
            f"{field} with a recipient may have at most {KEY_CHARS_MAX} characters", field
        )
    return key


def one_line(text: str) -> str:
    """The text as a title: its lines become one, without control characters."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())
