"""What goes wrong in one history, and how large it is: drawn from its seed, all of it printable."""

from datetime import timedelta
from typing import Any, Final

import msgspec

from onbeat.testing.simulation.chance import Chance

RATES: Final = (
    "errors",
    "lost_answers",
    "delays",
    "hangs",
    "partial_writes",
    "hints_lost",
    "hints_doubled",
    "messages_lost",
    "messages_doubled",
    "messages_late",
    "redeliveries",
    "handler_failures",
)
"""Chances per call, message or attempt."""

EXTRA_RATES: Final = ("late_answers",)
"""The same, but drawn from no seed: they keep the work that is left from being done in time."""

COUNTS: Final = (
    "crashes",
    "pauses",
    "stops",
    "outages",
    "read_only",
    "clock_steps",
    "store_clock_steps",
    "broker_outages",
)
"""How often it happens in a history."""


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One history. Spans are in seconds of virtual time.

    Each fault class is off, which is 0, or has a rate or a count. Faults happen from the start to
    `horizon`; then all heal, but for the process that `isolated` names by its number, which never
    reaches the store again. `serial` makes the store's verbs atomic; `broker` sends jobs over one.
    """

    horizon: float = 25.0
    isolated: int | None = None
    serial: bool = False
    broker: bool = False

    planners: int = 2
    workers: int = 2
    maintainers: int = 2
    clients: int = 3
    jobs: int = 12
    schedules: int = 2
    lease: float = 4.0
    concurrency: int = 4
    prefetch: int = 4
    latency: float = 0.003
    longest: float = 10.0
    limit: int = 0
    skew: float = 0.0
    drift: float = 0.0
    keep: float = 0.0

    errors: float = 0.0
    lost_answers: float = 0.0
    delays: float = 0.0
    hangs: float = 0.0
    partial_writes: float = 0.0
    hints_lost: float = 0.0
    hints_doubled: float = 0.0
    messages_lost: float = 0.0
    messages_doubled: float = 0.0
    messages_late: float = 0.0
    redeliveries: float = 0.0
    handler_failures: float = 0.0
    late_answers: float = 0.0

    crashes: int = 0
    pauses: int = 0
    stops: int = 0
    outages: int = 0
    read_only: int = 0
    clock_steps: int = 0
    store_clock_steps: int = 0
    broker_outages: int = 0

    @property
    def lease_span(self) -> timedelta:
        return timedelta(seconds=self.lease)

    @property
    def outage_max(self) -> float:
        """Some outages are longer than a lease."""
        return max(6.0, 2.5 * self.lease)

    @property
    def fault_classes(self) -> tuple[str, ...]:
        """The classes that are on."""
        return tuple(name for name in (*RATES, *EXTRA_RATES, *COUNTS) if getattr(self, name))

    def without(self, name: str) -> "SimulationOptions":
        return msgspec.structs.replace(self, **{name: 0})

    def show(self) -> str:
        """The options as one line of JSON; what is not named has its default."""
        return msgspec.json.encode(self).decode()


def read_options(text: str) -> SimulationOptions:
    """The options of a line of `show`. Raises `msgspec.ValidationError`."""
    return msgspec.json.decode(text, type=SimulationOptions)


def draw_options(seed: int, *, liveness: bool = False) -> SimulationOptions:
    """The options of a seed. Every class is on or off by a coin; rates are spread by magnitude.

    So is the horizon: many short histories meet more than few long ones in the same time.

    With `liveness` one process is cut off from the store for good, and the rest has to finish.
    """
    chance = Chance(f"options {seed}")
    drawn: dict[str, Any] = {name: draw_rate(chance) for name in RATES}
    drawn |= {name: draw_count(chance) for name in COUNTS}
    broker = chance.happens(0.3)
    planners, workers, maintainers = (2 + chance.below(2) for _ in range(3))
    everyone = planners + workers + maintainers
    return SimulationOptions(
        horizon=round(chance.spread(4.0, 30.0), 1),
        isolated=chance.below(everyone) if liveness else None,
        broker=broker,
        planners=planners,
        workers=workers,
        maintainers=maintainers,
        jobs=4 + chance.below(12),
        schedules=1 + chance.below(3),
        lease=round(chance.spread(2.0, 12.0), 1),
        concurrency=1 + chance.below(6),
        prefetch=chance.below(8),
        latency=round(chance.spread(0.0005, 0.05), 4),
        longest=round(chance.spread(0.05, 10.0), 2),
        limit=chance.below(3),
        skew=round(chance.spread(0.1, 3600.0), 1) if chance.happens(0.5) else 0.0,
        drift=round(chance.fraction() * 0.05, 3) if chance.happens(0.5) else 0.0,
        keep=round(chance.spread(2.0, 20.0), 1) if chance.happens(0.3) else 0.0,
        **drawn,
    )


def draw_rate(chance: Chance) -> float:
    return round(chance.spread(0.001, 0.1), 4) if chance.happens(0.5) else 0.0


def draw_count(chance: Chance) -> int:
    return 1 + chance.below(4) if chance.happens(0.5) else 0
