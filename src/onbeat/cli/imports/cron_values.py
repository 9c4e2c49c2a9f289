"""The values of one field of a source's cron: lists, ranges, steps and names."""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

FIELD_CHARS_MAX: Final = 1_000

MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
DAYS_FROM_SUNDAY: Final = {
    name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}
DAYS_FROM_MONDAY: Final = {name: (number - 1) % 7 for name, number in DAYS_FROM_SUNDAY.items()}
NO_NAMES: Final[Mapping[str, int]] = {}

ITEM: Final = re.compile(
    r"(?:(?P<all>[*?])|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d{1,9}))?", re.ASCII
)


class BadField(ValueError):
    """A field that the source's cron does not have, with the reason."""


class FieldForm(NamedTuple):
    """`wraps`: a range may run backwards. `open_step`: `5/15` goes on to the highest value."""

    name: str
    low: int
    high: int
    names: Mapping[str, int] = NO_NAMES
    wraps: bool = False
    open_step: bool = False

    def read(self, text: str) -> frozenset[int]:
        """Raises `BadField`."""
        if len(text) > FIELD_CHARS_MAX:
            raise BadField(f"{self.name} has more than {FIELD_CHARS_MAX} characters")
        return frozenset(value for item in text.split(",") for value in self.read_item(item))

    def read_item(self, item: str) -> Iterable[int]:
        match = ITEM.fullmatch(item.lower())
        if not match:
            raise BadField(f"{item[:30]!r} is no {self.name}")
        step = int(match["step"] or 1)
        if step == 0:
            raise BadField(f"{item[:30]!r} has a step of 0")
        if match["all"]:
            return range(self.low, self.high + 1, step)
        low = self.value(match["low"])
        if match["high"] is None:
            if match["step"] and not self.open_step:
                raise BadField(f"{item[:30]!r} has a step without a range")
            return range(low, (self.high if match["step"] else low) + 1, step)
        high = self.value(match["high"])
        if low <= high:
            return range(low, high + 1, step)
        if not self.wraps:
            raise BadField(f"{item[:30]!r} runs backwards")
        return [*range(low, self.high + 1), *range(self.low, high + 1)][::step]

    def value(self, text: str) -> int:
        number = self.names.get(text[:3]) if text[:1].isalpha() else None
        if number is None:
            if not text.isdigit() or len(text) > 9:
                raise BadField(f"{text[:30]!r} is no {self.name}")
            number = int(text)
        if not self.low <= number <= self.high:
            raise BadField(f"{text[:30]} is no {self.name}: {self.low} to {self.high}")
        return number

    def is_whole(self, values: frozenset[int]) -> bool:
        return len(values) == self.high - self.low + 1

    def text(self, values: Iterable[int]) -> str:
        """The values as a field of cron, as short as a list of ranges, or a step, can be."""
        numbers = sorted(values)
        if self.is_whole(frozenset(numbers)):
            return "*"
        steps = {b - a for a, b in pairwise(numbers)}
        if len(numbers) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
            if numbers[0] == self.low and numbers[-1] + step > self.high:
                return f"*/{step}"
            return f"{numbers[0]}-{numbers[-1]}/{step}"
        return ",".join(spans(numbers))


def spans(numbers: list[int]) -> list[str]:
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] + 1 == number:
            found[-1].append(number)
        else:
            found.append([number])
    return [f"{a[0]}-{a[-1]}" if len(a) > 1 else f"{a[0]}" for a in found]


MINUTE: Final = FieldForm("minute", 0, 59)
HOUR: Final = FieldForm("hour", 0, 23)
MONTH_DAY: Final = FieldForm("day of month", 1, 31)
MONTH: Final = FieldForm("month", 1, 12, MONTHS)
WEEKDAY: Final = FieldForm("day of week", 0, 7, DAYS_FROM_SUNDAY)


def from_monday(weekdays: Iterable[int]) -> frozenset[int]:
    """Weekdays that count from Sunday = 0 (or 7) as those that count from Monday = 0."""
    return frozenset((day + 6) % 7 for day in weekdays)
