"""Wire records of recurrences: four ways to write one, and its preview."""

from datetime import datetime
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import BadRecurrence, Invalid, TooCostly
from onbeat.model.limits import PREVIEW_MAX
from onbeat.model.recurrence import DstFold, DstGap, RecurrenceSpec
from onbeat.recurrence import Budget, parse_recurrence
from onbeat.recurrence.zones import chosen_zone
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.values import InstantForm

RruleForm = Annotated[
    str,
    Meta(
        description="An RRULE line, or an iCalendar block with DTSTART, RRULE, RDATE and EXDATE",
        examples=["FREQ=DAILY;INTERVAL=1"],
    ),
]
CronForm = Annotated[
    str,
    Meta(
        description="Five to seven fields, or `cron(…)` or `rate(…)` as in AWS",
        examples=["*/5 * * * *", "cron(0 12 * * ? *)"],
    ),
]
EveryForm = Annotated[
    str | float,
    Meta(
        description="A span, a phrase, or a repeating interval of ISO 8601",
        examples=["90s", "PT15M", "every monday at 9:00", "R/2026-01-01T00:00:00Z/PT1H"],
    ),
]
AtForm = Annotated[str, Meta(description="Once", examples=["2026-01-31T09:00:00Z"])]
StartForm = Annotated[
    datetime,
    Meta(
        tz=True,
        description="The first occurrence, for an `every` or `rrule` that has no start of its own",
        examples=["2026-01-31T09:00:00Z"],
    ),
]
ZoneForm = Annotated[str, Meta(description="An IANA time zone", examples=["Europe/Berlin"])]

FORMS: Final = ("rrule", "cron", "every", "at")
FORM_OF_KIND: Final = {
    "rrule": "rrule",
    "cron": "cron",
    "every": "every",
    "once": "at",
    "event": "on",
}
"""The body field of each stored kind; other kinds are created only by programs."""

STARTLESS: Final = ("cron", "at")
"""The forms that count from no start."""

NO_RULE: Final = RecurrenceSpec("rrule", "")
TEXT_CHARS_MAX: Final = 65_536
ZONE_FIELDS: Final = ("timezone", "dst_gap", "dst_fold")
NO_RRULE: Final = "RRULE cannot be empty"
BAD_RRULE: Final = "Invalid RRULE format"


class RecurrenceFields(Protocol):
    """The fields of every body with a recurrence."""

    @property
    def rrule(self) -> str | UnsetType | None: ...
    @property
    def cron(self) -> str | UnsetType | None: ...
    @property
    def every(self) -> str | float | UnsetType | None: ...
    @property
    def at(self) -> str | UnsetType | None: ...
    @property
    def start(self) -> datetime | UnsetType | None: ...
    @property
    def timezone(self) -> str | UnsetType | None: ...
    @property
    def dst_gap(self) -> DstGap | UnsetType | None: ...
    @property
    def dst_fold(self) -> DstFold | UnsetType | None: ...


class PreviewBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recurrence, and the part of it to preview."""

    rrule: RruleForm | UnsetType | None = UNSET
    cron: CronForm | UnsetType | None = UNSET
    every: EveryForm | UnsetType | None = UNSET
    at: AtForm | UnsetType | None = UNSET
    start: StartForm | UnsetType | None = UNSET
    timezone: ZoneForm | UnsetType | None = UNSET
    dst_gap: DstGap | UnsetType | None = UNSET
    dst_fold: DstFold | UnsetType | None = UNSET
    after: InstantForm | UnsetType | None = UNSET
    count: Annotated[int, Meta(ge=1, le=PREVIEW_MAX)] = 10


class Preview(AnswerRecord, frozen=True, kw_only=True):
    """The next occurrences, the rule in words, and notes on surprising behaviour."""

    occurrences: tuple[datetime, ...]
    description: str
    notes: tuple[str, ...]


def read_recurrence(
    body: RecurrenceFields, key: str, budget: Budget | None = None
) -> RecurrenceSpec:
    """The rule of `body`, not yet anchored. `key` spreads the `H` of cron rules."""
    form, text = written_rule(body)
    if form is None:
        raise Invalid(NO_RRULE)
    return parse_rule(form, text, body, NO_RULE, key, budget)


def changed_recurrence(
    body: RecurrenceFields, before: RecurrenceSpec, key: str, budget: Budget | None = None
) -> RecurrenceSpec | UnsetType:
    """The previous rule with the changes of `body`; UNSET without changes.

    The anchor stays as long as the rule's text does, unless another start is given, or null.
    """
    form, text = written_rule(body)
    if form is None:
        if mentions(body, FORMS):
            raise Invalid(NO_RRULE)
        if not mentions(body, ("start", *ZONE_FIELDS)):
            return UNSET
        if before.kind == "event":
            raise Invalid("A schedule with on has no rule of time", "timezone")
        form = FORM_OF_KIND.get(before.kind)
        if form is None:
            return unchanged_rule(body, before)
        return rule_anew(body, before, form, key, budget)
    result = parse_rule(form, text, body, before, before.key or key, budget)
    return result if body.start is None else anchored_like(before, result)


def unchanged_rule(body: RecurrenceFields, before: RecurrenceSpec) -> UnsetType:
    """For a rule that only a program can make: its answer may be sent back, without a change."""
    parts = {"start": None, "timezone": before.tz, "dst_gap": before.dst_gap}
    for name, part in (parts | {"dst_fold": before.dst_fold}).items():
        if getattr(body, name) not in {UNSET, part}:
            raise Invalid(f"This rule was made by a program; its {name} is part of it", name)
    return UNSET


def rule_anew(
    body: RecurrenceFields, before: RecurrenceSpec, form: str, key: str, budget: Budget | None
) -> RecurrenceSpec:
    """The previous rule with another zone or start.

    A zone in the rule's own text cannot be replaced so.
    """
    result = parse_rule(form, before.text, body, before, before.key or key, budget)
    zone = body.timezone
    if form == "rrule" and isinstance(zone, str) and zone and zone != result.tz:
        raise Invalid(
            f"the DTSTART of the rule has its own zone, {result.tz}: send the rrule too, with"
            f" TZID={zone} or without a zone",
            "timezone",
        )
    return result if body.start is None else anchored_like(before, result)


def written_rule(body: RecurrenceFields) -> tuple[str | None, str | float]:
    """The form of the rule in the body, and its text."""
    fields = {"rrule": body.rrule, "cron": body.cron, "every": body.every, "at": body.at}
    given = {form: text for form, text in fields.items() if isinstance(text, str | float | int)}
    if not given:
        return None, ""
    form, *others = given
    if others:
        raise Invalid(
            f"Give one of rrule, cron, every and at; {form} and {others[0]} are given", others[0]
        )
    text = given[form]
    if isinstance(text, str) and len(text) > TEXT_CHARS_MAX:
        raise Invalid(f"{form} must have at most {TEXT_CHARS_MAX} characters", form)
    return form, text


def mentions(body: RecurrenceFields, names: tuple[str, ...]) -> bool:
    return any(getattr(body, name) is not UNSET for name in names)


def parse_rule(
    form: str,
    text: str | float,
    body: RecurrenceFields,
    old: RecurrenceSpec,
    key: str,
    budget: Budget | None,
) -> RecurrenceSpec:
    """The spec of the text; missing zone and DST rules come from the old rule."""
    if form == "rrule" and not str(text).strip():
        raise Invalid(NO_RRULE)
    if body.start and form in STARTLESS:
        raise Invalid(f"start goes with every and rrule, not with {form}", "start")
    zone = old.tz if body.timezone is UNSET else body.timezone or None
    gap: DstGap = old.dst_gap if body.dst_gap is UNSET else body.dst_gap or "shift"
    fold: DstFold = old.dst_fold if body.dst_fold is UNSET else body.dst_fold or "first"
    check_zone(zone)
    try:
        spec = parse_recurrence(
            rrule=str(text) if form == "rrule" else None,
            cron=str(text) if form == "cron" else None,
            every=text if form == "every" else None,
            at=str(text) if form == "at" else None,
            start=body.start or None,
            timezone=zone,
            dst_gap=gap,
            dst_fold=fold,
            key=key,
            budget=budget,
        )
    except TooCostly:
        raise
    except BadRecurrence as error:
        raise bad_rule(form, error) from None
    return as_written(spec, str(text)) if form == "rrule" and not body.start else spec


def as_written(spec: RecurrenceSpec, text: str) -> RecurrenceSpec:
    """The spec with the rule's original text, which answers then show."""
    return msgspec.structs.replace(spec, text=text.strip())


def check_zone(zone: str | None) -> None:
    try:
        chosen_zone(zone)
    except BadRecurrence as error:
        raise Invalid(f"timezone: {error}", "timezone") from None


def bad_rule(form: str, error: BadRecurrence) -> Invalid:
    place = None if error.position is None else (error.text, error.position)
    if form == "rrule":
        return Invalid(BAD_RRULE, detail=rule_error_text(error), place=place)
    return Invalid(f"{form}: {rule_error_text(error)}", form, place=place)


def too_costly(form: str, error: TooCostly) -> Invalid:
    return Invalid(f"{form}: {error}", form)


def form_of(body: RecurrenceFields) -> str:
    """The field of the rule; a body without one changes the existing rule."""
    return written_rule(body)[0] or "recurrence"


def rule_error_text(error: BadRecurrence) -> str:
    """The reason, and the position of the error in the rule."""
    if error.position is None:
        return str(error)
    return f"{error} (at character {error.position + 1})"


def anchored_like(before: RecurrenceSpec, spec: RecurrenceSpec) -> RecurrenceSpec:
    """The rule with the anchor of the one before, where it is the same one and has no start.

    Of rules that are combined each keeps its own.
    """
    if not are_alike(before, spec) or spec.anchor is not None:
        return spec
    left = list(before.members)
    members: list[RecurrenceSpec] = []
    for member in spec.members:
        old = next((one for one in left if are_alike(one, member)), member)
        if old is not member:
            left.remove(old)
        members.append(anchored_like(old, member))
    return msgspec.structs.replace(
        spec, anchor=before.anchor, anchored=before.anchored, members=tuple(members)
    )


def are_alike(one: RecurrenceSpec, other: RecurrenceSpec) -> bool:
    return (one.kind, one.text) == (other.kind, other.text)


def start_of(spec: RecurrenceSpec) -> str | None:
    """The start that was given beside the text of the rule."""
    return None if spec.anchored else spec.anchor


def rule_as(spec: RecurrenceSpec, form: str) -> str | UnsetType:
    """The rule's text for the answer's field of that form."""
    return spec.text if FORM_OF_KIND.get(spec.kind) == form else UNSET
