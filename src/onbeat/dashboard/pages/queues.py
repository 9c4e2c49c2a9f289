"""Queues with their load and their limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.drawing.plot import strip
from onbeat.dashboard.forms import Texts, check_fields, whole_number
from onbeat.dashboard.links import link
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Invalid
from onbeat.model.limits import GROUPS_LOOK_MAX, PAUSE_NOTE_CHARS_MAX
from onbeat.operations.table import PULSE_QUEUES, QUEUE_LIMIT, QUEUE_LIST, QUEUE_PAUSE, QUEUE_SHOW
from onbeat.wire.errors import status_of
from onbeat.wire.limits import LimitsAnswer

PAGE: Final = 100
STRIP_HEIGHT: Final = 20
STRIP_TALL: Final = 72
COUNTS: Final = ("concurrency", "group_concurrency")
SPANS: Final = ("rate", "group_rate", "late_after")
LIMITS: Final = {
    "concurrency": "at once",
    "rate": "starts, such as 100/s",
    "group_concurrency": "of a group at once",
    "group_rate": "starts of a group",
    "late_after": "late after, such as 5m",
}


@dataclass(frozen=True)
class StartedJobs:
    """Of one queue: how many in the last minute, if measured, and the last hour as path data."""

    last_minute: int | None
    path: str


async def queues_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(QUEUE_LIST, limit=PAGE)
    return await page_of(viewer, answer)


async def page_of(
    viewer: Viewer,
    answer: Any,
    typed: Mapping[str, Texts] | None = None,
    fault: str = "",
    status: int = HTTPStatus.OK,
) -> PageAnswer:
    """`typed` has the limits of a queue that were refused, and `fault` says why."""
    values = {
        "queues": answer.queues,
        "page": answer.page,
        "total": answer.total,
        "counted_at": answer.counted_at,
        "limit": answer.limit,
        "started": {
            name: StartedJobs(counts[-1], strip(counts, STRIP_HEIGHT))
            for name, counts in (await viewer.ask(PULSE_QUEUES)).queues.items()
        },
        "limit_words": LIMITS,
        "texts_of": limit_texts,
        "typed": typed or {},
        "fault": fault,
    }
    return PageAnswer("queues.html", "Queues", "queues", values, status)


async def queue_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    return await one_queue(viewer)


async def one_queue(
    viewer: Viewer, note: str | None = None, fault: str = "", status: int = HTTPStatus.OK
) -> PageAnswer:
    """`note` is one that was refused, and `fault` says why."""
    queue = await viewer.ask(QUEUE_SHOW, name=viewer.request.path_params["name"])
    counts = (await viewer.ask(PULSE_QUEUES)).queues.get(queue.name)
    values = {
        "queue": queue,
        "started": None if counts is None else StartedJobs(counts[-1], strip(counts, STRIP_TALL)),
        "limits": [
            (LIMITS[name], text) for name, text in limit_texts(queue.limits).items() if text
        ],
        "looked": GROUPS_LOOK_MAX,
        "unset": UNSET,
        "note_max": PAUSE_NOTE_CHARS_MAX,
        "note": note,
        "fault": fault,
    }
    return PageAnswer("queue.html", f"Queue {queue.name}", "queues", values, status)


async def pause_queue(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    """Paused with a note, or with none."""
    name, note = viewer.request.path_params["name"], texts.get("note", "").strip()
    viewer.check_may(QUEUE_PAUSE)
    check_fields(texts, "note")
    try:
        await viewer.tell(QUEUE_PAUSE, {"note": note or None}, name=name)
    except Invalid as error:
        return await one_queue(viewer, note, f"Note: {error}", status_of(error).status)
    return RedirectResponse(link("queues", name), HTTPStatus.SEE_OTHER)


def limit_texts(limits: LimitsAnswer) -> dict[str, str]:
    found = {name: getattr(limits, name) for name in LIMITS}
    return {name: "" if value is UNSET else str(value) for name, value in found.items()}


async def limit_queue(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    """The limits as typed, from the next claim on; an empty field is no limit."""
    name = viewer.request.path_params["name"]
    viewer.check_may(QUEUE_LIMIT)
    check_fields(texts, *LIMITS)
    try:
        body: dict[str, Any] = {one: whole_number(texts, one) for one in COUNTS if one in texts}
        body |= {one: texts[one].strip() or None for one in SPANS if one in texts}
        await viewer.tell(QUEUE_LIMIT, body, name=name)
    except Invalid as error:
        answer = await viewer.ask(QUEUE_LIST, limit=PAGE)
        words = LIMITS.get(error.field, "")
        fault = f"{words}: {error}" if words else str(error)
        return await page_of(viewer, answer, {name: texts}, fault, status_of(error).status)
    return RedirectResponse(link("queues"), HTTPStatus.SEE_OTHER)
