"""Reads and writes cron expressions of 5, 6 (seconds first) and 7 (year last) fields."""

import re
from typing import NamedTuple, NoReturn

from onbeat.model.errors import BadRecurrence

CRON_TEXT_MAX = 10_000
"""Characters of an expression: all lists in full take about 50,000 only if every year is named."""

YEAR_FIRST, YEAR_LAST = 1970, 9999

STEP_DIGITS_MAX = 9
"""Digits of a step; a larger number is a mistake."""

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Field(NamedTuple):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    names_from: int = 0
    hashed_high: int | None = None
    """H stays below this, so that it exists in every month."""


SECOND = Field("second", 0, 59)
MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of month", 1, 31, hashed_high=28)
MONTH = Field("month", 1, 12, MONTHS, 1)
WEEKDAY = Field("day of week", 0, 7, DAYS, hashed_high=6)
YEAR = Field("year", YEAR_FIRST, YEAR_LAST)

FIELDS = {
    5: (MINUTE, HOUR, DAY, MONTH, WEEKDAY),
    6: (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY),
    7: (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR),
}


class CronParts(NamedTuple):
    """The values that an expression selects. Weekdays count from Monday = 0, unlike in cron.

    `real_time`: minute or hour begins with `*`. `both_days`: a day has to match day of month and
    day of week. `either_day`: one match is enough. `last_days` are days before the last one;
    `near_days` are the days whose nearest weekday is selected, 0 for the month's last.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: frozenset[int]
    last_days: frozenset[int]
    near_days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    years: frozenset[int]
    real_time: bool
    either_day: bool


class CronText(NamedTuple):
    """An expression in canonical form, the zone of its TZ= prefix, and notes on its meaning."""

    text: str
    zone: str | None
    parts: CronParts
    notes: tuple[str, ...] = ()


def read_cron(text: str, key: str = "") -> CronText:
    """Raises BadRecurrence with the place of the error. `key` determines the values of `H`."""
    if len(text) > CRON_TEXT_MAX:
        raise BadRecurrence(f"longer than {CRON_TEXT_MAX:,} characters", text[:100], CRON_TEXT_MAX)
    reader = CronReader(text, key)
    words = [(match[0], match.start()) for match in re.finditer(r"\S+", text)]
    zone = None
    if words and (match := re.fullmatch(r"(?:CRON_)?TZ=(\S+)", words[0][0])):
        zone, words = match[1], words[1:]
    if len(words) == 1 and words[0][0].startswith("@"):
        return CronText(words[0][0].lower(), zone, read_alias(reader, *words[0]))
    canonical = " ".join(word.upper() for word, _ in words)
    return CronText(canonical, zone, reader.read_fields(words), tuple(reader.notes))


def read_alias(reader: "CronReader", word: str, at: int) -> CronParts:
    expression = ALIASES.get(word.lower())
    if expression is None:
        if word.lower() == "@reboot":
            reader.refuse("@reboot has no time; start such work from your program", at)
        reader.refuse(f"unknown name {word[:20]}; use one of {', '.join(ALIASES)}", at)
    return CronReader(expression, "").read_fields(
        [(match[0], match.start()) for match in re.finditer(r"\S+", expression)]
    )


class Chosen:
    """The values that one field selects, while it is parsed."""

    def __init__(self) -> None:
        self.values: set[int] = set()
        self.last_days: set[int] = set()
        self.near_days: set[int] = set()
        self.nth: set[tuple[int, int]] = set()
        self.extra: set[int] = set()


ITEM = re.compile(
    r"(?P<all>[*?])(?:/(?P<all_step>\d+))?"
    r"|(?P<hash>H)(?:\((?P<hash_low>\d+)-(?P<hash_high>\d+)\))?(?:/(?P<hash_step>\d+))?"
    r"|(?P<low>\d+|[A-Z]{3})(?:-(?P<high>\d+|[A-Z]{3}))?(?:/(?P<step>\d+))?",
    re.ASCII,
)


class CronReader:
    def __init__(self, text: str, key: str) -> None:
        self.text = text
        self.key = key
        self.notes: list[str] = []

    def refuse(self, message: str, at: int | None) -> NoReturn:
        raise BadRecurrence(message, self.text, at)

    def read_fields(self, words: list[tuple[str, int]]) -> CronParts:
        fields = FIELDS.get(len(words))
        if fields is None:
            at = words[7][1] if len(words) > 7 else len(self.text.rstrip())
            self.refuse(
                f"{len(words)} fields; cron has 5 (minute hour day month weekday), 6 with seconds"
                " first, or 7 with the year last",
                at,
            )
        chosen = {
            field.name: self.read_field(field, word.upper(), at)
            for field, (word, at) in zip(fields, words, strict=True)
        }
        written = {field.name: word for field, (word, _) in zip(fields, words, strict=True)}
        return cron_parts(chosen, written)

    def read_field(self, field: Field, word: str, at: int) -> Chosen:
        chosen = Chosen()
        # A bytearray and not a set, as a list can name thousands of years thousands of times.
        marks = bytearray(field.high + 1)
        for item in word.split(","):
            if not self.read_special(field, chosen, item, at):
                span = self.read_item(field, item, at)
                marks[span.start : span.stop : span.step] = b"\1" * len(span)
            at += len(item) + 1
        chosen.values = chosen.extra | {value for value, marked in enumerate(marks) if marked}
        return chosen

    def read_special(self, field: Field, chosen: Chosen, item: str, at: int) -> bool:
        """L, W and # forms. False when the item is none of them."""
        if field is DAY:
            return self.read_day_form(chosen, item, at)
        if field.name == WEEKDAY.name:
            return self.read_weekday_form(chosen, item, at)
        return False

    def read_day_form(self, chosen: Chosen, item: str, at: int) -> bool:
        if item in {"LW", "WL"}:
            chosen.near_days.add(0)
        elif match := re.fullmatch(r"L(?:-(\d{1,2}))?", item, re.ASCII):
            if int(match[1] or 0) > 30:
                self.refuse(f"{item} is before every month's first day; use L to L-30", at)
            chosen.last_days.add(int(match[1] or 0))
        elif match := re.fullmatch(r"(?:(\d{1,2})W|W(\d{1,2}))", item, re.ASCII):
            day = int(match[1] or match[2])
            if not 1 <= day <= 31:
                self.refuse(f"{item} is no day of a month; use 1W to 31W", at)
            chosen.near_days.add(day)
        else:
            return False
        return True

    def read_weekday_form(self, chosen: Chosen, item: str, at: int) -> bool:
        if match := re.fullmatch(r"(\d|[A-Z]{3})#(\d+)", item, re.ASCII):
            if not 1 <= int(match[2]) <= 5:
                self.refuse(f"{item} counts weekdays of a month from #1 to #5", at)
            chosen.nth.add((int(match[2]), self.weekday(match[1], at)))
        elif match := re.fullmatch(r"(?:(\d|[A-Z]{3})L|L(\d|[A-Z]{3}))", item, re.ASCII):
            chosen.nth.add((-1, self.weekday(match[1] or match[2], at)))
        else:
            return False
        return True

    def weekday(self, text: str, at: int) -> int:
        """From Monday = 0."""
        return (self.value(WEEKDAY, text, at) + 6) % 7

    def read_item(self, field: Field, item: str, at: int) -> range:
        match = ITEM.fullmatch(item)
        if not match:
            self.refuse(self.expected_message(field, item), at)
        if match["all"]:
            if match["all"] == "?" and field.name not in {DAY.name, WEEKDAY.name}:
                self.refuse(f"? goes only into the day fields, not into {field.name}; use *", at)
            return self.spread(field, field.low, field.high, match["all_step"], at)
        if match["hash"]:
            return self.hash_range(field, match, at)
        low = self.value(field, match["low"], at)
        if match["high"] is None:
            last = field.high if match["step"] else low
            return self.spread(field, low, last, match["step"], at)
        high_at = at + match.start("high")
        high = self.value(field, match["high"], high_at)
        if field is WEEKDAY and match["high"] in {"SUN", "0"} and low:
            high = 7
        if high < low:
            self.refuse(
                f"{item} runs backwards; write {match['low']}-{field.high},"
                f"{field.low}-{match['high']}",
                at,
            )
        return self.spread(field, low, high, match["step"], at)

    def expected_message(self, field: Field, item: str) -> str:
        names = f", {field.names[0]} to {field.names[-1]}" if field.names else ""
        what = repr(item[:20]) if item else "an empty item"
        article = "an" if field is HOUR else "a"
        return (
            f"{what} is not {article} {field.name}; use {field.low} to {field.high}{names},"
            " a range 1-5, a step */2, or a list of these"
        )

    def value(self, field: Field, text: str, at: int) -> int:
        if text in field.names:
            return field.names.index(text) + field.names_from
        if not text.isdigit() or len(text) > 9 or not field.low <= int(text) <= field.high:
            self.refuse(self.expected_message(field, text), at)
        return int(text)

    def spread(self, field: Field, low: int, high: int, step: str | None, at: int) -> range:
        if step is None:
            return range(low, high + 1)
        if len(step) > STEP_DIGITS_MAX or int(step) == 0:
            self.refuse(f"a step of {step[:20]} is not from 1 to {field.high}", at)
        if int(step) > field.high - field.low:
            # As in other crons.
            self.note(
                f"a step of {int(step)} is larger than the field {field.name}: it means {low}"
            )
        if field is WEEKDAY and low == 0 and high == 7:
            high = 6
        return range(low, high + 1, int(step))

    def note(self, text: str) -> None:
        if text not in self.notes[-1:]:
            self.notes.append(text)

    def hash_range(self, field: Field, match: re.Match[str], at: int) -> range:
        """H: one value, or every step from one, always the same for the same key."""
        if field is YEAR:
            self.refuse("H does not go into the year", at)
        low, high = field.low, field.hashed_high or field.high
        if match["hash_low"]:
            low = self.value(field, match["hash_low"], at)
            high = self.value(field, match["hash_high"], at)
            if high < low:
                self.refuse(f"{match[0]} runs backwards; write the smaller number first", at)
        digest = field_hash(self.key, field.name)
        if not match["hash_step"]:
            value = low + digest % (high - low + 1)
            return range(value, value + 1)
        size = high - low + 1
        if len(match["hash_step"]) > STEP_DIGITS_MAX or int(match["hash_step"]) == 0:
            self.refuse(f"a step of {match['hash_step'][:20]} is not from 1 to {size}", at)
        step = min(int(match["hash_step"]), size)
        return range(low + digest % step, high + 1, step)


