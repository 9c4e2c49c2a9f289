"""One lane of a timeline: each run where there are few, else how many there were in each bucket.

Height, fill and form tell what colour tells.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from markupsafe import Markup

from onbeat.dashboard.drawing.buckets import (
    HEIGHT,
    Tell,
    counts_text,
    figures,
    stacked,
    totals,
)
from onbeat.dashboard.drawing.day_axis import Scale
from onbeat.dashboard.drawing.svg import element, joined, percent
from onbeat.dashboard.formats import duration, shown
from onbeat.dashboard.links import link
from onbeat.model.timeline import MarkKind
from onbeat.wire.timeline import BucketAnswer, LaneAnswer, MarkAnswer

NARROW: Final = 0.0015
"""The smallest share of the width that a run takes; its outline adds a pixel and a half."""
CROSSED: Final = 0.012
"""A failed run that takes more of the width has its cross."""
SHAPES: Final = {
    MarkKind.SUCCEEDED: (7, 14),
    MarkKind.FAILED: (3, 22),
    MarkKind.RUNNING: (7, 14),
    MarkKind.CANCELLED: (7, 14),
    MarkKind.WAITING: (7, 14),
    MarkKind.PLANNED: (8, 12),
    MarkKind.SKIPPED: (5, 18),
    MarkKind.FORGOTTEN: (7, 14),
}
"""The upper edge and the height of each kind, in pixels."""
OUTLINED: Final = frozenset(
    {MarkKind.PLANNED, MarkKind.WAITING, MarkKind.SKIPPED, MarkKind.FORGOTTEN}
)


def marks(scale: Scale, lane: LaneAnswer, tell: Tell) -> Markup:
    """A lane of single marks, each a link."""
    assert lane.marks is not None, "a lane of single marks"
    drawn = [one_mark(scale, lane, mark, tell) for mark in lane.marks]
    return frame(scale, lane, tell, drawn)


def buckets(scale: Scale, lane: LaneAnswer, tell: Tell) -> Markup:
    """A lane of counts. It is one link, which the script leads to the bucket that is pointed at."""
    href = link("jobs", schedule_id=lane.id)
    label = f"Jobs of {shown(lane.name)}"
    many = element("a", stacked(scale, lane.buckets), href=href, class_="many", aria_label=label)
    drawn = [many, *figures(scale, lane.buckets)]
    return frame(scale, lane, tell, drawn, with_buckets=True)


def all_lanes(scale: Scale, found: Sequence[BucketAnswer], tell: Tell) -> Markup:
    """The lane above the others, which adds them up."""
    href = link("jobs")
    many = element("a", stacked(scale, found), href=href, class_="many", aria_label="All jobs")
    drawn = joined([many, *figures(scale, found)])
    return track(drawn, f"All: {in_words(totals(found))}", counts_text(scale, found, tell))


def frame(
    scale: Scale,
    lane: LaneAnswer,
    tell: Tell,
    drawn: Sequence[Markup],
    *,
    with_buckets: bool = False,
) -> Markup:
    parts = joined([*paused(scale, lane, tell), *turns(scale, lane, tell), *drawn])
    label = f"{shown(lane.name)}: {summary(lane)}"
    return track(parts, label, counts_text(scale, lane.buckets, tell) if with_buckets else None)


def track(content: Markup, label: str, text: str | None) -> Markup:
    return element(
        "svg",
        content,
        class_="track",
        width="100%",
        height=HEIGHT,
        role="group",
        aria_label=label,
        data_buckets=text,
    )


def summary(lane: LaneAnswer) -> str:
    """`38 ran, 2 failed, 120 to come`."""
    is_about = any(one.about for one in lane.buckets)
    return in_words(totals(lane.buckets), is_about=is_about)


def in_words(counts: dict[str, int], *, is_about: bool = False) -> str:
    ran = sum(counts[name] for name in ("succeeded", "failed", "running"))
    parts = [f"{ran:,} ran" if ran else "none ran"]
    named = ("failed", "cancelled", "waiting", "skipped", "forgotten")
    parts += [f"{counts[name]:,} {name}" for name in named if counts[name]]
    if counts["planned"]:
        parts.append(f"{'about ' if is_about else ''}{counts['planned']:,} to come")
    return ", ".join(parts)


def paused(scale: Scale, lane: LaneAnswer, tell: Tell) -> list[Markup]:
    if lane.paused_from is None:
        return []
    first = scale.share(lane.paused_from)
    title = element("title", f"paused since {tell(lane.paused_from)}")
    rect = element(
        "rect",
        title,
        fill="url(#hatched)",
        x=percent(first),
        y=0,
        width=percent(1 - first),
        height=HEIGHT,
    )
    return [rect]


def turns(scale: Scale, lane: LaneAnswer, tell: Tell) -> list[Markup]:
    """A dot where the clock of the schedule's own zone is turned."""
    return [
        element(
            "circle",
            element("title", f"the clock of {lane.timezone} is turned at {tell(at)}"),
            class_="turn",
            cx=scale.x(at),
            cy=3,
            r=2,
        )
        for at in lane.clock_changes
        if at not in {change.at for change in scale.changes}
    ]


