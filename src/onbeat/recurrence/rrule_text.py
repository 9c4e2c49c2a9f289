"""Reads and writes RRULE lines and iCalendar blocks (RFC 5545 3.3.10, 3.8.5; RFC 7529 SKIP).

Parsing is strict: input that the RFC forbids is refused with the place of the error. Names and
enumerated values are case-insensitive, as in the RFC, and are written in capitals.
"""

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from itertools import accumulate
from typing import Literal, NamedTuple, NoReturn, cast

from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import EXRULES_MAX
from onbeat.recurrence.day_masks import Skip
from onbeat.recurrence.easter import OFFSET_MAX as EASTER_MAX
from onbeat.recurrence.easter import OFFSET_MIN as EASTER_MIN
from onbeat.recurrence.tzif import DAY, EPOCH_ORDINAL

RULE_TEXT_MAX = 10_000
"""Characters of one rule: every BY part in full takes about 5,000."""

BLOCK_TEXT_MAX = 500_000
"""Characters of a block: 20,000 dates take about 340,000."""

DATES_MAX = 10_000
"""RDATE values, and as many EXDATE values: more belong in a rule or a calendar."""

ZONES_MAX = 20
"""Zones that the dates of a block may name: each zone's table takes time and memory."""

RULES_MAX = 50
"""RRULE lines: each one is queried at every step."""

NUMBER_MAX = 2**31 - 1
"""COUNT and INTERVAL, as other calendars store them; that many seconds are 68 years."""

Freq = Literal["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"]
FREQS: dict[str, Freq] = {
    "YEARLY": "YEARLY",
    "MONTHLY": "MONTHLY",
    "WEEKLY": "WEEKLY",
    "DAILY": "DAILY",
    "HOURLY": "HOURLY",
    "MINUTELY": "MINUTELY",
    "SECONDLY": "SECONDLY",
}
SKIPS: dict[str, Skip] = {"OMIT": "OMIT", "BACKWARD": "BACKWARD", "FORWARD": "FORWARD"}
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

Form = Literal["utc", "local", "date"]


class Moment(NamedTuple):
    """A DATE or DATE-TIME: wall-clock seconds since 1970, and what they are relative to."""

    wall: int
    form: Form
    zone: str | None = None


def moment_order(moment: Moment) -> tuple[int, str, str]:
    return moment.wall, moment.form, moment.zone or ""


class RuleParts(NamedTuple):
    """One RRULE; lists are sorted and unique. `by_day` has pairs of n (0: every) and weekday."""

    freq: Freq
    interval: int = 1
    count_max: int | None = None
    until: Moment | None = None
    by_month: tuple[int, ...] = ()
    by_week: tuple[int, ...] = ()
    by_year_day: tuple[int, ...] = ()
    by_month_day: tuple[int, ...] = ()
    by_day: tuple[tuple[int, int], ...] = ()
    by_hour: tuple[int, ...] = ()
    by_minute: tuple[int, ...] = ()
    by_second: tuple[int, ...] = ()
    by_position: tuple[int, ...] = ()
    week_start: int = 0
    skip: Skip = "OMIT"
    by_easter: tuple[int, ...] = ()


class Block(NamedTuple):
    """All lines of a block."""

    start: Moment | None = None
    rules: tuple[RuleParts, ...] = ()
    dates: tuple[Moment, ...] = ()
    excluded_rules: tuple[RuleParts, ...] = ()
    excluded_dates: tuple[Moment, ...] = ()


def read_block(text: str) -> Block:
    """The lines of an iCalendar block, or a single rule. Raises BadRecurrence."""
    if len(text) > BLOCK_TEXT_MAX:
        raise BadRecurrence(
            f"longer than {BLOCK_TEXT_MAX:,} characters", text[:100], BLOCK_TEXT_MAX
        )
    reader = BlockReader(text)
    lines = unfold(text)
    if not lines:
        reader.refuse("empty; write a rule such as FREQ=DAILY", 0)
    for line in lines:
        reader.read_line(line)
    return reader.block()


class ContentLine(NamedTuple):
    """An unfolded line, with the positions of its pieces in the whole text."""

    text: str
    starts: list[int]
    origins: list[int]

    def origin(self, index: int) -> int:
        piece = bisect_right(self.starts, index) - 1
        return self.origins[piece] + index - self.starts[piece]


