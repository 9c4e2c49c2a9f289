"""How users write a retry policy."""

from datetime import timedelta
from typing import Literal

from onbeat.app.calls import Span, span
from onbeat.model.errors import Invalid
from onbeat.model.limits import ATTEMPTS_MAX
from onbeat.model.retry import Backoff, RetryPolicy


def Retry(  # noqa: N802  it reads like the record that it makes
    attempts_max: int = 3,
    *,
    backoff: Literal["exponential", "linear", "fixed"] = "exponential",
    delay: Span = "1s",
    delay_max: Span = "1h",
    jitter: bool = True,
) -> RetryPolicy:
    """A retry policy; `attempts_max` counts all tries, the first included.

    Raises `Invalid` naming what cannot be right.
    """
    if not 1 <= attempts_max <= ATTEMPTS_MAX:
        raise Invalid(f"attempts_max must be from 1 to {ATTEMPTS_MAX}", field="attempts_max")
    if backoff not in set(Backoff):
        raise Invalid(f"backoff must be one of {', '.join(Backoff)}", field="backoff")
    return RetryPolicy(
        attempts_max=attempts_max,
        backoff=Backoff(backoff),
        delay=span("delay", delay) or timedelta(),
        delay_max=span("delay_max", delay_max) or timedelta(),
        jitter=jitter,
    )
