"""Jobs for past occurrences, counted before they are made."""

from http import HTTPStatus
from typing import Any

from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.forms import Texts, check_fields, whole_number
from onbeat.dashboard.links import link
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Invalid
from onbeat.model.limits import BACKFILL_MAX
from onbeat.operations.tables.schedules import SCHEDULE_BACKFILL, SCHEDULE_SHOW
from onbeat.wire.errors import status_of
from onbeat.wire.requests import Backfilled
from onbeat.wire.schedules import ScheduleAnswer

FIELDS = ("from", "to", "limit")


async def backfill_page(viewer: Viewer) -> PageAnswer:
    viewer.check_may(SCHEDULE_BACKFILL)
    viewer.check_parameters()
    schedule = await viewer.ask(SCHEDULE_SHOW, id=viewer.request.path_params["id"])
    return answer_of(viewer, schedule, dict.fromkeys(FIELDS, ""))


async def backfill_schedule(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    viewer.check_may(SCHEDULE_BACKFILL)
    check_fields(texts, *FIELDS)
    schedule = await viewer.ask(SCHEDULE_SHOW, id=viewer.request.path_params["id"])
    try:
        span = span_of(texts)
        if texts.get("intent") == "save":
            once = texts.get("once") or None
            await viewer.tell(SCHEDULE_BACKFILL, span, once=once, id=schedule.id)
            return RedirectResponse(link("schedules", schedule.id), HTTPStatus.SEE_OTHER)
        count = await viewer.tell(SCHEDULE_BACKFILL, {**span, "dry_run": True}, id=schedule.id)
    except Invalid as error:
        field = error.field.partition(".")[0]
        faults = {field if field in FIELDS else "": str(error)}
        status = HTTPStatus.OK if texts.get("intent") != "save" else status_of(error).status
        return answer_of(viewer, schedule, texts, faults=faults, status=status)
    return answer_of(viewer, schedule, texts, count)


def span_of(texts: Texts) -> dict[str, Any]:
    limit = whole_number(texts, "limit")
    return {
        "from": texts.get("from", "").strip(),
        "to": texts.get("to", "").strip(),
        **({} if limit is None else {"limit": limit}),
    }


def answer_of(
    viewer: Viewer,
    schedule: ScheduleAnswer,
    texts: Texts,
    count: Backfilled | None = None,
    *,
    faults: dict[str, str] | None = None,
    status: int = HTTPStatus.OK,
) -> PageAnswer:
    found = faults or {}
    values = {
        "schedule": schedule,
        "texts": texts,
        "faults": found,
        "first_fault": next((name for name in FIELDS if name in found), None),
        "choices": {},
        "count": count,
        "limit_max": BACKFILL_MAX,
        "once": viewer.context.fresh_id(),
    }
    return PageAnswer("backfill.html", f"Backfill {schedule.name}", "schedules", values, status)
