"""JSON bodies into records of the outer form; every fault is told with the path of its field.

msgspec reads the types. What it lets through, since it depends on no type, is refused here first:
repeated keys, depth, numbers that no store can keep, and text that some of them cannot.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NoReturn, TypeVar, cast, get_args

import msgspec

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.job import JobState
from onbeat.model.limits import INTEGER_MAX, JSON_DEPTH_MAX, REQUEST_BYTES_MAX
from onbeat.model.recurrence import DstFold, DstGap
from onbeat.model.retry import Backoff
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus

Body = TypeVar("Body")

STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
BRACES_AS_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
SUSPECT: Final = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|\d{19}|\d[eE]\+?\d\d")
"""Escapes of NUL and of surrogates, and long numbers: only with these is every value looked at."""


class NotJson(Malformed):
    """The body is not JSON."""


NOT_YET: Final = {
    "condition": "conditions are not supported in this version",
    "notify": "targets of kind notify come with notifications; not in this version",
}
"""Fields that the interface names and this version does not have."""

CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "status": tuple(ScheduleStatus),
    "state": tuple(JobState),
    "catch_up": tuple(CatchUp),
    "overlap": tuple(Overlap),
    "backoff": tuple(Backoff),
    "dst_gap": get_args(DstGap),
    "dst_fold": get_args(DstFold),
}
"""What msgspec knows and does not tell."""

FAULT: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
MISSING_FIELD: Final = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
WRONG_TYPE: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<given>[^`]*)`")
TOO_LONG: Final = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<bound>[<>=]+ \d+)")
OUT_OF_RANGE: Final = re.compile(r"Expected `\w+` (?P<bound>[<>=]+ \S+)")
NOT_A_CHOICE: Final = re.compile(r"Invalid enum value (?P<given>.*)", re.DOTALL)


def decode(type: type[Body], body: bytes, *, bytes_max: int = REQUEST_BYTES_MAX) -> Body:
    """`body` as a record of `type`.

    Raises `TooLarge` over `bytes_max`, `Malformed` for broken JSON or a wrong type, and `Invalid`
    for what is well-formed and impossible.
    """
    guard(body, bytes_max)
    return typed(type, body)


def typed(type: type[Body], body: bytes) -> Body:
    """The same for a body that has passed the guard."""
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise told(str(error)) from None
    except msgspec.DecodeError as error:
        raise NotJson(f"The body is not JSON: {error}") from None


def convert(type: type[Body], values: Mapping[str, object]) -> Body:
    """Values that came as text, such as a query's, as a record of `type`."""
    try:
        return msgspec.convert(values, type, strict=False)
    except msgspec.ValidationError as error:
        raise told(str(error)) from None


def guard(body: bytes, bytes_max: int) -> None:
    """Refuse what no type could make right."""
    value = loaded(body, bytes_max)
    if SUSPECT.search(body):
        check_values(value)


def guard_values(part: bytes) -> None:
    """Refuse values that no store can keep, in a part of a body that is JSON."""
    if SUSPECT.search(part):
        check_values(json.loads(part))


def loaded(body: bytes, bytes_max: int) -> object:
    """The body as plain values; raises for what is no JSON, too large, too deep or ambiguous."""
    if len(body) > bytes_max:
        raise TooLarge(f"The body may have at most {bytes_max} bytes; it has {len(body)}")
    check_depth(body)
    try:
        value: object = json.loads(
            body.decode("utf-8"), object_pairs_hook=unrepeated, parse_constant=refused_constant
        )
        return value  # noqa: TRY300  every other way out is an error
    except RecursionError:
        raise too_deep() from None
    except UnicodeDecodeError as error:
        raise NotJson(f"The body is not UTF-8: wrong at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"The body is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        # Python reads integers of some thousand digits at most.
        raise Malformed(f"The body has a number that is too long: {error}") from None


def check_depth(body: bytes) -> None:
    """Refuse deep nesting by peeling off what is innermost, one level at a time.

    Every pass runs at the speed of a copy, so that a body of nothing but brackets costs no more
    than another. What is not balanced is left to the reader.
    """
    if body.count(b"[") + body.count(b"{") <= JSON_DEPTH_MAX:
        return
    brackets = STRING.sub(b"", body).translate(BRACES_AS_BRACKETS, NO_BRACKETS)
    for _ in range(JSON_DEPTH_MAX):
        brackets = brackets.replace(b"[]", b"")
    if b"[]" in brackets:
        raise too_deep()


def too_deep() -> Malformed:
    return Malformed(f"The body is nested deeper than {JSON_DEPTH_MAX} levels")


def unrepeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise Malformed(f"{shown(repeated)} is given twice in one object", field=shown(repeated))
    return found


def refused_constant(name: str) -> NoReturn:
    raise NotJson(f"The body is not JSON: {name} is not a number in JSON")


def check_values(value: object, path: str = "") -> None:
    """Every number fits 64 bits and every text can be stored anywhere."""
    match value:
        case str():
            check_text(value, path)
        case int() if not -INTEGER_MAX - 1 <= value <= INTEGER_MAX:
            raise Invalid(f"{path or 'The number'} does not fit 64 bits", field=path)
        case float() if math.isinf(value):
            raise Invalid(f"{path or 'The number'} is too large", field=path)
        case dict() | list():
            for inner, item in members(cast("dict[str, object] | list[object]", value), path):
                check_values(item, inner)
        case _:
            pass


def members(value: dict[str, object] | list[object], path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, list):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(value))
        return
    for key, item in value.items():
        check_text(key, path)
        yield joined(path, shown(key)), item


