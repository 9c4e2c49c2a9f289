"""The ends of flows, and what they do to the jobs that wait for them."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from heapq import nlargest

from msgspec.structs import replace

from onbeat.model.flow import FlowLook
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.ports.store import FlowCounts
from onbeat.rules.dependents import doom_of_flow, end_of_flow, freed
from onbeat.stores.memory.dependents import as_doomed, end
from onbeat.stores.memory.flow_index import key_of
from onbeat.stores.memory.tables import Tables


def close_flows(tables: Tables, now: datetime) -> int:
    ended = [flow for flow in sorted(tables.flows.awaited) if not is_live(tables, flow)]
    return sum(close(tables, flow, now) for flow in ended)


def is_live(tables: Tables, flow: JobId) -> bool:
    return flow in tables.flows.live or tables.is_live(flow)


def close(tables: Tables, flow: JobId, now: datetime) -> int:
    """Free or cancel who waits for this flow, which has ended."""
    tables.flows.awaited.discard(flow)
    members = {*tables.flows.members.get(flow, ()), flow}
    state = end_of_flow(tables.jobs[id] for id in members if id in tables.jobs)
    key, doom = key_of(flow), doom_of_flow(flow, state)
    waiting = sorted(tables.awaited_by.get(key, ()))
    for id in waiting:
        job = tables.jobs[id]
        if freed(job.edge_to(flow), state):
            tables.end_wait(id, key)
            tables.put_job(replace(job, blocked_by=len(tables.awaits.get(id, ()))))
        else:
            tables.note(id, now, JobState.CANCELLED, doom.reason)
            end(tables, as_doomed(job, doom, now), now)
    return len(waiting)


def newest_flows(tables: Tables, before: JobId | None, limit: int, look: int) -> Sequence[FlowLook]:
    known = (flow for flow in tables.flows.members if before is None or flow < before)
    return [look_of(tables, flow, look) for flow in nlargest(limit, known)]


def look_of(tables: Tables, flow: JobId, look: int) -> FlowLook:
    members = tables.flows.members[flow]
    live = sorted(tables.flows.live.get(flow, ()))
    ended = sorted(members - set(live))
    counts = Counter(tables.jobs[id].state for id in (*live[: look + 1], *ended[: look + 1]))
    return FlowLook(flow, counts, more=max(len(live), len(ended)) > look)


def flow_counts(tables: Tables, flows: Collection[JobId]) -> FlowCounts:
    members = {
        flow: {*tables.flows.members.get(flow, ()), flow} & tables.jobs.keys() for flow in flows
    }
    return {
        flow: Counter(tables.jobs[id].state for id in ids) for flow, ids in members.items() if ids
    }
