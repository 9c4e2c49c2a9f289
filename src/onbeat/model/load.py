"""A load: jobs that are sent at a rate, to measure a service."""

from enum import StrEnum

import msgspec


class Pacing(StrEnum):
    """How the jobs of a load are spread over time."""

    POISSON = "poisson"
    FIXED = "fixed"


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What to send. `rate` is jobs a second, `span` and `patience` are seconds.

    `patience` is how long to wait for the ends of the jobs after the last one was sent.
    """

    run: str
    task: str
    queue: str
    rate: float
    span: float
    pacing: Pacing
    connections: int
    payload: int
    patience: float
