"""`python -m onbeat.testing.simulation`: run histories, or one again, and make it small.

Exits with 1 where a history broke an invariant.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Final

from onbeat.testing.simulation.options import SimulationOptions, draw_options, read_options
from onbeat.testing.simulation.revision import revision
from onbeat.testing.simulation.swarm import (
    SimulatedHistory,
    SimulationReport,
    run_histories,
    run_history,
    shrink,
)

AGAIN: Final = "python -m onbeat.testing.simulation"
SHOWN_FAILURES: Final = 3
CHUNK: Final = 25
VIOLATIONS_SHOWN: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    if chosen.seed is not None:
        return replay(chosen)
    seeds = (
        read_seeds(chosen.file) if chosen.file else range(chosen.first, chosen.first + chosen.seeds)
    )
    if chosen.traces:
        return show_traces(seeds, chosen.processes)
    report = run_parallel(seeds, chosen.processes, liveness=chosen.liveness)
    for history in report.failures[:SHOWN_FAILURES]:
        say(describe(history))
    say(report.line())
    return 1 if report.failures else 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m onbeat.testing.simulation",
        description="Runs simulated histories of a whole fleet, with faults drawn from seeds.",
    )
    result.add_argument("--seeds", type=int, default=100, help="how many histories (100)")
    result.add_argument("--first", type=int, default=0, help="the first seed (0)")
    result.add_argument("--file", help="a file with one seed a line, before any other word")
    result.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    result.add_argument("--liveness", action="store_true", help="one process is cut off for good")
    result.add_argument("--traces", action="store_true", help="print the hash of each history")
    result.add_argument("--seed", type=int, help="run one history, and print its last events")
    result.add_argument("--options", type=read_options, help="of that history, as JSON")
    result.add_argument("--shrink", action="store_true", help="make a failing history small")
    return result


def show_traces(seeds: Sequence[int], processes: int) -> int:
    """One line for each seed, to be compared with those of another interpreter or machine."""
    with ProcessPoolExecutor(processes) as pool:
        for seed, trace in zip(seeds, pool.map(trace_of, seeds, chunksize=CHUNK), strict=True):
            say(f"{seed} {trace}")
    return 0


def trace_of(seed: int) -> str:
    return run_history(seed).trace_hash


def read_seeds(path: str) -> list[int]:
    """The seeds of a file: one a line, with what was found behind it; # begins a comment."""
    words = [line.split("#")[0].split() for line in Path(path).read_text().splitlines()]
    return [int(each[0]) for each in words if each]


def replay(chosen: argparse.Namespace) -> int:
    options: SimulationOptions = chosen.options or draw_options(
        chosen.seed, liveness=chosen.liveness
    )
    history = run_history(chosen.seed, options)
    if history.violations and chosen.shrink:
        history = shrink(history)
    say(describe(history))
    return 1 if history.violations else 0


def describe(history: SimulatedHistory) -> str:
    """A history with what is needed to run it again."""
    source = revision()
    of = "" if source is None else f" revision={source}"
    lines = [
        *history.last_events,
        f"seed={history.seed} trace={history.trace_hash} seconds={history.seconds:.1f}{of}",
        f"options={history.options.show()}",
        *(f"  {violation}" for violation in history.violations[:VIOLATIONS_SHOWN]),
        f"again: {AGAIN} --seed {history.seed} --options '{history.options.show()}'",
    ]
    return "\n".join(lines)


def run_parallel(
    seeds: Sequence[int], processes: int, *, liveness: bool = False
) -> SimulationReport:
    """The histories of the seeds, in several processes; their times add up to that of the whole."""
    began = perf_counter()
    total = SimulationReport()
    run = partial(run_chunk, liveness=liveness)
    if processes <= 1:
        parts = map(run, chunks(seeds))
        for part in parts:
            merge(total, part)
    else:
        with ProcessPoolExecutor(processes) as pool:
            for part in pool.map(run, chunks(seeds)):
                merge(total, part)
    total.real_seconds = perf_counter() - began
    return total


def run_chunk(seeds: Sequence[int], *, liveness: bool = False) -> SimulationReport:
    return run_histories(seeds, options_of=partial(draw_options, liveness=liveness))


def chunks(seeds: Sequence[int]) -> list[list[int]]:
    rest = iter(seeds)
    return list(iter(lambda: list(islice(rest, CHUNK)), []))


def merge(total: SimulationReport, part: SimulationReport) -> None:
    total.histories += part.histories
    total.virtual_seconds += part.virtual_seconds
    total.counts.update(part.counts)
    total.failures += part.failures


if __name__ == "__main__":
    sys.exit(main())
