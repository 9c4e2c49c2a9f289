"""Searches of jobs that no index answers: newest first, a bounded number of rows each time.

A search goes in steps: the last id of the next rows bounds the statement that finds what matches
among them, so that its cost is known whatever the statistics say.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Final

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import FINAL_STATES, Job, JobState
from onbeat.model.limits import COUNT_SECONDS_MAX, SEARCH_SECONDS_MAX
from onbeat.model.page import Counted, JobFilter, Page
from onbeat.rules.job_filters import REST, fold, matches
from onbeat.stores.sql.dialect import Argument
from onbeat.stores.sql.forms import JobTable
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import micros_or_none, to_json
from onbeat.stores.sql.verbs.jobs import ended_parts, jobs_by_id, listing_index

STEP: Final = 5_000
"""Rows that one step looks at: a few milliseconds of statements."""
STEP_APART: Final = 1_000
"""The same along an index whose rows are far apart in the table."""

Conditions = Sequence[tuple[str, tuple[Argument, ...]]]
"""Texts of a WHERE, each with the values of its marks."""


class SearchStep(msgspec.Struct, frozen=True):
    """Rows below `before` down to `last`, which is None at the end of the tables."""

    before: JobId | None
    last: JobId | None


async def find_jobs(session: Session, filter: JobFilter) -> Page[Job]:
    """A page, or less of it where the bounds were reached first."""
    if filter.ids is not None:
        return page_of(filter, await chosen_jobs(session, filter))
    found: list[Job] = []
    before, looked, begun = filter.before, 0, monotonic()
    while True:
        rows = min(step_of(filter), filter.look - looked)
        room = filter.limit + 1 - len(found)
        step = await next_step(session, filter, before, rows)
        ids = await matching_ids(session, filter, step, room)
        jobs = await jobs_by_id(session, ids)
        found += [jobs[id] for id in ids if id in jobs and matches(filter, jobs[id])]
        before = ids[-1] if len(ids) == room else step.last
        if len(found) > filter.limit or before is None:
            return page_of(filter, found)
        looked += rows if before == step.last else 0
        if looked >= filter.look or monotonic() - begun > SEARCH_SECONDS_MAX:
            return await stopped_page(session, found, looked, before)


def step_of(filter: JobFilter) -> int:
    """How many rows one step looks at."""
    apart = (filter.fault, filter.flow, filter.schedule_id)
    is_apart = filter.state in {JobState.FAILED, JobState.CANCELLED} or any(apart)
    return STEP_APART if is_apart else STEP


def page_of(filter: JobFilter, found: Sequence[Job]) -> Page[Job]:
    items = tuple(found[: filter.limit])
    return Page(items, cursor=items[-1].id if len(found) > len(items) and items else None)


async def stopped_page(
    session: Session, found: Sequence[Job], looked: int, last: JobId | None
) -> Page[Job]:
    at = None if last is None else (await jobs_by_id(session, [last])).get(last)
    made_at = None if at is None else at.created_at
    return Page(tuple(found), cursor=last, searched=looked, searched_to=made_at)


async def chosen_jobs(session: Session, filter: JobFilter) -> list[Job]:
    """Those of the named jobs that match."""
    jobs = await jobs_by_id(session, filter.ids or ())
    newest = (jobs[id] for id in sorted(jobs, reverse=True))
    below = (job for job in newest if filter.before is None or job.id < filter.before)
    return [job for job in below if matches(filter, job)]


async def count_jobs(
    session: Session, filter: JobFilter, most: int, *, look: int | None = None
) -> Counted:
    """How many match, up to `most`; `more` also where it looked at `look`, or took too long."""
    if filter.ids is not None:
        return Counted(len(await chosen_jobs(session, filter)), more=False)
    count, looked, before, begun = 0, 0, filter.before, monotonic()
    while True:
        rows = step_of(filter) if look is None else min(step_of(filter), look - looked)
        step = await next_step(session, filter, before, rows)
        looked += rows
        count += await count_of(session, filter, step)
        if count > most or step.last is None:
            return Counted(min(count, most), more=count > most)
        is_far = look is not None and looked >= look
        if is_far or monotonic() - begun > COUNT_SECONDS_MAX:
            return Counted(count, more=True)
        before = step.last


async def count_of(session: Session, filter: JobFilter, step: SearchStep) -> int:
    """Labels are in the text of a job's definition, so those that may match are read."""
    if filter.label or not (filter.error or "").isascii():
        ids = await matching_ids(session, filter, step, STEP)
        return sum(matches(filter, job) for job in (await jobs_by_id(session, ids)).values())
    count = 0
    for table in tables_of(session, filter):
        known = [*indexed(session, filter), *span(step), *others(session, filter, table)]
        where, values = clause(known)
        index = session.dialect.use_index(listing_index(table, filter))
        sql = f"SELECT count(*) AS total FROM onbeat.{table.name} {index} WHERE {where}"  # noqa: S608  values are bound
        ((total,),) = await session.select("total", f"FROM ({sql}) AS counted", *values)
        count += total
    return count


