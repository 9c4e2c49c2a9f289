"""Reads a recurrence in a few fixed English words: `every 2 hours`, `every monday at 9:00`.

    every [NUMBER] second|minute|hour|day|week|month|year[s]
    every day|weekday|NAME[, NAME …] [and NAME] [at HH:MM[:SS]]
    every SPAN

The first counts elapsed time, or months by the calendar; the second is by the clock.
"""

import re
from typing import NamedTuple, NoReturn

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.durations import read_duration, write_duration
from onbeat.recurrence.rrule_text import WEEKDAYS

PHRASE_CHARS_MAX = 200
"""Seven weekdays and a time take about 80."""

UNITS = {
    "second": "{}s",
    "minute": "{}m",
    "hour": "{}h",
    "day": "{}d",
    "week": "{}w",
    "month": "P{}M",
    "year": "P{}Y",
}
NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?", re.ASCII)


class Phrase(NamedTuple):
    """A span, or an RRULE."""

    span: str = ""
    rule: str = ""


class PhraseWord(NamedTuple):
    text: str
    at: int


def is_phrase(text: str) -> bool:
    return bool(re.match(r"\s*every\s", text, re.IGNORECASE))


def read_phrase(text: str) -> Phrase:
    """Raises BadRecurrence with the place of the error."""
    if len(text) > PHRASE_CHARS_MAX:
        raise BadRecurrence(
            f"longer than {PHRASE_CHARS_MAX} characters", text[:PHRASE_CHARS_MAX], PHRASE_CHARS_MAX
        )
    return PhraseReader(text).read()


class PhraseReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words = [
            PhraseWord(match[0].lower(), match.start()) for match in re.finditer(r",|[^\s,]+", text)
        ]
        self.next = 0

    def refuse(self, message: str, at: int) -> NoReturn:
        raise BadRecurrence(message, self.text, at)

    def peek(self) -> PhraseWord:
        """The next word; an empty one behind the last."""
        if self.next < len(self.words):
            return self.words[self.next]
        return PhraseWord("", len(self.text.rstrip()))

    def take(self) -> PhraseWord:
        word = self.peek()
        self.next += 1
        return word

    def read(self) -> Phrase:
        first = self.take()
        if first.text != "every":
            self.refuse("a phrase begins with every", first.at)
        word = self.peek()
        days = self.read_days()
        if days and (days != "FREQ=DAILY" or self.peek().text):
            return Phrase(rule=f"{days};{self.read_clock()}")
        if days:
            return Phrase(span="1d")
        return Phrase(span=self.read_span(word))

    def read_days(self) -> str:
        """The rule of the days that are named; empty if the next word names none."""
        word = self.peek().text
        if word == "day":
            self.take()
            return "FREQ=DAILY"
        if word == "weekday":
            self.take()
            return "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR"
        if self.weekday(word) is None:
            return ""
        numbers = {self.take_weekday()}
        while self.peek().text in {",", "and"}:
            self.take()
            numbers.add(self.take_weekday())
        return "FREQ=WEEKLY;BYDAY=" + ",".join(WEEKDAYS[number] for number in sorted(numbers))

    def take_weekday(self) -> int:
        word = self.take()
        number = self.weekday(word.text)
        if number is None:
            self.refuse(f"{word.text[:20]!r} is not a weekday such as monday", word.at)
        return number

    def weekday(self, word: str) -> int | None:
        """The number of `monday`, `mondays` or `mon`."""
        for number, name in enumerate(NAMES):
            if word in {name, f"{name}s", name[:3]}:
                return number
        return None

    def read_clock(self) -> str:
        """`at 9:00`; midnight if nothing follows."""
        word = self.take()
        hour = minute = second = 0
        if word.text:
            if word.text != "at":
                self.refuse(f"{word.text[:20]!r} is not expected here; write at 9:00", word.at)
            time = self.take()
            match = TIME.fullmatch(time.text)
            hour, minute, second = (
                (int(part or 0) for part in match.groups()) if match else (24, 0, 0)
            )
            if hour > 23 or minute > 59 or second > 59:
                self.refuse(f"{time.text[:20]!r} is not a time of day such as 9:00", time.at)
            self.end()
        return f"BYHOUR={hour};BYMINUTE={minute};BYSECOND={second}"

    def end(self) -> None:
        word = self.peek()
        if word.text:
            self.refuse(f"{word.text[:20]!r} is not expected here; the phrase ends before", word.at)

    def read_span(self, word: PhraseWord) -> str:
        """`2 hours`, `hour` or `1h30m`."""
        number, unit = "1", word
        if re.fullmatch(r"\d{1,9}", word.text, re.ASCII) and self.next + 1 < len(self.words):
            self.take()
            number, unit = word.text, self.peek()
        form = UNITS.get(unit.text.removesuffix("s"))
        if form is None:
            return self.read_short_span(word)
        self.take()
        self.end()
        return self.span_at(form.format(int(number)), word.at)

    def read_short_span(self, word: PhraseWord) -> str:
        if not word.text[:1].isdigit() and word.text[:1] != "p":
            self.refuse(
                f"{word.text[:20]!r} is not expected here; write every 2 hours, every 15m,"
                " every day at 9:00 or every monday at 9:00",
                word.at,
            )
        return self.span_at(self.text[word.at :].rstrip(), word.at)

    def span_at(self, span: str, at: int) -> str:
        try:
            return write_duration(read_duration(span))
        except BadRecurrence as error:
            self.refuse(str(error), min(at + (error.position or 0), len(self.text)))
