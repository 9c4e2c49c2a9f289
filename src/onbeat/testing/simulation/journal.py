"""What happened in a history: its events in their order, and what clients and handlers saw."""

import math
from collections import Counter
from datetime import datetime
from hashlib import blake2b
from typing import Final

import msgspec

SHOWN: Final = 200
"""The events that a failure shows."""

Note = tuple[float, str, str, str]
"""An event: when it happened, in seconds, to whom, what, and more about it."""


class Attempted(msgspec.Struct):
    """One run of a handler, as it noted it itself. `ended` is None where it never came to that.

    `at` and `ended` are seconds of the simulation; `store_time` is the time of the store's clock at
    the start.
    """

    job: str
    token: int
    process: str
    at: float
    store_time: datetime
    due_at: datetime
    ended: float | None = None
    how: str | None = None


class Accepted(msgspec.Struct):
    """A request that a client sent. `job` is None while no answer has come."""

    key: str
    unique: str | None
    job: str | None = None
    created: bool = True


class Violation(msgspec.Struct, frozen=True):
    """An invariant that does not hold, with its number in `INVARIANTS`, and where."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


class Journal:
    """The events in their order, and what clients and handlers saw."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.attempts: list[Attempted] = []
        self.requests: dict[str, Accepted] = {}
        self.cancelled: dict[str, tuple[float, int]] = {}
        self.retried: set[str] = set()
        self.lives: dict[str, float] = {}
        self.halts: dict[str, list[tuple[float, float]]] = {}
        self.pauses: list[tuple[str, float, float | None]] = []
        self.schedules: dict[str, int] = {}
        self.edited: set[str] = set()
        self.store_steps = 0.0
        """Seconds by which the store's clock was set in all, forward and back."""
        self.violations: list[Violation] = []

    def note(self, at: float, who: str, what: str, about: str = "") -> None:
        self.notes.append((at, who, what, about))

    @property
    def last(self) -> tuple[str, ...]:
        """The last events, a line for each."""
        return tuple(
            f"{at:10.4f} {who:14} {what} {about}" for at, who, what, about in self.notes[-SHOWN:]
        )

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of event happened."""
        return dict(Counter(what for _, _, what, _ in self.notes))

    @property
    def trace_hash(self) -> str:
        """The same for two histories whose events are, with their times to the last bit."""
        return blake2b(msgspec.msgpack.encode(self.notes), digest_size=16).hexdigest()

    def halt(self, worker: str, since: float, until: float = math.inf) -> None:
        """The process of this worker did not run, or did not want to, for that time."""
        self.halts.setdefault(worker, []).append((since, until))

    def may_plan_again(self, schedule: str, keep: float) -> bool:
        """Whether an edit may plan an instant a second time.

        It plans from its clock on, and what was decided for later instants keeps it from doubling
        them, unless that was pruned: `keep` seconds after the instant, by another clock.
        """
        return 0 < keep < self.store_steps and schedule in self.edited

    def violate(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant, what))