async def next_step(
    session: Session, filter: JobFilter, before: JobId | None, rows: int
) -> SearchStep:
    """The next rows of the index that the search walks along."""
    known = [*indexed(session, filter), *span(SearchStep(before, None))]
    chosen = [(part.table, [*part.where, *known]) for part in parts_of(session, filter)]
    ids = await newest_ids(session, filter, chosen, rows, skipped=rows - 1)
    return SearchStep(before, ids[0] if ids else None)


async def matching_ids(
    session: Session, filter: JobFilter, step: SearchStep, limit: int
) -> Sequence[JobId]:
    """The first rows of the step that may match: `matches` has the last word."""
    known = [*indexed(session, filter), *span(step)]
    chosen = [
        (part.table, [*part.where, *known, *others(session, filter, part.table)])
        for part in parts_of(session, filter)
    ]
    return await newest_ids(session, filter, chosen, limit)


async def newest_ids(
    session: Session,
    filter: JobFilter,
    chosen: Sequence[tuple[JobTable, Conditions]],
    limit: int,
    *,
    skipped: int = 0,
) -> Sequence[JobId]:
    """The ids of the rows in these tables under their conditions, after those that are skipped."""
    parts: list[str] = []
    values: list[Argument] = []
    for number, (table, conditions) in enumerate(chosen):
        where, bound = clause(conditions)
        index = session.dialect.use_index(listing_index(table, filter))
        found = f"SELECT id FROM onbeat.{table.name} {index} WHERE {where}"  # noqa: S608  values are bound
        parts.append(f"SELECT * FROM ({found} ORDER BY id DESC LIMIT ?) AS part{number}")  # noqa: S608  as above
        values += [*bound, limit]
    rest = f"FROM ({' UNION ALL '.join(parts)}) AS chosen ORDER BY id DESC LIMIT ? OFFSET ?"
    rows = await session.select("id", rest, *values, limit - skipped, skipped)
    return [JobId(str(id)) for (id,) in rows]


def tables_of(session: Session, filter: JobFilter) -> Sequence[JobTable]:
    form = session.forms.jobs
    if filter.state is None:
        return [form.live, form.ended]
    return [form.ended if filter.state in FINAL_STATES else form.live]


class SearchPart(msgspec.Struct, frozen=True):
    """A part of a table that one index has in the order of ids."""

    table: JobTable
    where: Conditions = ()


def parts_of(session: Session, filter: JobFilter) -> list[SearchPart]:
    """The indexes of faults and flows have the state of ended jobs before their ids."""
    form = session.forms.jobs
    by_state = [SearchPart(form.ended, [(text, ())]) for text in ended_parts(form, filter)]
    tables = tables_of(session, filter)
    return [SearchPart(form.live), *by_state] if by_state else [SearchPart(one) for one in tables]


def indexed(session: Session, filter: JobFilter) -> Conditions:
    """What the index of the walk knows; the others are looked at in each row."""
    found: list[tuple[str, tuple[Argument, ...]]] = []
    if filter.flow is not None:
        found.append(("flow = ?", (filter.flow,)))
    if filter.fault is not None:
        found.append(("fault = ?", (filter.fault,)))
    if filter.schedule_id is not None:
        found.append(("schedule_id = ?", (filter.schedule_id,)))
    if filter.state is not None:
        found.append((session.forms.jobs.states[filter.state], ()))
    return found


def span(step: SearchStep) -> Conditions:
    bounds = {"id < ?": step.before, "id >= ?": step.last}
    return [(text, (value,)) for text, value in bounds.items() if value is not None]


def others(session: Session, filter: JobFilter, table: JobTable) -> Conditions:
    at = "finished_at" if table is session.forms.jobs.ended else "due_at"
    values: dict[str, Argument] = {
        "queue = ?": filter.queue,
        "unique_key = ?": filter.unique,
        f"{at} >= ?": micros_or_none(filter.since),
        f"{at} < ?": micros_or_none(filter.until),
    }
    found = [(text, (value,)) for text, value in values.items() if value is not None]
    return [*found, *of_task(filter.task), *of_texts(session, filter)]


def of_task(task: str | None) -> Conditions:
    if task is None:
        return []
    if not task.endswith(REST):
        return [("lane = ?", (task,))]
    begin = task.removesuffix(REST)
    return [(f"substr(lane, 1, {len(begin)}) = ?", (begin,))]


def of_texts(session: Session, filter: JobFilter) -> Conditions:
    """What these let through is judged again: a label could also be a part of an argument."""
    contains = session.dialect.contains
    found: list[tuple[str, tuple[Argument, ...]]] = []
    if filter.error is not None:
        folded = fold(filter.error)
        found.append((session.dialect.contains_folded("error"), (folded,)))
    for label in filter.label:
        begin, end = ends_of(label)
        found += [(contains("spec"), (begin,)), (contains("spec"), (end,))]
    return found


def ends_of(label: str) -> tuple[str, str]:
    """The begin of its key and the end of its value as JSON: only one of the colons divides it."""
    key, _, value = label.partition(":")
    last = value.rpartition(":")[2]
    return to_json(key).rstrip('"'), to_json(last).lstrip('"')


def clause(conditions: Conditions) -> tuple[str, tuple[Argument, ...]]:
    """The text of a WHERE, and the values of its marks."""
    texts = [f"({text})" for text, _ in conditions]
    values = (value for _, bound in conditions for value in bound)
    return " AND ".join(["TRUE", *texts]), tuple(values)
