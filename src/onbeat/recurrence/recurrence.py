"""The `Recurrence` value, which computes instants, descriptions and notes."""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.compile import (
    MEMBERS_MAX,
    SHORT_CHARS_MAX,
    anchored_spec,
    core_of,
    needs_anchor,
    zones_of,
)
from onbeat.recurrence.describe import describe
from onbeat.recurrence.instants import from_us, to_us
from onbeat.recurrence.notes import Note, notes_on
from onbeat.recurrence.sets import Core
from onbeat.recurrence.span_count import count_in_span, is_dense
from onbeat.recurrence.spec import CalendarSpec, RecurrenceSpec, Roll

COMPILED_KEPT = 50_000
"""Cached recurrences, at about 3 KB each."""

LONG_COMPILED_KEPT = 100
"""Cached recurrences with a long text, at up to a few MB each."""


class Recurrence:
    """A rule that yields instants. Immutable; equal to another with an equal spec.

    A rule without a start (`needs_anchor(value.spec())`) is anchored at the instant of the query,
    truncated to the second: a preview shows what the rule would do if created then.
    """

    __slots__ = ("budget", "core", "identity")

    def __init__(
        self, spec: RecurrenceSpec, core: Core | None, budget: Budget | None = None
    ) -> None:
        self.identity = spec
        self.core = core
        self.budget = budget

    def within(self, budget: Budget | None) -> "Recurrence":
        """The same value; searches spend from `budget` and raise `TooCostly` when it is used up.

        Without a budget each search has a limit of its own.
        """
        return Recurrence(self.identity, self.core, budget)

    def spec(self) -> RecurrenceSpec:
        """The stored form; `compile_spec` makes the value from it again."""
        return self.identity

    @property
    def text(self) -> str:
        """Canonical text; parsing it with the same `tz` gives an equal value."""
        return self.identity.text

    @property
    def tz(self) -> str:
        """Name of the rule's time zone."""
        return self.identity.tz or "UTC"

    def after_us(self, instant: int) -> int | None:
        """`after` in integer microseconds since 1970 UTC."""
        budget = self.budget
        if budget is not None:
            budget.spend()
        core = self.core or self.core_at(instant)
        return core.after_us(instant, budget)

    def before_us(self, instant: int) -> int | None:
        """`before` in integer microseconds since 1970 UTC."""
        budget = self.budget
        if budget is not None:
            budget.spend()
        core = self.core or self.core_at(instant)
        return core.before_us(instant, budget)

    def core_at(self, instant: int) -> Core:
        """The engine for a query at `instant`: anchored there, if the rule has no start."""
        return self.core or core_of(anchored_spec(self.identity, instant), self.budget)

    def after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None if there is none."""
        candidate = self.after_us(to_us(instant))
        return None if candidate is None else from_us(candidate)

    def before(self, instant: datetime) -> datetime | None:
        """The last occurrence strictly before `instant`, in UTC; None if there is none."""
        candidate = self.before_us(to_us(instant))
        return None if candidate is None else from_us(candidate)

    def between(self, a: datetime, b: datetime, *, limit: int | None = None) -> list[datetime]:
        """The first `limit` occurrences after `a` and before `b`, both exclusive."""
        end = to_us(b)
        candidates: list[datetime] = []
        for instant in self.instants_after(to_us(a)):
            if instant >= end or (limit is not None and len(candidates) >= limit):
                break
            candidates.append(from_us(instant))
        return candidates

    def take(self, n: int, after: datetime) -> list[datetime]:
        """The first `n` occurrences strictly after `after`; fewer if fewer are left."""
        instants = self.instants_after(to_us(after))
        return [from_us(instant) for _, instant in zip(range(n), instants, strict=False)]

    def instants_after(self, instant: int) -> Iterator[int]:
        """Every occurrence after `instant`, in microseconds."""
        core, budget = self.core_at(instant), self.budget
        candidate = core.after_us(instant, budget)
        while candidate is not None:
            if budget is not None:
                budget.spend()
            yield candidate
            candidate = core.after_us(candidate, budget)

    def is_dense(self, instant: datetime) -> bool:
        """Whether it has more than one occurrence an hour, which `count` can tell."""
        return is_dense(self.core_at(to_us(instant)))

    def count(self, a: datetime, b: datetime) -> int | None:
        """Occurrences of a dense rule from `a` until before `b`, by arithmetic.

        None where they have to be visited, as near a change of the clock.
        """
        first = to_us(a)
        return count_in_span(self.core_at(first), first, to_us(b), self.budget)

    def describe(self) -> str:
        """An English sentence."""
        return describe(self.identity)

    def notes(self, after: datetime, count: int = 10) -> list[Note]:
        """Warnings about the rule itself, and about its next `count` occurrences.

        A bounded search finds them: of a rule that is costly to compute some may be left out.
        """
        instant = to_us(after)
        spec = anchored_spec(self.identity, instant)
        return notes_on(spec, self.core_at(instant), instant, count, self.budget)

    def excluding(self, other: "Recurrence") -> "Recurrence":
        """The occurrences of this one without those of `other`."""
        text = f"({self.text}) excluding ({other.text})"
        spec = RecurrenceSpec("excluding", text, members=(self.identity, other.identity))
        return value_of(spec)

    def on(self, calendar: CalendarSpec, roll: Roll = "skip") -> "Recurrence":
        """Only on the calendar's business days; others are left out, or moved as `roll` says.

        "following" moves to the next business day at the same time of day, "preceding" to the last
        one, and "modified" to the next one unless that lies in another month. Days are those of the
        rule's time zone. Raises BadRecurrence where it combines rules of several zones.
        """
        text = f"({self.text}) on business days"
        zones = zones_of(self.identity)
        if len(zones) > 1:
            raise BadRecurrence(
                f"its rules have the days of {' and '.join(sorted(zones))}; call .on for each",
                text,
            )
        tz = next(iter(zones), None)
        return value_of(
            RecurrenceSpec(
                "on", text, tz=tz, members=(self.identity,), calendar=calendar, roll=roll
            )
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recurrence) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.identity.kind} {self.text!r} {self.tz}>"


def value_of(spec: RecurrenceSpec, budget: Budget | None = None) -> Recurrence:
    """The value of a spec, not cached. Raises BadRecurrence for a rule that can never fire."""
    return Recurrence(spec, None if needs_anchor(spec) else core_of(spec, budget), budget)


def compile_spec(spec: RecurrenceSpec, budget: Budget | None = None) -> Recurrence:
    """The value of a stored spec; the most recently used are cached. Raises BadRecurrence."""
    places = place_among_few if len(spec.text) > SHORT_CHARS_MAX else place_among_many
    place = places(spec)
    if not place:
        place.append(value_of(spec, budget).within(None))
    return place[0] if budget is None else place[0].within(budget)


@lru_cache(maxsize=COMPILED_KEPT)
def place_among_many(_spec: RecurrenceSpec) -> list[Recurrence]:
    """The cache entry of this spec; empty until its value is made."""
    return []


@lru_cache(maxsize=LONG_COMPILED_KEPT)
def place_among_few(_spec: RecurrenceSpec) -> list[Recurrence]:
    return []


def union(*values: Recurrence) -> Recurrence:
    """Every occurrence of any of the values, once."""
    if not 1 <= len(values) <= MEMBERS_MAX:
        raise BadRecurrence(f"a union of {len(values)}; give 1 to {MEMBERS_MAX} recurrences")
    text = " and ".join(f"({value.text})" for value in values)
    return value_of(
        RecurrenceSpec("union", text, members=tuple(value.identity for value in values))
    )
