"""The value that everybody holds: a recurrence, asked for instants, sentences and warnings."""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.compiling import MEMBERS_MAX, anchored_spec, core_of, needs_anchor
from onbeat.recurrence.describe import describe
from onbeat.recurrence.instants import from_us, to_us
from onbeat.recurrence.notes import Note, notes_on
from onbeat.recurrence.sets import Core
from onbeat.recurrence.spec import CalendarSpec, RecurrenceSpec, Roll

COMPILED_KEPT = 50_000
"""Recurrences kept ready, at some 3 KB each."""


class Recurrence:
    """A rule that yields instants. Immutable; equal to another with an equal spec.

    A rule without a start (`needs_anchor(value.spec())`) is taken as anchored at the instant it
    is asked about, whole second, so that a preview shows what it would do if created then.
    """

    __slots__ = ("core", "identity")

    def __init__(self, spec: RecurrenceSpec, core: Core | None) -> None:
        self.identity = spec
        self.core = core

    def spec(self) -> RecurrenceSpec:
        """What a store keeps; `compile_spec` makes the value from it again."""
        return self.identity

    @property
    def text(self) -> str:
        """Canonical text; reading it again, with the same `tz`, gives an equal value."""
        return self.identity.text

    @property
    def tz(self) -> str:
        """Name of the time zone in which the rule is read."""
        return self.identity.tz or "UTC"

    def after_us(self, instant: int) -> int | None:
        """`after` in integer microseconds since 1970 UTC."""
        core = self.core or self.core_at(instant)
        return core.after_us(instant)

    def before_us(self, instant: int) -> int | None:
        """`before` in integer microseconds since 1970 UTC."""
        core = self.core or self.core_at(instant)
        return core.before_us(instant)

    def core_at(self, instant: int) -> Core:
        """What answers when asked about `instant`: anchored there, if the rule has no start."""
        return self.core or core_of(anchored_spec(self.identity, instant))

    def after(self, instant: datetime) -> datetime | None:
        """The first occurrence strictly after `instant`, in UTC; None when nothing is left."""
        found = self.after_us(to_us(instant))
        return None if found is None else from_us(found)

    def before(self, instant: datetime) -> datetime | None:
        """The last occurrence strictly before `instant`, in UTC; None when there is none."""
        found = self.before_us(to_us(instant))
        return None if found is None else from_us(found)

    def between(self, a: datetime, b: datetime, *, limit: int | None = None) -> list[datetime]:
        """Occurrences after `a` and before `b`, both exclusive; at most `limit`, the first ones."""
        end = to_us(b)
        found: list[datetime] = []
        for instant in self.instants_after(to_us(a)):
            if instant >= end or (limit is not None and len(found) >= limit):
                break
            found.append(from_us(instant))
        return found

    def take(self, n: int, after: datetime) -> list[datetime]:
        """The first `n` occurrences strictly after `after`; fewer when fewer are left."""
        instants = self.instants_after(to_us(after))
        return [from_us(instant) for _, instant in zip(range(n), instants, strict=False)]

    def instants_after(self, instant: int) -> Iterator[int]:
        """Every occurrence after `instant`, in microseconds."""
        core = self.core_at(instant)
        found = core.after_us(instant)
        while found is not None:
            yield found
            found = core.after_us(found)

    def describe(self) -> str:
        """An English sentence."""
        return describe(self.identity)

    def notes(self, after: datetime, count: int = 10) -> list[Note]:
        """What may surprise: in the rule itself, and in its next `count` occurrences."""
        instant = to_us(after)
        spec = anchored_spec(self.identity, instant)
        return notes_on(spec, self.core_at(instant), instant, count)

    def excluding(self, other: "Recurrence") -> "Recurrence":
        """The occurrences of this one that are none of `other`'s."""
        text = f"({self.text}) excluding ({other.text})"
        spec = RecurrenceSpec("excluding", text, members=(self.identity, other.identity))
        return value_of(spec)

    def on(self, calendar: CalendarSpec, roll: Roll = "skip") -> "Recurrence":
        """Only on the calendar's business days; others are left out, or moved as `roll` says.

        "following" and "preceding" move to the next or last business day at the same time of
        day, "modified" to the next one unless that lies in another month.
        """
        text = f"({self.text}) on business days"
        tz = self.identity.tz
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


def value_of(spec: RecurrenceSpec) -> Recurrence:
    """The value of a spec. Raises BadRecurrence for one that can never fire."""
    return Recurrence(spec, None if needs_anchor(spec) else core_of(spec))


@lru_cache(maxsize=COMPILED_KEPT)
def compile_spec(spec: RecurrenceSpec) -> Recurrence:
    """The value of a stored spec; the ones used last are kept. Raises BadRecurrence."""
    return value_of(spec)


def union(*values: Recurrence) -> Recurrence:
    """Every occurrence of any of the values, once."""
    if not 1 <= len(values) <= MEMBERS_MAX:
        raise BadRecurrence(f"a union of {len(values)}; give 1 to {MEMBERS_MAX} recurrences")
    text = " and ".join(f"({value.text})" for value in values)
    return value_of(
        RecurrenceSpec("union", text, members=tuple(value.identity for value in values))
    )
