"""The effects of jobs that end: they leave `jobs`; dependents are freed or cancelled.

A row of `waits` is written only while both its jobs are locked, and deleted only while the waiting
job is locked. So `blocked_by`, read under that lock, changes by the rows written or deleted.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import Enqueued, Hint
from onbeat.rules.dependents import (
    AddedJob,
    Cascade,
    Doom,
    Holders,
    Wait,
    after_holders,
    cancelled_on_arrival,
    flows_of,
    freed,
    places_to_cut,
    refuse_unknown,
    repeats_a_key,
)
from onbeat.stores.sql.dialect import Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.verbs.enqueue import NewJob, holders_of
from onbeat.stores.sql.verbs.held_keys import asks_to_hold, held_of_row, hold_keys
from onbeat.stores.sql.verbs.history import note
from onbeat.stores.sql.verbs.jobs import delete_live, jobs_by_id
from onbeat.stores.sql.verbs.own_events import announce_ends, wanted_ends
from onbeat.stores.sql.verbs.payloads import asks_to_drop, drop_payloads

Waiter = TypeVar("Waiter", Job, NewJob)

NO_HOLDERS: Final = Holders()
WAIT_KEY: Final[Columns] = {"awaits": "uuid", "job_id": "uuid"}
WAIT_COLUMNS: Final[Columns] = {**WAIT_KEY, "wanted": "smallint"}
WANTED: Final[tuple[Edge, ...]] = (Edge.SUCCESS, Edge.END, Edge.FAILURE)
"""The meanings of the numbers in the column `wanted`."""
FLOW_WAIT_COLUMNS: Final[Columns] = {"flow": "uuid", "job_id": "uuid", "wanted": "smallint"}
CASCADE_COLUMNS: Final[Columns] = {"job_id": "uuid", "state": "text"}
ENDED_COLUMNS: Final[Columns] = {
    "state": "text",
    "finished_at": "bigint",
    "reason": "text",
    "cause_id": "uuid",
}


class LockedJob(msgspec.Struct):
    """A live job, locked until the end of the transaction; `awaited` is kept by PostgreSQL only."""

    id: JobId
    worker: str | None
    blocked_by: int
    awaited: bool = False

    @property
    def is_waiting(self) -> bool:
        return self.worker is None


async def lock_jobs(session: Session, ids: Collection[JobId]) -> dict[JobId, LockedJob]:
    """The live ones among the jobs, locked in the order of ids, so that calls cannot deadlock."""
    if not ids:
        return {}
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    columns = ", ".join(("id", "worker", *session.forms.wait_columns))
    rows = await session.select(columns, rest, tuple(ids))
    jobs = (LockedJob(JobId(str(id)), *values) for id, *values in rows)
    return {job.id: job for job in jobs}


async def rewrite_waits(session: Session, jobs: Iterable[LockedJob]) -> None:
    columns = session.forms.wait_columns
    rows: list[Row] = list(map(attrgetter("id", *columns), jobs))
    await session.update_rows("jobs", {"id": "uuid"}, columns, rows)


def standing(session: Session, live: Mapping[JobId, LockedJob]) -> dict[JobId, object]:
    """What the database keeps of the jobs and their waits."""
    kept = attrgetter(*session.forms.wait_columns)
    return {id: kept(job) for id, job in live.items()}


async def rewrite_changed(
    session: Session, live: Mapping[JobId, LockedJob], before: Mapping[JobId, object]
) -> None:
    """Rewrite the jobs whose `standing` has changed."""
    after = standing(session, live)
    await rewrite_waits(session, [live[id] for id in live if after[id] != before[id]])


# Jobs that are cancelled


async def cancel_waiting(
    session: Session, reasons: Mapping[JobId, str], now: int, *, started_too: bool = True
) -> list[JobId]:
    """Cancel the waiting ones among the jobs, each with its reason; returns their ids.

    Without `started_too` only jobs that never started, including released ones that still have
    `start_by`.
    """
    dooms = {id: Doom(reason) for id, reason in reasons.items()}
    return await cancel_doomed(session, dooms, now, started_too=started_too)


async def cancel_doomed(
    session: Session, dooms: Mapping[JobId, Doom], now: int, *, started_too: bool = True
) -> list[JobId]:
    ids = await move_cancelled(session, dooms, now, started_too=started_too)
    await cascade(session, dict.fromkeys(ids, JobState.CANCELLED), now)
    return ids


async def move_cancelled(
    session: Session, dooms: Mapping[JobId, Doom], now: int, *, started_too: bool = True
) -> list[JobId]:
    """Move the waiting ones among the jobs to `finished`; returns their ids."""
    rows = await lock_waiting(session, dooms, started_too=started_too) if dooms else ()
    if not rows:
        return []
    attempts: dict[JobId, int] = {JobId(str(id)): attempt for id, attempt, *_ in rows}
    columns: Columns = {**session.forms.jobs.shared, **ENDED_COLUMNS}
    ended = [
        (*row, "cancelled", now, dooms[id].reason, dooms[id].cause_id)
        for id, row in zip(attempts, rows, strict=True)
    ]
    await session.insert_rows("finished", columns, ended)
    await hold_cancelled(session, rows, now)
    await delete_live(session, attempts)
    await delete_waits(session, attempts)
    await announce_cancelled(session, attempts, now)
    await drop_cancelled(session, rows)
    notes = [(id, dooms[id].reason, attempt, None) for id, attempt in attempts.items()]
    await note(session, "cancelled", now, notes)
    session.hints.add(Hint.ENDED)
    return list(attempts)


async def hold_cancelled(session: Session, rows: Sequence[Sequence[Any]], now: int) -> None:
    """Hold the keys of cancelled jobs that had started; `rows` are those of `lock_waiting`."""
    names = list(session.forms.jobs.shared)
    spec_at = names.index("spec")
    asking = [dict(zip(names, row, strict=True)) for row in rows if asks_to_hold(row[spec_at])]
    held = (held_of_row(row, JobState.CANCELLED, now) for row in asking)
    await hold_keys(session, [key for key in held if key is not None])


async def announce_cancelled(session: Session, ids: Collection[JobId], now: int) -> None:
    if wanted := await wanted_ends(session, [JobState.CANCELLED]):
        ended = await jobs_by_id(session, ids)
        await announce_ends(session, [ended[id] for id in ids if id in ended], wanted, now)


async def drop_cancelled(session: Session, rows: Sequence[Sequence[Any]]) -> None:
    """Drop the payloads of sensitive jobs; `rows` are those of `lock_waiting`."""
    spec_at = [*session.forms.jobs.shared].index("spec")
    ids = [JobId(str(row[0])) for row in rows if asks_to_drop(row[spec_at])]
    if ids:
        await drop_payloads(session, (await jobs_by_id(session, ids)).values())


async def delete_waits(session: Session, ids: Collection[JobId]) -> None:
    """These jobs wait for no others any more; their own dependents keep waiting."""
    if ids:
        dialect = session.dialect
        delete = dialect.delete_from("waits", "waits_of_job")
        of_job = dialect.in_list("job_id", "uuid")
        await session.execute(f"{delete} WHERE {of_job}", tuple(ids))


async def lock_waiting(
    session: Session, ids: Collection[JobId], *, started_too: bool
) -> Sequence[Sequence[Any]]:
    """The waiting ones among the jobs, with the columns that `finished` has too."""
    dialect = session.dialect
    rest = f"""
        FROM onbeat.jobs {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")} AND {dialect.is_waiting}
          {"" if started_too else "AND (token = 0 OR start_by IS NOT NULL)"}
        ORDER BY id
        {dialect.for_update}
    """
    return await session.select(", ".join(session.forms.jobs.shared), rest, tuple(ids))


# Dependents of jobs that have ended


async def cascade(session: Session, ended: Mapping[JobId, str], now: int) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels.

    The ended jobs are locked, so that no new job waits for them. Dependents are locked before their
    own dependents are read.
    """
    cascade_state = Cascade(await free_together(session, ended))
    blocked: dict[JobId, LockedJob] = {}
    while cascade_state.level:
        waits = await waits_for(session, cascade_state.level, cascade_state.room)
        # Others ended meanwhile; transactions that ended them handle their dependents.
        blocked |= await lock_jobs(session, {wait.job_id for wait in waits})
        cascade_state.take((wait for wait in waits if wait.job_id in blocked), len(waits))
    await free(session, cascade_state.freed_waits(), blocked)
    await move_cancelled(session, cascade_state.cancelled, now)
    await add_cascades(session, cascade_state.unfinished)


async def free_together(session: Session, ended: Mapping[JobId, str]) -> dict[JobId, str]:
    """Free the dependents of ended jobs if their ends cancel none; returns the other ended jobs."""
    others: dict[JobId, str] = {}
    for state in sorted({*ended.values()}):
        ids = [id for id, its_state in ended.items() if its_state == state]
        met = [number for number, wanted in enumerate(WANTED) if freed(wanted, state)]
        count = await session.free_dependents(ids, met, DEPENDENTS_MAX)
        if count is None:
            others |= dict.fromkeys(ids, state)
        elif count:
            session.hints.add(Hint.JOBS)
    return others


async def add_cascades(session: Session, states: Mapping[JobId, str]) -> None:
    """Note jobs that have more dependents than this transaction changes, and their states.

    An ended job frees or cancels them; a waiting one, which is tried again, brings them back.
    """
    ending = session.dialect.or_change("job_id", ["state"])
    await session.insert_rows("cascades", CASCADE_COLUMNS, list(states.items()), ending)


async def waits_for(session: Session, ended: Collection[JobId], limit: int) -> list[Wait]:
    dialect = session.dialect
    rest = f"""
        FROM onbeat.waits {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("awaits", "uuid")}
        LIMIT ?
    """
    rows = await session.select("job_id, awaits, wanted", rest, tuple(ended), limit)
    return [
        Wait(JobId(str(id)), JobId(str(other)), WANTED[int(wanted)]) for id, other, wanted in rows
    ]


async def free(session: Session, waits: Sequence[Wait], blocked: Mapping[JobId, LockedJob]) -> None:
    """Delete these waits and unblock their jobs."""
    if not waits:
        return
    keys = [(wait.awaits, wait.job_id) for wait in waits]
    deleted = await session.delete_rows("waits", WAIT_KEY, keys)
    if 0 <= deleted < len(keys):  # it is negative where a caller's driver does not know
        # A dependent was cancelled and retried since its waits were read. The next try reads them
        # again.
        raise Unavailable("a dependent job changed meanwhile; try again")
    for wait in waits:
        blocked[wait.job_id].blocked_by -= 1
    await rewrite_waits(session, (blocked[id] for id in {wait.job_id for wait in waits}))
    session.hints.add(Hint.JOBS)


async def awaited_among(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Those of the jobs that others wait for."""
    if not ids:
        return set()
    dialect = session.dialect
    rest = f"""
        FROM (SELECT DISTINCT awaits FROM onbeat.waits {dialect.use_index("PRIMARY")}
              WHERE {dialect.in_list("awaits", "uuid")}) AS awaited
    """  # noqa: S608  values are bound
    return {JobId(str(id)) for (id,) in await session.select("awaits", rest, tuple(ids))}


# Jobs that wait for others

Answer = TypeVar("Answer", Enqueued, Enqueued | None)
Add = Callable[[Sequence[NewJob]], Awaitable[tuple[list[Answer], bool]]]
"""Stores jobs; returns the answer to each, and whether all of them are new."""


async def add_waiting(session: Session, jobs: Sequence[NewJob], add: Add[Answer]) -> list[Answer]:
    """Add jobs of which some wait for others, as if each came by itself.

    Raises `Unavailable` where the holder of a unique key ended before it could be read.
    """
    flows = flows_of(jobs)
    of_jobs: dict[JobId, JobId] = {}
    answers: list[Answer] = []
    for part in await parts_of(session, jobs):
        added, all_new = await add(part)
        answers += added
        of_jobs |= holders_of(part, added)
        holders = Holders.among(flows, of_jobs)
        created = {job.id for job in part} - of_jobs.keys()
        if any(job.waits for job in part):
            await wait_for_others(session, part, created, all_new=all_new, holders=holders)
    return answers


async def parts_of(session: Session, jobs: Sequence[NewJob]) -> Sequence[Sequence[NewJob]]:
    """All jobs, cut where a job of them may free a unique key for a later one."""
    if not repeats_a_key(jobs):
        return [jobs]
    states = await states_of_ended(session, {other for job in jobs for other in job.after})
    places = places_to_cut(jobs, states)
    return [jobs[begin:end] for begin, end in pairwise((0, *places, len(jobs)))]


async def stored_among(session: Session, ids: Collection[JobId]) -> set[JobId]:
    """Which of the jobs are stored, live or ended."""
    live = await lock_jobs(session, ids)
    return live.keys() | (await states_of_ended(session, ids)).keys()


async def wait_for_others(
    session: Session,
    jobs: Sequence[NewJob],
    created: Collection[JobId],
    *,
    all_new: bool,
    holders: Holders = NO_HOLDERS,
) -> None:
    """A new job may wait for stored jobs, and for earlier jobs of the same call.

    With `all_new` this transaction has added all that are `created`. Else calls whose answers were
    lost may have added some, which may wait for fewer by now. The others wait for `holders` in
    place of the jobs whose unique keys these have.
    """
    jobs = await put_after_holders(session, jobs, created, holders)
    added = [job for job in jobs if job.id in created]
    waits = waits_of(jobs)
    ids = {id for wait in waits for id in (wait.job_id, wait.awaits)} | ids_of(added)
    live = {job.id: LockedJob(job.id, None, job.blockers) for job in added} if all_new else {}
    live |= await lock_jobs(session, ids - live.keys())
    states = await states_of_ended(session, {wait.awaits for wait in waits} - live.keys())
    refuse_unknown(jobs, live.keys() | states.keys())
    before = standing(session, live)
    known = NO_WAITS if all_new else await known_waits(session, added)
    counts = known.counts()
    for id in ids_of(added) & live.keys():
        live[id].blocked_by = counts[id]
    await insert_waits(session, waits_of(added), live, known.pairs)
    await insert_flow_waits(session, added, live, known.last)
    await rewrite_changed(session, live, before)
    for at, dooms in sorted(cancelled_on_arrival(jobs, created, states).items()):
        await cancel_doomed(session, dooms, at)


async def put_after_holders(
    session: Session,
    jobs: Sequence[NewJob],
    created: Collection[JobId],
    holders: Holders,
) -> Sequence[NewJob]:
    """The jobs with their `after` resolved, which is rewritten in the rows of the `created`.

    Of a job that an earlier call has added, what is stored counts: a key has changed hands since.
    """
    if any(map(holders.outside, jobs)):
        named = {id for found in holders.of_flows.values() for id in found}
        holders = holders.without(named - (await jobs_by_id(session, named)).keys())
    moved = {job.id: job.after for job in jobs if holders.concern(job)}
    if not moved:
        return jobs
    form, dialect = session.forms.jobs, session.dialect
    rest = f"""
        FROM onbeat.{form.live.view} {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("id", "uuid")}
        ORDER BY id
        {dialect.for_update}
    """
    ids = tuple(sorted(moved.keys() & set(created)))
    rows = await session.select(form.live.columns, rest, ids) if ids else ()
    stored = {
        job.id: resolved(job, holders) if job.after == moved[job.id] else job
        for job in map(form.read, rows)
    }
    specs = [(id, spec_of(session, stored[id])) for id in sorted(stored)]
    await session.update_rows("jobs", {"id": "uuid"}, {"spec": form.new["spec"]}, specs)
    return [
        replace(job, after=stored[job.id].after, edges=stored[job.id].edges)
        if job.id in stored
        else resolved(job, holders)
        for job in jobs
    ]


def resolved(job: Waiter, holders: Holders) -> Waiter:
    after, edges = after_holders(job, holders)
    return replace(job, after=after, edges=edges)


def spec_of(session: Session, job: Job) -> object:
    form = session.forms.jobs
    return dict(zip(form.new, form.row(job), strict=True))["spec"]


def ids_of(jobs: Iterable[NewJob]) -> set[JobId]:
    return {job.id for job in jobs if job.waits}


class KnownWaits(msgspec.Struct, frozen=True):
    """The stored waits of jobs: `pairs` of a job and one that it awaits; `last` await flows."""

    pairs: Collection[tuple[JobId, JobId]] = ()
    last: Collection[JobId] = ()

    def counts(self) -> Counter[JobId]:
        return Counter(job for job, _ in self.pairs) + Counter(self.last)


NO_WAITS: Final = KnownWaits()


async def known_waits(session: Session, jobs: Collection[NewJob]) -> KnownWaits:
    ids = ids_of(jobs)
    last = await stored_flow_waits(session, [job for job in jobs if job.awaits_flow is not None])
    return KnownWaits(await stored_waits(session, ids), last & ids)


def waits_of(jobs: Iterable[AddedJob[Any]]) -> list[Wait]:
    """What the jobs wait for, by their definition."""
    return [Wait(job.id, other, job.edge_to(other)) for job in jobs for other in job.after]


async def states_of_ended(session: Session, ids: Collection[JobId]) -> dict[JobId, str]:
    if not ids:
        return {}
    dialect = session.dialect
    index = dialect.use_index("PRIMARY")
    rest = f"FROM onbeat.finished {index} WHERE {dialect.in_list('id', 'uuid')}"
    rows = await session.select("id, state", rest, tuple(ids))
    return {JobId(str(id)): state for id, state in rows}


async def add_dependencies(session: Session, jobs: Sequence[AddedJob[Any]]) -> None:
    """Let the jobs wait for those that they come after and that have not ended."""
    waits = waits_of(jobs)
    ids = {id for wait in waits for id in (wait.job_id, wait.awaits)}
    await add_waits(session, waits, await lock_jobs(session, ids))


async def add_waits(
    session: Session, waits: Sequence[Wait], live: Mapping[JobId, LockedJob]
) -> None:
    """Store the waits of waiting jobs for live ones; of several for one job the first counts."""
    before = standing(session, live)
    blocked = {wait.job_id for wait in waits if wait.job_id in live}
    known = await stored_waits(session, {id for id in blocked if live[id].blocked_by})
    await insert_waits(session, waits, live, known)
    await rewrite_changed(session, live, before)


async def insert_waits(
    session: Session,
    waits: Sequence[Wait],
    live: Mapping[JobId, LockedJob],
    known: Collection[tuple[JobId, JobId]],
) -> None:
    """As `add_waits`; the caller stores what changes of the live jobs."""
    possible = {
        (wait.job_id, wait.awaits): wait
        for wait in reversed(waits)
        if is_waiting(live, wait.job_id) and wait.awaits in live
    }
    new = [pair for pair in reversed(possible) if pair not in known]
    rows = [(other, job, WANTED.index(possible[job, other].wanted)) for job, other in new]
    await session.insert_rows("waits", WAIT_COLUMNS, rows)
    for job, other in new:
        live[job].blocked_by += 1
        live[other].awaited = True


async def add_flow_waits(
    session: Session, jobs: Sequence[AddedJob[Any]], live: Mapping[JobId, LockedJob]
) -> None:
    """Let the waiting ones among the jobs wait for their flows."""
    before = standing(session, live)
    await insert_flow_waits(session, jobs, live, await stored_flow_waits(session, jobs))
    await rewrite_changed(session, live, before)


async def insert_flow_waits(
    session: Session,
    jobs: Sequence[AddedJob[Any]],
    live: Mapping[JobId, LockedJob],
    known: Collection[JobId],
) -> None:
    """As `add_flow_waits`; the caller stores what changes of the live jobs."""
    rows: list[Row] = []
    for job in jobs:
        flow = job.awaits_flow
        if flow is not None and job.id not in known and is_waiting(live, job.id):
            rows.append((flow, job.id, WANTED.index(job.edge_to(flow))))
            live[job.id].blocked_by += 1
    await session.insert_rows("flow_waits", FLOW_WAIT_COLUMNS, rows)


def is_waiting(live: Mapping[JobId, LockedJob], id: JobId) -> bool:
    return id in live and live[id].is_waiting


async def stored_flow_waits(session: Session, jobs: Sequence[AddedJob[Any]]) -> set[JobId]:
    """Which of the jobs wait already: those that are added once more after a lost answer."""
    if not jobs:
        return set()
    dialect = session.dialect
    rest = f"""
        FROM onbeat.flow_waits {dialect.use_index("PRIMARY")}
        WHERE {dialect.in_list("flow", "uuid")}
    """
    flows = tuple({job.awaits_flow for job in jobs})
    rows = await session.select("job_id", rest, flows)
    return {JobId(str(id)) for (id,) in rows}


async def stored_waits(session: Session, ids: Collection[JobId]) -> set[tuple[JobId, JobId]]:
    """The waits of these jobs: of a job that is added once more after a lost answer."""
    if not ids:
        return set()
    dialect = session.dialect
    index = dialect.use_index("waits_of_job")
    rest = f"FROM onbeat.waits {index} WHERE {dialect.in_list('job_id', 'uuid')}"
    rows = await session.select("job_id, awaits", rest, tuple(ids))
    return {(JobId(str(id)), JobId(str(awaits))) for id, awaits in rows}
