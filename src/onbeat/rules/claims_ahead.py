"""How many jobs a worker claims before it has slots for them, and which of these it gives back.

The round trip to the store takes longer than a short job, and a claim of many jobs costs the store
much less for each. Long work is left to other workers, and so is what a worker does not come to.
"""

from typing import Final

from onbeat.model.limits import CLAIM_MAX

AHEAD_SECONDS: Final = 0.1  # what a worker takes ahead ends within this time, at its pace
AHEAD_MAX: Final = 3_000  # more is no faster: 1,000 are claimed, 1,000 run, 1,000 are stored
SHORT_SECONDS: Final = 0.05  # attempts that take longer leave nothing to gain
LOOK_SECONDS: Final = 1.0
SMOOTHING: Final = 16
PACE_SMOOTHING: Final = 4


class ClaimsAhead:
    """The claims ahead of one worker with `concurrency` slots.

    `fixed` is a number set by hand; without it, a worker takes as many jobs ahead as it has slots,
    or as many as it ends in `AHEAD_SECONDS`. `now` is in seconds of a monotonic clock.
    """

    __slots__ = (
        "begun",
        "begun_before",
        "concurrency",
        "fixed",
        "looked_at",
        "mean_duration",
        "pace",
        "since",
    )

    def __init__(self, concurrency: int, fixed: int | None) -> None:
        self.concurrency = concurrency
        self.fixed = fixed
        self.mean_duration = SHORT_SECONDS  # seconds, of the last attempts
        self.pace = 0.0  # attempts that end in a second, while there is work
        self.since = 0.0
        self.begun = 0
        self.begun_before = 0
        self.looked_at: float | None = None

    @property
    def most(self) -> int:
        """How many jobs may wait in the worker for a slot."""
        if self.mean_duration >= SHORT_SECONDS:
            return 0
        if self.fixed is not None:
            return self.fixed
        return max(self.concurrency, min(AHEAD_MAX, int(self.pace * AHEAD_SECONDS)))

    def is_stocked(self, room: int, waiting: int) -> bool:
        """Whether enough jobs wait for a slot, and a claim would bring few: `room`.

        Without this a worker would claim a job whenever one ends.
        """
        return waiting > 0 and room < CLAIM_MAX and 2 * room < self.most

    def note_work(self, now: float) -> None:
        """The worker has work again."""
        self.since = now

    def note_duration(self, seconds: float) -> None:
        self.mean_duration += (seconds - self.mean_duration) / SMOOTHING

    def note_ended(self, count: int, now: float) -> None:
        """So many attempts have ended and are stored since the last call."""
        pace = count / max(now - self.since, 1e-6)
        self.pace = pace if self.pace == 0.0 else self.pace + (pace - self.pace) / PACE_SMOOTHING
        self.since = now

    def surplus(self, waiting: int, now: float) -> int:
        """How many of the waiting jobs to give back: the last ones. Looks once a second.

        All of them if no attempt has begun since the last look, since then all slots are taken by
        long work; and if a second's work at the present pace would leave some, all but what is
        taken ahead now.
        """
        if not waiting:
            self.looked_at = None
            return 0
        if self.looked_at is not None and now - self.looked_at < LOOK_SECONDS:
            return 0
        is_first = self.looked_at is None
        is_stuck = self.begun == self.begun_before
        self.looked_at, self.begun_before = now, self.begun
        if is_first:
            return 0
        if is_stuck:
            self.mean_duration = max(self.mean_duration, SHORT_SECONDS)
            return waiting
        if self.fixed is not None or waiting <= max(self.concurrency, self.pace):
            return 0
        return waiting - self.most
