"""What ran and what will run, on one axis, and how busy the next days are."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import msgspec

from onbeat.dashboard.drawing import day_axis, heat, lanes
from onbeat.dashboard.drawing.buckets import Tell
from onbeat.dashboard.drawing.day_axis import Scale
from onbeat.dashboard.formats import moment, short_number
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer, zone_of
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.timeline import LaneOrder, TimelineSpan
from onbeat.operations.tables.schedules import SCHEDULE_FORECAST, TIMELINE_SHOW
from onbeat.ports.store import Store
from onbeat.wire.forecasts import ForecastAnswer
from onbeat.wire.timeline import LaneAnswer, TimelineAnswer

MARKS_MAX: Final = 300
"""Links on one page; the lanes after that many show how many there were in each bucket."""
HEAT_DAYS: Final = 7
HEAT_KEPT: Final = timedelta(minutes=1)
HEAT_SHOWN: Final = timedelta(hours=2)
"""How old a forecast may be that is shown while the next one is made, which may take seconds."""
WORDS: Final = {TimelineSpan.HOURS: "6 h", TimelineSpan.DAY: "Day", TimelineSpan.WEEK: "Week"}

ZONES_KEPT: Final = 24

Made = tuple[ForecastAnswer, datetime]
_making: WeakKeyDictionary[Store, dict[datetime, asyncio.Task[Made]]] = WeakKeyDictionary()
_forecasts: WeakKeyDictionary[Store, dict[datetime, Made]] = WeakKeyDictionary()
"""By their ends, with the instant of their making: one may take seconds, and many look at it."""


async def timeline_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(TIMELINE_SHOW, tz=viewer.zone.key)
    zone = zone_of(answer.timezone)
    scale, tell = scale_of(answer, zone), partial(moment, zone=zone, now=viewer.now)
    values = {
        "answer": answer,
        "filters": viewer.filters,
        "zone": zone,
        "head": day_axis.head(scale),
        "ground": day_axis.ground(scale, answer.kept_since),
        "all_lanes": lanes.all_lanes(scale, answer.all, tell),
        "forgotten": kept_words(answer, zone),
        "lanes": drawn_lanes(scale, answer, viewer.now),
        "steps": steps_of(answer, zone),
        "spans": [(str(span), word) for span, word in WORDS.items()],
        "orders": [str(order) for order in LaneOrder],
        "statuses": [str(status) for status in ScheduleStatus],
        "heat": await heat_values(viewer, zone),
        "short_number": short_number,
        "day": heading(answer, zone),
    }
    return PageAnswer("timeline.html", heading(answer, zone), "timeline", values)


async def day_of_schedule(viewer: Viewer, id: str) -> dict[str, Any]:
    """The lane of one schedule, today."""
    answer = await viewer.ask(TIMELINE_SHOW, tz=viewer.zone.key, schedule_id=id)
    scale = scale_of(answer, viewer.zone)
    return {
        "answer": answer,
        "head": day_axis.head(scale),
        "ground": day_axis.ground(scale, answer.kept_since),
        "forgotten": kept_words(answer, viewer.zone),
        "lane": drawn_lanes(scale, answer, viewer.now)[0],
    }


def scale_of(answer: TimelineAnswer, zone: ZoneInfo) -> Scale:
    return Scale(
        first=answer.first,
        last=answer.last,
        now=answer.now,
        zone=zone,
        span=answer.span,
        changes=answer.clock_changes,
    )


def drawn_lanes(scale: Scale, answer: TimelineAnswer, now: datetime) -> list[dict[str, Any]]:
    """Each lane with its drawing and what has to be said about it."""

    def tell(at: datetime) -> str:
        return moment(at, scale.zone, now)

    left = MARKS_MAX
    result: list[dict[str, Any]] = []
    for lane in answer.lanes:
        few = lane.marks is not None and len(lane.marks) <= left
        left -= len(lane.marks or ()) if few else 0
        drawing = lanes.marks if few else lanes.buckets
        result.append({"lane": lane, "svg": drawing(scale, lane, tell), "notes": notes(lane, tell)})
    return result


def notes(lane: LaneAnswer, tell: Tell) -> list[str]:
    found: list[str] = []
    if lane.since is not None:
        found.append(f"and more before {tell(lane.since)}: too many to count")
    if lane.unknown is not None:
        found.append(f"what comes is not known: {lane.unknown}")
    return found


def kept_words(answer: TimelineAnswer, zone: ZoneInfo) -> str | None:
    """What a reader has to know of a time whose runs are deleted, in part or all of them."""
    if answer.kept_since is None:
        return None
    kept, failures = answer.kept_since, answer.failures_kept_since

    def day(at: datetime) -> str:
        there = at.astimezone(zone)
        return f"{there.day} {there:%b} {there:%H:%M}"

    if failures is not None and failures >= answer.last:
        return f"Runs before {day(failures)} are no longer kept."
    also = f", and failed ones before {day(failures)}" if failures is not None else ""
    return f"Succeeded runs before {day(kept)} are no longer kept{also}."


def heading(answer: TimelineAnswer, zone: ZoneInfo) -> str:
    first, last = answer.first.astimezone(zone), answer.last.astimezone(zone)
    if answer.span is TimelineSpan.WEEK:
        end = (last - timedelta(hours=12)).date()
        return f"{first.day} {first:%B} to {end.day} {end:%B %Y}"
    day = f"{first:%A} {first.day} {first:%B %Y}"
    return day if answer.span is TimelineSpan.DAY else f"{day}, {first:%H:%M} to {last:%H:%M}"


def steps_of(answer: TimelineAnswer, zone: ZoneInfo) -> list[tuple[str, str]]:
    """Where the buttons lead: the `day` before and after, with its name."""
    if answer.span is TimelineSpan.HOURS:
        return [
            (at.isoformat(), f"{at.astimezone(zone):%H:%M}")
            for at in (answer.first - timedelta(hours=6), answer.last)
        ]
    # By instants, as a zone may leave a day out.
    back = timedelta(days=6) if answer.span is TimelineSpan.WEEK else timedelta()
    before = (answer.first - timedelta(microseconds=1)).astimezone(zone) - back
    moved = (before.date(), answer.last.astimezone(zone).date())
    return [(str(day), f"{day:%a} {day.day}") for day in moved]


async def heat_values(viewer: Viewer, zone: ZoneInfo) -> dict[str, Any]:
    """The fires of this and the next days, as rows of cells with their step of colour."""
    answer, at = await forecast(viewer, zone)
    found = heat.rows(answer.hours, zone)
    most = max(answer.hours, key=lambda hour: hour.fires, default=None)
    steps = heat.bounds(most.fires if most else 0)
    return {
        "rows": found,
        "steps": steps,
        "level": partial(heat.level, steps=steps),
        "fires": answer.fires,
        "is_least": answer.is_least,
        "is_cut": answer.counted_to is not None,
        "busiest": most if most and most.fires else None,
        "cut": answer.cut,
        "at": at,
        "busiest_hour": most and hour_in_words(most.at.astimezone(zone)),
        "tell": partial(moment, zone=zone, now=viewer.now),
    }


def hour_in_words(at: datetime) -> str:
    return f"{at:%a} {at.day}, {at:%H:%M}"


def is_forecast_kept(viewer: Viewer, zone: ZoneInfo) -> bool:
    """Whether it costs nothing to ask for it."""
    made = _forecasts.get(viewer.context.store, {}).get(span_of_heat(viewer, zone)[1])
    return made is not None and timedelta() <= viewer.now - made[1] < HEAT_KEPT


def span_of_heat(viewer: Viewer, zone: ZoneInfo) -> tuple[datetime, datetime]:
    hour = viewer.now.replace(minute=0, second=0, microsecond=0)
    today = viewer.now.astimezone(zone).date()
    return hour, datetime.combine(today + timedelta(days=HEAT_DAYS), datetime.min.time(), zone)


async def forecast(viewer: Viewer, zone: ZoneInfo) -> Made:
    """From about this hour to a midnight of the zone, and when it was made.

    While it is made anew, an old one is shown: only who looks first waits.
    """
    store = viewer.context.store
    hour, last = span_of_heat(viewer, zone)
    kept = _forecasts.setdefault(store, {})
    made = kept.get(last)
    if made is not None and timedelta() <= viewer.now - made[1] < HEAT_KEPT:
        return made
    tasks = _making.setdefault(store, {})
    if last not in tasks:
        tasks[last] = asyncio.create_task(make_forecast(viewer, kept, hour, last))
        tasks[last].add_done_callback(lambda _: tasks.pop(last))
    is_old = made is not None and timedelta() <= viewer.now - made[1] < HEAT_SHOWN
    return made if made is not None and is_old else await asyncio.shield(tasks[last])


async def make_forecast(
    viewer: Viewer, kept: dict[datetime, Made], hour: datetime, last: datetime
) -> Made:
    """It goes on when its viewer has gone: others may wait for it."""
    span = {"from": hour.isoformat(), "to": last.isoformat()}
    staying = replace(viewer, context=msgspec.structs.replace(viewer.context, gone=None))
    made = await staying.ask(SCHEDULE_FORECAST, **span), viewer.now
    if len(kept) >= ZONES_KEPT:
        kept.clear()
    kept[last] = made
    return made
