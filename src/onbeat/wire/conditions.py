"""Wire records of conditions and windows."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.condition import Condition, Window
from onbeat.model.errors import BadRecurrence, Invalid
from onbeat.model.limits import EXPRESSION_CHARS_MAX, WINDOWS_MAX
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.recurrence.zones import chosen_zone
from onbeat.wire.hidden import hidden_answer
from onbeat.wire.targets import TargetAnswer, TargetBody, read_target, target_answer
from onbeat.wire.values import SECOND, SpanForm, read_name, read_span, span_text, value_or_unset

CANCEL: Final = "cancel"
DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
EVERY_DAY: Final = (0, 1, 2, 3, 4, 5, 6)
DAY_MINUTES: Final = 24 * 60
DAYS_CHARS_MAX: Final = 60  # each day by itself takes 27
CLOCK: Final = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)", re.ASCII)

LINE: Final = re.compile(
    r"(?:(?P<days>[A-Za-z,-]+)\s+)?(?P<start>\d{1,2}:\d\d)-(?P<end>\d{1,2}:\d\d)\s+(?P<timezone>\S+)",
    re.ASCII,
)

ElseForm = Annotated[
    SpanForm,
    Meta(description="`cancel`, or a span by which the job is put off", examples=["cancel", "5m"]),
]
ClockForm = Annotated[str, Meta(description="A time of day, up to 24:00", examples=["09:00"])]
DaysForm = Annotated[
    str,
    Meta(description="Days and ranges of days", examples=["MON-FRI", "MON,WED,SAT-SUN"]),
]


class ConditionBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CEL text in `if`, which must be true for the job to start.

    It may name `job`, `event`, `events`, `occurrence`, `now`, `after` and `answer`, which `ask`
    gives. `predicate` names a function of a program instead. `else` is `cancel`, or a span.
    """

    ask: TargetBody | UnsetType | None = UNSET
    text: Annotated[str, Meta(max_length=EXPRESSION_CHARS_MAX)] | UnsetType | None = msgspec.field(
        default=UNSET, name="if"
    )
    predicate: str | UnsetType | None = UNSET
    otherwise: ElseForm | UnsetType | None = msgspec.field(default=UNSET, name="else")


class WindowBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times at which a job may start; `to` at or before `from` is on the next day."""

    days: DaysForm | UnsetType | None = UNSET
    start: ClockForm = msgspec.field(name="from")
    end: ClockForm = msgspec.field(name="to")
    timezone: str


WindowForm = WindowBody | Annotated[tuple[WindowBody, ...], Meta(max_length=WINDOWS_MAX)]


class ConditionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ask: TargetAnswer | UnsetType = UNSET
    text: str | UnsetType = msgspec.field(default=UNSET, name="if")
    predicate: str | UnsetType = UNSET
    otherwise: str = msgspec.field(name="else")


class WindowAnswer(msgspec.Struct, frozen=True, kw_only=True):
    days: str
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    timezone: str


def read_condition(body: ConditionBody | None, field: str) -> Condition | None:
    """The condition as given; its text is compiled, and its target checked, where it is saved."""
    if body is None:
        return None
    if bool(body.text) == bool(body.predicate):
        raise Invalid(f"{field} needs if, a CEL text", f"{field}.if")
    ask = None
    if body.ask:
        ask = read_ask(body.ask, f"{field}.ask")
        if body.predicate:
            raise Invalid(f"{field}.ask goes with if, not with predicate", f"{field}.ask")
    if body.predicate:
        read_name(body.predicate, f"{field}.predicate")
    postpone = None
    if body.otherwise is not UNSET and body.otherwise not in {None, CANCEL}:
        postpone = read_span(body.otherwise or 0, f"{field}.else", least=SECOND)
    return Condition(
        text=body.text or None, predicate=body.predicate or None, ask=ask, postpone=postpone
    )


def read_ask(body: TargetBody, field: str) -> HttpTarget | HandlerTarget:
    target = read_target(body, field)
    if not isinstance(target, HandlerTarget | HttpTarget):
        raise Invalid(f"{field} must be a task or http, which have an answer", field)
    return target


def read_window(body: WindowForm | None, field: str) -> tuple[Window, ...]:
    if body is None:
        return ()
    if isinstance(body, WindowBody):
        return (read_one_window(body, field),)
    return tuple(read_one_window(one, f"{field}[{place}]") for place, one in enumerate(body))


def read_one_window(body: WindowBody, field: str) -> Window:
    try:
        chosen_zone(body.timezone)
    except BadRecurrence as error:
        raise Invalid(f"{field}.timezone: {error}", f"{field}.timezone") from None
    start, end = read_clock(body.start, f"{field}.from"), read_clock(body.end, f"{field}.to")
    if start == DAY_MINUTES:
        raise Invalid(f"{field}.from must be before 24:00", f"{field}.from")
    days = read_days(body.days, f"{field}.days") if body.days else EVERY_DAY
    return Window(start=start, end=end, timezone=body.timezone, days=days)


def window_fields(text: str, field: str) -> dict[str, str]:
    """The fields of a window in one line: `MON-FRI 09:00-18:00 Europe/Berlin`, or without days."""
    match = LINE.fullmatch(text.strip())
    if match is None:
        raise Invalid(
            f"{field} must be a window such as 'MON-FRI 09:00-18:00 Europe/Berlin', "
            f"not {text[:100]!r}",
            field,
        )
    days = {"days": match["days"]} if match["days"] else {}
    return days | {"from": match["start"], "to": match["end"], "timezone": match["timezone"]}


def read_clock(text: str, field: str) -> int:
    """Minutes after midnight."""
    match = CLOCK.fullmatch(text.strip())
    minutes = int(match[1]) * 60 + int(match[2]) if match else DAY_MINUTES + 1
    if minutes > DAY_MINUTES:
        raise Invalid(f"{field} must be a time of day such as 09:00, up to 24:00", field)
    return minutes


def read_days(text: str, field: str) -> tuple[int, ...]:
    if len(text) > DAYS_CHARS_MAX:
        raise Invalid(f"{field} must have at most {DAYS_CHARS_MAX} characters", field)
    days: set[int] = set()
    for part in text.upper().split(","):
        first, _, last = part.strip().partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            raise Invalid(
                f"{field} must be days such as MON-FRI or MON,WED,SAT-SUN, not {text[:50]!r}", field
            )
        begin, end = DAYS.index(first), DAYS.index(last or first)
        days.update(day % 7 for day in range(begin, end + 1 + (7 if end < begin else 0)))
    return tuple(sorted(days))


def condition_answer(condition: Condition | None) -> ConditionAnswer | UnsetType:
    if condition is None:
        return UNSET
    return ConditionAnswer(
        ask=UNSET if condition.ask is None else target_answer(condition.ask),
        text=value_or_unset(condition.text),
        predicate=value_or_unset(condition.predicate),
        otherwise=CANCEL if condition.postpone is None else span_text(condition.postpone),
    )


def hidden_condition(condition: ConditionAnswer | UnsetType) -> ConditionAnswer | UnsetType:
    """The condition of a sensitive job, without the payload of what it asks."""
    if condition is UNSET or condition.ask is UNSET:
        return condition
    return msgspec.structs.replace(condition, ask=hidden_answer(condition.ask))


def window_answer(windows: Sequence[Window]) -> tuple[WindowAnswer, ...] | UnsetType:
    return tuple(map(one_window_answer, windows)) or UNSET


def one_window_answer(window: Window) -> WindowAnswer:
    return WindowAnswer(
        days=days_text(window.days),
        start=clock_text(window.start),
        end=clock_text(window.end),
        timezone=window.timezone,
    )


def days_text(days: Sequence[int]) -> str:
    """Three days or more in a row as a range."""
    runs: list[list[int]] = []
    for day in days:
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(
        f"{DAYS[run[0]]}-{DAYS[run[-1]]}" if len(run) > 2 else ",".join(DAYS[day] for day in run)
        for run in runs
    )


def clock_text(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
