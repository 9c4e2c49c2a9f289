"""The list of jobs, with its search and its bulks, and one job with its attempts and history."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from msgspec import UNSET
from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.drawing.attempts import attempt_bars
from onbeat.dashboard.drawing.tracebacks import traceback_parts
from onbeat.dashboard.formats import as_text, number
from onbeat.dashboard.job_picks import PICKED, WAS, counts_of, is_form, picked, picks_of
from onbeat.dashboard.links import link
from onbeat.dashboard.renderer import PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.bulk import BulkState
from onbeat.model.errors import Invalid, NotFound
from onbeat.model.job import JobState
from onbeat.model.limits import FAULT_JOBS_MAX, LOG_LINES_SHOWN, PAGE_LIMIT_MAX
from onbeat.operations.invoke import query_names
from onbeat.operations.tables.failures import FAILURE_SHOW
from onbeat.operations.tables.flows import FLOW_SHOW
from onbeat.operations.tables.jobs import BULK_LIST, JOB_LIST, JOB_LOG, JOB_SHOW, JOB_WHY
from onbeat.rules.job_search import read_moment, read_search, search_line
from onbeat.wire.bulks import BulkInfo, label_filter, read_label_filter
from onbeat.wire.flows import FlowAnswer
from onbeat.wire.job_logs import LogLineAnswer
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import Explanation
from onbeat.wire.targets import TargetAnswer

ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
ENDED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
OVER: Final = frozenset({BulkState.DONE, BulkState.STOPPED})
ROWS: Final = 50
ROWS_MAX: Final = 200
"""Of one page: a thousand rows take longer to draw than anybody waits, and the cursor goes on."""
BULKS_SHOWN: Final = 20
NEIGHBOURS_MAX: Final = 200
LEVEL_CLASSES: Final = {"warning": "text-warn", "error": "text-fail", "critical": "text-fail"}
LINES_SHOWN: Final = LOG_LINES_SHOWN
ATTEMPTS_SHOWN: Final = 10  # to choose the log of
SPANS: Final = ("15m", "1h", "2h", "today", "yesterday", "7d")
TOO_MANY_ROWS: Final = frozenset(map(str, range(ROWS_MAX + 1, PAGE_LIMIT_MAX + 1)))
"""What the API takes as a limit and a page does not show."""


async def jobs_page(viewer: Viewer) -> PageAnswer | Response:
    if is_form(viewer.request.query_params):
        return await searched(viewer)
    viewer.check_parameters(*(name for name in query_names(JOB_LIST) if name != "counts"))
    params = parameters(viewer)
    counts = {} if viewer.part == "list" else {"counts": "true"}
    answer = await viewer.ask(JOB_LIST, **{**params, **counts, "limit": rows_of(params)})
    filters = viewer.filters
    values = {
        **list_values(filters),
        "counts": counts_of(answer),
        "picks": await picks_of(viewer, filters),
        "jobs": answer.jobs,
        "cursor": answer.cursor,
        "searched": answer.searched or None,
        "searched_to": answer.searched_to or None,
        "is_whole": answer.cursor is None and "cursor" not in viewer.query,
        "where": where_text(params),
        "bulks": await unfinished_bulks(viewer),
    }
    return PageAnswer("jobs.html", "Jobs", "jobs", values)


async def searched(viewer: Viewer) -> PageAnswer | Response:
    """A job by its id, or the list that the line and the picks stand for, at its own address."""
    viewer.check_parameters("q", *PICKED, *(name + WAS for name in PICKED))
    line = viewer.query.get("q", "").strip()
    try:
        address = found_by(line, picked(viewer.request.query_params))
        return RedirectResponse(address, HTTPStatus.SEE_OTHER)
    except Invalid as error:
        none: dict[str, Any] = {"jobs": (), "cursor": None, "searched": None, "searched_to": None}
        none |= {"counts": (), "picks": await picks_of(viewer, {})}
        values = {**list_values({}), **none, "is_whole": False, "where": "{}", "bulks": ()}
        shown = {**values, "line": line, "fault": str(error)}
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return PageAnswer("jobs.html", "Jobs", "jobs", shown, status)


def found_by(line: str, picked: Mapping[str, str | None]) -> str:
    """Where the search leads. Raises `Invalid`, which says where the line is wrong."""
    if ID.fullmatch(line.lower()):
        return link("jobs", line)
    found = read_search(line)
    texts = {
        name: value if isinstance(value, str) else label_filter(value)
        for name, value in found.items()
    }
    return link("jobs", **{**texts, **picked})


def list_values(filters: Mapping[str, str]) -> dict[str, Any]:
    """What the list has whatever was found."""
    return {
        "filters": filters,
        "line": line_of(filters),
        "fault": None,
        "spans": SPANS,
        "job_states": [str(state) for state in JobState],
        "title_of": title_of,
    }


def line_of(filters: Mapping[str, str]) -> str:
    """The filters as the line of search."""
    texts: dict[str, str | tuple[str, ...]] = {**filters}
    if "label" in filters:
        texts["label"] = read_label_filter(filters["label"], "label")
    return search_line(texts)


def parameters(viewer: Viewer) -> dict[str, str]:
    """Those of the API: instants may have the short forms of the page."""
    params = dict(viewer.query)
    for name in ("since", "until"):
        if name in params:
            at = read_moment(params[name], name, viewer.now, viewer.zone)
            params[name] = at.isoformat().replace("+00:00", "Z")
    return params


def rows_of(params: Mapping[str, str]) -> str:
    """How many rows are wanted, at most those of a page. The API refuses what it does not know."""
    wanted = params.get("limit", str(ROWS))
    return str(ROWS_MAX) if wanted in TOO_MANY_ROWS else wanted


def where_text(params: Mapping[str, str]) -> str:
    """The filter of a bulk, as JSON for the script."""
    where = {name: text for name, text in params.items() if name not in {"limit", "cursor"}}
    return msgspec.json.encode(where).decode()


async def unfinished_bulks(viewer: Viewer) -> tuple[BulkInfo, ...]:
    answer = await viewer.ask(BULK_LIST, limit=BULKS_SHOWN)
    return tuple(bulk for bulk in answer.bulks if bulk.state not in OVER)


async def job_page(viewer: Viewer) -> PageAnswer:
    id = viewer.request.path_params["id"]
    viewer.check_parameters("attempt")
    job = await viewer.ask(JOB_SHOW, id=id)
    is_ended = job.state in ENDED
    name = title_of(job.target)
    why: Explanation | None = None
    if not is_ended:
        why = await viewer.ask(JOB_WHY, id=id)
    attempts = () if job.attempts is UNSET else job.attempts
    values = {
        "alike": await alike(viewer, job),
        "job": job,
        "name": name,
        "is_ended": is_ended,
        "why": why,
        "attempts": attempts,
        "bars": attempt_bars(job, attempts, viewer.now),
        "error_parts": traceback_parts(job.error or ""),
        "neighbours": await neighbours(viewer, job),
        "history": () if job.history is UNSET else job.history,
        "target": readable(msgspec.json.encode(job.target)),
        "result": readable(bytes(job.result_json)),
        **await log_values(viewer, job),
    }
    return PageAnswer("job.html", f"{name} {job.state}", "jobs", values)


async def log_values(viewer: Viewer, job: JobInfo) -> dict[str, Any]:
    """The log lines of one attempt, the last where none is chosen. Only handlers have some."""
    if job.target.task is UNSET:
        return {"has_log": False}
    chosen = viewer.query.get("attempt", job.attempt or None)
    log = await viewer.ask(JOB_LOG, id=job.id, attempt=chosen, limit=LINES_SHOWN)
    return {
        "has_log": True,
        "log": log,
        "lines": [(line, field_texts(line)) for line in log.lines],
        "levels": LEVEL_CLASSES,
        "log_attempt": str(chosen or 1),
        "log_attempts": range(max(1, job.attempt - ATTEMPTS_SHOWN + 1), job.attempt + 1),
    }


def field_texts(line: LogLineAnswer) -> str:
    """`to=ada@example.com tries=2`."""
    return " ".join(f"{name}={as_text(value)}" for name, value in line.fields.items())


async def alike(viewer: Viewer, job: JobInfo) -> str:
    """`211 like this`: how many jobs have the same fault."""
    if job.fault is UNSET:
        return ""
    try:
        fault = await viewer.ask(FAILURE_SHOW, fault=job.fault)
    except NotFound:
        return "Others like this"
    jobs = fault.failed + fault.waiting
    return "No other job like this" if jobs <= 1 else f"{in_words(jobs, FAULT_JOBS_MAX)} like this"


def in_words(count: int, most: int) -> str:
    """1,204, or `more than 10,000` where it was not counted further."""
    return number(count) if count <= most else f"more than {number(most)}"


async def neighbours(viewer: Viewer, job: JobInfo) -> list[tuple[str, str, JobInfo | None]]:
    """Its flow one step before and after it: how, the id, and the job if it is shown."""
    if job.flow is None:
        return []
    try:
        flow: FlowAnswer = await viewer.ask(FLOW_SHOW, id=job.flow, limit=NEIGHBOURS_MAX)
    except NotFound:
        return []
    known = {one.id: one for one in flow.jobs}
    before = [("after", edge.after) for edge in flow.edges if edge.job == job.id]
    behind = [("before", edge.job) for edge in flow.edges if edge.after == job.id]
    return [(how, id, known.get(id)) for how, id in (*before, *behind)]


def title_of(target: TargetAnswer) -> str:
    """The task, the program, or where a callback, a message or a notice goes."""
    if target.http is not UNSET:
        return f"{target.http.method} {target.http.url}"
    if target.message is not UNSET:
        return f"message to {target.message.queue}"
    if target.notify is not UNSET:
        return f"notify by {target.notify.channel}"
    if target.command is not UNSET:
        return f"command {target.command[0]}"
    return str(target.task)


def readable(json: bytes) -> str:
    return msgspec.json.format(json, indent=2).decode()
