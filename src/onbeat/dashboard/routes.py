"""The paths of the dashboard, each with its page."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from onbeat.api.requests import check_address, explained
from onbeat.api.security import NOBODY, Access, is_for_people, principal_of
from onbeat.dashboard.formats import shown
from onbeat.dashboard.forms import (
    FIELDS_MAX,
    FORM_BYTES_MAX,
    Texts,
    check_proof,
    read_fields,
)
from onbeat.dashboard.login import LogIn
from onbeat.dashboard.pages.alerts import alerts_page, silence_alerts
from onbeat.dashboard.pages.backfill import backfill_page, backfill_schedule
from onbeat.dashboard.pages.edit import (
    create_schedule,
    delete_schedule,
    edit_schedule_page,
    new_schedule_page,
    save_schedule,
)
from onbeat.dashboard.pages.failures import failure_page, failures_page, note_failure
from onbeat.dashboard.pages.flows import flow_page, flows_page
from onbeat.dashboard.pages.help import help_page
from onbeat.dashboard.pages.jobs import job_page, jobs_page
from onbeat.dashboard.pages.new_job import create_job, new_job_page, reschedule_job
from onbeat.dashboard.pages.now import now_page
from onbeat.dashboard.pages.queues import limit_queue, pause_queue, queue_page, queues_page
from onbeat.dashboard.pages.records import (
    audit_page,
    dead_letter_page,
    dead_letters_page,
    event_page,
    events_page,
)
from onbeat.dashboard.pages.schedules import schedule_page, schedules_page
from onbeat.dashboard.pages.settings import settings_page
from onbeat.dashboard.pages.timeline import timeline_page
from onbeat.dashboard.pages.workers import workers_page
from onbeat.dashboard.renderer import (
    PageAnswer,
    asset_response,
    part_response,
    proof_of_viewer,
    render,
    section_of,
)
from onbeat.dashboard.shared_section import shared_section
from onbeat.dashboard.viewer import Viewer, viewer_of
from onbeat.model.errors import NotFound, OnbeatError
from onbeat.operations.context import OperationContext
from onbeat.telemetry.structured_log import Log
from onbeat.wire.errors import problem, status_of

PageFunction = Callable[[Viewer], Awaitable[PageAnswer | Response]]
FormFunction = Callable[[Viewer, Texts], Awaitable[PageAnswer | Response]]

PAGES: Final[dict[str, PageFunction]] = {
    "/": now_page,
    "/timeline": timeline_page,
    "/schedules": schedules_page,
    "/schedules/new": new_schedule_page,
    "/schedules/{id}": schedule_page,
    "/schedules/{id}/edit": edit_schedule_page,
    "/schedules/{id}/backfill": backfill_page,
    "/jobs": jobs_page,
    "/jobs/new": new_job_page,
    "/jobs/{id}": job_page,
    "/failures": failures_page,
    "/failures/{fault}": failure_page,
    "/queues": queues_page,
    "/queues/{name}": queue_page,
    "/workers": workers_page,
    "/flows": flows_page,
    "/flows/{id}": flow_page,
    "/events": events_page,
    "/events/{id:path}": event_page,
    "/dead": dead_letters_page,
    "/dead/{id}": dead_letter_page,
    "/alerts": alerts_page,
    "/audit": audit_page,
    "/settings": settings_page,
    "/help": help_page,
}

SHARED: Final = frozenset({now_page})
"""Pages whose sections all viewers ask for at each pulse of the stream."""

FORMS: Final[dict[str, FormFunction]] = {
    "/schedules/new": create_schedule,
    "/schedules/{id}/edit": save_schedule,
    "/schedules/{id}/backfill": backfill_schedule,
    "/schedules/{id}/delete": delete_schedule,
    "/jobs/new": create_job,
    "/jobs/{id}/reschedule": reschedule_job,
    "/queues/{name}/limits": limit_queue,
    "/queues/{name}/pause": pause_queue,
    "/failures/{fault}/note": note_failure,
    "/alerts/silence": silence_alerts,
}
"""What takes forms; their paths end as `FORM_ENDINGS` says."""

PATH_CHARS_SHOWN: Final = 200

lines = Log("onbeat.dashboard")


def dashboard_routes(context: OperationContext, access: Access) -> Iterator[Route]:
    """Pages, assets and log-in. The caller of each request is authenticated before."""
    log_in = LogIn(context, access)
    yield Route("/login", log_in.form)
    yield Route("/login", log_in.begin, methods=["POST"])
    yield Route("/logout", log_in.end, methods=["POST"])
    for path, page in PAGES.items():
        yield Route(path, endpoint(context, page))
    for path, form in FORMS.items():
        yield Route(path, form_endpoint(context, form), methods=["POST"])
    yield Route("/assets/{digest}/{name}", serve_asset)


def endpoint(
    context: OperationContext, page: PageFunction
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        viewer = viewer_of(context, request)
        try:
            check_address(request)
            if page in SHARED and viewer.part is not None:
                return await shared_part(viewer, page)
            answered = await page(viewer)
            return render(answered, viewer) if isinstance(answered, PageAnswer) else answered
        except Exception as error:  # noqa: BLE001  every error becomes a page
            return error_page(explained(error, request), viewer)

    return answer


async def shared_part(viewer: Viewer, page: PageFunction) -> Response:
    async def draw(viewer: Viewer, proof: str | None) -> str:
        answered = await page(viewer)
        assert isinstance(answered, PageAnswer), "these pages lead nowhere else"
        return section_of(answered, viewer, proof)

    text = await shared_section(viewer, proof_of_viewer(viewer), draw)
    return part_response(text, viewer.request)


def form_endpoint(
    context: OperationContext, form: FormFunction
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            check_address(request)
            fields = await read_fields(request, FORM_BYTES_MAX, FIELDS_MAX)
            check_proof(request, fields)
        except Exception as error:  # noqa: BLE001  as above
            return error_page(error, viewer_of(context, request))
        viewer = viewer_of(context, request)
        try:
            answered = await form(viewer, fields)
            return render(answered, viewer) if isinstance(answered, PageAnswer) else answered
        except Exception as error:  # noqa: BLE001  as above
            return error_page(error, viewer)

    return answer


def missing_page(context: OperationContext) -> Callable[[Request], Response | None]:
    """What a browser is shown at a path of the dashboard that nothing is at; None for programs."""

    def answer(request: Request) -> Response | None:
        if not is_for_people(request) or principal_of(request) is NOBODY:
            return None
        path = shown(request.scope["path"][:PATH_CHARS_SHOWN])
        return error_page(NotFound(f"There is nothing at {path}"), viewer_of(context, request))

    return answer


def error_page(error: Exception, viewer: Viewer) -> Response:
    """What happened and what to do, with the status that the API would answer."""
    if not isinstance(error, OnbeatError):
        lines.error("dashboard.failed", error, path=viewer.request.url.path)
    one = problem(error)
    title = "Nothing here" if isinstance(error, NotFound) else "This did not work"
    values = {"problem": one}
    return render(PageAnswer("error.html", title, "", values, status_of(error).status), viewer)


async def serve_asset(request: Request) -> Response:
    given = request.path_params
    response = asset_response(given["digest"], given["name"])
    if response is None:
        raise HTTPException(404)
    return response
