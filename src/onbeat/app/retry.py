"""The public constructor of retry policies."""

from datetime import timedelta
from typing import Final, Literal

from onbeat.app.call import Span, require_kind, span
from onbeat.model.errors import Invalid
from onbeat.model.limits import ATTEMPTS_MAX, LOST_MAX, LOST_MAX_LARGEST
from onbeat.model.retry import Backoff, RetryPolicy

DELAY_MAX: Final = RetryPolicy().delay_max


def Retry(  # noqa: N802  named like the record that it makes
    attempts_max: int = 3,
    *,
    backoff: Literal["exponential", "linear", "fixed"] = "exponential",
    delay: Span = "1s",
    delay_max: Span | None = None,
    jitter: bool = True,
    lost_max: int = LOST_MAX,
) -> RetryPolicy:
    """A retry policy; `attempts_max` counts all attempts, the first included.

    `delay_max` is an hour by default, or the delay where that is longer. `lost_max` is how many
    workers may die while they run a job before it fails as poison.

    Raises `Invalid` naming the invalid option.
    """
    number_of("attempts_max", attempts_max, ATTEMPTS_MAX)
    number_of("lost_max", lost_max, LOST_MAX_LARGEST)
    if backoff not in set(Backoff):
        raise Invalid(f"backoff must be one of {', '.join(Backoff)}", field="backoff")
    wait = span("delay", delay) or timedelta()
    longest = max(wait, DELAY_MAX) if delay_max is None else span("delay_max", delay_max)
    if longest is None or longest < wait:
        raise Invalid("delay_max must not be below the delay", field="delay_max")
    return RetryPolicy(
        attempts_max=attempts_max,
        backoff=Backoff(backoff),
        delay=wait,
        delay_max=longest,
        jitter=jitter,
        lost_max=lost_max,
    )


def number_of(field: str, value: int, most: int) -> int:
    require_kind(field, value, int, "a whole number")
    if not 1 <= value <= most:
        raise Invalid(f"{field} must be from 1 to {most}", field)
    return value
