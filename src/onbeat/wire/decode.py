"""Decodes JSON bodies into wire records; every error names the path of its field.

msgspec checks the types. Values that it accepts regardless of type are refused here first: repeated
keys, deep nesting, numbers that no store can keep, and texts that some stores cannot.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NoReturn, TypeVar, cast

import msgspec

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import ASIDE_BYTES_MIN, INTEGER_MAX, JSON_DEPTH_MAX, REQUEST_BYTES_MAX
from onbeat.wire.choices import choices_at

Body = TypeVar("Body")

STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string; an unterminated one extends to the end, or each of its quotes would start a search."""

NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
DEPTH_CHANGE: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
BRACKETS_AT_ONCE: Final = 65_536  # small enough that hostile nesting is found early
SURROGATE: Final = re.compile("[\ud800-\udfff]")
SUSPECT: Final = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|\d{19}|\d[eE]\+?\d\d")
"""Escapes of NUL and of surrogates, and long numbers: only then are all values checked."""


class NotJson(Malformed):
    """The body is not JSON."""


FAULT: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
MISSING_FIELD: Final = re.compile(r"Object missing required field `(?P<name>.*)`", re.DOTALL)
WRONG_TYPE: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<given>[^`]*)`")
TOO_LONG: Final = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<bound>[<>=]+ \d+)")
NO_MATCH: Final = re.compile(r"Expected `str` matching regex '(?P<pattern>.*)'", re.DOTALL)
OUT_OF_RANGE: Final = re.compile(r"Expected `\w+` (?P<bound>[<>=]+ \S+)")
NOT_A_CHOICE: Final = re.compile(r"Invalid enum value (?P<given>.*)", re.DOTALL)


def decode(type: type[Body], body: bytes, *, bytes_max: int = REQUEST_BYTES_MAX) -> Body:
    """`body` as a record of `type`.

    Raises `TooLarge` over `bytes_max`, `Malformed` for broken JSON or a wrong type, and `Invalid`
    for well-formed but invalid values.
    """
    if len(body) < ASIDE_BYTES_MIN:
        guard(body, bytes_max)
        return decode_typed(type, body)
    # Check the types of a long body first: the guard reads all of it before its first error.
    check_size(body, bytes_max)
    check_depth(body)
    try:
        result = decode_typed(type, body)
    except NotJson:
        guard(body, bytes_max)
        raise
    guard(body, bytes_max)
    return result


def decode_typed(type: type[Body], body: bytes) -> Body:
    """The same for a body that has passed the guard."""
    try:
        return msgspec.json.decode(body, type=type)
    except msgspec.ValidationError as error:
        raise invalid_from(str(error), type) from None
    except msgspec.DecodeError as error:
        raise NotJson(f"The body is not JSON: {error}") from None


def convert(type: type[Body], values: Mapping[str, object]) -> Body:
    """Text values, such as those of a query, as a record of `type`."""
    try:
        return msgspec.convert(values, type, strict=False)
    except msgspec.ValidationError as error:
        raise invalid_from(str(error), type) from None


def guard(body: bytes, bytes_max: int) -> None:
    """Refuse values that are invalid for every type."""
    value = load_json(body, bytes_max)
    if SUSPECT.search(body):
        check_values(value)


def guard_values(part: bytes) -> None:
    """Refuse values that no store can keep, in a valid JSON part of a body."""
    if SUSPECT.search(part):
        check_values(json.loads(part))


