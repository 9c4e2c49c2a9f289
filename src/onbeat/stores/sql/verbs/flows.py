"""Jobs that wait for the end of a flow: until no live job is a member of it.

What ends a member looks at no other, and counts nothing. A transaction of the planner finds the
flows that have ended, so that two last members that do not see each other cannot leave one open.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from onbeat.model.flow import FlowLook
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import FlowCounts, Hint
from onbeat.rules.dependents import AddedJob, Doom, doom_of_flow, freed
from onbeat.stores.sql.dialect import Columns
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.dependents import (
    FLOW_WAIT_COLUMNS,
    WANTED,
    add_flow_waits,
    cancel_doomed,
    lock_jobs,
    rewrite_waits,
)

FLOW_WAIT_KEY: Final[Columns] = {"flow": "uuid", "job_id": "uuid"}


async def ended_flows(session: Session) -> list[JobId]:
    """Some flows that jobs wait for and that have no live job, their sender included."""
    rest = """
        FROM (SELECT DISTINCT flow FROM onbeat.flow_waits) AS awaited
        WHERE NOT EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.flow = awaited.flow)
          AND NOT EXISTS (SELECT 1 FROM onbeat.jobs WHERE onbeat.jobs.id = awaited.flow)
        LIMIT ?
    """
    rows = await session.select("flow", rest, DEPENDENTS_MAX)
    return [JobId(str(flow)) for (flow,) in rows]


async def close_flows(session: Session, flows: Sequence[JobId], now: int) -> int:
    """Free or cancel who waits for these flows, which have ended. Returns how many waited."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.flow_waits {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("flow", "uuid")}
        LIMIT ?
        {dialect.skip_locked}
    """
    waits = await session.select(", ".join(FLOW_WAIT_COLUMNS), rest, tuple(flows), DEPENDENTS_MAX)
    keys = [(str(flow), str(job)) for flow, job, _ in waits]
    ends = await ends_of_flows(session, {JobId(flow) for flow, _ in keys})
    blocked = await lock_jobs(session, {JobId(job) for _, job in keys})
    await session.delete_rows("flow_waits", FLOW_WAIT_KEY, keys)
    dooms: dict[JobId, Doom] = {}
    free: list[JobId] = []
    for (flow, job), (_, _, wanted) in zip(keys, waits, strict=True):
        end = ends[JobId(flow)]
        if freed(WANTED[int(wanted)], end):
            free.append(JobId(job))
        else:
            dooms[JobId(job)] = doom_of_flow(JobId(flow), end)
    for id in free:
        if id in blocked:
            blocked[id].blocked_by -= 1
    await rewrite_waits(session, [blocked[id] for id in free if id in blocked])
    session.hints.add(Hint.JOBS)
    await cancel_doomed(session, dooms, now)
    return len(keys)


async def ends_of_flows(session: Session, flows: Collection[JobId]) -> Mapping[JobId, JobState]:
    """As `rules.dependents.end_of_flow` judges them; the sender is a member too."""
    if not flows:
        return {}
    member = "FROM onbeat.finished WHERE (onbeat.finished.flow = one.flow"
    sender = "FROM onbeat.finished WHERE (onbeat.finished.id = one.flow"
    failed = "AND state = 'failed')"
    cancelled = "AND state = 'cancelled' AND cause_id IS NULL)"
    rest = f"""
        FROM (SELECT flow,
                     CASE WHEN EXISTS (SELECT 1 {member} {failed})
                            OR EXISTS (SELECT 1 {sender} {failed}) THEN 'failed'
                          WHEN EXISTS (SELECT 1 {member} {cancelled})
                            OR EXISTS (SELECT 1 {sender} {cancelled}) THEN 'cancelled'
                          ELSE 'succeeded' END AS state
              FROM (SELECT DISTINCT flow FROM onbeat.flow_waits
                    WHERE {session.dialect.in_list("flow", "uuid")}) AS one) AS judged
    """  # noqa: S608  values are bound
    rows = await session.select("flow, state", rest, tuple(flows))
    return {JobId(str(flow)): JobState(state) for flow, state in rows}


async def wait_again_for_flows(session: Session, jobs: Sequence[AddedJob[Any]]) -> None:
    """Let jobs that are tried again wait for their flows, if those have not ended."""
    waiting = [job for job in jobs if job.awaits_flow is not None]
    if not waiting:
        return
    live = await live_flows(session, {job.awaits_flow for job in waiting if job.awaits_flow})
    await forget_waits(session, waiting)
    await wait_for_flows(session, [job for job in waiting if job.awaits_flow in live])


async def wait_for_flows(session: Session, jobs: Sequence[AddedJob[Any]]) -> None:
    """Let jobs that were stored anew wait for their flows; one that has ended is judged again."""
    waiting = [job for job in jobs if job.awaits_flow is not None]
    if not waiting:
        return
    await forget_waits(session, waiting)
    await add_flow_waits(session, waiting, await lock_jobs(session, {job.id for job in waiting}))


async def forget_waits(session: Session, jobs: Sequence[AddedJob[Any]]) -> None:
    """Those of jobs that were cancelled stay until their flow ends."""
    keys = [(job.awaits_flow, job.id) for job in jobs]
    await session.delete_rows("flow_waits", FLOW_WAIT_KEY, keys)


async def live_flows(session: Session, flows: Collection[JobId]) -> set[JobId]:
    """Which of these flows have a live job."""
    dialect = session.dialect
    rest = f"""
        FROM (SELECT flow FROM onbeat.jobs {dialect.use_index("jobs_of_flow")}
              WHERE {dialect.in_list("flow", "uuid")}
              UNION
              SELECT id FROM onbeat.jobs {dialect.use_index("PRIMARY")}
              WHERE {dialect.in_list("id", "uuid")}) AS found
    """  # noqa: S608  values are bound
    rows = await session.select("flow", rest, tuple(flows), tuple(flows))
    return {JobId(str(flow)) for (flow,) in rows}


async def newest_flows(
    session: Session, before: JobId | None, limit: int, look: int
) -> Sequence[FlowLook]:
    """One step of an index for each flow, however many members it has."""
    found: list[FlowLook] = []
    while len(found) < limit and (flow := await flow_below(session, before)) is not None:
        found.append(await look_at(session, flow, look))
        before = flow
    return found


async def flow_below(session: Session, before: JobId | None) -> JobId | None:
    """The newest flow whose id is less."""
    where = "flow IS NOT NULL" if before is None else "flow IS NOT NULL AND flow < ?"
    values = () if before is None else (before,)
    parts = [
        f"""
        SELECT * FROM (SELECT flow FROM onbeat.{table}
                       {session.dialect.use_index(f"{table}_of_flow")}
                       WHERE {where} ORDER BY flow DESC LIMIT 1) AS of_{table}
        """  # noqa: S608  values are bound
        for table in ("jobs", "finished")
    ]
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS found ORDER BY flow DESC LIMIT 1"
    rows = await session.select("flow", rest, *values, *values)
    return JobId(str(rows[0][0])) if rows else None


async def look_at(session: Session, flow: JobId, look: int) -> FlowLook:
    dialect = session.dialect
    live = f"CASE WHEN {dialect.is_running} THEN 'running' ELSE 'waiting' END"
    parts = [
        f"""
        SELECT {place} AS place, state, count(*) AS total
        FROM (SELECT {state} AS state
              FROM onbeat.{table} {dialect.use_index(f"{table}_of_flow")}
              WHERE flow = ? LIMIT ?) AS of_{table}
        GROUP BY state
        """  # noqa: S608  values are bound
        for place, (table, state) in enumerate((("jobs", live), ("finished", "state")))
    ]
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS counted"
    rows = await session.select("place, state, total", rest, flow, look + 1, flow, look + 1)
    counts = {JobState(str(state)): int(total) for _, state, total in rows}
    looked = [sum(int(total) for place, _, total in rows if place == one) for one in (0, 1)]
    return FlowLook(flow, counts, more=max(looked) > look)


async def flow_counts(session: Session, flows: Collection[JobId]) -> FlowCounts:
    """How many members of each flow are in each state; its sender counts as one."""
    dialect = session.dialect
    live = f"CASE WHEN {dialect.is_running} THEN 'running' ELSE 'waiting' END"
    parts = (
        f"""
        SELECT {column} AS flow, {state} AS state, count(*) AS total
        FROM onbeat.{table} {dialect.use_index(index.format(table))}
        WHERE {dialect.in_list(column, "uuid")}
        GROUP BY {column}, {state}
        """  # noqa: S608  values are bound
        for table, state in (("jobs", live), ("finished", "state"))
        for column, index in (("flow", "{}_of_flow"), ("id", "PRIMARY"))
    )
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS counted"
    rows = await session.select("flow, state, total", rest, *(4 * (tuple(flows),)))
    counts: dict[JobId, Counter[JobState]] = defaultdict(Counter)
    for flow, state, total in rows:
        counts[JobId(str(flow))][JobState(state)] += total
    return counts
