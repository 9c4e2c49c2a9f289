"""Removes secrets and control characters from text that will be shown."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Final, cast

from onbeat.model.credentials import CREDENTIAL_CHARS_MIN, HIDDEN, is_secret_name

URL_USERINFO: Final = re.compile(r"(?<=://)[^/?#\s\"'<>]*@")

# URLs without a query match too, unchanged: the search continues after them and reads no character
# twice.
URL_QUERY: Final = re.compile(r"(://[^\s?#\"'<>]*+)(?:(\?)[^\s#\"'<>]+)?")
CREDENTIALS: Final = re.compile(
    r"(authorization\W{1,4}(?:[a-z]+\s+)?|\bbearer\s+)[^\s\"',;}]{4,}", re.IGNORECASE
)

# C0 and C1 controls forge lines and drive terminals; the others change direction or break lines
# invisibly.
CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
CONTROL_EXCEPT_NEWLINE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}

Redact = Callable[[str], str]


def redactor(secrets: Collection[str]) -> Redact:
    """A function that hides known secrets, and texts that look like secrets."""
    # Longest first: a secret that begins with another would show its rest.
    known = sorted({s for s in secrets if len(s) >= CREDENTIAL_CHARS_MIN}, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def redact(text: str) -> str:
        shown = pattern.sub(HIDDEN, text) if pattern else text
        return without_credentials(shown)

    return redact


def without_credentials(text: str) -> str:
    """The text without userinfo and query of every URL, and without credentials of headers."""
    if "://" in text:
        text = URL_USERINFO.sub(f"{HIDDEN}@", text)
        text = URL_QUERY.sub(without_query, text)
    return CREDENTIALS.sub(rf"\1{HIDDEN}", text)


def without_query(match: re.Match[str]) -> str:
    return f"{match[1]}?{HIDDEN}" if match[2] else match[1]


def redact_fields(fields: Mapping[str, object], redact: Redact) -> dict[str, object]:
    """The fields with secrets hidden by name and by value, at any depth."""
    return {key: redact_field(key, value, redact) for key, value in fields.items()}


def redact_field(key: str, value: object, redact: Redact) -> object:
    # Numbers stay: the fencing token of a job is one, and no number is a credential here.
    if is_secret_name(key) and not isinstance(value, int | float | None):
        return HIDDEN
    return redact_value(value, redact)


def redact_value(value: object, redact: Redact) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return redact(value)
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return redact_fields({str(key): item for key, item in items}, redact)
        case list() | tuple() | set() | frozenset():
            return [redact_value(item, redact) for item in cast("Collection[object]", value)]
        case _:
            return redact(str(value))


def escape_controls(text: str, *, keep_newlines: bool = False) -> str:
    """The text with each control character escaped, so that it stays on one line."""
    pattern = CONTROL_EXCEPT_NEWLINE if keep_newlines else CONTROL
    return pattern.sub(escape_character, text)


def escape_character(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    return ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