def field_hash(key: str, field: str) -> int:
    """FNV-1a, 32 bits, over key, a zero byte and the field's name in UTF-8.

    Must never change, as stored schedules rely on it.
    """
    digest = 0x811C9DC5
    for byte in f"{key}\0{field}".encode():
        digest = (digest ^ byte) * 0x01000193 & 0xFFFFFFFF
    return digest


def cron_parts(chosen: dict[str, Chosen], written: dict[str, str]) -> CronParts:
    days, weekdays = chosen[DAY.name], chosen[WEEKDAY.name]
    starred = any(written[field.name][0] in "*?" for field in (DAY, WEEKDAY))
    years = chosen.get(YEAR.name)
    return CronParts(
        seconds=tuple(sorted(chosen[SECOND.name].values)) if SECOND.name in chosen else (0,),
        minutes=tuple(sorted(chosen[MINUTE.name].values)),
        hours=tuple(sorted(chosen[HOUR.name].values)),
        month_days=frozenset(days.values),
        last_days=frozenset(days.last_days),
        near_days=frozenset(days.near_days),
        months=frozenset(chosen[MONTH.name].values),
        weekdays=frozenset((day + 6) % 7 for day in weekdays.values),
        nth_weekdays=frozenset(weekdays.nth),
        years=frozenset()
        if years is None or written[YEAR.name] == "*"
        else frozenset(years.values),
        real_time=any(written[field.name][0] == "*" for field in (MINUTE, HOUR)),
        either_day=not starred,
    )
