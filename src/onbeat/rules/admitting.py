"""How many jobs a queue, or a group of one, may give out now.

A rate is a bucket that holds `count` starts and is refilled evenly over `span`. All that has
to be stored of it is the instant at which it will be full again (the generic cell rate algorithm,
ITU-T I.371). So in any time T at most count + count * T / span jobs start.
"""

from datetime import datetime, timedelta

import msgspec

from onbeat.model.queue import Rate

MICROSECOND = timedelta(microseconds=1)


class Allowance(msgspec.Struct, frozen=True):
    """How many may start now, None for any number; where it is 0 for a rate's sake, until when."""

    count: int | None
    again_at: datetime | None = None


UNLIMITED = Allowance(None)


def allowance(
    concurrency: int | None,
    rate: Rate | None,
    *,
    running: int,
    full_at: datetime | None,
    now: datetime,
) -> Allowance:
    """What may start beside `running` jobs, with a bucket that is full at `full_at` (None: is).

    `again_at` is when the rate lets another one start after those of `count`; None where only the
    end of a running job can.
    """
    free = None if concurrency is None else max(0, concurrency - running)
    if rate is None:
        return Allowance(free)
    missing = micros(max(timedelta(), (full_at or now) - now))
    span = micros(rate.span)
    started = max(0, (span - missing) * rate.count // span)
    if free is not None and free <= started:
        return Allowance(free)
    return Allowance(started, metered(rate, full_at, now, started + 1) - rate.span)


def metered(rate: Rate, full_at: datetime | None, now: datetime, started: int) -> datetime:
    """When the bucket will be full again after so many starts."""
    wait = -(-micros(rate.span) * started // rate.count)
    return max(full_at or now, now) + timedelta(microseconds=wait)


def micros(span: timedelta) -> int:
    return span // MICROSECOND
