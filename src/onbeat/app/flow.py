"""Calls that are sent together, and that come after one another."""

from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from onbeat.app.call import After, Call
from onbeat.model.errors import Invalid
from onbeat.model.flow import Awaited
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.limits import YIELDED_CALLS_MAX
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import lane_of
from onbeat.ports.randomness import Randomness
from onbeat.rules.flows import Linked, after_flow, link, link_all
from onbeat.targets.app_context import SentCalls

Value = TypeVar("Value")


class Sending(msgspec.Struct, frozen=True):
    """Jobs in the order in which they are stored, the places of their calls, and their flow."""

    jobs: Sequence[Job]
    order: Sequence[int]
    flow: JobId | None = None

    def in_place(self, answers: Sequence[Value]) -> list[Value]:
        """The answers for the jobs, in the order of their calls."""
        if isinstance(self.order, range):
            return list(answers)
        placed = dict(zip(self.order, answers, strict=True))
        return [placed[at] for at in range(len(placed))]


def sending_of(
    calls: Sequence[Call[Any]],
    randomness: Randomness,
    now: datetime,
    retry: RetryPolicy,
    *,
    is_flow: bool = False,
) -> Sending:
    """The jobs of the calls, as a flow if one comes after others or has a name, or if told so.

    Raises `Invalid` for a call that comes after one not in the list.
    """
    ids = randomness.ids(len(calls))
    if not is_flow and not any(call.options.after or call.options.job.name for call in calls):
        jobs = [call.job(id, now, retry) for call, id in zip(calls, ids, strict=True)]
        return Sending(jobs, range(len(jobs)))
    names = names_of(calls)
    named = {id(call): name for call, name in zip(calls, names, strict=True) if name is not None}
    awaited = [[awaited_of(one, named) for one in call.options.awaited] for call in calls]
    flow = JobId(randomness.ids(1)[0])
    linked, order = link_all(names, awaited, ids, flow)
    jobs = [replace(calls[at].job(ids[at], now, retry, linked[at]), name=names[at]) for at in order]
    return Sending(jobs, order, flow)


def link_yielded(after: Sequence[After], sent: SentCalls, flow: JobId) -> Linked:
    """What a call comes after that a distributor yields, as a member of the flow.

    Raises `Invalid` for a call that was not yielded lately.
    """
    earlier = [found_in(sent, one.of) for one in after]
    awaited = [
        Awaited(job.id if job else str(one.of), one.on)
        for one, job in zip(after, earlier, strict=True)
    ]
    linked = link(awaited, {}, "after", flow)
    is_late = linked.awaits_flow is not None or any(job and job.flow != flow for job in earlier)
    return replace(linked, flow=after_flow(flow) if is_late else flow)


def found_in(sent: SentCalls, other: Call[Any] | str) -> Job | None:
    """The job of a call or a name; None for an id, and for a name that no earlier call has."""
    found = sent.find(other)
    if found is None and isinstance(other, Call):
        raise Invalid(
            f"{other} is not one of the last {YIELDED_CALLS_MAX} calls that were yielded;"
            " yield it shortly before",
            "after",
        )
    return found


def awaited_of(after: After, named: dict[int, str]) -> Awaited:
    if not isinstance(after.of, Call):
        return Awaited(after.of, after.on)
    name = named.get(id(after.of))
    if name is None:
        raise Invalid(f"{after.of} is not in the list that is sent; send both together", "after")
    return Awaited(name, after.on)


def names_of(calls: Sequence[Call[Any]]) -> list[str | None]:
    """The names of the calls; one that others come after has its task's name where it has none.

    Raises `Invalid` for a call that others come after and that is in the list twice.
    """
    others = {id(one.of): one.of for call in calls for one in call.options.after}
    names = [call.options.job.name for call in calls]
    taken = {name for name in names if name is not None}
    seen: set[int] = set()
    counts: dict[str, int] = {}
    for place, call in enumerate(calls):
        if id(call) not in others:
            continue
        if id(call) in seen:
            raise Invalid(f"{call} is in the list twice, and others come after it", "after")
        seen.add(id(call))
        names[place] = name = names[place] or free_name(call, taken, counts)
        taken.add(name)
    return names


def free_name(call: Call[Any], taken: Container[str], counts: dict[str, int]) -> str:
    """The last part of the task's name, with a number if taken; `counts` has the last numbers."""
    name = lane_of(call.target).rpartition(".")[2].partition(":")[0].removeprefix("@") or "job"
    while True:
        number = counts[name] = counts.get(name, 0) + 1
        numbered = f"{name}-{number}" if number > 1 else name
        if numbered not in taken:
            return numbered
