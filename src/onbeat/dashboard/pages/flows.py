"""One flow: its jobs, their edges, and how far it is."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from msgspec.structs import asdict
from starlette.responses import RedirectResponse, Response

from onbeat.dashboard.drawing.graph import GraphJob, blocking, drawing, levels, links_of
from onbeat.dashboard.links import link
from onbeat.dashboard.pages.jobs import title_of
from onbeat.dashboard.renderer import STATES, PageAnswer
from onbeat.dashboard.viewer import Viewer
from onbeat.model.job import JobState
from onbeat.model.limits import GRAPH_JOBS_MAX, GRAPH_LINKS_MAX, PAGE_LIMIT_MAX
from onbeat.operations.tables.flows import FLOW_LIST, FLOW_SHOW
from onbeat.wire.flows import FlowAnswer, FlowCounts, FlowEdge, FlowInfo
from onbeat.wire.jobs import JobInfo

ROWS: Final = 100
NAMED_MAX: Final = 10
"""Of the failed jobs of a large flow, and of those that block others."""


async def flows_page(viewer: Viewer) -> PageAnswer | Response:
    """The newest first; one that is older is found by its id."""
    if "id" in viewer.query:
        viewer.check_parameters("id")
        return RedirectResponse(link("flows", viewer.query["id"].strip()), HTTPStatus.SEE_OTHER)
    answer = await viewer.ask_as_here(FLOW_LIST)
    values = {"flows": answer.flows, "cursor": answer.cursor, "sums": sums_of}
    return PageAnswer("flows.html", "Flows", "flows", values)


def sums_of(flow: FlowInfo) -> FlowCounts:
    """Of the flow and of what waits for its end together."""
    last = asdict(flow.last)
    return FlowCounts(
        **{state: count + last[state] for state, count in asdict(flow.counts).items()}
    )


async def flow_page(viewer: Viewer) -> PageAnswer:
    id = viewer.request.path_params["id"]
    flow = await viewer.ask_as_here(FLOW_SHOW, limit=ROWS, id=id)
    all_of_it = flow if "cursor" in viewer.query else await first_jobs(viewer, flow)
    values = {
        "flow": flow,
        "preceding": before(all_of_it.edges),
        "names": {job.id: name_of(job) for job in all_of_it.jobs},
        "title_of": title_of,
        "whole": None if "cursor" in viewer.query else whole(all_of_it),
    }
    return PageAnswer("flow.html", f"Flow {flow.state}", "flows", values)


async def first_jobs(viewer: Viewer, flow: FlowAnswer) -> FlowAnswer:
    """More of it than the page of a list, as far as one answer goes."""
    if flow.cursor is None:
        return flow
    return await viewer.ask(FLOW_SHOW, limit=PAGE_LIMIT_MAX, id=flow.id)


def whole(flow: FlowAnswer) -> dict[str, Any]:
    """The flow as a graph, or by levels where it is large or was not read to its end."""
    total = flow.counts.total + flow.last.total
    jobs = [GraphJob(one.id, name_of(one), one.state, STATES[one.state]) for one in flow.jobs]
    links = links_of(flow.id, dict.fromkeys(job.id for job in jobs), flow.edges)
    is_drawn = len(jobs) <= GRAPH_JOBS_MAX and flow.cursor is None and len(links) <= GRAPH_LINKS_MAX
    failed = [job for job in jobs if job.state is JobState.FAILED]
    return {
        "drawing": drawing(jobs, links) if is_drawn and len(jobs) > 1 else None,
        "levels": levels(jobs, links),
        "read": len(jobs),
        "left": max(0, total - len(jobs)),
        "failed": failed[:NAMED_MAX],
        "blocking": blocking(jobs, links, NAMED_MAX),
    }


def before(edges: Sequence[FlowEdge]) -> dict[str, list[tuple[str, str]]]:
    """What each job comes after, and after which end."""
    found: dict[str, list[tuple[str, str]]] = {}
    for edge in edges:
        found.setdefault(edge.job, []).append((edge.after, str(edge.on)))
    return found


def name_of(job: JobInfo) -> str:
    return job.name or title_of(job.target)
