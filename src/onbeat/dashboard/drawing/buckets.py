"""Counts of a lane: a bar for each bucket, numbers where there is room, words for the script."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from math import sqrt
from typing import Final

from markupsafe import Markup

from onbeat.dashboard.drawing.day_axis import HOUR, Scale
from onbeat.dashboard.drawing.svg import element, number
from onbeat.dashboard.formats import short_number
from onbeat.model.timeline import TimelineSpan
from onbeat.wire.timeline import BucketAnswer

HEIGHT: Final = 28
WIDE: Final = 1440
"""Units across a drawing of buckets; it is stretched to the width that there is."""
LEAST: Final = 3.0
"""The height of a bucket with anything in it."""
STACK: Final = (
    "failed", "cancelled", "skipped", "waiting", "running", "succeeded", "forgotten", "planned",
)  # fmt: skip
"""From the bottom up."""
MINUTE: Final = timedelta(minutes=1)
STEPS: Final = {
    TimelineSpan.HOURS: (15 * MINUTE, HOUR),
    TimelineSpan.DAY: (HOUR, 3 * HOUR),
    TimelineSpan.WEEK: (6 * HOUR, 24 * HOUR),
}
"""How much time has one number: on a wide page, and on a narrow one."""
ROOM: Final = {"n": 0.028, "few": 0.086}
"""The share of a drawing of 1,000 and of 326 pixels that 28 pixels are, which a number needs."""
NUMBER_MIN: Final = 2
"""The least number that is written: a single run is seen."""

Tell = Callable[[datetime], str]
"""An instant in words, in the zone of the page."""


def totals(found: Iterable[BucketAnswer]) -> dict[str, int]:
    all_of_them = list(found)
    return {name: sum(getattr(one, name) for one in all_of_them) for name in STACK}


def stacked(scale: Scale, found: Sequence[BucketAnswer]) -> Markup:
    """Bars with a part for each outcome; all parts of one kind are one path."""
    paths: dict[str, list[str]] = {name: [] for name in STACK}
    most = max((size(one) for one in found), default=1)
    for one in found:
        left, right = WIDE * scale.share(one.first), WIDE * scale.share(one.last)
        gap = min(1.0, (right - left) / 4)
        add_bar(paths, one, left + gap / 2, right - left - gap, most)
    parts = (
        element("path", class_=name, d="".join(steps)) for name, steps in paths.items() if steps
    )
    back = element("path", class_="back", d=f"M0 0h{WIDE}v{HEIGHT}h-{WIDE}z")
    return element(
        "svg",
        back,
        *parts,
        width="100%",
        height=HEIGHT,
        viewBox=f"0 0 {WIDE} {HEIGHT}",
        preserveAspectRatio="none",
    )


def size(one: BucketAnswer) -> int:
    return sum(getattr(one, name) for name in STACK)


def add_bar(
    paths: dict[str, list[str]], one: BucketAnswer, left: float, width: float, most: int
) -> None:
    total = size(one)
    full = max(LEAST, (HEIGHT - 4) * sqrt(total / most))
    bottom = float(HEIGHT - 2)
    for name in STACK:
        count = getattr(one, name)
        if count:
            # What failed is seen however much else there was.
            part = max(LEAST if name == "failed" else 0.0, full * count / total)
            bottom -= part
            wide, high = number(width), number(part)
            paths[name].append(f"M{number(left)} {number(bottom)}h{wide}v{high}h-{wide}z")


def figures(scale: Scale, found: Sequence[BucketAnswer]) -> Iterator[Markup]:
    """How many there were in steps of time, one set for wide pages and one for narrow ones."""
    for kind, step in zip(ROOM, STEPS[scale.span], strict=True):
        sums: dict[tuple[int, bool], int] = {}
        for one in found:
            key = (one.first - scale.first) // step, one.first >= scale.now
            sums[key] = sums.get(key, 0) + size(one)
        texts: list[Markup] = []
        for (place, is_later), total in sums.items():
            first, last = part(scale, scale.first + place * step, step, is_later=is_later)
            if total >= NUMBER_MIN and last - first >= ROOM[kind]:
                x = f"{number(round(50 * (first + last), 1 if kind == 'n' else 0))}%"
                texts.append(element("text", short_number(total), x=x))
        if texts:
            yield element("svg", *texts, class_=kind)


def part(scale: Scale, at: datetime, step: timedelta, *, is_later: bool) -> tuple[float, float]:
    """Where a step lies, as shares of the width; of the one with now the part on one side of it."""
    first, last, now = scale.share(at), scale.share(at + step), scale.share(scale.now)
    return (max(first, now), last) if is_later else (first, min(last, now))


def counts_text(scale: Scale, found: Sequence[BucketAnswer], tell: Tell) -> str:
    """Each bucket for the script: its bounds in seconds on the axis, and its counts in words."""
    return ";".join(
        f"{seconds(scale, one.first)},{seconds(scale, one.last)},{counts_in_words(one, tell)}"
        for one in found
    )


def seconds(scale: Scale, at: datetime) -> str:
    """Exact to the microsecond, as a filter by the bounds of a bucket has to be."""
    text = f"{(at - scale.first).total_seconds():.6f}"
    return text.rstrip("0").rstrip(".")


def counts_in_words(one: BucketAnswer, tell: Tell) -> str:
    about = "about " if one.about else ""
    counts = ((name, getattr(one, name)) for name in STACK)
    words = [
        f"{about if name == 'planned' else ''}{count} {name}" for name, count in counts if count
    ]
    if one.first_failure is not None:
        words.append(f"the first that failed was due {tell(one.first_failure)}")
    return " · ".join(words)
