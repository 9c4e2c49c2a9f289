"""Alerts: what stands, what was over lately, and what is kept quiet."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.forms import Texts, check_fields
from onbeat.dashboard.links import link, safe_next
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Conflict, Invalid
from onbeat.operations.tables.alerts import ALERT_LIST, ALERT_SILENCE
from onbeat.rules.verdict import Concern
from onbeat.wire.alerts import AlertAnswer
from onbeat.wire.errors import status_of

OPEN_SHOWN: Final = 200
ENDED_SHOWN: Final = 20
FIELDS: Final = ("match", "for", "from", "until", "note", "back")
MAINTENANCE: Final[Texts] = {"match": "*", "for": "", "from": "", "until": "", "note": ""}
PLACES: Final = {
    "storm": ("failures", "Open failures"),
    "disk": ("settings", "Open settings"),
    "others": ("alerts", "Open alerts"),
}


class MendingPage(NamedTuple):
    """The page that mends something, and the words of its button."""

    path: str
    words: str


async def alerts_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    return await page_of(viewer, MAINTENANCE, "")


async def page_of(
    viewer: Viewer, texts: Texts, fault: str, status: int = HTTPStatus.OK
) -> PageAnswer:
    standing = await viewer.ask(ALERT_LIST, limit=OPEN_SHOWN)
    ended = await viewer.ask(ALERT_LIST, state="ended", limit=ENDED_SHOWN)
    values = {
        "alerts": standing.alerts,
        "ended": ended.alerts,
        "silences": standing.silences,
        "place_of": place_of_alert,
        "texts": {**MAINTENANCE, **texts},
        "fault": fault,
    }
    return PageAnswer("alerts.html", "Alerts", "alerts", values, status)


async def silence_alerts(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    """Back to the page that asked; what is wrong with the form is said on the page of alerts."""
    viewer.check_may(ALERT_SILENCE)
    check_fields(texts, *FIELDS)
    try:
        await viewer.tell(ALERT_SILENCE, silence_body(viewer, texts))
    except (Invalid, Conflict) as error:
        return await page_of(viewer, texts, str(error), status_of(error).status)
    back = texts.get("back", "")
    return RedirectResponse(safe_next(back) if back else link("alerts"), HTTPStatus.SEE_OTHER)


def silence_body(viewer: Viewer, texts: Texts) -> Mapping[str, Any]:
    """Of a span and an end the span counts, as its button was pressed. Raises `Invalid`."""
    given = {name: text for name in FIELDS if (text := texts.get(name, "").strip())}
    body: dict[str, Any] = {"match": given.get("match", ""), "note": given.get("note", "")}
    if "from" in given:
        body["from"] = instant_of(viewer, given["from"], "from")
    if "for" in given:
        body["for"] = given["for"]
    elif "until" in given:
        body["until"] = instant_of(viewer, given["until"], "until")
    else:
        raise Invalid("Say for how long, such as 4h, or until when", "for")
    return body


def instant_of(viewer: Viewer, text: str, field: str) -> str:
    """What a field of date and time holds, in the zone of the viewer; an instant stays one."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            f"{field}: this must be a date and time, as 2026-11-30T22:00", field
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=viewer.zone)).isoformat()


def place_of_alert(alert: AlertAnswer) -> MendingPage:
    return place_of(alert.key, fault=alert.fault, job=alert.job_id, queue=alert.queue)


def place_of_concern(one: Concern) -> MendingPage:
    return place_of(one.key, fault=one.fault, job=one.job, queue=one.queue, task=one.task)


def place_of(
    key: str, *, fault: str | None, job: str | None, queue: str | None, task: str | None = None
) -> MendingPage:
    """Where it is mended: a queue has its limits and its pause on its own page."""
    if fault is not None:
        return MendingPage(link("failures", fault), "Open the failure")
    if job is not None:
        return MendingPage(link("jobs", job), "Open the job")
    if queue is not None and not key.startswith("no-worker:"):
        return MendingPage(link("queues", queue), "Open the queue")
    if task is not None:
        return MendingPage(link("jobs", task=task, state="waiting"), "Show its jobs")
    page, words = PLACES.get(key, ("workers", "Open workers"))
    return MendingPage(link(page), words)