def check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise Invalid(f"{path or 'A text'} must not contain NUL", field=path)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Invalid(f"{path or 'A text'} contains half of a surrogate pair", field=path)


def told(fault: str) -> Invalid:
    """A message of msgspec as an error that names the field by its dotted path."""
    found = cast("re.Match[str]", FAULT.fullmatch(fault))
    what, path = found["what"], dotted(found["path"] or "")
    if unknown := UNKNOWN_FIELD.fullmatch(what):
        return refused_field(unknown["name"], path)
    if missing := MISSING_FIELD.fullmatch(what):
        field = joined(path, missing["name"])
        return Invalid(f"{field} is required", field=field)
    subject = f"A value in {path}" if in_mapping(found["path"]) else path or "The body"
    if wrong := WRONG_TYPE.fullmatch(what):
        wanted, given = plain_types(wrong["wanted"]), plain_types(wrong["given"])
        return Malformed(f"{subject} must be {wanted}, not {given}", field=path)
    if choice := NOT_A_CHOICE.fullmatch(what):
        return Invalid(f"{subject} {refused_choice(path, choice['given'])}", field=path)
    return Invalid(f"{subject} {reason_of(what)}", field=path)


def refused_choice(path: str, given: str) -> str:
    choices = CHOICES.get(path.rpartition(".")[2], ())
    known = f"must be one of {', '.join(choices)}, not" if choices else "cannot be"
    return f"{known} {shown(given)}"


def refused_field(name: str, path: str) -> Invalid:
    field = joined(path, shown(name))
    if name in NOT_YET:
        return Invalid(f"{field}: {NOT_YET[name]}", field=field)
    return Invalid(f"{field} is not a known field", field=field)


def reason_of(what: str) -> str:
    if bound := TOO_LONG.fullmatch(what):
        unit = "characters" if bound["kind"] == "str" else "items"
        return f"must have {bounds_in_words(bound['bound'])} {unit}"
    if bound := OUT_OF_RANGE.fullmatch(what):
        return f"must be {bounds_in_words(bound['bound'])}"
    if "RFC3339" in what or "timezone component" in what:
        return "must be an RFC 3339 instant with a UTC offset, such as 2026-01-31T09:00:00Z"
    return f"is not valid: {what[:1].lower()}{what[1:]}"


def bounds_in_words(bound: str) -> str:
    sign, number = bound.split(" ", 1)
    words = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
    return f"{words[sign]} {number}"


def plain_types(names: str) -> str:
    """`int | null` as a caller of JSON says it."""
    words = {
        "str": "a string",
        "int": "an integer",
        "float": "a number",
        "bool": "true or false",
        "array": "an array",
        "object": "an object",
        "null": "null",
        "datetime": "an RFC 3339 instant",
    }
    return " or ".join(words.get(name, name) for name in names.split(" | "))


def dotted(path: str) -> str:
    """`$.jobs[0].priority` as `jobs[0].priority`; keys of a mapping show as `[...]` and go."""
    return path.removeprefix("$").removeprefix(".").replace("[...]", "")


def in_mapping(path: str | None) -> bool:
    return path is not None and path.endswith("[...]")


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def shown(text: str) -> str:
    """Text of a caller in an answer: bounded, and without what would break a terminal."""
    cut = text if len(text) <= 100 else f"{text[:100]}…"
    return cut if cut.isprintable() else ascii(cut)
