"""Jobs in layers from left to right: who stands in which, in which order, and how far down."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from onbeat.model.flow import SENT
from onbeat.model.limits import GRAPH_WAYPOINTS_MAX

JOB_HEIGHT: Final = 44.0
WAY_HEIGHT: Final = 8.0
GAP: Final = 14.0
SWEEPS: Final = 4
"""There and back: more hardly change the order."""


class Link(NamedTuple):
    """`target` comes after `source`; `kind` says after which end."""

    source: str
    target: str
    kind: str


class Waypoint(NamedTuple):
    """Where links of one kind from one job pass a layer that none of their targets is in."""

    source: str
    kind: str
    layer: int


Spot = str | Waypoint


class Layout(msgspec.Struct, frozen=True):
    """The spots of each layer from the top down, the pieces of the links, and the middles.

    A piece leads from a spot to one of a later layer.
    """

    layers: Sequence[Sequence[Spot]]
    pieces: Sequence[tuple[Spot, Spot, str]]
    middles: Mapping[Spot, float]


def layers_of(ids: Sequence[str], links: Iterable[Link]) -> list[list[str]]:
    """The ids by the longest way that leads to each, in the order given.

    Links from or to others are left out. A ring, which no flow has, stands in the first layer.
    """
    known = set(ids)
    behind: dict[str, list[str]] = defaultdict(list)
    awaited = dict.fromkeys(ids, 0)
    for source, target, _ in links:
        if source in known and target in known:
            behind[source].append(target)
            awaited[target] += 1
    depths = dict.fromkeys(ids, 0)
    free = [id for id in ids if not awaited[id]]
    for id in free:
        for target in behind[id]:
            depths[target] = max(depths[target], depths[id] + 1)
            awaited[target] -= 1
            if not awaited[target]:
                free.append(target)
    layers: list[list[str]] = [[] for _ in range(1 + max(map(depths.__getitem__, free), default=0))]
    for id in ids:
        layers[0 if awaited[id] else depths[id]].append(id)
    return [layer for layer in layers if layer]


def laid_out(ids: Sequence[str], links: Sequence[Link]) -> Layout:
    """Layers by the longest way, their order by the means of their neighbours."""
    layers: list[list[Spot]] = [[*layer] for layer in layers_of(ids, links)]
    depths = {spot: depth for depth, layer in enumerate(layers) for spot in layer}
    forward = [
        link
        for link in dict.fromkeys(links)
        if link.source in depths
        and link.target in depths
        and depths[link.source] < depths[link.target]
    ]
    ways = waypoints(forward, depths)
    for way in ways:
        layers[way.layer].append(way)
    pieces = pieces_of(forward, depths, ways)
    neighbours = neighbours_of(pieces)
    ordered = in_order(layers, neighbours)
    return Layout(ordered, pieces, middles_of(ordered, neighbours))


def waypoints(links: Iterable[Link], depths: Mapping[Spot, int]) -> Sequence[Waypoint]:
    """Of each job and kind, in the layers up to the last target; none where they are too many."""
    last: dict[tuple[str, str], int] = {}
    for source, target, kind in links:
        last[source, kind] = max(last.get((source, kind), 0), depths[target])
    passed = {way: range(depths[way[0]] + 1, end) for way, end in last.items()}
    if sum(map(len, passed.values())) > GRAPH_WAYPOINTS_MAX:
        return ()
    return [Waypoint(*way, layer) for way, layers in passed.items() for layer in layers]


def pieces_of(
    links: Iterable[Link], depths: Mapping[Spot, int], ways: Iterable[Waypoint]
) -> Sequence[tuple[Spot, Spot, str]]:
    known = set(ways)
    found: list[tuple[Spot, Spot, str]] = [(before(way, known), way, way.kind) for way in ways]
    for source, target, kind in links:
        here = Waypoint(source, kind, depths[target])
        found.append((before(here, known), target, kind))
    return found


def before(way: Waypoint, known: set[Waypoint]) -> Spot:
    """Where the links come from that pass here: the waypoint one layer before, or the job."""
    one = way._replace(layer=way.layer - 1)
    return one if one in known else way.source


Neighbours = Mapping[Spot, tuple[list[Spot], list[Spot]]]
"""The spots before and after each."""


def neighbours_of(pieces: Iterable[tuple[Spot, Spot, str]]) -> Neighbours:
    found: dict[Spot, tuple[list[Spot], list[Spot]]] = defaultdict(lambda: ([], []))
    for source, target, _ in pieces:
        found[target][0].append(source)
        found[source][1].append(target)
    return found


def in_order(layers: Sequence[list[Spot]], neighbours: Neighbours) -> list[list[Spot]]:
    """Each layer by the mean place of its neighbours in the layers before, then in those after."""
    places = {spot: place for layer in layers for place, spot in enumerate(layer)}
    ordered = [list(layer) for layer in layers]
    for sweep in range(SWEEPS):
        side = sweep % 2
        for layer in reversed(ordered) if side else ordered:
            wanted = {spot: mean(neighbours, spot, side, places) for spot in layer}
            layer.sort(key=wanted.__getitem__)
            places.update({spot: place for place, spot in enumerate(layer)})
    return ordered


def mean(
    neighbours: Neighbours, spot: Spot, side: int, places: Mapping[Spot, float | int]
) -> float:
    """The mean place of the neighbours on one side; without any, the place of the spot."""
    others = neighbours[spot][side] if spot in neighbours else ()
    return sum(places[one] for one in others) / len(others) if others else float(places[spot])


def middles_of(layers: Sequence[Sequence[Spot]], neighbours: Neighbours) -> dict[Spot, float]:
    """How far down each stands: near its neighbours, without overlaps, the first one at the top."""
    middles: dict[Spot, float] = {}
    for layer in layers:
        spread(layer, [0.0] * len(layer), middles)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for layer in reversed(layers) if side else layers:
            wanted = [mean(neighbours, spot, side, middles) for spot in layer]
            spread(layer, wanted, middles)
    top = min((middle - height(spot) / 2 for spot, middle in middles.items()), default=0.0)
    return {spot: middle - top for spot, middle in middles.items()}


def spread(layer: Sequence[Spot], wanted: Sequence[float], middles: dict[Spot, float]) -> None:
    """Place a layer as wanted as far as its order and the gaps between allow.

    It is half way between pushing everything down and pushing everything up.
    """
    apart = [(height(one) + height(other)) / 2 + GAP for one, other in pairwise(layer)]
    down = list(wanted)
    for place, gap in enumerate(apart, start=1):
        down[place] = max(down[place], down[place - 1] + gap)
    up = list(wanted)
    for place in range(len(apart) - 1, -1, -1):
        up[place] = min(up[place], up[place + 1] - apart[place])
    for spot, one, two in zip(layer, down, up, strict=True):
        middles[spot] = (one + two) / 2


def height(spot: Spot) -> float:
    return WAY_HEIGHT if is_passed(spot) else JOB_HEIGHT


def is_passed(spot: Spot) -> bool:
    """Whether links go on behind it: it is no job."""
    return isinstance(spot, Waypoint) or spot == SENT
