"""A flow as a graph: jobs in layers from left to right, with the links between them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from onbeat.dashboard.drawing.layers import (
    JOB_HEIGHT,
    Layout,
    Link,
    Spot,
    is_passed,
    laid_out,
    layers_of,
)
from onbeat.dashboard.drawing.svg import element, number
from onbeat.dashboard.formats import shown
from onbeat.dashboard.links import link
from onbeat.model.flow import SENT
from onbeat.model.job import JobState
from onbeat.wire.flows import FlowEdge

WIDTH: Final = 184.0
BETWEEN: Final = 56.0
"""From one layer to the next."""
MARGIN: Final = 12.0
MARK: Final = 14.0
TEXT_AT: Final = 32.0
NAME_CHARS: Final = 20
"""What is longer is cut: the title has it whole."""
JOINT: Final = SENT
"""In place of a job: what all others lead to that were sent before those that wait for them."""
KINDS: Final = ("success", "failure", "end", SENT)
UNFINISHED: Final = frozenset({JobState.WAITING, JobState.RUNNING})


class GraphJob(msgspec.Struct, frozen=True):
    """One job of a flow, as it is drawn."""

    id: str
    name: str
    state: JobState
    colour: str


def links_of(flow: str, ids: Collection[str], edges: Iterable[FlowEdge]) -> list[Link]:
    """The edges between the jobs with these ids, as they are drawn.

    Jobs that wait for all that were sent with them come after a joint, to which the last ones of
    those lead. The job that sent the others leads to the first ones.
    """
    known = [edge for edge in edges if edge.job in ids]
    links = [Link(e.after, e.job, str(e.on)) for e in known if e.after != SENT and e.after in ids]
    waiting = {edge.job: str(edge.on) for edge in known if edge.after == SENT}
    late = reached(waiting, links)
    leads = {one.source for one in links if one.target not in late}
    members = [id for id in ids if id != flow and id not in late]
    ends = [id for id in members if id not in leads] or [id for id in ids if id == flow]
    if waiting:
        (kind,) = kinds if len(kinds := {*waiting.values()}) == 1 else ("end",)
        links += [Link(end, JOINT, kind) for end in ends]
        links += [Link(JOINT, job, kind) for job, kind in waiting.items()]
    if flow in ids:
        follows = {one.target for one in links}
        links += [Link(flow, id, SENT) for id in members if id not in follows]
    return links


def spots_of(jobs: Iterable[GraphJob], links: Iterable[Link]) -> list[str]:
    """The jobs, and the joint if there is one."""
    joints = [JOINT] if any(one.target == JOINT for one in links) else []
    return [*(job.id for job in jobs), *joints]


def reached(first: Iterable[str], links: Iterable[Link]) -> set[str]:
    """These ids, and all that come after them."""
    behind: dict[str, list[str]] = defaultdict(list)
    for source, target, _ in links:
        behind[source].append(target)
    found = dict.fromkeys(first)
    queue = list(found)
    for id in queue:
        for target in behind[id]:
            if target not in found:
                found[target] = None
                queue.append(target)
    return set(found)


class Level(msgspec.Struct, frozen=True):
    """One layer of a flow: its jobs, and how many are in each state."""

    jobs: Sequence[GraphJob]
    counts: Mapping[JobState, int]


def levels(jobs: Sequence[GraphJob], links: Sequence[Link]) -> list[Level]:
    """The layers of the graph as a list, those first that come after nothing."""
    known = {job.id: job for job in jobs}
    layers = (
        [known[id] for id in layer if id != JOINT]
        for layer in layers_of(spots_of(jobs, links), links)
    )
    return [Level(layer, Counter(job.state for job in layer)) for layer in layers if layer]


def blocking(jobs: Sequence[GraphJob], links: Sequence[Link], most: int) -> list[GraphJob]:
    """Unfinished jobs that wait for none of the others and that others wait for, most first."""
    known = {job.id: job for job in jobs if job.state in UNFINISHED}
    awaiting = [one for one in links if one.kind != SENT]
    live = {*known, *({one.target for one in awaiting if one.source in known} & {JOINT})}
    between = [one for one in awaiting if one.source in live and one.target in live]
    waits = {one.target for one in between}
    awaited = Counter(one.source for one in between)
    found = [id for id, _ in awaited.most_common() if id in known and id not in waits]
    return [known[id] for id in found[:most]]


def drawing(jobs: Sequence[GraphJob], links: Sequence[Link]) -> Markup:
    """The graph as it is at any width: it is as large as it has to be."""
    layout = laid_out(spots_of(jobs, links), links)
    places = places_of(layout)
    height = max((y + JOB_HEIGHT / 2 for _, y in places.values()), default=0.0) + MARGIN
    width = len(layout.layers) * (WIDTH + BETWEEN) - BETWEEN + 2 * MARGIN
    lines = [line_of(kind, layout, places) for kind in KINDS]
    return element(
        "svg",
        *(line for line in lines if line is not None),
        heads(layout, places),
        *([joint(*places[JOINT])] if JOINT in places else []),
        *(box(job, *places[job.id]) for job in jobs),
        width=width,
        height=height,
        role="group",
        aria_label=f"{len(jobs)} jobs in {len(levels(jobs, links))} layers",
    )


def places_of(layout: Layout) -> dict[Spot, tuple[float, float]]:
    """The left edge and the middle of each spot."""
    return {
        spot: (MARGIN + depth * (WIDTH + BETWEEN), MARGIN + layout.middles[spot])
        for depth, layer in enumerate(layout.layers)
        for spot in layer
    }


def line_of(kind: str, layout: Layout, places: Mapping[Spot, tuple[float, float]]) -> Markup | None:
    """All links of one kind as one path; None where there are none."""
    pieces = [(source, target) for source, target, of in layout.pieces if of == kind]
    if not pieces:
        return None
    drawn = "".join(
        curve(places[source], places[target], passes=is_passed(target)) for source, target in pieces
    )
    return element("path", class_=f"edge {kind}", d=drawn)


def curve(source: tuple[float, float], target: tuple[float, float], *, passes: bool) -> str:
    """From the right side of one spot to the left side of another, and past a waypoint."""
    (left, y1), (x2, y2) = source, target
    x1, half = left + WIDTH, BETWEEN / 2
    points = [(x1 + half, y1), (x2 - half, y2), (x2, y2)]
    text = " ".join(f"{number(x)} {number(y)}" for x, y in points)
    return f"M{number(x1)} {number(y1)}C{text}" + (f"h{number(WIDTH)}" if passes else "")


def heads(layout: Layout, places: Mapping[Spot, tuple[float, float]]) -> Markup:
    """An arrowhead where links reach a job."""
    reached = (target for _, target, _ in layout.pieces if not is_passed(target))
    targets = dict.fromkeys(reached)
    found = (places[target] for target in targets)
    return element(
        "path",
        class_="heads",
        d="".join(f"M{number(x - 7)} {number(y - 4)}l7 4l-7 4z" for x, y in found),
    )


def joint(x: float, middle: float) -> Markup:
    title = element("title", "all that were sent before")
    return element("circle", title, class_="joint", cx=x + WIDTH / 2, cy=middle, r=5)


def cut(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[: NAME_CHARS - 1]}…"


def box(job: GraphJob, x: float, middle: float) -> Markup:
    """One job: a link with its mark, its name and its state in words."""
    name, top = shown(job.name), middle - JOB_HEIGHT / 2
    short = cut(name)
    # What is read aloud begins with what is seen.
    label = f"{short} {job.state}" + ("" if short == name else f", {name}")
    mark = element(
        "use",
        href=f"#m-{job.state}",
        x=x + 10,
        y=middle - MARK / 2,
        width=MARK,
        height=MARK,
    )
    # Its own viewport cuts off what is too long.
    words = element(
        "svg",
        element("text", short, x=0, y=18),
        " ",
        element("text", str(job.state), x=0, y=35, class_="word"),
        x=x + TEXT_AT,
        y=top,
        width=WIDTH - TEXT_AT - 6,
        height=JOB_HEIGHT,
    )
    return element(
        "a",
        element("title", f"{name}: {job.state}"),
        element("rect", x=x, y=top, width=WIDTH, height=JOB_HEIGHT, rx=6),
        mark,
        words,
        href=link("jobs", job.id),
        class_=f"node {job.colour}",
        aria_label=label,
    )
