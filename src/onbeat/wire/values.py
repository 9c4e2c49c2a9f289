"""Single values on the wire: spans, instants, ids and names."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import BadRecurrence, Invalid, Malformed
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId
from onbeat.model.limits import (
    LABEL_CHARS_MAX,
    LABELS_MAX,
    NAME_CHARS_MAX,
    OWN_TASKS,
    PRIORITY_MAX,
    PRIORITY_MIN,
    QUEUE_CHARS_REFUSED,
    SPAN_MAX,
)
from onbeat.recurrence.durations import read_iso, read_units

Value = TypeVar("Value")

# Client generators treat an object without `additionalProperties` as empty, and fail at an array
# without items.
ANY_ARRAY: Final[dict[str, Any]] = {"type": "array", "items": {}}
ANY_OBJECT: Final[dict[str, Any]] = {"type": "object", "additionalProperties": True}

SpanForm = Annotated[
    str | float,
    Meta(
        description="A span of time: `90s`, `5m`, `1h30m`, ISO 8601 such as `PT1H`, or seconds",
        examples=["90s", "1h30m", "PT15M", 2.5],
    ),
]
InstantForm = Annotated[
    datetime,
    Meta(tz=True, description="RFC 3339 with a UTC offset", examples=["2026-01-31T09:00:00Z"]),
]
PriorityForm = Annotated[
    int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX, description="Smaller goes first")
]
ReadOnly = Annotated[
    msgspec.Raw | UnsetType,
    Meta(
        description="Set by the service; ignored when sent",
        extra_json_schema={"readOnly": True},
    ),
]
"""Read-only fields of answers that a client may send back."""

NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")
SPAN_CHARS_MAX: Final = 60
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
MOMENT: Final = timedelta(microseconds=1)

UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ONE_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?\s*(?:ms|[wdhms])?", re.ASCII | re.IGNORECASE)
CALENDAR_SPAN: Final = re.compile(r"P(?:\d+[YM])+", re.ASCII | re.IGNORECASE)
OTHER_ID: Final = re.compile(r"[0-9a-f]{24}|[0-9a-f]{32}")


def read_span(
    value: str | float, field: str, *, least: timedelta = timedelta(), most: timedelta = SPAN_MAX
) -> timedelta:
    """A span in the form `SpanForm`, from `least` to `most`."""
    seconds = span_seconds(value)
    bounds = f"be from {span_text(least)} to {span_text(most)}"
    if seconds is None:
        raise Invalid(f"{field} must {demand_of(str(value).strip(), bounds)}", field)
    # Compare first: a timedelta cannot hold every number.
    if not least.total_seconds() <= seconds <= most.total_seconds():
        raise Invalid(f"{field} must {bounds}", field)
    return timedelta(seconds=seconds)


def demand_of(text: str, bounds: str) -> str:
    """What is asked of a text that is no span here: its form may be right and its value not."""
    if len(text) > SPAN_CHARS_MAX:
        return f"have at most {SPAN_CHARS_MAX} characters"
    if ONE_NUMBER.fullmatch(text):
        return bounds  # negative, or longer than any calendar
    if CALENDAR_SPAN.fullmatch(text):
        return "be without months and years, which have no fixed length; count days"
    return "be a span such as 90s, 5m, 1h30m, PT1H or a number of seconds"


def span_seconds(value: str | float) -> float | None:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text or len(text) > SPAN_CHARS_MAX:
        return None
    try:
        span = read_iso(text) if text[0] in "Pp" else read_units(text)
    except BadRecurrence:
        return None
    # A month has no fixed length, so it cannot be a delay.
    return None if span.months else span.microseconds / 1_000_000


def span_text(span: timedelta) -> str:
    """The span in the short form, largest unit first: `1h30m`, `0.25s`."""
    minutes, rest = divmod(span, MINUTE)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    whole = "".join(f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "m")) if n)
    if rest or not whole:
        whole += f"{rest / SECOND:.6f}".rstrip("0").rstrip(".") + "s"
    return whole


def read_instant(value: datetime, field: str) -> datetime:
    """The instant in UTC."""
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{field} is outside the years 1 to 9999", field) from None


def read_name(value: str, field: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    """A name unchanged: not blank, no control characters, within its length."""
    if not value.strip():
        raise Invalid(f"{field} cannot be empty", field)
    if len(value) > chars_max:
        raise Invalid(f"{field} must have at most {chars_max} characters", field)
    if not NAME.fullmatch(value):
        raise Invalid(f"{field} must not contain control characters", field)
    return value


def read_task(value: str, field: str) -> str:
    """The name of a program's task."""
    if value.startswith(OWN_TASKS):
        raise Invalid(
            f"{field} must not begin with {OWN_TASKS}: such names are Onbeat's own", field
        )
    return read_name(value, field)


def read_queue_name(value: str, field: str) -> str:
    """A name that is valid in a path and in a list of settings."""
    read_name(value, field)
    refused = next((sign for sign in value if sign in QUEUE_CHARS_REFUSED), None)
    if refused is not None:
        raise Invalid(
            f"{field} must not contain {refused}; the name of a queue holds none of "
            f"{' '.join(QUEUE_CHARS_REFUSED)}",
            field,
        )
    if value != value.strip() or value in {".", ".."}:
        raise Invalid(
            f"{field} must not begin or end with a space, nor be . or ..: it stands in paths", field
        )
    return value


def read_labels(value: dict[str, str], field: str) -> dict[str, str]:
    if len(value) > LABELS_MAX:
        raise Invalid(f"{field} may have at most {LABELS_MAX} entries", field)
    for name, text in value.items():
        if not name.strip() or len(name) > LABEL_CHARS_MAX or not NAME.fullmatch(name):
            raise Invalid(
                f"a name in {field} must have 1 to {LABEL_CHARS_MAX} characters, not all blank,"
                " and no control characters",
                field,
            )
        if len(text) > LABEL_CHARS_MAX or not NAME.fullmatch(text):
            raise Invalid(
                f"{field}.{name} must have at most {LABEL_CHARS_MAX} characters"
                " and no control characters",
                f"{field}.{name}",
            )
    return value


def joined_labels(base: dict[str, str], given: dict[str, str], field: str) -> dict[str, str]:
    """Those of a task with those given, which win by name. Raises `Invalid` for too many."""
    return read_labels(base | given, field) if base and given else given or base


def schedule_id(text: str, field: str = "") -> ScheduleId:
    return ScheduleId(read_id(text, "schedule", field))


def job_id(text: str, field: str = "") -> JobId:
    return JobId(read_id(text, "job", field))


def dead_letter_id(text: str, field: str = "") -> DeadLetterId:
    return DeadLetterId(read_id(text, "dead letter", field))


def read_id(text: str, noun: str, field: str = "") -> str:
    """An id in its canonical form. Ids of systems that Onbeat replaces are accepted too."""
    if not is_id(text):
        raise Malformed(f"Invalid {noun} ID format", field)
    lowered = text.lower()
    return hyphenated(lowered) if len(lowered) == 32 else lowered


def is_id(text: str) -> bool:
    """Whether it has the form of an id: a UUID, or 24 or 32 hexadecimal digits."""
    lowered = text.lower()
    return bool(UUID.fullmatch(lowered) or OTHER_ID.fullmatch(lowered))


def hyphenated(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def value_or_unset(value: Value | None) -> Value | UnsetType:
    """UNSET, which answers omit, for None."""
    return UNSET if value is None else value
