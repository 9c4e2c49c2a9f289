"""When the table of live jobs is worth a vacuum, on a server that keeps dead rows until then.

Claims read past the index entries of dead rows. A server that looks at its tables once a minute
lets a busy queue gather a million of them, which doubles its work for each job.
"""

from typing import Final, NamedTuple

LOOK_SECONDS: Final = 5.0
NO_NEED_SECONDS: Final = 3_600.0
"""The pause before a store is asked again that does without."""
DEAD_MIN: Final = 100_000
DEAD_SHARE: Final = 0.1  # of the live rows, since a vacuum reads the indexes of all of them
GROWTH: Final = 2  # times what the last vacuum left, which somebody's old snapshot still sees
REST: Final = 20  # times the duration of the last vacuum: at most 5 % of the time


class RowCounts(NamedTuple):
    """Of the table of live jobs, by the server's statistics."""

    dead: int
    live: int
    may_vacuum: bool = True


class DeadRows:
    """What one process remembers of its vacuums. `now` is in seconds of a monotonic clock."""

    __slots__ = ("left", "rest_until")

    def __init__(self) -> None:
        self.left = 0
        self.rest_until = 0.0

    def is_vacuum_due(self, counts: RowCounts, now: float) -> bool:
        self.left = min(self.left, counts.dead)  # others vacuum as well
        enough = max(DEAD_MIN + DEAD_SHARE * counts.live, GROWTH * self.left)
        return counts.may_vacuum and counts.dead >= enough and now >= self.rest_until

    def note_vacuum(self, left: RowCounts, began: float, now: float) -> None:
        self.left = left.dead
        self.rest_until = now + REST * (now - began)
