"""Chaos for hours in chunks of minutes: after each all is healed, ends and is judged.

Each chunk adds a line to a file, so a soak that was ended goes on with the next seed when it is
given the same file, and hours add up over days and machines. Beside the fleet under attack a
service on a store of its own lives through all chunks, and may not grow.
"""

import asyncio
import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from chaos.run import Outcome, chaos
from chaos.verdict import table
from crash.brokers import KINDS
from power.lives import cut_power
from proof_counts import COUNTERS, counting, read
from soak.resident import Resident, residing

STORES: Final = ("sqlite", "postgres", "mysql")
BROKERS: Final[Sequence[str | None]] = (None, *sorted(KINDS))
CUTS: Final = 200  # of the power of a SQLite store, in each of its chunks

Attack = Callable[[str, float, int, str | None], Outcome]


class Soak:
    def __init__(self, file: Path, seed: int, chunk: float, attack: Attack | None = None) -> None:
        self.file = file
        self.seed = seed
        self.chunk = chunk  # seconds
        self.attack = attack or attacked
        self.residents: dict[str, Resident] = {}
        os.environ["PROOF_COUNTS"] = str(file.absolute())

    def seconds(self, store: str) -> float:
        """For how long the store was attacked, in this run and those before."""
        return sum(line["seconds"] for line in read(self.file) if line["store"] == store)

    def run_chunk(self, store: str) -> str:
        """Returns what was found; raises `AssertionError` on a violation, with its seed."""
        number = sum(line["store"] == store for line in read(self.file))
        seed = self.seed + number
        over = BROKERS[number % len(BROKERS)]
        with counting("soak", store) as counts:
            if store == "sqlite":
                counts.add(cuts=cut(seed))
            resident = self.residents.get(store)
            with resident.working() if resident is not None else contextlib.nullcontext():
                outcome = self.attack(store, self.chunk, seed, over)
            counts.add(**outcome.counts)
            faults = dict(sorted(Counter(outcome.faults).items()))
            text = f"{store} seed {seed} broker {over}: {faults}\n{table(store, outcome.verdict)}"
            assert outcome.is_good, f"{text}\n{outcome.refusals[:5]}"
            if resident is not None:
                text = f"{text}\n{resident.verdict()}"
        return text

    @contextlib.contextmanager
    def with_residents(self, stores: Sequence[str]) -> Iterator[None]:
        """A service on each of the stores works while the block lasts."""
        with contextlib.ExitStack() as stack:
            for store in stores:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="onbeat-soak-"))
                self.residents[store] = stack.enter_context(residing(store, Path(folder)))
            yield
            self.residents = {}

    def sums(self) -> str:
        """One line for each store."""
        lines = []
        for store in STORES:
            sums: Counter[str] = Counter()
            for line in read(self.file):
                if line["store"] == store:
                    sums.update({name: line.get(name, 0) for name in COUNTERS})
            if seconds := self.seconds(store):
                counted = " ".join(f"{name}={sums[name]}" for name in COUNTERS)
                lines.append(f"{store} hours={seconds / 3600:.2f} {counted}")
        return "\n".join(lines)


def attacked(store: str, seconds: float, seed: int, over: str | None) -> Outcome:
    return asyncio.run(chaos(store, seconds, seed, over=over))


def cut(seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="onbeat-power-") as folder:
        sums = asyncio.run(cut_power(Path(folder), CUTS, seed))
    assert not sums.lost, f"seed {seed}: a power cut lost {sums.lost[:5]}"
    return sums.cuts
