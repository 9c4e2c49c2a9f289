"""Clocks and random numbers of simulated processes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from onbeat.app.system import uuid_texts
from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.loop import SimulationLoop

EPOCH: Final = datetime(2031, 3, 3, 7, tzinfo=UTC)
"""The instant at which the simulation begins, by a clock that is right."""


class ProcessClock:
    """A machine's clock: `skew` seconds ahead, and `drift` faster, than the simulation's.

    Its wall clock may be stepped; its monotonic clock may not.
    """

    def __init__(self, loop: SimulationLoop, skew: float = 0.0, drift: float = 0.0) -> None:
        self.loop = loop
        self.skew = skew
        self.rate = 1.0 + drift

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.loop.at * self.rate + self.skew)

    def monotonic(self) -> float:
        return self.loop.at * self.rate

    def step(self, seconds: float) -> None:
        self.skew += seconds


class ProcessRandomness:
    """Ids like those of `SystemRandomness`, and fractions, from a seed."""

    def __init__(self, seed: str, clock: ProcessClock) -> None:
        self.chance = Chance(seed)
        self.clock = clock
        self.last = 0

    def ids(self, count: int) -> Sequence[str]:
        milliseconds = int(self.clock.now().timestamp() * 1000)
        if milliseconds > self.last >> 74:
            self.last = milliseconds << 74 | self.chance.bits(73)
        first = self.last + 1
        self.last += count
        return uuid_texts(first, count)

    def fraction(self) -> float:
        return self.chance.fraction()
