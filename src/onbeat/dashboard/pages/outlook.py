"""What a form of a schedule shows of the time to come: how busy it is, and a year of the rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from markupsafe import Markup

from onbeat.dashboard.drawing import heat, year
from onbeat.dashboard.forms import Texts
from onbeat.dashboard.pages.timeline import forecast, is_forecast_kept
from onbeat.dashboard.schedule_forms import preview_body
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Invalid
from onbeat.operations.tables.schedules import SCHEDULE_LIST
from onbeat.operations.years import year_of_fires
from onbeat.wire.recurrences import PreviewBody

SCHEDULES_MAX: Final = 1_000
"""Of more schedules the fires are not counted for a form alone, which may take seconds."""


@dataclass(frozen=True)
class HourLoad:
    """How often all schedules fire in one hour, at least if `is_least`, and its step of colour."""

    fires: int
    level: int
    is_least: bool


@dataclass(frozen=True)
class Outlook:
    """`loads` are those of the hours of the next occurrences, as far as they are known."""

    loads: Mapping[datetime, HourLoad]
    year: Markup | None
    sentence: str
    turns: Sequence[str]


NO_OUTLOOK: Final = Outlook({}, None, "", ())


async def outlook_of(
    viewer: Viewer,
    texts: Texts,
    occurrences: Sequence[datetime],
    bounds: tuple[datetime | None, datetime | None],
) -> Outlook:
    """Of a rule that could be read and fires at these instants."""
    if not occurrences or texts.get("kind") == "on":
        return NO_OUTLOOK
    try:
        body = msgspec.convert(preview_body(texts), PreviewBody)
        found = await year_of_fires(viewer.context, body, year.DAYS, *bounds)
    except (Invalid, msgspec.ValidationError):
        found = None
    loads = await loads_of(viewer, occurrences)
    if found is None:
        return Outlook(loads, None, "", ())
    turns = [f"{day_text(change.before)}: {year.turned_words(change)}" for change in found.changes]
    return Outlook(loads, year.year(found), year.sentence(found), turns)


def day_text(at: datetime) -> str:
    return f"{at.day} {at:%b %Y}"


async def loads_of(viewer: Viewer, occurrences: Sequence[datetime]) -> Mapping[datetime, HourLoad]:
    """By occurrence, from the forecast of the heat map, which tells of a week."""
    if not is_forecast_kept(viewer, viewer.zone):
        answer = await viewer.ask(SCHEDULE_LIST, status="active", limit=1)
        if answer.total > SCHEDULES_MAX:
            return {}
    found, _ = await forecast(viewer, viewer.zone)
    hours = {one.at: one.fires for one in found.hours}
    level = partial(heat.level, steps=heat.bounds(max(hours.values(), default=0)))
    result: dict[datetime, HourLoad] = {}
    for at in occurrences:
        hour = at.replace(minute=0, second=0, microsecond=0)
        if hour in hours:
            result[at] = HourLoad(hours[hour], level(hours[hour]), found.is_least(hour))
    return result
