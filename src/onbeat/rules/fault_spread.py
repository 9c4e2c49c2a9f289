"""What the jobs of a fault have in common: one queue, one worker, one label?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from onbeat.model.fault import Share, Spread
from onbeat.model.job import Job

SHARES_MAX: Final = 5
"""How many names of each kind are told, the most frequent first."""


def spread_of(jobs: Sequence[Job], workers: Sequence[str]) -> Spread:
    """`workers` has one name for each attempt that was looked at."""
    return Spread(
        jobs=len(jobs),
        attempted=len(workers),
        by_queue=shares(job.queue for job in jobs),
        by_worker=shares(workers),
        by_label=shares(f"{key}:{value}" for job in jobs for key, value in job.labels.items()),
    )


def shares(names: Iterable[str]) -> tuple[Share, ...]:
    """The most frequent first; those of equal number by name."""
    counted = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    return tuple(Share(name, count) for name, count in counted[:SHARES_MAX])
