"""`beat.jobs`: stored jobs by id."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from msgspec import UNSET

from onbeat.app.backend import Backend
from onbeat.app.call import check_keywords, instant
from onbeat.app.pages import items_of_pages
from onbeat.model.bulk import BulkAction
from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.limits import LOG_LINES_SHOWN
from onbeat.operations.tables.jobs import (
    BULK_LIST,
    BULK_SHOW,
    BULK_STOP,
    JOB_BULK,
    JOB_CANCEL,
    JOB_LIST,
    JOB_LOG,
    JOB_RESCHEDULE,
    JOB_RETRY,
    JOB_SHOW,
    JOB_WHY,
)
from onbeat.rules.job_search import read_moment, read_search
from onbeat.wire.bulks import (
    BulkBody,
    BulkById,
    BulkCount,
    BulkInfo,
    JobWhere,
    ListBulks,
    MakeBulk,
    label_filter,
)
from onbeat.wire.job_logs import JobLogAnswer, ShowJobLog
from onbeat.wire.jobs import CancelJobBody, JobInfo, RescheduleBody, RetryJobBody
from onbeat.wire.requests import (
    CancelJob,
    Explanation,
    JobById,
    JobsAnswer,
    ListJobs,
    RescheduleJob,
    RetryJob,
)
from onbeat.wire.values import span_text, value_or_unset

StateName = Literal["waiting", "running", "succeeded", "failed", "cancelled"]

ActionName = Literal["retry", "cancel", "reschedule"]


class JobFilters(TypedDict, total=False):
    """Filters for listed jobs."""

    state: JobState | StateName | None
    queue: str | None
    task: str | None
    schedule_id: str | None
    flow: str | None
    fault: str | None
    label: str | Sequence[str] | None
    since: datetime | None
    until: datetime | None
    error: str | None
    unique: str | None


class BulkFilters(JobFilters, total=False):
    """Filters for the jobs of a bulk, or their ids."""

    ids: Sequence[str] | None


class Jobs:
    """Stored jobs by id."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, id: str) -> JobInfo:
        """The current state of the job, with its attempts and history. Raises `NotFound`."""
        return self._backend.wait_for(self.aget(id))

    async def aget(self, id: str) -> JobInfo:
        return await self._backend.call(JOB_SHOW, JobById(id))

    def list(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Sequence[JobInfo]:
        """Jobs, newest first. Raises `Invalid` for an unknown state.

        A search that no index answers goes on until it has found `limit` jobs, or looked at all.
        """
        return self._backend.wait_for(self.alist(limit=limit, **filters))

    async def alist(self, *, limit: int = 100, **filters: Unpack[JobFilters]) -> Sequence[JobInfo]:
        check_keywords("jobs.list", filters, JobFilters.__annotations__)
        return await self._find(limit, fields_of(filters))

    async def _find(self, limit: int, fields: Mapping[str, Any]) -> Sequence[JobInfo]:
        async def ask(size: int, cursor: str | None) -> tuple[Sequence[JobInfo], str | None]:
            page = await self._backend.call(JOB_LIST, ListJobs(limit=size, cursor=cursor, **fields))
            return page.jobs, page.cursor

        return await items_of_pages(limit, ask)

    def search(self, line: str, *, limit: int = 100) -> Sequence[JobInfo]:
        """Jobs for a line of search as on the dashboard, newest first.

        Such as `state:failed task:billing.* label:run:2026-11 "timeout" since:2h`: times without an
        offset are in UTC. Raises `Invalid` naming the place.
        """
        return self._backend.wait_for(self.asearch(line, limit=limit))

    async def asearch(self, line: str, *, limit: int = 100) -> Sequence[JobInfo]:
        return await self._find(limit, searched_fields(line, await self._backend.now()))

    def page(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        counts: bool = False,
        **filters: Unpack[JobFilters],
    ) -> JobsAnswer:
        """One page of them, with the cursor of the next, and how far a search has looked.

        With `counts` also how many jobs of each state match the other filters.
        """
        call = self.apage(limit=limit, cursor=cursor, counts=counts, **filters)
        return self._backend.wait_for(call)

    async def apage(
        self,
        *,
        limit: int = 100,
        cursor: str | None = None,
        counts: bool = False,
        **filters: Unpack[JobFilters],
    ) -> JobsAnswer:
        check_keywords("jobs.page", filters, JobFilters.__annotations__)
        request = ListJobs(limit=limit, cursor=cursor, counts=counts, **fields_of(filters))
        return await self._backend.call(JOB_LIST, request)

    def bulk(
        self,
        do: BulkAction | ActionName,
        *,
        run_at: datetime | None = None,
        delay: timedelta | str | None = None,
        dry_run: bool = False,
        upto: str | None = None,
        **filters: Unpack[BulkFilters],
    ) -> BulkCount:
        """Retry, cancel or reschedule all jobs that match; a dry run only counts them.

        It goes on in the background. Retries are of failed jobs and cancels of waiting ones, unless
        `state` says otherwise. Rescheduled are waiting ones: to `run_at`, or `delay` from now.
        `upto` is the one of a dry run: what was made since is left alone. Raises `Invalid`, and
        `Conflict` while too many bulks have not ended.
        """
        call = self.abulk(do, run_at=run_at, delay=delay, dry_run=dry_run, upto=upto, **filters)
        return self._backend.wait_for(call)

    async def abulk(
        self,
        do: BulkAction | ActionName,
        *,
        run_at: datetime | None = None,
        delay: timedelta | str | None = None,
        dry_run: bool = False,
        upto: str | None = None,
        **filters: Unpack[BulkFilters],
    ) -> BulkCount:
        check_keywords("jobs.bulk", filters, BulkFilters.__annotations__)
        given = {name: value for name, value in fields_of(filters).items() if value is not None}
        ids = filters.get("ids")
        where = JobWhere(**given, ids=UNSET if ids is None else tuple(ids))
        body = BulkBody(
            do=action_of(do),
            where=where,
            run_at=value_or_unset(instant("run_at", run_at)),
            delay=value_or_unset(span_form(delay)),
            dry_run=dry_run,
            upto=value_or_unset(upto),
        )
        return await self._backend.call(JOB_BULK, MakeBulk(body))

    def get_bulk(self, id: str) -> BulkInfo:
        """How far the bulk is. Raises `NotFound`."""
        return self._backend.wait_for(self.aget_bulk(id))

    async def aget_bulk(self, id: str) -> BulkInfo:
        return await self._backend.call(BULK_SHOW, BulkById(id))

    def bulks(self, *, limit: int = 100) -> Sequence[BulkInfo]:
        """Bulks, newest first."""
        return self._backend.wait_for(self.abulks(limit=limit))

    async def abulks(self, *, limit: int = 100) -> Sequence[BulkInfo]:
        async def ask(size: int, cursor: str | None) -> tuple[Sequence[BulkInfo], str | None]:
            page = await self._backend.call(BULK_LIST, ListBulks(limit=size, cursor=cursor))
            return page.bulks, page.cursor

        return await items_of_pages(limit, ask)

    def stop_bulk(self, id: str) -> BulkInfo:
        """Stop it; what it has done stays. Raises `NotFound`."""
        return self._backend.wait_for(self.astop_bulk(id))

    async def astop_bulk(self, id: str) -> BulkInfo:
        return await self._backend.call(BULK_STOP, BulkById(id))

    def why(self, id: str) -> Explanation:
        """Why the job does not run, and when it may. Raises `NotFound`."""
        return self._backend.wait_for(self.awhy(id))

    async def awhy(self, id: str) -> Explanation:
        return await self._backend.call(JOB_WHY, JobById(id))

    def log(
        self,
        id: str,
        *,
        attempt: int | None = None,
        after: int = 0,
        limit: int = LOG_LINES_SHOWN,
    ) -> JobLogAnswer:
        """What the handler logged, in order: lines with a number above `after`.

        Those of one `attempt`, or of all. The `after` of the answer is the one of the next page,
        None where no line is left now. Raises `NotFound`.
        """
        return self._backend.wait_for(self.alog(id, attempt=attempt, after=after, limit=limit))

    async def alog(
        self,
        id: str,
        *,
        attempt: int | None = None,
        after: int = 0,
        limit: int = LOG_LINES_SHOWN,
    ) -> JobLogAnswer:
        request = ShowJobLog(id=id, attempt=attempt, after=after, limit=limit)
        return await self._backend.call(JOB_LOG, request)

    def cancel(self, id: str, reason: str | None = None) -> None:
        """Cancel a waiting job; ask a running one to stop. Raises `NotFound`, `Conflict`."""
        self._backend.wait_for(self.acancel(id, reason))

    async def acancel(self, id: str, reason: str | None = None) -> None:
        await self._backend.call(JOB_CANCEL, CancelJob(id, CancelJobBody(reason=reason)))

    def retry(self, id: str, *, dependents: bool = True) -> None:
        """Run a failed or cancelled job again, with a new budget of attempts.

        So run the jobs that were cancelled because of it, unless `dependents` is False. Raises
        `NotFound`, and `Conflict` for a job in another state.
        """
        self._backend.wait_for(self.aretry(id, dependents=dependents))

    async def aretry(self, id: str, *, dependents: bool = True) -> None:
        how = RetryJobBody(dependents=dependents)
        await self._backend.call(JOB_RETRY, RetryJob(id, how))

    def reschedule(
        self, id: str, *, run_at: datetime | None = None, delay: timedelta | str | None = None
    ) -> None:
        """Let a waiting job be due at another time: at an instant, or so long from now.

        Raises `NotFound`, `Invalid`, and `Conflict` for a job in another state.
        """
        self._backend.wait_for(self.areschedule(id, run_at=run_at, delay=delay))

    async def areschedule(
        self, id: str, *, run_at: datetime | None = None, delay: timedelta | str | None = None
    ) -> None:
        due = RescheduleBody(run_at=instant("run_at", run_at), delay=span_form(delay))
        await self._backend.call(JOB_RESCHEDULE, RescheduleJob(id, due))


def span_form(delay: timedelta | str | None) -> str | None:
    return span_text(delay) if isinstance(delay, timedelta) else delay


def fields_of(filters: JobFilters) -> dict[str, Any]:
    """The filters in the form of requests."""
    label = filters.get("label")
    pairs = (label,) if isinstance(label, str) else tuple(label or ())
    return {
        "state": state_of(filters.get("state")),
        "queue": filters.get("queue"),
        "task": filters.get("task"),
        "schedule_id": filters.get("schedule_id"),
        "flow": filters.get("flow"),
        "fault": filters.get("fault"),
        "label": label_filter(pairs) or None,
        "since": instant("since", filters.get("since")),
        "until": instant("until", filters.get("until")),
        "error": filters.get("error"),
        "unique": filters.get("unique"),
    }


def searched_fields(line: str, now: datetime) -> dict[str, Any]:
    """The filters of a line of search in the form of requests."""
    found: dict[str, Any] = dict(read_search(line))
    for name in {"since", "until"} & found.keys():
        found[name] = read_moment(found[name], name, now)
    if "state" in found:
        found["state"] = JobState(found["state"])
    if "label" in found:
        found["label"] = label_filter(found["label"])
    return found


def action_of(name: str) -> BulkAction:
    try:
        return BulkAction(name)
    except ValueError:
        raise Invalid(f"do must be one of {', '.join(BulkAction)}", "do") from None


def state_of(name: str | None) -> JobState | None:
    try:
        return None if name is None else JobState(name)
    except ValueError:
        raise Invalid(f"state must be one of {', '.join(JobState)}", "state") from None
