"""Jobs that are made by a form, also as a copy, and another due time for a waiting one."""

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.forms import Texts, check_fields, object_of
from onbeat.dashboard.links import link
from onbeat.dashboard.pages.edit import CHOICES
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.schedule_forms import DEFAULTS, OTHER_FIELDS, common_texts, numbers
from onbeat.dashboard.target_forms import (
    TARGET_FIELDS,
    field_of_target,
    target_of,
    target_texts,
    without_secrets,
)
from onbeat.dashboard.viewer import Viewer
from onbeat.model.errors import Conflict, Invalid
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_RESCHEDULE, JOB_SHOW
from onbeat.wire.errors import status_of
from onbeat.wire.jobs import JobInfo

PLAIN: Final = ("run_at", "delay", "queue", "unique", "group", "timeout", "expires_at")
JOB_FIELDS: Final = (*TARGET_FIELDS, *PLAIN, *OTHER_FIELDS)
PART: Final = {"retry": "attempts_max"}


async def new_job_page(viewer: Viewer) -> PageAnswer:
    viewer.check_may(JOB_ENQUEUE)
    viewer.check_parameters("from")
    texts, has_hidden = {**dict.fromkeys(JOB_FIELDS, ""), **DEFAULTS}, False
    if "from" in viewer.query:
        job = await viewer.ask(JOB_SHOW, id=viewer.query["from"])
        copied, has_hidden = copied_texts(job)
        texts |= copied
    return form_page(viewer, texts, {}, has_hidden=has_hidden)


def copied_texts(job: JobInfo) -> tuple[dict[str, str], bool]:
    """What a copy of the job has: neither its key, its times and its place in a flow, nor secrets.

    Says whether secrets are left out.
    """
    target, has_hidden = without_secrets(job.target)
    return {
        **target_texts(target),
        **common_texts(job, job.attempts_max),
        "group": job.group or "",
    }, has_hidden


async def create_job(viewer: Viewer, texts: Texts) -> PageAnswer | Response:
    viewer.check_may(JOB_ENQUEUE)
    check_fields(texts, *JOB_FIELDS)
    try:
        made = await viewer.tell(JOB_ENQUEUE, job_body(texts), once=texts.get("once") or None)
    except (Invalid, Conflict) as error:
        field = fault_field(error.field) if isinstance(error, Invalid) else ""
        return form_page(viewer, texts, {field: str(error)}, status_of(error).status)
    return RedirectResponse(link("jobs", made.id), HTTPStatus.SEE_OTHER)


def job_body(texts: Texts) -> dict[str, Any]:
    """The request for one job. Raises `Invalid` with the name of the form's field."""
    given = {name: text for name in PLAIN if (text := texts.get(name, "").strip())}
    body = {**given, **numbers(texts)}
    more = object_of(texts, "more") or {}
    taken = {*body, "target", "jobs", "flow"}
    for name in more:
        if name in taken:
            raise Invalid(f"{name} has no place here", "more")
    return {**body, **more, "target": target_of(texts)}


def fault_field(path: str) -> str:
    first, _, rest = path.partition(".")
    if first == "target":
        return field_of_target(rest)
    return first if first in JOB_FIELDS else PART.get(first, "more" if first else "")


def form_page(
    viewer: Viewer,
    texts: Texts,
    faults: dict[str, str],
    status: int = HTTPStatus.OK,
    *,
    has_hidden: bool = False,
) -> PageAnswer:
    values = {
        "texts": texts,
        "faults": faults,
        "first_fault": next((name for name in JOB_FIELDS if name in faults), None),
        "choices": CHOICES,
        "has_hidden": has_hidden,
        "once": viewer.context.fresh_id(),
    }
    return PageAnswer("job_form.html", "New job", "jobs", values, status)


async def reschedule_job(viewer: Viewer, texts: Texts) -> Response:
    """`when` is an instant, or how long from now."""
    viewer.check_may(JOB_RESCHEDULE)
    check_fields(texts, "when")
    id, when = viewer.request.path_params["id"], texts.get("when", "").strip()
    if not when:
        raise Invalid("Say when: an instant such as 2026-01-31T09:00:00Z, or 10m from now", "when")
    name = "run_at" if "T" in when.upper().lstrip("P") and when[:1].isdigit() else "delay"
    await viewer.tell(JOB_RESCHEDULE, {name: when}, id=id)
    return RedirectResponse(link("jobs", id), HTTPStatus.SEE_OTHER)