def load_json(body: bytes, bytes_max: int) -> object:
    """The body as plain values. Raises for invalid, too large, too deep or ambiguous JSON."""
    check_size(body, bytes_max)
    check_depth(body)
    try:
        value: object = json.loads(
            body.decode("utf-8"), object_pairs_hook=refuse_repeats, parse_constant=refuse_constant
        )
        return value  # noqa: TRY300  all other paths raise
    except RecursionError:
        raise too_deep() from None
    except UnicodeDecodeError as error:
        raise NotJson(f"The body is not UTF-8: wrong at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"The body is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:
        # Python limits integers to some thousand digits, and advises to change its settings.
        raise Malformed(
            "The body has a number that is too long; numbers must fit 64 bits"
        ) from None


def check_size(body: bytes, bytes_max: int) -> None:
    if len(body) > bytes_max:
        raise TooLarge(f"The body may have at most {bytes_max} bytes; it has {len(body)}")


def check_depth(body: bytes) -> None:
    """Refuse deep nesting, in one pass over the brackets outside of strings.

    Unbalanced brackets are left to the parser.
    """
    if body.count(b"[") + body.count(b"{") <= JSON_DEPTH_MAX:
        return
    brackets = STRING.sub(b"", body).translate(None, NO_BRACKETS)
    depth = 0
    for start in range(0, len(brackets), BRACKETS_AT_ONCE):
        part = brackets[start : start + BRACKETS_AT_ONCE]
        depths = list(accumulate(map(DEPTH_CHANGE.__getitem__, part), initial=depth))
        if max(depths) > JSON_DEPTH_MAX:
            raise too_deep()
        depth = depths[-1]


def too_deep() -> Malformed:
    return Malformed(f"The body is nested deeper than {JSON_DEPTH_MAX} levels")


def refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        refuse_repeated(key for key, _ in pairs)
    return result


def refuse_repeated(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if key in seen:
            raise Malformed(
                f"{safe_text(key) or 'A key'} is given twice in one object", safe_text(key)
            )
        seen.add(key)


def refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"The body is not JSON: {name} is not a number in JSON")


def check_values(value: object, path: str = "") -> None:
    """Check that every number fits 64 bits and every text can be stored anywhere."""
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
        yield join_path(path, safe_text(key)), item


def check_text(text: str, path: str) -> None:
    if "\0" in text:
        raise Invalid(f"{path or 'A text'} must not contain NUL", field=path)
    if SURROGATE.search(text):
        raise Invalid(f"{path or 'A text'} contains half of a surrogate pair", field=path)


def invalid_from(fault: str, type: object) -> Invalid:
    """An error message of msgspec on a record of `type`, with the dotted path of the field."""
    match = cast("re.Match[str]", FAULT.fullmatch(fault))
    what, path = match["what"], dotted_path(match["path"] or "")
    if unknown := UNKNOWN_FIELD.fullmatch(what):
        return field_error(unknown["name"], path)
    if missing := MISSING_FIELD.fullmatch(what):
        field = join_path(path, missing["name"])
        return Invalid(f"{field} is required", field=field)
    subject = f"A value in {path}" if in_mapping(match["path"]) else path or "The body"
    if wrong := WRONG_TYPE.fullmatch(what):
        wanted, given = plain_types(wrong["wanted"]), plain_types(wrong["given"])
        return Malformed(f"{subject} must be {wanted}, not {given}", field=path)
    if choice := NOT_A_CHOICE.fullmatch(what):
        choices = choices_at(type, match["path"] or "")
        return Invalid(f"{subject} {choice_error(choices, choice['given'])}", field=path)
    return Invalid(f"{subject} {reason_of(what)}", field=path)


def choice_error(choices: tuple[str, ...], given: str) -> str:
    known = f"must be one of {', '.join(choices)}, not" if choices else "cannot be"
    return f"{known} {safe_text(given)}"


def field_error(name: str, path: str) -> Invalid:
    field = join_path(path, safe_text(name))
    return Invalid(f"{field} is not a known field", field=field)


def reason_of(what: str) -> str:
    if bound := TOO_LONG.fullmatch(what):
        unit = "character" if bound["kind"] == "str" else "item"
        several = "" if bound["bound"].endswith(" 1") else "s"
        return f"must have {bounds_in_words(bound['bound'])} {unit}{several}"
    if bound := OUT_OF_RANGE.fullmatch(what):
        return f"must be {bounds_in_words(bound['bound'])}"
    if wrong := NO_MATCH.fullmatch(what):
        return f"must match {wrong['pattern']}"
    if "RFC3339" in what or "timezone component" in what:
        return "must be an RFC 3339 instant with a UTC offset, such as 2026-01-31T09:00:00Z"
    return f"is not valid: {what[:1].lower()}{what[1:]}"


def bounds_in_words(bound: str) -> str:
    sign, number = bound.split(" ", 1)
    words = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
    return f"{words[sign]} {number}"


def plain_types(names: str) -> str:
    """`int | null` in terms of JSON types."""
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


def dotted_path(path: str) -> str:
    """`$.jobs[0].priority` as `jobs[0].priority`; drops keys of a mapping, shown as `[...]`."""
    return path.removeprefix("$").removeprefix(".").replace("[...]", "")


def in_mapping(path: str | None) -> bool:
    return path is not None and path.endswith("[...]")


def join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def safe_text(text: str) -> str:
    """A caller's text for an error message: shortened, without control characters."""
    cut = text if len(text) <= 100 else f"{text[:100]}…"
    return cut if cut.isprintable() else ascii(cut)
