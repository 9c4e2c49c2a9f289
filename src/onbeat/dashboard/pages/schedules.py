"""Schedules: what is planned, how each went, and what comes next."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from onbeat.dashboard.calendar import (
    DAYS,
    CalendarDay,
    calendar_days,
    first_day,
    start_of,
)
from onbeat.dashboard.drawing.outcomes import strip
from onbeat.dashboard.pages.jobs import readable, title_of
from onbeat.dashboard.pages.timeline import day_of_schedule
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer, zone_of
from onbeat.model.errors import Invalid, OnbeatError
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import SCHEDULES_AT_ONCE_MAX
from onbeat.operations.invoke import query_names, request_from
from onbeat.operations.schedule_health import ScheduleTrouble, last_outcomes, troubled_schedules
from onbeat.operations.tables.schedules import (
    SCHEDULE_LIST,
    SCHEDULE_OCCURRENCES,
    SCHEDULE_PREVIEW,
    SCHEDULE_SHOW,
)
from onbeat.wire.recurrences import Preview
from onbeat.wire.schedules import ScheduleAnswer

PAGE: Final = SCHEDULES_AT_ONCE_MAX
OUTCOMES_SHOWN: Final = 20
TROUBLE: Final = "trouble"
TROUBLES: Final = {ScheduleTrouble.FAILING: "failing", ScheduleTrouble.MISFIRED: "misfired in 24 h"}
OCCURRENCES_SHOWN: Final = 20
RULES: Final = {"rrule": "RRULE", "cron": "Cron", "every": "Every", "at": "Once, at"}
"""The fields of a rule, and their names."""
CALENDAR_OCCURRENCES_MAX: Final = 500
TABS: Final = ("planned", "ran", "late", "skipped", "misfired", "failed")
OUTCOMES: Final = {
    "planned": ("planned", "plan"),
    "running": ("running", "run"),
    "retrying": ("retry", "warn"),
    "ran": ("succeeded", "ok"),
    "late": ("later", "warn"),
    "failed": ("failed", "fail"),
    "cancelled": ("cancelled", "wait"),
    "skipped": ("skipped", "warn"),
    "misfired": ("skipped", "warn"),
    "forgotten": ("finished", "wait"),
}
"""The mark and the colour of what became of an occurrence."""
STATUSES: Final = ("active", "paused", "finished")


class ListedSchedules(NamedTuple):
    """`more` is set where there are schedules that were not looked at."""

    schedules: Sequence[ScheduleAnswer]
    page: int
    limit: int
    total: int
    more: bool = False


async def schedules_page(viewer: Viewer) -> PageAnswer:
    answer = await listed(viewer)
    ids = [ScheduleId(one.id) for one in answer.schedules]
    outcomes = await last_outcomes(viewer.context, ids, OUTCOMES_SHOWN)
    values = {
        "schedules": answer.schedules,
        "page": answer.page,
        "limit": answer.limit,
        "total": answer.total,
        "more": answer.more,
        "strips": {id: strip(found) for id, found in outcomes.items()},
        "filters": viewer.filters,
        "troubles": TROUBLES,
        "statuses": STATUSES,
        "title_of": title_of,
    }
    return PageAnswer("schedules.html", "Schedules", "schedules", values)


async def listed(viewer: Viewer) -> ListedSchedules:
    """As the API lists them, or those in one kind of trouble."""
    names = query_names(SCHEDULE_LIST)
    viewer.check_parameters(*names, TROUBLE)
    query = {name: text for name, text in viewer.query.items() if name in names}
    if TROUBLE not in viewer.query:
        answer = await viewer.ask(SCHEDULE_LIST, **{"limit": PAGE, **query})
        return ListedSchedules(answer.schedules, answer.page, answer.limit, answer.total)
    text = viewer.query[TROUBLE]
    if text not in TROUBLES:
        raise Invalid(f"{TROUBLE} must be one of {', '.join(TROUBLES)}", TROUBLE)
    viewer.check_may(SCHEDULE_LIST)
    request = request_from(SCHEDULE_LIST, {"limit": str(PAGE), **query}, None)
    found = await troubled_schedules(
        viewer.context,
        ScheduleTrouble(text),
        status=request.status,
        q=request.q or None,
        limit=request.limit,
        page=request.page,
    )
    return ListedSchedules(found.schedules, request.page, request.limit, found.total, found.more)


async def schedule_page(viewer: Viewer) -> PageAnswer:
    id = viewer.request.path_params["id"]
    viewer.check_parameters("disposition", "from", "to", "cursor")
    schedule = await viewer.ask(SCHEDULE_SHOW, id=id)
    found = await viewer.ask(
        SCHEDULE_OCCURRENCES, **{"id": id, "limit": OCCURRENCES_SHOWN, **viewer.query}
    )
    own_zone = zone_of("" if schedule.timezone is UNSET else schedule.timezone)
    values = {
        "schedule": schedule,
        "rule": {
            word: text
            for name, word in RULES.items()
            if (text := getattr(schedule, name)) is not UNSET
        },
        "on": None if schedule.on is UNSET else readable(msgspec.json.encode(schedule.on)),
        "preview": await preview_of(viewer, id),
        "occurrences": found.occurrences,
        "cursor": None if found.cursor is None else machine_text(found.cursor),
        "days": await days_of(viewer, id, own_zone),
        "outcomes": OUTCOMES,
        "filters": viewer.filters,
        "tabs": TABS,
        "target": readable(msgspec.json.encode(schedule.target)),
        "name": schedule.name,
        "day": await day_of_schedule(viewer, id),
        "own_zone": own_zone,
        "has_other_zone": own_zone != viewer.zone,
    }
    return PageAnswer("schedule.html", schedule.name, "schedules", values)


async def days_of(viewer: Viewer, id: str, zone: ZoneInfo) -> list[CalendarDay]:
    """The last weeks, as far as a bounded number of occurrences tells of them."""
    begin = start_of(first_day(viewer.now, zone), zone)
    end = start_of(first_day(viewer.now, zone) + timedelta(days=DAYS), zone)
    span = {"from": machine_text(begin), "to": machine_text(end)}
    found = await viewer.ask(
        SCHEDULE_OCCURRENCES, **{"id": id, "limit": CALENDAR_OCCURRENCES_MAX, **span}
    )
    return calendar_days(found.occurrences, viewer.now, zone, found.cursor)


def machine_text(at: datetime) -> str:
    """To the microsecond, since a cursor is exact."""
    return at.isoformat().replace("+00:00", "Z")


async def preview_of(viewer: Viewer, id: str) -> Preview | None:
    """The next occurrences; None where they cannot be found here.

    A function of the program makes them, or the rule takes too many steps to search.
    """
    try:
        return await viewer.ask(SCHEDULE_PREVIEW, id=id)
    except OnbeatError:
        return None
