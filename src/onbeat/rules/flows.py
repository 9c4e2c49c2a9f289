"""Jobs of one request that name one another: their names become ids, and their order is found."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.flow import SENT, Awaited
from onbeat.model.ids import JobId
from onbeat.model.job import Edge
from onbeat.rules.derived_ids import EPOCH, derived_id, instant_of

ID: Final = re.compile(r"[0-9a-f]{24}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAMED_MAX: Final = 10
"""The number of jobs of a cycle that an error names."""


class Linked(msgspec.Struct, frozen=True, gc=False):
    """The flow of one job, and what the job comes after, by ids."""

    after: tuple[JobId, ...] = ()
    edges: dict[JobId, Edge] | None = None
    flow: JobId | None = None
    awaits_flow: JobId | None = None


UNLINKED: Final = Linked()


def places_of(names: Sequence[str | None]) -> dict[str, int]:
    """The place of each name in the request. Raises `Invalid` for a name of two jobs."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if name is not None and places.setdefault(name, place) != place:
            raise Invalid(
                f"jobs {places[name]} and {place} are both named {name!r}; give each its own name",
                f"jobs[{place}].name",
            )
    return places


def is_flow(names: Sequence[str | None], awaited: Sequence[Sequence[Awaited]]) -> bool:
    """Whether the jobs of a request are a flow: those of plain requests are members of none."""
    return any(awaited) or any(name is not None for name in names)


def link_all(
    names: Sequence[str | None],
    awaited: Sequence[Sequence[Awaited]],
    ids: Sequence[str],
    flow: JobId,
) -> tuple[list[Linked], Sequence[int]]:
    """What each job of a flow comes after, and the order in which to store them.

    Raises `Invalid` for a doubled or unknown name, for a cycle, and where all jobs wait for the
    rest.
    """
    places = places_of(names)
    named = {name: JobId(ids[place]) for name, place in places.items()}
    after = [[places[one.job] for one in each if one.job in places] for each in awaited]
    linked = [link(each, named, f"jobs[{at}].after", flow) for at, each in enumerate(awaited)]
    order = in_order(after, names)
    late = late_places(after, order, linked)
    if late and len(late) == len(linked):
        at = min(late)
        raise Invalid("no job is sent that does not wait for the others", f"jobs[{at}].after")
    last = after_flow(flow) if late else flow
    members = [replace(one, flow=last if at in late else flow) for at, one in enumerate(linked)]
    return members, order


def late_places(
    after: Sequence[Sequence[int]], order: Sequence[int], linked: Sequence[Linked]
) -> set[int]:
    """The jobs that wait for the flow, or come after such: they cannot be members of it."""
    late: set[int] = set()
    for at in order:
        if linked[at].awaits_flow is not None or not late.isdisjoint(after[at]):
            late.add(at)
    return late


def after_flow(flow: JobId) -> JobId:
    """The flow of the jobs that start when this one has ended, and of those after them."""
    return JobId(derived_id(f"{flow} {SENT}", instant_of(flow) or EPOCH))


def link(
    awaited: Sequence[Awaited], ids: Mapping[str, JobId], field: str, flow: JobId | None = None
) -> Linked:
    """What a job comes after; `ids` are those of the names of its request, `flow` its own.

    Raises `Invalid` for a job that is named twice with different ends.
    """
    if not awaited:
        return UNLINKED
    ends: dict[JobId, Edge] = {}
    for one in awaited:
        id = sent_with(flow, field) if one.job == SENT else ids.get(one.job)
        id = id or known_id(one.job, field)
        if ends.setdefault(id, one.on) is not one.on:
            raise Invalid(f"{field} names {one.job!r} twice, with different ends", field)
    kinds: dict[JobId, Edge] = {id: end for id, end in ends.items() if end is not Edge.SUCCESS}
    awaits = flow if flow in ends else None
    return Linked(tuple(id for id in ends if id != flow), kinds or None, awaits_flow=awaits)


def sent_with(flow: JobId | None, field: str) -> JobId:
    if flow is None:
        raise Invalid(f"{field} names {SENT!r}, and nothing else is sent with this job", field)
    return flow


def looks_like_id(text: str) -> bool:
    return ID.fullmatch(text) is not None


def known_id(text: str, field: str) -> JobId:
    """The text as an id: those that callers give are in their canonical form."""
    if not looks_like_id(text):
        raise Invalid(
            f"no job of this request is named {text!r}; name one, or give the id of a stored job",
            field,
        )
    return JobId(text)


def in_order(after: Sequence[Sequence[int]], names: Sequence[str | None]) -> Sequence[int]:
    """The places of the jobs, each behind those that it comes after, else as they are.

    `after` has the places that each job comes after. Raises `Invalid`, naming a cycle.
    """
    if all(other < place for place, others in enumerate(after) for other in others):
        return range(len(after))
    order = first_to_last(after)
    if len(order) < len(after):
        raise cycle_error(after, names, set(range(len(after))) - set(order))
    return order


def first_to_last(after: Sequence[Sequence[int]]) -> list[int]:
    """The places in order, without those that are in a cycle or behind one."""
    missing = [len({*others}) for others in after]
    followers: list[list[int]] = [[] for _ in after]
    for place, others in enumerate(after):
        for other in {*others}:
            followers[other].append(place)
    order = [place for place, count in enumerate(missing) if count == 0]
    for place in order:
        for follower in followers[place]:
            missing[follower] -= 1
            if missing[follower] == 0:
                order.append(follower)
    return order


def cycle_error(
    after: Sequence[Sequence[int]], names: Sequence[str | None], unreached: Collection[int]
) -> Invalid:
    """The error for a cycle among the places that have no order."""
    seen: dict[int, int] = {}
    place = min(unreached)
    while place not in seen:
        seen[place] = len(seen)
        place = next(other for other in after[place] if other in unreached)
    cycle = list(seen)[seen[place] :]
    shown = [names[one] or f"job {one}" for one in (*cycle[:NAMED_MAX], place)]
    if len(cycle) > NAMED_MAX:
        shown.insert(-1, "…")
    return Invalid(
        f"these jobs wait for one another: {' → '.join(shown)}; leave one of these edges out",
        f"jobs[{place}].after",
    )
