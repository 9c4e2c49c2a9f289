"""Wire records of queue limits."""

import re
from datetime import timedelta
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.queue import Limits, Rate
from onbeat.wire.values import SpanForm, read_span, span_text, value_or_unset

CONCURRENCY_MAX: Final = 1_000_000  # more than any fleet runs of one queue
RATE_COUNT_MAX: Final = 1_000_000  # starts; times a span in microseconds it fits 64 bits
RATE_SPAN_MIN: Final = timedelta(milliseconds=1)  # a shorter one is below the duration of a claim
RATE_SPAN_MAX: Final = timedelta(days=31)  # the monthly quota of some services

LATE_AFTER_MIN: Final = timedelta(seconds=1)  # queues are looked at every few seconds
LATE_AFTER_MAX: Final = timedelta(days=31)  # of a queue whose jobs wait for a monthly run

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


LateAfterForm = Annotated[
    SpanForm,
    Meta(description="How long a due job may wait before its queue is late; limits no claim"),
]


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a queue and its groups. Null removes a limit; missing fields stay unchanged."""

    concurrency: ConcurrencyForm | UnsetType | None = UNSET
    rate: RateForm | UnsetType | None = UNSET
    group_concurrency: ConcurrencyForm | UnsetType | None = UNSET
    group_rate: RateForm | UnsetType | None = UNSET
    fair: FairForm | UnsetType | None = UNSET
    late_after: LateAfterForm | UnsetType | None = UNSET


class LimitsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that are set; the others are omitted."""

    concurrency: int | UnsetType = UNSET
    rate: str | UnsetType = UNSET
    group_concurrency: int | UnsetType = UNSET
    group_rate: str | UnsetType = UNSET
    fair: bool | UnsetType = UNSET
    late_after: str | UnsetType = UNSET


def changed_limits(before: Limits, body: LimitBody) -> Limits:
    """The limits with the changes of the body."""
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
    if body.late_after is not UNSET:
        after = replace(after, late_after=read_late_after(body.late_after, "late_after"))
    return after


def read_late_after(value: str | float | None, field: str) -> timedelta | None:
    if value is None:
        return None
    return read_span(value, field, least=LATE_AFTER_MIN, most=LATE_AFTER_MAX)


def read_rate(text: str | None, field: str) -> Rate | None:
    """A rate in the form `RateForm`: a count, and a span or its unit."""
    if text is None:
        return None
    match = RATE.fullmatch(text)
    if match is None or not 1 <= int(match["count"]) <= RATE_COUNT_MAX:
        raise Invalid(
            f"{field} must be a count of at most {RATE_COUNT_MAX} and a span,"
            " such as 100/s, 5/m, 1000/1h or 10/30s",
            field,
        )
    span = match["span"]
    whole = f"1{span}" if span in UNITS else span
    return Rate(
        int(match["count"]), read_span(whole, field, least=RATE_SPAN_MIN, most=RATE_SPAN_MAX)
    )


def rate_text(rate: Rate) -> str:
    """The rate in its short form: `100/s`, `10/30s`."""
    span = span_text(rate.span)
    return f"{rate.count}/{span[1:] if span[1:] in UNITS and span[0] == '1' else span}"


def limits_answer(limits: Limits) -> LimitsAnswer:
    return LimitsAnswer(
        concurrency=value_or_unset(limits.concurrency),
        rate=rate_or_unset(limits.rate),
        group_concurrency=value_or_unset(limits.group_concurrency),
        group_rate=rate_or_unset(limits.group_rate),
        fair=limits.fair or UNSET,
        late_after=UNSET if limits.late_after is None else span_text(limits.late_after),
    )


def rate_or_unset(rate: Rate | None) -> str | UnsetType:
    return UNSET if rate is None else rate_text(rate)
