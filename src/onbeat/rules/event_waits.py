"""Waits of running jobs for events: which events end which waits, and how that is told."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from onbeat.model.event import Event, EventVerdict, StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait, FreedWait
from onbeat.model.ids import EventSeq, ScheduleId
from onbeat.model.job import Job
from onbeat.model.limits import VERDICTS_MAX
from onbeat.model.route import Routing
from onbeat.rules.own_events import fits

AWAITS: Final = "waits for event "
"""How the reason of a job begins that is put off until an event."""

ENDLESS: Final = ", without end"
FREED: Final = "freed: it waited for the event"


def reason_of(wait: EventWait, *, is_sensitive: bool) -> str:
    """Why the job is put off, in words. The key of a sensitive job may be part of its payload."""
    by = "" if wait.by is None else f" by {'…' if is_sensitive else wait.by}"
    end = ENDLESS if wait.until is None else f" until {instant_text(wait.until)}"
    return f"{AWAITS}{wait.type}{by}{end}"


def instant_text(instant: datetime) -> str:
    return instant.isoformat().replace("+00:00", "Z")


def is_awaiting(reason: str | None) -> bool:
    """Whether a waiting job with this reason is put off until an event."""
    return (reason or "").startswith(AWAITS)


def is_endless(job: Job) -> bool:
    return (job.reason or "").endswith(ENDLESS)


def key_of(event: Event) -> AwaitedKey:
    return AwaitedKey(event.type, event.subject)


def patterns_of(type: str) -> list[str]:
    """All patterns that fit an event of the type."""
    return [type, *(f"{type[:length]}*" for length in range(len(type) + 1))]


def ends_wait(wait: EventWait, event: Event) -> bool:
    """Whether the event is one that the wait is for."""
    return fits(wait.type, event.type) and wait.by in (None, event.subject)


def fitting(events: Iterable[AwaitedKey], known: Container[str]) -> dict[str, list[str]]:
    """By the types of the events, which of the known patterns fit."""
    types = {key.type for key in events}
    return {type: [one for one in patterns_of(type) if one in known] for type in types}


def keys_of_waits(
    events: Iterable[AwaitedKey], patterns: Mapping[str, Sequence[str]]
) -> set[tuple[str, str | None]]:
    """The types, as patterns, and the keys of the waits that the events end."""
    return {
        (pattern, by)
        for key in events
        for pattern in patterns[key.type]
        for by in (key.subject, None)
    }


def freed_waits(events: Sequence[StoredEvent], waits: Sequence[EventWait]) -> tuple[FreedWait, ...]:
    """The waits that these events end; of several that fit, the first ends the wait."""
    of_key: dict[tuple[str, str | None], list[EventWait]] = defaultdict(list)
    for wait in waits:
        of_key[wait.type, wait.by].append(wait)
    patterns = fitting([key_of(one.event) for one in events], {wait.type for wait in waits})
    freed: list[FreedWait] = []
    for stored in events if waits else ():
        for key in sorted(keys_of_waits([key_of(stored.event)], patterns), key=str):
            ended = of_key.pop(key, ())
            freed += [FreedWait(wait.job_id, wait.step, stored.seq) for wait in ended]
    return tuple(sorted(freed, key=attrgetter("job_id", "step")))


def after_look(wait: EventWait, found: EventSeq | None, now: datetime) -> EventWait:
    """The open wait after a look at the events since it began; `found` is the first that fits."""
    if found is not None:
        return replace(wait, is_open=False, seq=found, since=None)
    if wait.until is not None and wait.until <= now:
        return replace(wait, is_open=False, since=None)
    return replace(wait, since=None)


def with_freed(routing: Routing, freed: Sequence[FreedWait]) -> Routing:
    """The decision that also ends these waits; their events say so."""
    verdicts = dict(routing.verdicts)
    for seq, added in freed_verdicts(freed).items():
        if seq in verdicts:
            verdicts[seq] = (*verdicts[seq], *added)
    return replace(routing, verdicts=verdicts, freed=tuple(freed))


def freed_verdicts(freed: Sequence[FreedWait]) -> Mapping[EventSeq, list[EventVerdict]]:
    """The first of the freed jobs of each event, and how many more there are."""
    jobs: dict[EventSeq, list[FreedWait]] = defaultdict(list)
    for one in freed:
        jobs[one.seq].append(one)
    verdicts: dict[EventSeq, list[EventVerdict]] = {}
    for seq, those in jobs.items():
        shown = [EventVerdict(ScheduleId(""), one.job_id, FREED) for one in those[:VERDICTS_MAX]]
        if (left := len(those) - VERDICTS_MAX) > 0:
            shown.append(EventVerdict(ScheduleId(""), None, f"and freed {left} more jobs"))
        verdicts[seq] = shown
    return verdicts


def is_later_wait(coming: EventWait, here: EventWait | None) -> bool:
    """Whether a copied wait replaces the one here, which may have gone on."""
    return here is None or (coming != here and (here.is_open or not coming.is_open))
