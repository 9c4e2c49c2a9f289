"""Whether a process grows: what it holds at the end of its life, against what it held at first."""

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

MIB: Final = 1 << 20
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
LOOKS_MIN: Final = 8  # two in each quarter


class Vitals(NamedTuple):
    """What one process holds. `connections` are its sockets, `tasks` those of its event loop."""

    memory: int
    descriptors: int
    connections: int
    threads: int
    tasks: int

    def line(self) -> str:
        counts = " ".join(f"{name}={value}" for name, value in self._asdict().items())
        return counts.replace(f"memory={self.memory}", f"memory={self.memory / MIB:.1f}MiB")


MORE_MAX: Final = Vitals(memory=20 * MIB, descriptors=5, connections=5, threads=5, tasks=5)
"""By how much the last quarter of a life may exceed the first, beside a tenth of the memory."""


def vitals() -> Vitals:
    """Those of this process; to be called in its event loop."""
    places = [place_of(descriptor) for descriptor in Path("/proc/self/fd").iterdir()]
    return Vitals(
        memory=int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES,
        descriptors=len(places),
        connections=sum(place.startswith("socket:") for place in places),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
    )


def place_of(descriptor: Path) -> str:
    """Where it leads; that of the listing itself is closed by now."""
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


def growth(looks: Sequence[Vitals]) -> list[str]:
    """What has grown beyond its bound; nothing where there are too few looks to tell."""
    if len(looks) < LOOKS_MIN:
        return []
    first, last = middle(looks[: len(looks) // 4]), middle(looks[-(len(looks) // 4) :])
    bounds = [float(before + more) for before, more in zip(first, MORE_MAX, strict=True)]
    bounds[0] += first.memory / 10
    return [
        f"{name} grew from {before:.0f} to {after:.0f}, of at most {bound:.0f}"
        for name, before, after, bound in zip(Vitals._fields, first, last, bounds, strict=True)
        if after > bound
    ]


def middle(looks: Sequence[Vitals]) -> Vitals:
    """The median of each: one look may meet a request that is answered at that moment."""
    return Vitals(*(int(median(values)) for values in zip(*looks, strict=True)))
