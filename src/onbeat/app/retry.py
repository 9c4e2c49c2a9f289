"""The public constructor of retry policies."""

from datetime import timedelta
from typing import Literal

from onbeat.app.call import Span, span
from onbeat.model.errors import Invalid
from onbeat.model.limits import ATTEMPTS_MAX, LOST_MAX, LOST_MAX_LARGEST
from onbeat.model.retry import Backoff, RetryPolicy


def Retry(  # noqa: N802  named like the record that it makes
    attempts_max: int = 3,
    *,
    backoff: Literal["exponential", "linear", "fixed"] = "exponential",
    delay: Span = "1s",
    delay_max: Span = "1h",
    jitter: bool = True,
    lost_max: int = LOST_MAX,
) -> RetryPolicy:
    """A retry policy; `attempts_max` counts all attempts, the first included.

    `lost_max` is how many workers may die while they run a job before it fails as poison.

    Raises `Invalid` naming the invalid option.
    """
    if not 1 <= attempts_max <= ATTEMPTS_MAX:
        raise Invalid(f"attempts_max must be from 1 to {ATTEMPTS_MAX}", field="attempts_max")
    if not 1 <= lost_max <= LOST_MAX_LARGEST:
        raise Invalid(f"lost_max must be from 1 to {LOST_MAX_LARGEST}", field="lost_max")
    if backoff not in set(Backoff):
        raise Invalid(f"backoff must be one of {', '.join(Backoff)}", field="backoff")
    return RetryPolicy(
        attempts_max=attempts_max,
        backoff=Backoff(backoff),
        delay=span("delay", delay) or timedelta(),
        delay_max=span("delay_max", delay_max) or timedelta(),
        jitter=jitter,
        lost_max=lost_max,
    )
