"""Twelve months of a rule: a column a week, a cell a day, the darker the more it fires."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from markupsafe import Markup

from onbeat.dashboard.drawing.heat import bounds, level
from onbeat.dashboard.drawing.svg import element, joined, percent
from onbeat.model.timeline import ClockChange
from onbeat.operations.years import YearOfFires

DAYS: Final = 365
WEEK: Final = 7
COLUMNS: Final = DAYS // WEEK + 2
ROW: Final = 10
"""Pixels from one day to the next."""
TOP: Final = 16
HEIGHT: Final = TOP + WEEK * ROW
DAY: Final = timedelta(days=1)


def year(found: YearOfFires) -> Markup:
    """The drawing. Days without fires are only a ground; each other day tells its number."""
    steps = bounds(max(found.days))
    turned = {turned_day(change): turned_words(change) for change in found.changes}
    cells = [cell(found, number, steps, turned) for number in range(len(found.days))]
    return element(
        "svg",
        joined([*months(found.first), *cells]),
        class_="year",
        width="100%",
        height=HEIGHT,
        role="img",
        aria_label=sentence(found),
    )


def cell(
    found: YearOfFires, number: int, steps: tuple[int, ...], turned: dict[date, str]
) -> Markup:
    day, fires = found.first + number * DAY, found.days[number]
    kind, words = (
        f"heat-{level(fires, steps)}",
        f"{fires:,} {'occurrence' if fires == 1 else 'occurrences'}",
    )
    if found.counted_to is not None and day >= found.counted_to:
        kind, words = "unread", "not counted"
    if day in turned:
        kind, words = f"{kind} turn", f"{words}; {turned[day]}"
    column, row = place_of(found.first, day)
    title = element("title", f"{day:%a} {day.day} {day:%b %Y}: {words}")
    tells = fires or day in turned
    return element(
        "rect", title if tells else "", class_=kind, x=percent(column / COLUMNS), y=TOP + row * ROW
    )


def place_of(first: date, day: date) -> tuple[int, int]:
    """The column of its week, which begins on Monday, and the row of its weekday."""
    monday = first - first.weekday() * DAY
    return divmod((day - monday).days, WEEK)


def months(first: date) -> Iterator[Markup]:
    """The name of each month above the week of its first day."""
    days = (first + number * DAY for number in range(DAYS))
    for day in days:
        if day.day == 1:
            column, _ = place_of(first, day)
            kind = "odd" if day.month % 2 else None
            yield element("text", f"{day:%b}", class_=kind, x=percent(column / COLUMNS), y=TOP - 5)


def turned_day(change: ClockChange) -> date:
    return change.before.date()


def turned_words(change: ClockChange) -> str:
    first, last = sorted((change.before, change.after))
    what = "does not exist" if change.is_gap else "comes twice"
    return f"{first:%H:%M} to {last:%H:%M} {what}"


def sentence(found: YearOfFires) -> str:
    """`It fires on 251 of 365 days, at most 4 times a day.`"""
    days = sum(1 for fires in found.days if fires)
    text = f"It fires on {days:,} of {len(found.days):,} days"
    most = max(found.days)
    if most > 1:
        text += f", at most {most:,} times a day"
    if found.counted_to is not None:
        text += f"; counted up to {found.counted_to.day} {found.counted_to:%b %Y}"
    return f"{text}."
