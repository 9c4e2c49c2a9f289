"""Which schedules an event concerns: patterns by type and source, their conditions and keys."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from onbeat.model.event import Event, StoredEvent
from onbeat.model.ids import EventSeq, ScheduleId
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.model.reaction import EventPattern
from onbeat.model.schedule import Schedule
from onbeat.rules.facts import event_facts
from onbeat.rules.own_events import fits

Facts = Mapping[str, object]
Evaluate = Callable[[Facts], object]
"""A compiled expression. Raises `NoValue`."""

NAMES: Final = ("event", "now")
"""What the expressions of schedules with `on` may name."""

TYPES_KEPT: Final = 10_000
"""Types whose schedules are remembered; callers may use any number of types."""

NOT_A_KEY: Final = re.compile("[\0\ud800-\udfff]")


class NoValue(Exception):
    """Why an expression has no value."""


class Pattern(msgspec.Struct, frozen=True):
    """A pattern as compiled. `fault` says why this process cannot judge it."""

    source: EventPattern
    condition: Evaluate | None = None
    by: Evaluate | None = None
    fault: str | None = None


class Reaction(msgspec.Struct, frozen=True):
    """A schedule with its compiled patterns."""

    schedule: Schedule
    on: tuple[Pattern, ...]
    cancel_on: tuple[Pattern, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the keys of its events count."""
        return self.schedule.gather is not None or bool(self.schedule.cancel_on)


class Match(msgspec.Struct, frozen=True):
    """What a schedule whose type and source match has to do with an event.

    It makes a job for `key`, and ends the waiting jobs of `cancels`; both are None where it does
    not. `reason` says why it makes none.
    """

    reaction: Reaction
    key: str | None = None
    reason: str | None = None
    cancels: str | None = None


class MatchedEvent(msgspec.Struct, frozen=True):
    """An event with its matches. `at` is when it arrived, or when it is replayed."""

    stored: StoredEvent
    at: datetime
    is_replayed: bool
    matches: tuple[Match, ...]


class ReactionIndex:
    """Reactions by the types of their patterns."""

    def __init__(self, reactions: Iterable[Reaction]) -> None:
        self.exact: dict[str, dict[ScheduleId, Reaction]] = {}
        self.prefixes: dict[int, dict[str, dict[ScheduleId, Reaction]]] = {}
        self.known: dict[str, tuple[Reaction, ...]] = {}
        for reaction in reactions:
            for pattern in (*reaction.on, *reaction.cancel_on):
                self.add(pattern.source.type, reaction)

    def add(self, type: str, reaction: Reaction) -> None:
        if type.endswith("*"):
            of_length = self.prefixes.setdefault(len(type) - 1, {})
            place = of_length.setdefault(type[:-1], {})
        else:
            place = self.exact.setdefault(type, {})
        place[reaction.schedule.id] = reaction

    def of_type(self, type: str) -> tuple[Reaction, ...]:
        """The reactions with a pattern for this type, by schedule id."""
        known = self.known.get(type)
        if known is None:
            if len(self.known) >= TYPES_KEPT:
                self.known.clear()
            known = self.known[type] = self.find(type)
        return known

    def find(self, type: str) -> tuple[Reaction, ...]:
        found = dict(self.exact.get(type, {}))
        for length, prefixes in self.prefixes.items():
            found |= prefixes.get(type[:length], {})
        return tuple(found[id] for id in sorted(found))


def fits_event(pattern: EventPattern, event: Event) -> bool:
    return fits(pattern.type, event.type) and fits(pattern.source, event.source)


def match_events(
    events: Sequence[StoredEvent],
    replayed: Collection[EventSeq],
    index: ReactionIndex,
    now: datetime,
    most: int,
) -> tuple[MatchedEvent, ...]:
    """The first of the events, with at most `most` matches, or a single event with more."""
    found: list[MatchedEvent] = []
    left = most
    for stored in events:
        is_replayed = bool(stored.verdicts) or stored.seq in replayed
        at = now if is_replayed else stored.received_at
        facts = EventFacts(stored.event, at)
        reactions = index.of_type(stored.event.type)
        judged = (judge(reaction, stored.event, facts) for reaction in reactions)
        matches = tuple(match for match in judged if match is not None)
        left -= len(matches)
        if left < 0 and found:
            break
        found.append(MatchedEvent(stored, at, is_replayed, matches))
    return tuple(found)


def judge(reaction: Reaction, event: Event, facts: "EventFacts") -> Match | None:
    """None where neither type nor source fits a pattern."""
    key, reason = first_key(reaction.on, event, facts, is_keyed=reaction.is_keyed)
    cancels, why_not = first_key(reaction.cancel_on, event, facts, is_keyed=True)
    if key is None and reason is None and cancels is None and why_not is None:
        return None
    return Match(reaction, key, None if key is not None else reason or why_not, cancels)


def first_key(
    patterns: Sequence[Pattern], event: Event, facts: "EventFacts", *, is_keyed: bool
) -> tuple[str | None, str | None]:
    """The key of the first pattern that holds; else why the first that fits does not hold."""
    reason = None
    for pattern in patterns:
        if fits_event(pattern.source, event):
            why_not = why_not_held(pattern, facts)
            if why_not is None:
                return key_of(pattern, facts) if is_keyed else ("", None)
            reason = reason or why_not
    return None, reason


def why_not_held(pattern: Pattern, facts: "EventFacts") -> str | None:
    if pattern.fault is not None:
        return pattern.fault
    if pattern.condition is None:
        return None
    try:
        value = pattern.condition(facts.values())
    except Exception as error:  # noqa: BLE001  one expression must not keep others from their events
        return f"condition failed: {error}"
    if value is True:
        return None
    return (
        "condition is false" if value is False else "condition failed: it is neither true nor false"
    )


def key_of(pattern: Pattern, facts: "EventFacts") -> tuple[str | None, str | None]:
    if pattern.by is None:
        return "", None
    try:
        return checked_key(key_text(pattern.by(facts.values()))), None
    except Exception as error:  # noqa: BLE001  as above
        return None, f"by failed: {error}"


def key_text(value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if value.is_integer():
            return str(int(value))
        case float():
            return repr(value)
        case _:
            raise NoValue("it gives neither a text, nor a number, nor true or false")


def checked_key(key: str) -> str:
    """Raises `NoValue` for a text that some store cannot keep as a key."""
    if len(key) > KEY_CHARS_MAX:
        raise NoValue(f"the key has {len(key)} characters; {KEY_CHARS_MAX} are allowed")
    if NOT_A_KEY.search(key):
        raise NoValue("the key holds NUL or half a character, which no store can keep")
    return key


class EventFacts:
    """The facts of one event for expressions, made when first needed."""

    def __init__(self, event: Event, now: datetime) -> None:
        self.event = event
        self.now = now
        self.made: Facts | None = None

    def values(self) -> Facts:
        if self.made is None:
            self.made = {"event": event_facts(self.event), "now": self.now}
        return self.made
