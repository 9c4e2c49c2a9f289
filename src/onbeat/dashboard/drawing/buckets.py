"""Counts of a lane: a bar for each bucket, numbers where there is room, words for the script."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from math import sqrt
from operator import attrgetter
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
COUNTS: Final[Callable[[BucketAnswer], tuple[int, ...]]] = attrgetter(*STACK)
"""Those of one bucket, in this order. A page has thousands of buckets."""
SECOND: Final = timedelta(seconds=1)
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
    sums = map(sum, zip(*map(COUNTS, found), strict=True))
    result: dict[str, int] = dict.fromkeys(STACK, 0)
    result.update(zip(STACK, sums, strict=False))
    return result


def stacked(scale: Scale, found: Sequence[BucketAnswer]) -> Markup:
    """Bars with a part for each outcome, in one path for each kind; outlines of what is planned."""
    paths: dict[str, list[str]] = {name: [] for name in STACK}
    sizes = list(map(size, found))
    most = max(sizes, default=1)
    for one, total in zip(found, sizes, strict=True):
        if total == one.planned:
            continue
        left, right = WIDE * scale.share(one.first), WIDE * scale.share(one.last)
        gap = min(1.0, (right - left) / 4)
        full = height_of(total, most)
        add_bar(paths, COUNTS(one), left + gap / 2, right - left - gap, full / total)
    paths["planned"] += outlines(scale, found, sizes, most)
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


def outlines(
    scale: Scale, found: Sequence[BucketAnswer], sizes: Sequence[int], most: int
) -> Iterator[str]:
    """What is only planned, as one line over adjacent buckets: there is no run to tell apart."""
    base, open_until = number(HEIGHT - 2), None
    for one, total in zip(found, sizes, strict=True):
        if not one.planned or total != one.planned:
            continue
        if open_until != one.first:
            if open_until is not None:
                yield f"V{base}"
            yield f"M{number(WIDE * scale.share(one.first))} {base}"
        top = number(HEIGHT - 2 - height_of(total, most))
        yield f"V{top}H{number(WIDE * scale.share(one.last))}"
        open_until = one.last
    if open_until is not None:
        yield f"V{base}"


def height_of(total: int, most: int) -> float:
    return max(LEAST, (HEIGHT - 4) * sqrt(total / most))


def size(one: BucketAnswer) -> int:
    return sum(COUNTS(one))


def add_bar(
    paths: dict[str, list[str]], counts: Sequence[int], left: float, width: float, each: float
) -> None:
    """`each` is the height of one run."""
    bottom = float(HEIGHT - 2)
    place, wide = number(left), number(width)
    for name, count in zip(STACK, counts, strict=True):
        if count:
            # What failed is seen however much else there was.
            part = max(LEAST if name == "failed" else 0.0, each * count)
            bottom -= part
            high = number(part)
            paths[name].append(f"M{place} {number(bottom)}h{wide}v{high}h-{wide}z")


def figures(scale: Scale, found: Sequence[BucketAnswer]) -> Iterator[Markup]:
    """How many there were in steps of time, one set for wide pages and one for narrow ones."""
    sizes = [(one.first, size(one)) for one in found]
    for kind, step in zip(ROOM, STEPS[scale.span], strict=True):
        sums: dict[tuple[int, bool], int] = {}
        for first, total in sizes:
            key = (first - scale.first) // step, first >= scale.now
            sums[key] = sums.get(key, 0) + total
        texts = [
            element("text", short_number(total), x=x)
            for (place, is_later), total in sums.items()
            if total >= NUMBER_MIN
            and (x := middle_of(scale, kind, scale.first + place * step, step, is_later=is_later))
        ]
        if texts:
            yield element("svg", *texts, class_=kind)


def middle_of(
    scale: Scale, kind: str, at: datetime, step: timedelta, *, is_later: bool
) -> str | None:
    """Where the number of a step is written; None where it has no room."""
    first, last = part(scale, at, step, is_later=is_later)
    if last - first < ROOM[kind]:
        return None
    return f"{number(round(50 * (first + last), 1 if kind == 'n' else 0))}%"


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
    since = at - scale.first
    if not since.microseconds:
        return str(since // SECOND)
    return f"{since.total_seconds():.6f}".rstrip("0")


def counts_in_words(one: BucketAnswer, tell: Tell) -> str:
    about = "about " if one.about else ""
    words = [
        f"{about if name == 'planned' else ''}{count} {name}"
        for name, count in zip(STACK, COUNTS(one), strict=True)
        if count
    ]
    if one.first_failure is not None:
        words.append(f"the first that failed was due {tell(one.first_failure)}")
    return " · ".join(words)
