"""Retry policies: how long a job waits after a failed attempt, and how often it is tried."""

from datetime import timedelta
from enum import StrEnum

import msgspec

from onbeat.model.limits import LOST_MAX


class Backoff(StrEnum):
    """How delays grow: `delay` times 2^(n-1), `delay` times n, or constant."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """`attempts_max` counts all attempts, the first included.

    `lost_max` is how many workers may die while they run the job before it fails as poison.
    """

    attempts_max: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    delay: timedelta = timedelta(seconds=1)
    delay_max: timedelta = timedelta(hours=1)
    jitter: bool = True
    lost_max: int = LOST_MAX

    def delay_after(self, failures: int, chance: float) -> timedelta:
        """The delay after the `failures`-th failure (from 1).

        With jitter the delay is `chance` (from 0 to below 1) of the full delay, so that jobs that
        failed together do not retry together ("full jitter", AWS Architecture Blog, 2015).
        """
        full = min(self.full_delay_after(failures), self.delay_max)
        return full * chance if self.jitter else full

    def full_delay_after(self, failures: int) -> timedelta:
        match self.backoff:
            case Backoff.EXPONENTIAL:
                delay, times = min(self.delay, self.delay_max), 1 << (failures - 1)
                # Multiplying past the bound could overflow timedelta.
                is_past = delay > timedelta() and times > self.delay_max // delay
                return self.delay_max if is_past else delay * times
            case Backoff.LINEAR:
                return min(self.delay, self.delay_max) * failures
            case Backoff.FIXED:
                return self.delay
