"""Wire records of reactions to events: patterns, and how many events make one job."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.limits import EVENT_NAME_CHARS_MAX, GATHER_MAX, LOOP_STEPS_MAX, PATTERNS_MAX
from onbeat.model.reaction import EventPattern, Gather, Keep
from onbeat.model.recurrence import DstFold, DstGap, RecurrenceSpec
from onbeat.recurrence import Budget
from onbeat.wire.recurrences import (
    FORM_OF_KIND,
    AtForm,
    CronForm,
    EveryForm,
    RecurrenceFields,
    RruleForm,
    StartForm,
    ZoneForm,
    read_recurrence,
    rule_as,
    start_of,
)
from onbeat.wire.values import MOMENT, SpanForm, read_name, read_span, span_text, value_or_unset

NOT_GIVEN: Final = (UNSET, None)
TIMES: Final[Mapping[str, tuple[object, ...]]] = {
    **dict.fromkeys(("rrule", "cron", "every", "at", "start", "timezone"), NOT_GIVEN),
    "dst_gap": (*NOT_GIVEN, "shift"),
    "dst_fold": (*NOT_GIVEN, "first"),
}
"""The fields of rules of time, and what they hold in answers without such a rule."""

ExpressionForm = Annotated[
    str,
    Meta(
        description="CEL over `event` and `now`",
        examples=["event.data.amount > 0", "event.data.payment"],
    ),
]


class PatternBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events of a type and source, exact or with a `*` at the end.

    `if` filters them, and `by` gives the text by which they are gathered and cancelled.
    """

    type: Annotated[str, Meta(examples=["payment.initiated", "payment.*"])]
    source: str | UnsetType | None = UNSET
    condition: ExpressionForm | UnsetType | None = msgspec.field(default=UNSET, name="if")
    by: ExpressionForm | UnsetType | None = UNSET


PatternsForm = Annotated[
    PatternBody | tuple[PatternBody, ...],
    Meta(description="A pattern of events, or any of several"),
]


class UntilBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recurrence: one of `rrule`, `cron`, `every` and `at`."""

    rrule: RruleForm | UnsetType | None = UNSET
    cron: CronForm | UnsetType | None = UNSET
    every: EveryForm | UnsetType | None = UNSET
    at: AtForm | UnsetType | None = UNSET
    start: StartForm | UnsetType | None = UNSET
    timezone: ZoneForm | UnsetType | None = UNSET
    dst_gap: DstGap | UnsetType | None = UNSET
    dst_fold: DstFold | UnsetType | None = UNSET


class GatherBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Many events for one job: for a span, until an instant, or until it was quiet for a while."""

    span: SpanForm | UnsetType | None = msgspec.field(default=UNSET, name="for")
    until: UntilBody | UnsetType | None = UNSET
    quiet: SpanForm | UnsetType | None = UNSET
    keep: Keep | UnsetType | None = UNSET
    most: Annotated[int, Meta(ge=1, le=GATHER_MAX)] | UnsetType | None = UNSET
    by: ExpressionForm | UnsetType | None = UNSET


