"""Limits of queues, as they are set and shown."""

import re
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.queue import Limits, Rate
from onbeat.wire.values import read_span, shown_or_unset, span_text

CONCURRENCY_MAX: Final = 1_000_000  # more than any fleet runs of one queue
RATE_COUNT_MAX: Final = 1_000_000  # starts in a span; times a span in microseconds it fits 64 bits
RATE_SPAN_MIN: Final = timedelta(milliseconds=1)  # shorter is below what a claim takes
RATE_SPAN_MAX: Final = timedelta(days=31)  # a month's allowance of some service

RATE: Final = re.compile(r"\s*(?P<count>[0-9]{1,9})\s*/\s*(?P<span>.{1,60}?)\s*", re.ASCII)
UNITS: Final = {"ms", "s", "m", "h", "d"}

ConcurrencyForm = Annotated[
    int, Meta(ge=1, le=CONCURRENCY_MAX, description="Jobs that may run at once")
]
RateForm = Annotated[
    str,
    Meta(
        max_length=80,
        description="Starts in a span of time, evenly spread; as many may come at once",
        examples=["100/s", "5/m", "1000/1h", "10/30s"],
    ),
]
FairForm = Annotated[
    bool,
    Meta(description="Whether the groups of the queue take turns, jobs without a group as one"),
]


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a queue, and each group of it, may give out. Null takes a limit away; what is left out
    stays.
    """

    concurrency: ConcurrencyForm | UnsetType | None = UNSET
    rate: RateForm | UnsetType | None = UNSET
    group_concurrency: ConcurrencyForm | UnsetType | None = UNSET
    group_rate: RateForm | UnsetType | None = UNSET
    fair: FairForm | UnsetType | None = UNSET


class LimitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that there are; the others are left out."""

    concurrency: int | UnsetType = UNSET
    rate: str | UnsetType = UNSET
    group_concurrency: int | UnsetType = UNSET
    group_rate: str | UnsetType = UNSET
    fair: bool | UnsetType = UNSET


def changed_limits(before: Limits, body: LimitBody) -> Limits:
    """The limits with what the body says."""
    after = before
    if body.concurrency is not UNSET:
        after = replace(after, concurrency=body.concurrency)
    if body.group_concurrency is not UNSET:
        after = replace(after, group_concurrency=body.group_concurrency)
    if body.rate is not UNSET:
        after = replace(after, rate=read_rate(body.rate, "rate"))
    if body.group_rate is not UNSET:
        after = replace(after, group_rate=read_rate(body.group_rate, "group_rate"))
    if body.fair is not UNSET:
        after = replace(after, fair=bool(body.fair))
    return after


def read_rate(text: str | None, field: str) -> Rate | None:
    """A rate as `RateForm` says it: a count, and a span or its unit."""
    if text is None:
        return None
    found = RATE.fullmatch(text)
    if found is None or not 1 <= int(found["count"]) <= RATE_COUNT_MAX:
        raise Invalid(
            f"{field} must be a count of at most {RATE_COUNT_MAX} and a span,"
            " such as 100/s, 5/m, 1000/1h or 10/30s",
            field,
        )
    span = found["span"]
    whole = f"1{span}" if span in UNITS else span
    return Rate(
        int(found["count"]), read_span(whole, field, least=RATE_SPAN_MIN, most=RATE_SPAN_MAX)
    )


def rate_text(rate: Rate) -> str:
    """The rate in its short form: `100/s`, `10/30s`."""
    span = span_text(rate.span)
    return f"{rate.count}/{span[1:] if span[1:] in UNITS and span[0] == '1' else span}"


def limits_answer(limits: Limits) -> LimitsAnswer:
    return LimitsAnswer(
        concurrency=shown_or_unset(limits.concurrency),
        rate=shown_rate(limits.rate),
        group_concurrency=shown_or_unset(limits.group_concurrency),
        group_rate=shown_rate(limits.group_rate),
        fair=limits.fair or UNSET,
    )


def shown_rate(rate: Rate | None) -> str | UnsetType:
    return UNSET if rate is None else rate_text(rate)