def one_mark(scale: Scale, lane: LaneAnswer, mark: MarkAnswer, tell: Tell) -> Markup:
    title = words(mark, tell)
    shapes = [*before(scale, mark), *shape_of(scale, mark)]
    href = link("jobs", mark.job_id) if mark.job_id else link("schedules", lane.id)
    return element(
        "a", element("title", title), *shapes, href=href, class_=f"mark {mark.kind.value}"
    )


def words(mark: MarkAnswer, tell: Tell) -> str:
    """What a mark says to who points at it, or hears it."""
    what = mark.kind.value
    parts = [f"{what} {tell(mark.first)}"]
    if mark.kind is MarkKind.FORGOTTEN:
        parts.append("it ran, and is no longer kept")
    if mark.first < mark.last:
        parts.append(duration(mark.last - mark.first))
    if mark.misfired:
        parts.append(f"misfired: it was due {tell(mark.planned_at)}")
    if mark.attempt > 1:
        parts.append(f"attempt {mark.attempt}")
    if mark.reason:
        parts.append(shown(mark.reason))
    return ", ".join(parts)


def before(scale: Scale, mark: MarkAnswer) -> list[Markup]:
    """Where a late run should have been, or the earlier attempts of one, and the way to it."""
    if not mark.misfired and mark.attempt <= 1:
        return []
    kind = "hair" if mark.misfired else "again"
    middle = HEIGHT // 2
    x1, x2 = scale.x(mark.planned_at), scale.x(mark.first)
    line = element("line", class_=kind, x1=x1, x2=x2, y1=middle, y2=middle)
    return [line, box(MarkKind.SKIPPED, mark.planned_at, scale)] if mark.misfired else [line]


def shape_of(scale: Scale, mark: MarkAnswer) -> list[Markup]:
    top, height = SHAPES[mark.kind]
    wide = scale.share(mark.last) - scale.share(mark.first)
    is_instant = mark.first == mark.last
    if is_instant and mark.kind in OUTLINED:
        return [box(mark.kind, mark.first, scale)]
    if is_instant and mark.kind is MarkKind.CANCELLED:
        return [box(MarkKind.CANCELLED, mark.first, scale), struck(scale, mark, top, height)]
    # At the very end of the axis there is room to the left only.
    first = min(scale.share(mark.first), 1 - NARROW)
    rect = element(
        "rect",
        x=percent(first),
        y=top,
        width=percent(max(wide, NARROW)),
        height=height,
    )
    if mark.kind is MarkKind.FAILED and wide >= CROSSED:
        return [rect, at_middle("cross", scale, mark, "M-4 10l8 8m0 -8l-8 8")]
    if mark.kind is MarkKind.CANCELLED:
        return [rect, struck(scale, mark, top, height)]
    if mark.kind is MarkKind.RUNNING:
        return [rect, placed(scale.x(mark.last), element("path", d="M0 5l8 9-8 9z"))]
    return [rect]


def box(kind: MarkKind, at: datetime, scale: Scale) -> Markup:
    """An outline eight pixels wide at an instant."""
    top, height = SHAPES[kind]
    outline = element("rect", class_=f"box {kind.value}", x=-4, y=top, width=8, height=height)
    return placed(scale.x(at), outline)


def struck(scale: Scale, mark: MarkAnswer, top: int, height: int) -> Markup:
    return at_middle("strike", scale, mark, f"M-5 {top + height}l10 -{height}")


def at_middle(kind: str, scale: Scale, mark: MarkAnswer, path: str) -> Markup:
    middle = (scale.share(mark.first) + scale.share(mark.last)) / 2
    return placed(percent(middle), element("path", class_=kind, d=path))


def placed(x: str, content: Markup) -> Markup:
    """In pixels from a place in percent."""
    return element("svg", content, x=x, overflow="visible", width=1, height=HEIGHT)
