"""Runs histories: one for a seed, many in a row, and small ones out of large ones."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.testing.simulation.chance import Chance
from onbeat.testing.simulation.invariants import judge
from onbeat.testing.simulation.journal import Journal, Violation
from onbeat.testing.simulation.loop import Stuck, open_loop
from onbeat.testing.simulation.model_store import ModelStore
from onbeat.testing.simulation.options import SimulationOptions, draw_options
from onbeat.testing.simulation.world import MakeStore, World

QUIET_MAX: Final = 400.0
"""Virtual seconds without faults after which all jobs have ended."""

HORIZON_MIN: Final = 2.0


class SimulatedHistory(msgspec.Struct, frozen=True):
    """One history and what was found in it. `trace_hash` is the same whenever it is run again."""

    seed: int
    options: SimulationOptions
    trace_hash: str
    violations: tuple[Violation, ...]
    last_events: tuple[str, ...]
    seconds: float
    counts: dict[str, int]

    @property
    def broken(self) -> frozenset[str]:
        """The invariants that do not hold."""
        return frozenset(violation.invariant for violation in self.violations)


class SimulationReport(msgspec.Struct):
    """Many histories. `failures` are those with violations."""

    histories: int = 0
    virtual_seconds: float = 0.0
    real_seconds: float = 0.0
    failures: list[SimulatedHistory] = msgspec.field(default_factory=list[SimulatedHistory])
    counts: Counter[str] = msgspec.field(default_factory=Counter[str])

    @property
    def violations(self) -> int:
        return sum(len(each.violations) for each in self.failures)

    def add(self, history: SimulatedHistory) -> None:
        self.histories += 1
        self.virtual_seconds += history.seconds
        self.counts.update(history.counts)
        if history.violations:
            self.failures.append(history)

    def line(self) -> str:
        counted = " ".join(f"{name}={self.counts[word]}" for name, word in COUNTED.items())
        rate = self.histories / self.real_seconds if self.real_seconds else 0.0
        return (
            f"histories={self.histories} violations={self.violations} {counted} "
            f"virtual={self.virtual_seconds:.0f}s real={self.real_seconds:.1f}s "
            f"({rate:.1f} histories/s)"
        )


COUNTED: Final = {
    "attempts": "begins",
    "kills": "is killed",
    "pauses": "is paused",
    "stops": "is stopped",
    "outages": "the store is down",
    "read_only": "the store refuses writes",
}


def run_history(
    seed: int, options: SimulationOptions | None = None, make_store: MakeStore = ModelStore
) -> SimulatedHistory:
    """Run one history. The same arguments give the same history, event for event."""
    chosen = draw_options(seed) if options is None else options
    journal = Journal()
    loop = open_loop(Chance(f"loop {seed}"))
    was_enabled = gc.isenabled()
    gc.disable()  # a collection would end coroutines of killed processes at some moment
    try:
        world = World(seed, chosen, journal, loop, make_store)
        try:
            loop.run_until_complete(world.run(QUIET_MAX))
        except Stuck as error:
            journal.violate("stuck", str(error))
        for unheard in loop.errors:
            journal.violate("engine", repr(unheard))
        judge(chosen, journal, world.store.tables, world.store_clock.now())
        seconds = loop.at
        loop.close()
    finally:
        if was_enabled:
            gc.enable()
    return SimulatedHistory(
        seed=seed,
        options=chosen,
        trace_hash=journal.trace_hash,
        violations=tuple(journal.violations),
        last_events=journal.last if journal.violations else (),
        seconds=seconds,
        counts=journal.counts,
    )


def run_histories(
    seeds: Iterable[int],
    *,
    options_of: Callable[[int], SimulationOptions] = draw_options,
    make_store: MakeStore = ModelStore,
    failures_max: int | None = None,
    on_failure: Callable[[SimulatedHistory], None] | None = None,
) -> SimulationReport:
    """Run one history for each seed, in this process.

    Stops after `failures_max` histories with violations, if given. `make_store` builds the model
    store of each: a subclass with a mistake shows whether it would be found.
    """
    report, began = SimulationReport(), time.perf_counter()
    for history in histories(seeds, options_of, make_store):
        report.add(history)
        if history.violations and on_failure is not None:
            on_failure(history)
        if failures_max is not None and len(report.failures) >= failures_max:
            break
    report.real_seconds = time.perf_counter() - began
    return report


def histories(
    seeds: Iterable[int], options_of: Callable[[int], SimulationOptions], make_store: MakeStore
) -> Iterator[SimulatedHistory]:
    gc.freeze()  # a collection looks at what histories leave, and not at all modules each time
    try:
        for seed in seeds:
            yield run_history(seed, options_of(seed), make_store)
            gc.collect()
    finally:
        gc.unfreeze()


def shrink(history: SimulatedHistory, make_store: MakeStore = ModelStore) -> SimulatedHistory:
    """A smaller history with a violation of one of the same invariants.

    Turns fault classes off one by one, then makes the horizon, the fleet and the work smaller.
    """
    found = history
    for smaller in (without_faults, with_less):
        found = smallest(found, smaller, history.broken, make_store)
    return found


def smallest(
    found: SimulatedHistory,
    smaller: Callable[[SimulationOptions], Sequence[SimulationOptions]],
    broken: frozenset[str],
    make_store: MakeStore,
) -> SimulatedHistory:
    while True:
        for options in smaller(found.options):
            tried = run_history(found.seed, options, make_store)
            if tried.broken & broken:
                found = tried
                break
        else:
            return found


def without_faults(options: SimulationOptions) -> Sequence[SimulationOptions]:
    return [options.without(name) for name in options.fault_classes]


def with_less(options: SimulationOptions) -> Sequence[SimulationOptions]:
    tried: list[SimulationOptions] = []
    for name in ("planners", "workers", "maintainers", "clients", "jobs", "schedules"):
        count = getattr(options, name)
        if count > 1:
            tried.append(replace(options, **{name: count // 2}))
    if options.horizon / 2 > HORIZON_MIN:
        tried.append(replace(options, horizon=round(options.horizon / 2, 1)))
    tried += [options.without(name) for name in ("skew", "drift", "keep") if getattr(options, name)]
    return tried
