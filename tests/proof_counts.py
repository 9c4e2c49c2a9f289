"""What the proofs have done so far: each adds a line of counts to one file, and this sums them.

    python tests/proof_counts.py --of quick FILE     the sum on one line; 1 if one is below its minimum
    COMMAND | python tests/proof_counts.py --add simulation FILE      add what a simulation prints

The file is the one that `PROOF_COUNTS` names; without it nothing is written. A line is appended by
one write, so proofs of several processes share the file.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

COUNTERS: Final = ("histories", "kills", "restarts", "cuts", "partitions", "violations")
"""Seeded simulated runs; processes ended by SIGKILL; restarts of store and broker servers after a
crash; power cuts; episodes of a broken network; broken promises."""

MINIMA: Final = {
    "quick": {"histories": 50, "kills": 60, "restarts": 10, "cuts": 400, "partitions": 8},
    "full": {"histories": 2_000, "kills": 600, "restarts": 40, "cuts": 1_000, "partitions": 15},
}


class Counts:
    """What one proof counts; the keywords are names of `COUNTERS`."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()

    def add(self, **counts: int) -> None:
        unknown = counts.keys() - set(COUNTERS)
        assert not unknown, f"no such counter: {sorted(unknown)}"
        self.sums.update(counts)


@contextlib.contextmanager
def counting(proof: str, store: str = "") -> Iterator[Counts]:
    """Write down what the block counts when it ends; whatever it raises is a violation."""
    counts, began = Counts(), time.monotonic()
    try:
        yield counts
    except Exception:
        counts.add(violations=1)
        raise
    finally:
        write({"proof": proof, "store": store, "seconds": time.monotonic() - began, **counts.sums})


def write(line: dict[str, object]) -> None:
    path = os.environ.get("PROOF_COUNTS")
    if path:
        append(Path(path), line)


def append(path: Path, line: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write((json.dumps(line) + "\n").encode())


def total(path: Path) -> Counter[str]:
    sums: Counter[str] = Counter(dict.fromkeys(COUNTERS, 0))
    for line in read(path):
        sums.update({name: n for name, n in line.items() if name in COUNTERS})
    return sums


def read(path: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def said(text: str) -> dict[str, int]:
    """As `histories=2000 violations=0`. What it kills are no processes, so that does not count."""
    found = re.findall(r"\b(histories|violations)=(\d+)", text)
    return {name: int(number) for name, number in found}


def shortfalls(sums: Counter[str], minima: dict[str, int]) -> list[str]:
    """What keeps these sums from being a proof."""
    few = [
        f"{name}: {sums[name]:,} of at least {least:,}"
        for name, least in minima.items()
        if sums[name] < least
    ]
    return few + ([f"violations: {sums['violations']}"] if sums["violations"] else [])


def line_of(sums: Counter[str]) -> str:
    return " ".join(f"{name}={sums[name]}" for name in COUNTERS)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="proof_counts", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--of", choices=sorted(MINIMA), default="quick")
    parser.add_argument("--add", metavar="PROOF")
    request = parser.parse_args(words)
    if request.add:
        text = sys.stdin.read()
        sys.stdout.write(text)
        append(request.file, {"proof": request.add, "store": "", **said(text)})
        return 0
    sums = total(request.file)
    wrong = shortfalls(sums, MINIMA[request.of])
    sys.stdout.write("\n".join([line_of(sums), *(f"  {text}" for text in wrong), ""]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
