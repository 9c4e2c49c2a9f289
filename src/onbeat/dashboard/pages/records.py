"""Events, dead letters and the audit log: what came in, and who did what."""

import msgspec
from msgspec import UNSET

from onbeat.dashboard.pages.jobs import readable
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.limits import REPLAY_MAX
from onbeat.operations.tables.administration import AUDIT_LIST
from onbeat.operations.tables.events import EVENT_LIST, EVENT_SHOW
from onbeat.operations.tables.failures import DEAD_GROUPS, DEAD_LIST, DEAD_SHOW
from onbeat.wire.failures import DeadLetterGroupsAnswer


async def events_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(EVENT_LIST, limit=50)
    values = {"events": answer.events, "cursor": answer.cursor, "filters": viewer.filters}
    return PageAnswer("events.html", "Events", "events", values)


async def event_page(viewer: Viewer) -> PageAnswer:
    id = viewer.request.path_params["id"]
    event = await viewer.ask_as_here(EVENT_SHOW, id=id)
    data = event.data_base64 if event.data_json is UNSET else readable(bytes(event.data_json))
    extensions = {} if event.extensions is UNSET else event.extensions
    values = {
        "event": event,
        "data": "" if data is UNSET else data,
        "subject": event.subject or "",
        "extensions": extensions,
    }
    return PageAnswer("event.html", f"Event {event.type}", "events", values)


async def dead_letters_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(DEAD_LIST, limit=50)
    groups: DeadLetterGroupsAnswer | None = None
    if not viewer.query:
        groups = await viewer.ask(DEAD_GROUPS, limit=50)
    values = {
        "letters": answer.letters,
        "cursor": answer.cursor,
        "filters": viewer.filters,
        "groups": groups,
        "replay_max": REPLAY_MAX,
    }
    return PageAnswer("dead_letters.html", "Dead letters", "dead", values)


async def dead_letter_page(viewer: Viewer) -> PageAnswer:
    viewer.check_parameters()
    letter = await viewer.ask(DEAD_SHOW, id=viewer.request.path_params["id"])
    return PageAnswer("dead_letter.html", "Dead letter", "dead", {"letter": letter})


async def audit_page(viewer: Viewer) -> PageAnswer:
    answer = await viewer.ask_as_here(AUDIT_LIST, limit=50)
    requests = [
        msgspec.json.format(bytes(one.request_json), indent=0).decode() for one in answer.records
    ]
    values = {
        "records": list(zip(answer.records, requests, strict=True)),
        "cursor": answer.cursor,
        "filters": viewer.filters,
    }
    return PageAnswer("audit.html", "Audit log", "audit", values)
