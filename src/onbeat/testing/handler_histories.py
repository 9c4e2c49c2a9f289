"""Runs the handlers of a program through many histories with crashes, and counts their effects."""

import inspect
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from onbeat.app.call import Span
from onbeat.app.trial_faults import Mishap
from onbeat.app.virtual_clock import VirtualRun

if TYPE_CHECKING:
    from onbeat.app.client import Onbeat

AT: Final = "2026-01-01T00:00:00Z"
SHOWN: Final = 10

Scenario = Callable[[VirtualRun], Awaitable[None] | None]
"""Sends the jobs of one history, and says with `Effects.expect` which effects they should have."""


class Effects:
    """The effects of handlers outside the store, such as charges: which were expected, and made.

    A stand-in of the outside system notes them. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: Counter[Hashable] = Counter()
        self._made: Counter[Hashable] = Counter()

    def expect(self, effect: Hashable, times: int = 1) -> None:
        with self._lock:
            self._expected[effect] += times

    def note(self, effect: Hashable) -> None:
        """The effect has been made, once more."""
        with self._lock:
            self._made[effect] += 1

    def count(self, effect: Hashable) -> int:
        return self._made[effect]

    def clear(self) -> None:
        with self._lock:
            self._expected.clear()
            self._made.clear()

    def differences(self) -> list[tuple[Hashable, int, int]]:
        """Each effect that was not made as often as expected: with both numbers."""
        names = dict.fromkeys((*self._expected, *self._made))
        return [
            (name, self._expected[name], self._made[name])
            for name in names
            if self._expected[name] != self._made[name]
        ]


class EffectMismatch(msgspec.Struct, frozen=True):
    """An effect that was made more often or less often than it should have been, in one history.

    `mishaps` are those of all jobs of the history, in their order.
    """

    seed: int
    effect: Hashable
    expected: int
    made: int
    mishaps: tuple[Mishap, ...]

    def __str__(self) -> str:
        happened = ", ".join(self.mishaps) or "nothing"
        return (
            f"seed {self.seed}: {self.effect} was made {self.made} times instead of "
            f"{self.expected}, after {happened}"
        )


class CrashReport(msgspec.Struct):
    """Many histories. `mishaps` counts what happened in all of them."""

    histories: int = 0
    mishaps: Counter[Mishap] = msgspec.field(default_factory=Counter[Mishap])
    found: list[EffectMismatch] = msgspec.field(default_factory=list[EffectMismatch])

    @property
    def doubled(self) -> list[EffectMismatch]:
        return [one for one in self.found if one.made > one.expected]

    @property
    def lost(self) -> list[EffectMismatch]:
        return [one for one in self.found if one.made < one.expected]

    def assert_as_expected(self) -> None:
        """Raises AssertionError, with the seeds, unless each effect was made as often as wanted."""
        lines = "\n".join(map(str, self.found[:SHOWN]))
        assert not self.found, f"{len(self.found)} in {self.histories} histories:\n{lines}"


def run_with_crashes(
    beat: "Onbeat",
    scenario: Scenario,
    effects: Effects | None = None,
    *,
    histories: int = 100,
    first_seed: int = 0,
    at: str = AT,
    lasts: Span = "1d",
    store: str = "memory://",
) -> CrashReport:
    """Run `scenario` in so many trials of the program, each with mishaps from a seed of its own.

    After each, `effects` are compared, if given, and emptied before the next.
    Workers die before and after handlers run and after outcomes are stored, the store refuses
    outcomes and loses answers, and targets seem to time out. Each trial lasts `lasts` of virtual
    time. A seed gives the same mishaps again: `first_seed=SEED, histories=1`. A handler is not
    stopped in its midst: it runs to its end, or not at all.
    """
    report, effects = CrashReport(), effects or Effects()
    for seed in range(first_seed, first_seed + histories):
        effects.clear()
        with beat.testing(at, store=store) as trial:
            trial.faults(
                seed, crashes=0.35, lost_answers=0.05, store_errors=0.05, target_timeouts=0.1
            )
            run_scenario(beat, scenario, trial)
            trial.advance(lasts)
            happened = tuple(mishap for _, mishap in trial.store.happened)
        report.histories += 1
        report.mishaps.update(happened)
        report.found += [
            EffectMismatch(seed, effect, expected, made, happened)
            for effect, expected, made in effects.differences()
        ]
    return report


def run_scenario(beat: "Onbeat", scenario: Scenario, trial: VirtualRun) -> None:
    sent: Any = scenario(trial)
    if inspect.isawaitable(sent):
        beat.backend.wait_for(finished(sent))


async def finished(sent: Awaitable[None]) -> None:
    await sent


__all__ = ["CrashReport", "EffectMismatch", "Effects", "run_with_crashes"]
