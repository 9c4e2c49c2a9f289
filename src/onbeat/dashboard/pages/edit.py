"""Schedules that are made, changed, copied and deleted by a form, with a preview beside it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, get_args
from zoneinfo import ZoneInfo

from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.formats import machine_moment, pointed
from onbeat.dashboard.forms import Texts, check_fields
from onbeat.dashboard.links import link
from onbeat.dashboard.pages.outlook import outlook_of
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.schedule_forms import (
    DEFAULTS,
    KINDS,
    SCHEDULE_FIELDS,
    changed_body,
    copied_texts,
    fault_of,
    new_body,
    preview_body,
    schedule_texts,
)
from onbeat.dashboard.target_forms import METHODS, TARGET_KINDS
from onbeat.dashboard.viewer import Viewer, zone_of
from onbeat.model.errors import Conflict, Invalid
from onbeat.model.limits import PREVIEW_MAX
from onbeat.model.recurrence import DstFold, DstGap
from onbeat.model.schedule import CatchUp, Overlap
from onbeat.operations.tables.schedules import (
    RECURRENCE_PREVIEW,
    SCHEDULE_CREATE,
    SCHEDULE_DELETE,
    SCHEDULE_DIFF,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
)
from onbeat.wire.errors import status_of
from onbeat.wire.outcomes import ScheduleDiff
from onbeat.wire.schedules import ScheduleAnswer

SHOWN: Final = 10


def by_default(names: Iterable[str]) -> dict[str, str]:
    return {"": "as usual", **{str(name): str(name) for name in names}}


CHOICES: Final[Mapping[str, Mapping[str, str]]] = {
    "kind": KINDS,
    "target_kind": TARGET_KINDS,
    "method": {name: name for name in METHODS},
    "overlap": by_default(Overlap),
    "catch_up": by_default(CatchUp),
    "dst_gap": by_default(get_args(DstGap)),
    "dst_fold": by_default(get_args(DstFold)),
}
CHANGED_MEANWHILE: Final = (
    "It was changed by others meanwhile. What you typed is kept: look at the preview, and save"
    " again if it is right."
)
OTHER_NAME: Final = "Type the name of the schedule as it stands above"


@dataclass(frozen=True)
class TypedSchedule:
    """A form as it was typed, its faults by field, and what came of the preview."""

    texts: Texts
    faults: Mapping[str, str]
    occurrences: Sequence[datetime] = ()
    description: str = ""
    notes: Sequence[str] = ()
    diff: ScheduleDiff | None = None
    has_hidden: bool = False
    caret: str = ""


async def new_schedule_page(viewer: Viewer) -> PageAnswer:
    viewer.check_may(SCHEDULE_CREATE)
    viewer.check_parameters("from")
    texts: Texts = {**dict.fromkeys(SCHEDULE_FIELDS, ""), **DEFAULTS}
    has_hidden = False
    if "from" in viewer.query:
        texts, has_hidden = copied_texts(await viewer.ask(SCHEDULE_SHOW, id=viewer.query["from"]))
    draft = TypedSchedule(texts, {})
    if texts["rule"]:
        draft = await preview_of_new(viewer, texts)
    return await new_page(viewer, replace(draft, has_hidden=has_hidden))


async def create_schedule(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    viewer.check_may(SCHEDULE_CREATE)
    check_fields(texts, *SCHEDULE_FIELDS)
    if texts.get("intent") != "save":
        return await new_page(viewer, await preview_of_new(viewer, texts))
    try:
        body = new_body(texts)
        made = await viewer.tell(SCHEDULE_CREATE, body, once=texts.get("once") or None)
    except (Invalid, Conflict) as error:
        return await new_page(viewer, await faulty(viewer, texts, error), status_of(error).status)
    return RedirectResponse(link("schedules", made.id), HTTPStatus.SEE_OTHER)


async def preview_of_new(viewer: Viewer, texts: Texts) -> TypedSchedule:
    """The occurrences of the typed rule within the typed bounds."""
    try:
        if texts.get("kind") == "on":
            new_body({**texts, "name": texts.get("name") or "-", "task": texts.get("task") or "-"})
            return TypedSchedule(texts, {}, description="It fires when an event comes.")
        bounded = any(texts.get(name, "").strip() for name in ("starts_at", "ends_at"))
        body = {**preview_body(texts), "count": PREVIEW_MAX if bounded else SHOWN}
        preview = await viewer.tell(RECURRENCE_PREVIEW, body)
        found = [at for at in preview.occurrences if is_within(at, texts)]
        return TypedSchedule(texts, {}, found[:SHOWN], preview.description, preview.notes)
    except Invalid as error:
        return TypedSchedule(texts, dict([fault_of(error)]), caret=caret_of(error))


def caret_of(error: Invalid | Conflict) -> str:
    """The text that cannot be read, with a caret under its first wrong character."""
    place = error.place if isinstance(error, Invalid) else None
    return "" if place is None else pointed(*place)


def is_within(at: datetime, texts: Texts) -> bool:
    first, last = bound_of(texts, "starts_at"), bound_of(texts, "ends_at")
    return (first is None or first <= at) and (last is None or at <= last)


def bound_of(texts: Texts, name: str) -> datetime | None:
    text = texts.get(name, "").strip()
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Invalid("This must be an instant such as 2026-01-31T09:00:00Z", name)
    return at


async def faulty(viewer: Viewer, texts: Texts, error: Invalid | Conflict) -> TypedSchedule:
    """The preview, as far as there is one, with the fault that kept the form from being saved."""
    fault = fault_of(error) if isinstance(error, Invalid) else ("", str(error))
    try:
        draft = await preview_of_new(viewer, texts)
    except Invalid:
        draft = TypedSchedule(texts, {})
    return replace(draft, faults={**draft.faults, fault[0]: fault[1]})


async def new_page(viewer: Viewer, draft: TypedSchedule, status: int = HTTPStatus.OK) -> PageAnswer:
    values = {
        **await values_of(viewer, draft, draft.texts.get("timezone", "")),
        "action": ("schedules", "new"),
        "back": ("schedules",),
        "schedule": None,
        "seen": "",
    }
    return PageAnswer("schedule_form.html", "New schedule", "schedules", values, status)


async def edit_schedule_page(viewer: Viewer) -> PageAnswer:
    viewer.check_may(SCHEDULE_UPDATE)
    viewer.check_parameters()
    schedule = await shown_schedule(viewer)
    texts = schedule_texts(schedule)
    return await edit_page(viewer, schedule, await preview_of_edit(viewer, schedule, texts))


async def save_schedule(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    viewer.check_may(SCHEDULE_UPDATE)
    check_fields(texts, *SCHEDULE_FIELDS)
    schedule = await shown_schedule(viewer)
    before = schedule_texts(schedule)
    texts = {**before, **texts}
    draft = await preview_of_edit(viewer, schedule, texts)
    if texts.get("intent") != "save":
        return await edit_page(viewer, schedule, draft)
    if texts.get("seen") != machine_moment(schedule.updated_at):
        stale = replace(draft, faults={**draft.faults, "": CHANGED_MEANWHILE})
        return await edit_page(viewer, schedule, stale, HTTPStatus.CONFLICT)
    try:
        body = changed_body(texts, before)
        if body:
            await viewer.tell(SCHEDULE_UPDATE, body, id=schedule.id)
    except (Invalid, Conflict) as error:
        fault = fault_of(error) if isinstance(error, Invalid) else ("", str(error))
        found = replace(draft, faults={**draft.faults, fault[0]: fault[1]})
        return await edit_page(viewer, schedule, found, status_of(error).status)
    return RedirectResponse(link("schedules", schedule.id), HTTPStatus.SEE_OTHER)


async def shown_schedule(viewer: Viewer) -> ScheduleAnswer:
    return await viewer.ask(SCHEDULE_SHOW, id=viewer.request.path_params["id"])


async def preview_of_edit(viewer: Viewer, schedule: ScheduleAnswer, texts: Texts) -> TypedSchedule:
    try:
        body = changed_body(texts, schedule_texts(schedule))
        diff = await viewer.tell(SCHEDULE_DIFF, body, id=schedule.id)
    except (Invalid, Conflict) as error:
        fault = fault_of(error) if isinstance(error, Invalid) else ("", str(error))
        return TypedSchedule(texts, dict([fault]), caret=caret_of(error))
    return TypedSchedule(texts, {}, diff.occurrences, diff.description, diff.notes, diff)


async def edit_page(
    viewer: Viewer, schedule: ScheduleAnswer, draft: TypedSchedule, status: int = HTTPStatus.OK
) -> PageAnswer:
    values = {
        **await values_of(viewer, draft, draft.texts.get("timezone", "")),
        "action": ("schedules", schedule.id, "edit"),
        "back": ("schedules", schedule.id),
        "schedule": schedule,
        "seen": machine_moment(schedule.updated_at),
    }
    return PageAnswer("schedule_form.html", f"Edit {schedule.name}", "schedules", values, status)


async def values_of(viewer: Viewer, draft: TypedSchedule, zone: str) -> dict[str, Any]:
    own: ZoneInfo = zone_of(zone.strip())
    faults = dict(draft.faults)
    bounds = (
        (None, None)
        if faults
        else (bound_of(draft.texts, "starts_at"), bound_of(draft.texts, "ends_at"))
    )
    return {
        "outlook": await outlook_of(viewer, draft.texts, draft.occurrences, bounds),
        "carets": {"rule": draft.caret} if "rule" in faults else {},
        "draft": draft,
        "texts": draft.texts,
        "faults": faults,
        "first_fault": next((name for name in SCHEDULE_FIELDS if name in faults), None),
        "choices": CHOICES,
        "once": viewer.context.fresh_id(),
        "own_zone": own,
        "has_other_zone": bool(zone.strip()) and own != viewer.zone,
    }


async def delete_schedule(viewer: Viewer, texts: Texts) -> Response:
    """Only with its name typed, since nothing brings it back."""
    viewer.check_may(SCHEDULE_DELETE)
    check_fields(texts, "name")
    schedule = await shown_schedule(viewer)
    if texts.get("name", "").strip() != schedule.name.strip():
        raise Invalid(OTHER_NAME, "name")
    await viewer.ask(SCHEDULE_DELETE, id=schedule.id)
    return RedirectResponse(link("schedules"), HTTPStatus.SEE_OTHER)
