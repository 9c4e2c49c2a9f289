"""The line of search over jobs: `state:failed task:billing.* label:run:2026-11 "timeout" since:2h`.

Words are separated by spaces. `name:value` is a filter, a text in double quotes is a part of the
error, and any other word is a task.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.limits import SEARCH_CHARS_MAX, SEARCH_LABELS_MAX

FIELD: Final = "q"
NAMES: Final[Mapping[str, str]] = {
    "state": "state",
    "queue": "queue",
    "task": "task",
    "schedule": "schedule_id",
    "schedule_id": "schedule_id",
    "flow": "flow",
    "fault": "fault",
    "label": "label",
    "error": "error",
    "unique": "unique",
    "since": "since",
    "until": "until",
}
"""What a line may say, each with the parameter of the API that it sets."""
WORD: Final = re.compile(r'(?:(?P<name>[a-z_]+):)?(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s"]+))')
SPAN: Final = re.compile(r"(?P<count>\d{1,6}(?:\.\d{1,3})?)(?P<unit>[smhdw])")
UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


class Word(msgspec.Struct, frozen=True):
    """A filter of the line, and where it begins, from 1."""

    name: str
    value: str
    place: int


def read_search(line: str) -> Mapping[str, str | tuple[str, ...]]:
    """The parameters of `job.list` that the line stands for; of several `label:` as a tuple.

    Raises `Invalid`, which says at which character, and what may stand there.
    """
    if len(line) > SEARCH_CHARS_MAX:
        raise Invalid(f"The search may have at most {SEARCH_CHARS_MAX} characters", FIELD)
    found: dict[str, str | tuple[str, ...]] = {}
    pairs: list[str] = []
    for word in words(line):
        if word.name == "label":
            pairs.append(checked_label(word))
        elif word.name in found:
            raise refusal(f"{word.name} is given twice", word)
        else:
            found[word.name] = checked_value(word)
    if len(pairs) > SEARCH_LABELS_MAX:
        raise Invalid(f"A search may have at most {SEARCH_LABELS_MAX} of label:", FIELD)
    return {**found, "label": tuple(pairs)} if pairs else found


def words(line: str) -> Iterator[Word]:
    place = 0
    while place < len(line):
        if line[place].isspace():
            place += 1
            continue
        yield word_at(line, place)
        place = end_of_word(line, place)


def word_at(line: str, place: int) -> Word:
    found = WORD.match(line, place)
    if found is None:
        raise Invalid(f'Character {place + 1}: a quoted text needs an end, as in "timeout"', FIELD)
    value = found["plain"] if found["quoted"] is None else found["quoted"]
    name = found["name"]
    if name is None:
        return Word("task" if found["quoted"] is None else "error", value, place + 1)
    if name not in NAMES:
        known = ", ".join(sorted(set(NAMES)))
        raise Invalid(
            f"Character {place + 1}: {name}: is no filter; known are {known}, and a text in quotes"
            " is looked for in errors",
            FIELD,
        )
    return Word(NAMES[name], value, place + 1)


def end_of_word(line: str, place: int) -> int:
    found = WORD.match(line, place)
    assert found is not None, "it was read"
    return found.end()


def checked_label(word: Word) -> str:
    if ":" not in word.value:
        raise refusal("a label is looked for as label:key:value", word)
    return word.value


def checked_value(word: Word) -> str:
    states = [str(state) for state in JobState]
    if word.name == "state" and word.value not in states:
        raise refusal(f"state must be one of {', '.join(states)}", word)
    if not word.value:
        raise refusal(f"{word.name} is empty", word)
    return word.value


def refusal(text: str, word: Word) -> Invalid:
    return Invalid(f"Character {word.place}: {text}", FIELD)


def search_line(filters: Mapping[str, str | tuple[str, ...]]) -> str:
    """The line that stands for these parameters."""
    parts: list[str] = []
    for name, value in filters.items():
        for one in (value,) if isinstance(value, str) else value:
            short = "schedule" if name == "schedule_id" else name
            parts.append(quoted(one) if name == "error" else f"{short}:{quoted_if_needed(one)}")
    return " ".join(parts)


def quoted(text: str) -> str:
    """A double quote cannot stand in a text; what is left of it still matches."""
    return f'"{text.replace(chr(34), " ").strip()}"'


def quoted_if_needed(text: str) -> str:
    return quoted(text) if re.search(r"\s", text) else text


def read_moment(text: str, field: str, now: datetime, zone: tzinfo = UTC) -> datetime:
    """An instant: RFC 3339, `2h` for so long ago, or the begin of `today` or `yesterday`.

    A time without an offset, and a day, are in `zone`. Raises `Invalid`.
    """
    word = text.strip()
    if word in {"today", "yesterday"}:
        there = now.astimezone(zone).date() - timedelta(days=word == "yesterday")
        return datetime(there.year, there.month, there.day, tzinfo=zone).astimezone(UTC)
    span = SPAN.fullmatch(word)
    try:
        if span is not None:
            return now - float(span["count"]) * UNITS[span["unit"]]
        # A `+` in an address stands for a space.
        found = datetime.fromisoformat(word.replace(" ", "+") if "T" in word else word)
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(
            f"{field} must be an instant such as 2026-01-31T09:00:00Z, a span such as 2h for so"
            " long ago, today or yesterday",
            field,
        ) from None