def unfold(text: str) -> list[ContentLine]:
    lines: list[list[tuple[str, int]]] = []
    for match in re.finditer(r"[^\r\n]+", text):
        piece, at = match[0], match.start()
        if piece[0] in " \t" and lines:
            lines[-1].append((piece[1:], at + 1))
        elif piece.strip():
            indent = len(piece) - len(piece.lstrip())
            lines.append([(piece.strip() if indent else piece, at + indent)])
    return [join_pieces(pieces) for pieces in lines]


def join_pieces(pieces: list[tuple[str, int]]) -> ContentLine:
    starts = accumulate((len(piece) for piece, _ in pieces[:-1]), initial=0)
    whole = "".join(piece for piece, _ in pieces).rstrip()
    return ContentLine(whole, list(starts), [origin for _, origin in pieces])


PROPERTY = re.compile(r"(?P<name>[A-Za-z-]+)(?P<params>(?:;[^:;\"]*(?:\"[^\"]*\")?)*):")
PARAM = re.compile(r';([A-Za-z-]+)=(?:"([^"]*)"|([^;:"]*))')


class BlockReader:
    """Collects the content of the lines, with the position of each piece in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start: Moment | None = None
        self.rules: list[RuleParts] = []
        self.excluded_rules: list[RuleParts] = []
        self.dates: list[Moment] = []
        self.excluded_dates: list[Moment] = []
        self.zones: set[str] = set()

    def refuse(self, message: str, position: int | None) -> NoReturn:
        raise BadRecurrence(message, self.text[:RULE_TEXT_MAX], position)

    def block(self) -> Block:
        if self.start is None and not self.rules and not self.dates:
            self.refuse("no RRULE, RDATE or DTSTART in it", 0)
        return Block(
            self.start,
            tuple(self.rules),
            tuple(sorted(set(self.dates), key=moment_order)),
            tuple(self.excluded_rules),
            tuple(sorted(set(self.excluded_dates), key=moment_order)),
        )

    def read_line(self, line: ContentLine) -> None:
        match = PROPERTY.match(line.text)
        if not match:
            self.rules.append(self.read_rule(line, 0))
            return
        name, value_at = match["name"].upper(), match.end()
        match name:
            case "DTSTART":
                self.set_start(line, match["params"], value_at)
            case "RRULE":
                self.add_rule(self.rules, RULES_MAX, line, value_at)
            case "EXRULE":
                self.add_rule(self.excluded_rules, EXRULES_MAX, line, value_at)
            case "RDATE":
                self.add_dates(self.dates, line, match["params"], value_at)
            case "EXDATE":
                self.add_dates(self.excluded_dates, line, match["params"], value_at)
            case "BEGIN" | "END":
                message = f"leave out {name}; give the lines DTSTART to EXRULE of one event"
                self.refuse(message, line.origin(0))
            case _:
                known = "DTSTART, RRULE, RDATE, EXDATE or EXRULE"
                self.refuse(f"unknown property {name}; use {known}", line.origin(0))

    def set_start(self, line: ContentLine, params: str, value_at: int) -> None:
        if self.start is not None:
            self.refuse("DTSTART is given twice", line.origin(0))
        zone, kind = self.read_params(line, params)
        self.start = self.read_moment(line, value_at, line.text[value_at:], zone, kind)

    def add_rule(self, rules: list[RuleParts], most: int, line: ContentLine, value_at: int) -> None:
        if len(rules) >= most:
            name = "EXRULE" if rules is self.excluded_rules else "RRULE"
            self.refuse(f"more than {most} {name} lines", line.origin(0))
        rules.append(self.read_rule(line, value_at))

    def add_dates(self, dates: list[Moment], line: ContentLine, params: str, value_at: int) -> None:
        zone, kind = self.read_params(line, params)
        at = value_at
        for value in line.text[value_at:].split(","):
            if len(dates) >= DATES_MAX:
                self.refuse(f"more than {DATES_MAX:,} dates", line.origin(at))
            # Only the beginning of a PERIOD matters here.
            moment = value.split("/")[0] if kind == "PERIOD" else value
            dates.append(self.read_moment(line, at, moment, zone, kind))
            at += len(value) + 1

    def read_params(self, line: ContentLine, params: str) -> tuple[str | None, str]:
        """TZID and VALUE."""
        zone, kind, at = None, "", line.text.index(params) if params else 0
        for match in PARAM.finditer(params):
            name, value = match[1].upper(), match[2] or match[3]
            if name == "TZID":
                zone = value
                self.zones.add(zone)
                if len(self.zones) > ZONES_MAX:
                    self.refuse(f"more than {ZONES_MAX} time zones", line.origin(at))
            elif name == "VALUE" and value.upper() in {"DATE", "DATE-TIME", "PERIOD"}:
                kind = value.upper()
            else:
                self.refuse(
                    f"unknown parameter {name}={value[:30]}; use TZID or VALUE",
                    line.origin(at + match.start() + 1),
                )
        if PARAM.sub("", params):
            self.refuse("parameters are written ;NAME=VALUE", line.origin(at))
        return zone, kind

    def read_moment(
        self, line: ContentLine, at: int, value: str, zone: str | None, kind: str = ""
    ) -> Moment:
        match = re.fullmatch(
            r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T([0-9]{2})([0-9]{2})([0-9]{2})(Z?))?",
            value.upper(),
            re.ASCII,
        )
        where = line.origin(at)
        if not match:
            form = "YYYYMMDD" if kind == "DATE" else "YYYYMMDDTHHMMSS, with Z for UTC"
            self.refuse(f"{value[:30]!r} is not a date and time; write {form}", where)
        wall = self.wall_of(match, where)
        if match[4] is None:
            return Moment(wall, "date", zone)
        if kind == "DATE":
            self.refuse("VALUE=DATE goes with a date only, YYYYMMDD", where)
        if match[7] and zone:
            self.refuse("Z means UTC and cannot go with TZID; leave one out", where)
        return Moment(wall, "utc" if match[7] else "local", zone)

    def wall_of(self, match: re.Match[str], where: int) -> int:
        try:
            day = date(int(match[1]), int(match[2]), int(match[3])).toordinal() - EPOCH_ORDINAL
        except ValueError:
            self.refuse(f"there is no day {match[1]}-{match[2]}-{match[3]}", where)
        hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
        if hour > 23 or minute > 59 or second > 60:
            self.refuse(f"there is no time {hour:02}:{minute:02}:{second:02}", where)
        return day * DAY + hour * 3600 + minute * 60 + min(second, 59)

    def read_rule(self, line: ContentLine, at: int) -> RuleParts:
        if len(line.text) > RULE_TEXT_MAX:
            self.refuse(f"a rule longer than {RULE_TEXT_MAX:,} characters", line.origin(0))
        reader = RuleReader(self, line)
        parts = line.text[at:].split(";")
        if len(parts) > 1 and not parts[-1]:
            # A semicolon at the end is common enough; a note tells of it.
            parts.pop()
        for part in parts:
            reader.read_part(part, at)
            at += len(part) + 1
        return reader.parts()


class RuleReader:
    """Parses one rule into the fields of RuleParts."""

    def __init__(self, block: BlockReader, line: ContentLine) -> None:
        self.block = block
        self.line = line
        self.places: dict[str, int] = {}
        self.fields: dict[str, object] = {}

    def refuse(self, message: str, at: int) -> NoReturn:
        self.block.refuse(message, self.line.origin(min(at, len(self.line.text))))

    def read_part(self, part: str, at: int) -> None:
        name, equals, value = part.partition("=")
        name = name.upper()
        if not equals:
            self.refuse_part(part, at)
        if name in self.places:
            self.refuse(f"{name} is given twice", at)
        self.places[name] = at
        value_at = at + len(name) + 1
        if name == "DTSTART":
            if self.block.start is not None:
                self.refuse("DTSTART is given twice", at)
            self.block.start = self.block.read_moment(self.line, value_at, value, None)
            return
        if name not in READERS:
            self.refuse_part(part, at)
        READERS[name](self, value, value_at)

    def refuse_part(self, part: str, at: int) -> NoReturn:
        if not part:
            self.refuse("an empty part; leave out the extra semicolon", at)
        name = part.partition("=")[0][:20]
        close = difflib.get_close_matches(name.upper(), READERS, n=1)
        hint = f"did you mean {close[0]}?" if close else "parts are " + ", ".join(READERS)
        self.refuse(f"unknown part {name!r}; {hint}", at)

    def parts(self) -> RuleParts:
        if "FREQ" not in self.places:
            self.refuse("FREQ is missing; write e.g. FREQ=DAILY", 0)
        parts = RuleParts(**self.fields)  # type: ignore[arg-type]
        for wrong, name, message in conflicts(parts, set(self.places)):
            if wrong:
                self.refuse(message, self.places[name])
        return parts

    def read_choice(self, value: str, at: int, field: str, choices: Mapping[str, object]) -> None:
        chosen = choices.get(value.upper())
        if chosen is None:
            self.refuse(f"{value[:20]!r} is not one of {', '.join(choices)}", at)
        self.fields[field] = chosen

    def read_number(self, value: str, at: int, field: str) -> None:
        if not DIGITS.fullmatch(value) or not 1 <= int(value) <= NUMBER_MAX:
            self.refuse(f"{value[:20]!r} is not a whole number from 1 to {NUMBER_MAX:,}", at)
        self.fields[field] = int(value)

    def read_until(self, value: str, at: int) -> None:
        self.fields["until"] = self.block.read_moment(self.line, at, value, None)

    def read_list(self, value: str, at: int, field: str, low: int, high: int) -> None:
        """Integers from `low` to `high`; with a negative `low`, any but 0."""
        numbers: set[int] = set()
        for item in value.split(","):
            form = SIGNED if low < 0 else DIGITS
            if not form.fullmatch(item) or not low <= int(item) <= high or int(item) == 0 > low:
                span = f"1 to {high}, or negative" if low < 0 else f"{low} to {high}"
                self.refuse(f"{item[:20]!r} is not a whole number from {span}", at)
            numbers.add(int(item))
            at += len(item) + 1
        self.fields[field] = tuple(sorted(numbers))

    def read_easter(self, value: str, at: int) -> None:
        """Days after Easter Sunday, 0 for itself."""
        offsets: set[int] = set()
        for item in value.split(","):
            if not SIGNED.fullmatch(item) or not EASTER_MIN <= int(item) <= EASTER_MAX:
                span = f"{EASTER_MIN} to {EASTER_MAX}, so that it lies in the year of its Easter"
                self.refuse(f"{item[:20]!r} is not a whole number of days from {span}", at)
            offsets.add(int(item))
            at += len(item) + 1
        self.fields["by_easter"] = tuple(sorted(offsets))

    def read_seconds(self, value: str, at: int) -> None:
        self.read_list(value, at, "by_second", 0, 60)
        seconds = cast("tuple[int, ...]", self.fields["by_second"])
        # The engine has no leap seconds, so second 60 becomes 59.
        self.fields["by_second"] = tuple(sorted({min(second, 59) for second in seconds}))

    def read_days(self, value: str, at: int) -> None:
        days: set[tuple[int, int]] = set()
        for item in value.split(","):
            match = WEEKDAY.fullmatch(item.upper())
            if not match or (match[1] and not 1 <= abs(int(match[1])) <= 53):
                self.refuse(f"{item[:20]!r} is not a weekday such as MO, 1MO or -1FR", at)
            days.add((int(match[1] or 0), WEEKDAYS.index(match[2])))
            at += len(item) + 1
        self.fields["by_day"] = tuple(sorted(days, key=lambda day: (day[1], day[0])))

    def read_scale(self, value: str, at: int) -> None:
        if value.upper() != "GREGORIAN":
            self.refuse(f"RSCALE={value[:20]} is not supported; only GREGORIAN is", at)


DIGITS = re.compile(r"[0-9]{1,10}")
SIGNED = re.compile(r"[+-]?[0-9]{1,3}")
WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")

PartReader = Callable[[RuleReader, str, int], None]


def choice(field: str, choices: Mapping[str, object]) -> PartReader:
    return lambda reader, value, at: reader.read_choice(value, at, field, choices)


def number(field: str) -> PartReader:
    return lambda reader, value, at: reader.read_number(value, at, field)


def numbers(field: str, low: int, high: int) -> PartReader:
    return lambda reader, value, at: reader.read_list(value, at, field, low, high)


READERS: dict[str, PartReader] = {
    "FREQ": choice("freq", FREQS),
    "INTERVAL": number("interval"),
    "COUNT": number("count_max"),
    "UNTIL": RuleReader.read_until,
    "BYMONTH": numbers("by_month", 1, 12),
    "BYWEEKNO": numbers("by_week", -53, 53),
    "BYYEARDAY": numbers("by_year_day", -366, 366),
    "BYMONTHDAY": numbers("by_month_day", -31, 31),
    "BYEASTER": RuleReader.read_easter,
    "BYDAY": RuleReader.read_days,
    "BYHOUR": numbers("by_hour", 0, 23),
    "BYMINUTE": numbers("by_minute", 0, 59),
    "BYSECOND": RuleReader.read_seconds,
    "BYSETPOS": numbers("by_position", -366, 366),
    "WKST": choice("week_start", {day: index for index, day in enumerate(WEEKDAYS)}),
    "RSCALE": RuleReader.read_scale,
    "SKIP": choice("skip", SKIPS),
}


def conflicts(parts: RuleParts, given: set[str]) -> Iterator[tuple[bool, str, str]]:
    """Combinations that the RFC forbids: whether present, the part at fault, and the message."""
    freq, by = parts.freq, {name for name in given if name.startswith("BY")}
    yield {"COUNT", "UNTIL"} <= given, "UNTIL", "COUNT and UNTIL exclude each other; keep one"
    yield "BYWEEKNO" in by and freq != "YEARLY", "BYWEEKNO", "BYWEEKNO goes only with FREQ=YEARLY"
    yield (
        "BYYEARDAY" in by and freq in {"DAILY", "WEEKLY", "MONTHLY"},
        "BYYEARDAY",
        f"BYYEARDAY does not go with FREQ={freq}; use FREQ=YEARLY",
    )
    yield (
        "BYMONTHDAY" in by and freq == "WEEKLY",
        "BYMONTHDAY",
        "BYMONTHDAY does not go with FREQ=WEEKLY; use FREQ=MONTHLY",
    )
    numbered = any(n for n, _ in parts.by_day)
    yield (
        numbered and freq not in {"MONTHLY", "YEARLY"},
        "BYDAY",
        f"a number before a weekday does not go with FREQ={freq}; use MONTHLY or YEARLY",
    )
    yield (
        numbered and "BYWEEKNO" in by,
        "BYDAY",
        "a number before a weekday does not go with BYWEEKNO",
    )
    yield by == {"BYSETPOS"}, "BYSETPOS", "BYSETPOS chooses from another BY part; add one"


def write_block(block: Block) -> str:
    """Canonical text, in the order DTSTART, RRULE, RDATE, EXRULE, EXDATE.

    A single rule without anything else is written without `RRULE:`.
    """
    if block == Block(rules=block.rules) and len(block.rules) == 1:
        return write_rule(block.rules[0])
    lines = [f"DTSTART{write_property(block.start)}"] if block.start else []
    lines += [f"RRULE:{write_rule(rule)}" for rule in block.rules]
    lines += [f"RDATE{write_property(moment)}" for moment in block.dates]
    lines += [f"EXRULE:{write_rule(rule)}" for rule in block.excluded_rules]
    lines += [f"EXDATE{write_property(moment)}" for moment in block.excluded_dates]
    return "\n".join(lines)


def write_property(moment: Moment) -> str:
    zone = f";TZID={moment.zone}" if moment.zone else ""
    kind = ";VALUE=DATE" if moment.form == "date" else ""
    return f"{zone}{kind}:{write_moment(moment)}"


def write_moment(moment: Moment) -> str:
    day, second = divmod(moment.wall, DAY)
    text = date.fromordinal(day + EPOCH_ORDINAL).isoformat().replace("-", "")
    if moment.form == "date":
        return text
    clock = f"{second // 3600:02}{second // 60 % 60:02}{second % 60:02}"
    return f"{text}T{clock}{'Z' if moment.form == 'utc' else ''}"


def write_rule(parts: RuleParts) -> str:
    lists = {
        "BYMONTH": parts.by_month,
        "BYWEEKNO": parts.by_week,
        "BYYEARDAY": parts.by_year_day,
        "BYMONTHDAY": parts.by_month_day,
        "BYEASTER": parts.by_easter,
        "BYDAY": tuple(f"{n or ''}{WEEKDAYS[weekday]}" for n, weekday in parts.by_day),
        "BYHOUR": parts.by_hour,
        "BYMINUTE": parts.by_minute,
        "BYSECOND": parts.by_second,
        "BYSETPOS": parts.by_position,
    }
    written = {
        "RSCALE": "GREGORIAN" if parts.skip != "OMIT" else "",
        "FREQ": parts.freq,
        "INTERVAL": str(parts.interval) if parts.interval > 1 else "",
        "COUNT": str(parts.count_max or ""),
        "UNTIL": write_moment(parts.until) if parts.until else "",
        **{name: ",".join(map(str, values)) for name, values in lists.items()},
        "WKST": WEEKDAYS[parts.week_start] if parts.week_start else "",
        "SKIP": parts.skip if parts.skip != "OMIT" else "",
    }
    return ";".join(f"{name}={value}" for name, value in written.items() if value)