class PatternAnswer(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    source: str | UnsetType = UNSET
    condition: str | UnsetType = msgspec.field(default=UNSET, name="if")
    by: str | UnsetType = UNSET


class UntilAnswer(msgspec.Struct, frozen=True, kw_only=True):
    rrule: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    start: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    dst_gap: DstGap | UnsetType = UNSET
    dst_fold: DstFold | UnsetType = UNSET


class GatherAnswer(msgspec.Struct, frozen=True, kw_only=True):
    span: str | UnsetType = msgspec.field(default=UNSET, name="for")
    until: UntilAnswer | UnsetType = UNSET
    quiet: str | UnsetType = UNSET
    keep: Keep | UnsetType = UNSET
    most: int | UnsetType = UNSET
    by: str | UnsetType = UNSET


PatternsAnswer = PatternAnswer | tuple[PatternAnswer, ...]


def read_reaction(
    body: RecurrenceFields, patterns: PatternBody | tuple[PatternBody, ...]
) -> RecurrenceSpec:
    """The rule of a schedule with `on`, which no rule of time stands beside."""
    for form in TIMES:
        if getattr(body, form) not in TIMES[form]:
            raise Invalid(f"{form} does not go with on; give one of them", form)
    types = tuple(pattern.type for pattern in read_patterns(patterns, "on"))
    if not types:
        raise Invalid("on needs at least one pattern of events", "on")
    return RecurrenceSpec("event", ", ".join(types))


def read_patterns(
    value: PatternBody | tuple[PatternBody, ...] | None, field: str
) -> tuple[EventPattern, ...]:
    if value is None:
        return ()
    if isinstance(value, PatternBody):
        return (read_pattern(value, field),)
    if len(value) > PATTERNS_MAX:
        raise Invalid(f"{field} may have at most {PATTERNS_MAX} patterns", field)
    return tuple(read_pattern(body, f"{field}[{place}]") for place, body in enumerate(value))


def read_pattern(body: PatternBody, field: str) -> EventPattern:
    return EventPattern(
        type=read_wildcard(body.type, f"{field}.type"),
        source=read_wildcard(body.source or "*", f"{field}.source"),
        condition=read_expression(body.condition, f"{field}.if"),
        by=read_expression(body.by, f"{field}.by"),
    )


def read_wildcard(text: str, field: str) -> str:
    """A text, with at most one `*`, at its end."""
    read_name(text, field, chars_max=EVENT_NAME_CHARS_MAX)
    if "*" in text[:-1]:
        raise Invalid(f"{field} may have a * only at its end", field)
    return text


def read_expression(text: str | UnsetType | None, field: str) -> str | None:
    """The text as it is; operations compile it."""
    if text is UNSET or text is None:
        return None
    if not text.strip():
        raise Invalid(f"{field} cannot be empty", field)
    return text


def read_gather(body: GatherBody | None, field: str) -> Gather | None:
    if body is None:
        return None
    until = body.until or None
    return Gather(
        span=read_gather_span(body.span, f"{field}.for"),
        until=None if until is None else read_until(until, f"{field}.until"),
        quiet=read_gather_span(body.quiet, f"{field}.quiet"),
        keep=body.keep or Keep.ALL,
        most=body.most or GATHER_MAX,
        by=read_expression(body.by, f"{field}.by"),
    )


def read_gather_span(value: SpanForm | UnsetType | None, field: str) -> timedelta | None:
    return None if value is UNSET or value is None else read_span(value, field, least=MOMENT)


def read_until(body: UntilBody, field: str) -> RecurrenceSpec:
    """The rule, which the router must be able to search on its event loop."""
    try:
        return read_recurrence(body, "", Budget(LOOP_STEPS_MAX))
    except Invalid as error:
        place = f"{field}.{error.field}" if error.field else field
        raise Invalid(f"{field}: {error.detail or error}", place) from None


def pattern_body(pattern: EventPattern) -> PatternBody:
    return msgspec.convert(msgspec.to_builtins(pattern_answer(pattern)), PatternBody)


def gather_body(gather: Gather) -> GatherBody:
    """The gathering as a request body. Raises `Invalid` for a rule that cannot be serialized."""
    if gather.until is not None and gather.until.kind not in FORM_OF_KIND:
        raise Invalid(
            f"a {gather.until.kind} cannot be sent to a service; write it as an RRULE or cron",
            "gather.until",
        )
    return msgspec.convert(msgspec.to_builtins(gather_answer(gather)), GatherBody)


def patterns_answer(patterns: Sequence[EventPattern]) -> PatternsAnswer | UnsetType:
    """One pattern as an object, as it is mostly given."""
    if not patterns:
        return UNSET
    answers = tuple(map(pattern_answer, patterns))
    return answers[0] if len(answers) == 1 else answers


def pattern_answer(pattern: EventPattern) -> PatternAnswer:
    return PatternAnswer(
        type=pattern.type,
        source=UNSET if pattern.source == "*" else pattern.source,
        condition=value_or_unset(pattern.condition),
        by=value_or_unset(pattern.by),
    )


def gather_answer(gather: Gather) -> GatherAnswer:
    return GatherAnswer(
        span=span_or_unset(gather.span),
        until=UNSET if gather.until is None else until_answer(gather.until),
        quiet=span_or_unset(gather.quiet),
        keep=UNSET if gather.keep is Keep.ALL else gather.keep,
        most=UNSET if gather.most == GATHER_MAX else gather.most,
        by=value_or_unset(gather.by),
    )


def until_answer(rule: RecurrenceSpec) -> UntilAnswer:
    texts: dict[str, Any] = {form: rule_as(rule, form) for form in ("rrule", "cron", "every", "at")}
    return UntilAnswer(
        start=value_or_unset(start_of(rule)),
        timezone=value_or_unset(rule.tz),
        dst_gap=UNSET if rule.dst_gap == "shift" else rule.dst_gap,
        dst_fold=UNSET if rule.dst_fold == "first" else rule.dst_fold,
        **texts,
    )


def span_or_unset(span: timedelta | None) -> str | UnsetType:
    return UNSET if not span else span_text(span)
