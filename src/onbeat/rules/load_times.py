"""When the jobs of a load are to be sent."""

from collections.abc import Callable, Iterator
from math import ceil, log

from onbeat.model.errors import Invalid
from onbeat.model.limits import (
    LOAD_CONNECTIONS_MAX,
    LOAD_JOBS_MAX,
    LOAD_RATE_MAX,
    LOAD_SPAN_MAX,
    PAYLOAD_BYTES_MAX,
)
from onbeat.model.load import LoadPlan, Pacing


def check_load(plan: LoadPlan) -> None:
    """Raises `Invalid` for a plan over a bound."""
    longest = LOAD_SPAN_MAX.total_seconds()
    if not 0 < plan.rate <= LOAD_RATE_MAX:
        raise Invalid(f"rate must be above 0 and at most {LOAD_RATE_MAX:,} jobs a second", "rate")
    if not 0 < plan.span <= longest:
        raise Invalid(f"for must be a span above 0 and at most {LOAD_SPAN_MAX}", "for")
    if not 0 <= plan.patience <= longest:
        raise Invalid(f"wait must be a span of at most {LOAD_SPAN_MAX}", "wait")
    if plan.rate * plan.span > LOAD_JOBS_MAX:
        raise Invalid(f"rate times for must be at most {LOAD_JOBS_MAX:,} jobs in all", "for")
    if not 1 <= plan.connections <= LOAD_CONNECTIONS_MAX:
        raise Invalid(
            f"connections must be from 1 to {LOAD_CONNECTIONS_MAX:,}; more wait for one another",
            "connections",
        )
    if not 0 <= plan.payload <= PAYLOAD_BYTES_MAX // 2:
        raise Invalid(f"payload must be from 0 to {PAYLOAD_BYTES_MAX // 2:,} bytes", "payload")


def send_times(plan: LoadPlan, fraction: Callable[[], float]) -> Iterator[float]:
    """The seconds from the start at which a job is to be sent, rising, and below the span.

    A Poisson process has random gaps, as independent callers make them, with the rate as their
    mean; `fraction` gives the chance, from 0 to below 1.
    """
    if plan.pacing is Pacing.FIXED:
        # A product, as a sum of many gaps would drift.
        times = (number / plan.rate for number in range(ceil(plan.rate * plan.span)))
        yield from (at for at in times if at < plan.span)
        return
    at = gap(plan.rate, fraction())
    while at < plan.span:
        yield at
        at += gap(plan.rate, fraction())


def gap(rate: float, fraction: float) -> float:
    """An exponentially distributed gap."""
    return -log(1.0 - fraction) / rate
