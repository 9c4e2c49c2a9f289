"""`onbeat flow`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.jobs import target_words
from onbeat.cli.options import cursor_option, field, limit_option
from onbeat.cli.output import (
    console,
    plain,
    show_json,
    show_message,
    show_table,
    styled_state,
    tell_cursor,
)
from onbeat.model.limits import FLOWS_LISTED_DEFAULT, FLOWS_LISTED_MAX

STATES: Final = ("running", "waiting", "failed", "cancelled", "succeeded")
DEPTH_MAX: Final = 20
"""Jobs further down a chain are drawn at the same depth."""

Job = Mapping[str, Any]
Edge = Mapping[str, Any]


@click.group()
def flow() -> None:
    """Flows: jobs that come after one another."""


@flow.command("list", epilog=examples("onbeat flow list", "onbeat flow list --limit 50 --json"))
@limit_option(FLOWS_LISTED_DEFAULT, most=FLOWS_LISTED_MAX)
@cursor_option
@json_option
@with_client
def list_flows(
    connection: ConnectionOptions, *, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List flows, the newest first, with how far each is."""
    answer = connection.call("flow.list", {"limit": limit, "cursor": cursor})
    if as_json:
        show_json(answer)
        return
    show_table(
        ("ID", "TASK", "STATE", "DONE", "FAILED"),
        [
            (plain(one["id"]), plain(one["task"]), styled_state(one["state"]), *far(one))
            for one in answer["flows"]
        ],
        empty="no flow has been sent",
        right=("DONE", "FAILED"),
    )
    tell_cursor(answer)


def far(one: Mapping[str, Any]) -> tuple[str, str]:
    """How many jobs have ended of how many, and how many of them failed."""
    counts = {state: sum(one[part][state] for part in ("counts", "last")) for state in STATES}
    total = sum(counts.values())
    done = total - counts["running"] - counts["waiting"]
    more = " or more" if one["more"] else ""
    return f"{done:,} of {total:,}{more}", f"{counts['failed']:,}"


@flow.command(
    "show",
    epilog=examples("onbeat flow show 01a20000-0000-7000-8000-000000000001"),
)
@click.argument("id")
@limit_option(200)
@cursor_option
@json_option
@with_client
def show(
    connection: ConnectionOptions, *, id: str, limit: int, cursor: str | None, as_json: bool
) -> None:
    """Draw the jobs of a flow as a tree, with their states.

    ID is that of the job that sent the others, or of the request. A job stands under the first one
    that it comes after.
    """
    answer = connection.call("flow.show", {"id": id, "limit": limit, "cursor": cursor})
    if as_json:
        show_json(answer)
        return
    target = console()
    target.print(head_of(answer))
    for line in tree(answer["id"], answer["jobs"], answer["edges"]):
        target.print(line, soft_wrap=True)
    tell_cursor(answer)


def head_of(answer: Mapping[str, Any]) -> str:
    parts = (answer["counts"], answer["last"])
    counts = {state: sum(part[state] for part in parts) for state in STATES}
    words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{plain(answer['id'])} {styled_state(answer['state'])}: {words}"


def tree(id: str, jobs: Sequence[Job], edges: Sequence[Edge]) -> Iterator[str]:
    """One line for each job, under the first job of the page that it comes after."""
    known = {job["id"]: job for job in jobs}
    ways: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        ways[edge["job"]].append(edge)
    under: dict[str | None, list[str]] = defaultdict(list)
    # Newest first in a page; a flow reads from the first to the last.
    for job_id in sorted(known, key=lambda job: (job != id, job)):
        parents = (edge["after"] for edge in ways[job_id] if edge["after"] in known)
        under[next(parents, None)].append(job_id)
    left = [(job_id, 0) for job_id in reversed(under[None])]
    while left:
        job_id, depth = left.pop()
        yield line_of(known[job_id], ways[job_id], known, depth)
        left += [(below, depth + 1) for below in reversed(under[job_id])]


def line_of(job: Job, ways: Sequence[Edge], known: Mapping[str, Job], depth: int) -> str:
    """The name, the state and the id of a job, and what it comes after but for the plain case."""
    branch = "   " * min(depth - 1, DEPTH_MAX) + "└─ " if depth else ""
    others = [
        way_words(edge, known) for place, edge in enumerate(ways) if tells(edge, place, depth)
    ]
    after = f" after {', '.join(others)}" if others else ""
    state, id = styled_state(job["state"]), plain(job["id"])
    return f"{branch}{title_of(job)} {state} {id}{plain(after) if after else ''}"


def tells(edge: Edge, place: int, depth: int) -> bool:
    """Whether the place in the tree does not say it: it stands for the first success."""
    return not (place == 0 and depth > 0 and edge["on"] == "success")


def way_words(edge: Edge, known: Mapping[str, Job]) -> str:
    other = known.get(edge["after"])
    name = edge["after"] if other is None else other["name"] or edge["after"]
    return name if edge["on"] == "success" else f"{edge['on']} of {name}"


def title_of(job: Job) -> str:
    return plain(job["name"]) if job["name"] else target_words(job["target"])


@flow.command("cancel")
@click.argument("id")
@field("--reason", metavar="TEXT", help="Why, for the history.")
@json_option
@with_client
def cancel(connection: ConnectionOptions, *, id: str, reason: str | None, as_json: bool) -> None:
    """Cancel the waiting jobs of a flow, and ask the running ones to stop."""
    answer = connection.call("flow.cancel", {"id": id}, {"reason": reason} if reason else None)
    show_json(answer) if as_json else show_message(f"{answer['changed']} jobs cancelled")


@flow.command("retry")
@click.argument("id")
@json_option
@with_client
def retry(connection: ConnectionOptions, *, id: str, as_json: bool) -> None:
    """Let the failed and cancelled jobs of a flow wait again."""
    answer = connection.call("flow.retry", {"id": id})
    show_json(answer) if as_json else show_message(f"{answer['changed']} jobs wait again")
