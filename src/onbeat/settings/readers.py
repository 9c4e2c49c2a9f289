"""From what was written, in a file, a variable or a flag, to the value of a setting.

Each reader answers with the value or raises `ValueError` whose text goes on after "must be".
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar, cast

from onbeat.model.limits import NAME_CHARS_MAX
from onbeat.wire.values import span_seconds, span_text

Choice = TypeVar("Choice", bound=StrEnum)

TRUE: Final = frozenset({"true", "yes", "on", "1"})
FALSE: Final = frozenset({"false", "no", "off", "0"})
DESTINATIONS: Final = "stdout or file:PATH, or both"
HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)


def whole(least: int, most: int) -> Callable[[object], int]:
    """A whole number between the two, both included."""

    def read(value: object) -> int:
        text = str(value).strip()
        fits = not isinstance(value, bool | float) and re.fullmatch(r"[+-]?\d{1,18}", text)
        if not fits or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def whole_or(word: str, least: int, most: int) -> Callable[[object], int | None]:
    """A whole number, or the word that leaves it open."""
    read_whole = whole(least, most)

    def read(value: object) -> int | None:
        if value == word:
            return None
        try:
            return read_whole(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return read


def truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in TRUE | FALSE:
        raise ValueError("true or false")
    return text in TRUE


def truth_or_auto(value: object) -> bool | None:
    """True, False, or None for `auto`."""
    if str(value).strip().lower() == "auto":
        return None
    try:
        return truth(value)
    except ValueError:
        raise ValueError("auto, true or false") from None


def span(least: timedelta, most: timedelta) -> Callable[[object], timedelta]:
    """A span between the two, both included."""

    def read(value: object) -> timedelta:
        seconds = seconds_of(value)
        if seconds is None:
            raise ValueError('a span of time like "90s", "5m", "1h30m", "PT5M" or 90 (seconds)')
        # Compared before it is made: a timedelta cannot hold every number.
        if not least.total_seconds() <= seconds <= most.total_seconds():
            raise ValueError(f"from {span_text(least)} to {span_text(most)}")
        return timedelta(seconds=seconds)

    return read


def seconds_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return span_seconds(value)


def one_of(choices: type[Choice]) -> Callable[[object], Choice]:
    """A member of the enumeration, by its value in any case."""

    def read(value: object) -> Choice:
        text = str(value).strip().lower()
        names = [choice.value for choice in choices]
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}{did_you_mean(text, names)}")
        return choices(text)

    return read


def some_of(choices: type[Choice]) -> Callable[[object], tuple[Choice, ...]]:
    """One or more members of the enumeration, in its order; `all` is every one."""
    read_one = one_of(choices)

    def read(value: object) -> tuple[Choice, ...]:
        texts = words(value)
        if texts == ("all",):
            return tuple(choices)
        if not texts:
            raise ValueError(f"all, or some of {', '.join(choices)}")
        chosen = {read_one(text) for text in texts}
        return tuple(choice for choice in choices if choice in chosen)

    return read


def items_of(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)


def words(value: object) -> tuple[str, ...]:
    """A list, or a text with commas between."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    items = items_of(value)
    if any(isinstance(item, dict | list | None) for item in items):
        raise ValueError("a list of texts")
    return tuple(str(item).strip() for item in items)


def names(value: object) -> tuple[str, ...]:
    """A list of names, possibly none."""
    found = words(value)
    if any(len(name) > NAME_CHARS_MAX for name in found):
        raise ValueError(f"names of at most {NAME_CHARS_MAX} characters, with commas between")
    return found


def words_or_all(value: object) -> tuple[str, ...] | None:
    """A list of names, or None for `all`."""
    found = words(value)
    if not found:
        raise ValueError("all, or at least one name")
    return None if found == ("all",) else found


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def host_name(value: object) -> str:
    """A name or address to listen on."""
    if not isinstance(value, str) or not is_host(value.strip().strip("[]")):
        raise ValueError('a host name or address like "127.0.0.1", without scheme and port')
    return value.strip().strip("[]")


def is_host(name: str) -> bool:
    return is_address(name) or HOST.fullmatch(name) is not None


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def api_keys(value: object) -> tuple[str, ...]:
    """Keys as they stand in a header."""
    # YAML takes 0123 for a number and would let in whoever sends 83.
    quoted = all(isinstance(item, str) for item in items_of(value))
    found = words(value) if quoted else ()
    if not quoted or not all(is_header_text(key) for key in found):
        raise ValueError("a list of texts (in YAML in quotes) of ASCII characters without spaces")
    return found


def is_header_text(key: str) -> bool:
    return key != "" and key.isascii() and key.isprintable() and " " not in key


def log_destinations(value: object) -> tuple[str, ...]:
    """Where log lines go."""
    found = words(value)
    for item in found:
        kind, _, rest = item.partition(":")
        if kind == "cloudwatch":
            raise ValueError(f"{DESTINATIONS}: this version has nothing yet for cloudwatch")
        if item != "stdout" and not (kind == "file" and rest):
            raise ValueError(DESTINATIONS)
    if not found:
        raise ValueError(DESTINATIONS)
    return found


def networks(value: object) -> tuple[str, ...]:
    """Addresses, networks in CIDR form, and host names."""
    found = words(value)
    for item in found:
        if not is_network(item) and not is_host(item):
            raise ValueError(
                f'a list of host names, addresses and networks like "10.1.0.0/16"; {item!r} is none'
            )
    return found


def is_network(item: str) -> bool:
    try:
        ipaddress.ip_network(item, strict=False)
    except ValueError:
        return False
    return True


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """Ends a message with the known name nearest to the given one, if any is near."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
