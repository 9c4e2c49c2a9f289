"""`beat.schedules`: schedules by key or id."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_keywords, instant
from onbeat.app.schedule_changes import changes_body, draft_body, rule_fields
from onbeat.app.schedule_drafts import Policies, Rule, draft_of
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import (
    RECURRENCE_PREVIEW,
    SCHEDULE_BACKFILL,
    SCHEDULE_CREATE,
    SCHEDULE_DELETE,
    SCHEDULE_DIFF,
    SCHEDULE_HISTORY,
    SCHEDULE_LIST,
    SCHEDULE_OCCURRENCES,
    SCHEDULE_PAUSE,
    SCHEDULE_PENDING,
    SCHEDULE_PREVIEW,
    SCHEDULE_PUT_DIFF,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
    SCHEDULE_UPDATE,
)
from onbeat.wire.occurrences import ScheduleEvent
from onbeat.wire.outcomes import OccurrencesAnswer, ScheduleDiff
from onbeat.wire.recurrences import Preview, PreviewBody
from onbeat.wire.requests import Backfilled, ScheduleById
from onbeat.wire.schedules import ScheduleAnswer, StatusForm
from onbeat.wire.values import value_or_unset

Answer = TypeVar("Answer")

NOTHING: Final[Mapping[str, str]] = {}


class OccurrenceFilters(TypedDict, total=False):
    """Filters for occurrences; `cursor` is the one of the page before."""

    disposition: OccurrenceOutcome | str | None
    since: datetime | None
    until: datetime | None
    cursor: datetime | None


class Schedules:
    """Schedules by key or id. Each method has an `a`-form for coroutines; the plain form blocks.

    A UUID, or 24 or 32 hexadecimal digits, is an id, and a key only where no schedule has that id;
    any other text is a key. Without such a schedule methods raise `NotFound`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def put(
        self, key: str, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create the schedule under `key`, update it, or leave it unchanged.

        Without a recurrence it needs `on`: the events that it reacts to.
        Its waiting jobs follow at once. Raises `Invalid` naming the invalid argument, also for an
        option of the call that a schedule cannot keep, and TypeError for an unknown argument.
        """
        return self._backend.wait_for(self.aput(key, recurrence, call, **policies))

    async def aput(
        self, key: str, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create or update the schedule under `key`; see `put`."""
        draft = draft_of(self._backend, "schedules.put", key, recurrence, call, policies)
        return ScheduleId((await self._backend.put_schedule(key, draft)).id)

    def get(self, key: str) -> ScheduleAnswer:
        """The schedule with this key or id, with its next occurrence. Raises `NotFound`."""
        return self._backend.wait_for(self.aget(key))

    async def aget(self, key: str) -> ScheduleAnswer:
        return await self._call(SCHEDULE_SHOW, key)

    def list(
        self,
        *,
        q: str | None = None,
        status: StatusForm | None = None,
        limit: int = 100,
        page: int = 1,
    ) -> Sequence[ScheduleAnswer]:
        """A page of schedules, newest first; `q` matches any part of name or key."""
        return self._backend.wait_for(self.alist(q=q, status=status, limit=limit, page=page))

    async def alist(
        self,
        *,
        q: str | None = None,
        status: StatusForm | None = None,
        limit: int = 100,
        page: int = 1,
    ) -> Sequence[ScheduleAnswer]:
        wanted = {"q": q, "status": status, "limit": str(limit), "page": str(page)}
        named = {name: text for name, text in wanted.items() if text is not None}
        return (await self._backend.ask(SCHEDULE_LIST, named)).schedules

    def create(
        self, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create another schedule each time, which has no key; it needs a `name`.

        Otherwise as `put`, but for a function of time, which needs a key.
        """
        return self._backend.wait_for(self.acreate(recurrence, call, **policies))

    async def acreate(
        self, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create another schedule; see `create`."""
        key = policies.get("name", "")
        body = draft_body(self._backend, "schedules.create", key, recurrence, call, policies)
        plain = msgspec.json.encode(replace(body, key=UNSET))
        return ScheduleId((await self._backend.ask(SCHEDULE_CREATE, {}, plain)).id)

    def put_diff(
        self, key: str, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleDiff:
        """What `put` with the same arguments would change; changes nothing. Raises as it would.

        A function of time cannot be compared.
        """
        return self._backend.wait_for(self.aput_diff(key, recurrence, call, **policies))

    async def aput_diff(
        self, key: str, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleDiff:
        """What `put` would change; see `put_diff`."""
        body = draft_body(self._backend, "schedules.put_diff", key, recurrence, call, policies)
        return await self._backend.ask(SCHEDULE_PUT_DIFF, {"key": key}, msgspec.json.encode(body))

    def update(
        self,
        key: str,
        recurrence: Rule | None = None,
        call: Call[Any] | None = None,
        **changes: Unpack[Policies],
    ) -> None:
        """Change what is given: the rule, a call with its options, and policies.

        A policy that is None gets its default; what is not given stays. Of the options of the call
        those count that its task does not have. Raises `Invalid` naming the invalid argument, also
        for an option that a schedule cannot keep.
        """
        self._backend.wait_for(self.aupdate(key, recurrence, call, **changes))

    async def aupdate(
        self,
        key: str,
        recurrence: Rule | None = None,
        call: Call[Any] | None = None,
        **changes: Unpack[Policies],
    ) -> None:
        """Change what is given; see `update`."""
        body = changes_body(self._backend, "schedules.update", recurrence, call, changes)
        await self._ask(SCHEDULE_UPDATE, key, body=msgspec.json.encode(body))

    def diff(
        self,
        key: str,
        recurrence: Rule | None = None,
        call: Call[Any] | None = None,
        **changes: Unpack[Policies],
    ) -> ScheduleDiff:
        """What `update` with the same arguments would change; changes nothing."""
        return self._backend.wait_for(self.adiff(key, recurrence, call, **changes))

    async def adiff(
        self,
        key: str,
        recurrence: Rule | None = None,
        call: Call[Any] | None = None,
        **changes: Unpack[Policies],
    ) -> ScheduleDiff:
        """What `update` would change; see `diff`."""
        body = changes_body(self._backend, "schedules.diff", recurrence, call, changes)
        return await self._ask(SCHEDULE_DIFF, key, body=msgspec.json.encode(body))

    def pause(self, key: str) -> None:
        """Run no further occurrence until `resume`."""
        self._backend.wait_for(self.apause(key))

    async def apause(self, key: str) -> None:
        await self._call(SCHEDULE_PAUSE, key)

    def resume(self, key: str) -> None:
        """Continue from now; occurrences missed during the pause do not run."""
        self._backend.wait_for(self.aresume(key))

    async def aresume(self, key: str) -> None:
        await self._call(SCHEDULE_RESUME, key)

    def trigger(self, key: str) -> JobId:
        """Run it once now, independent of its occurrences."""
        return self._backend.wait_for(self.atrigger(key))

    async def atrigger(self, key: str) -> JobId:
        answer = await self._call(SCHEDULE_TRIGGER, key)
        return JobId(answer.job_id)

    def backfill(
        self,
        key: str,
        since: datetime,
        until: datetime,
        *,
        limit: int = PAGE_LIMIT_MAX,
        dry_run: bool = False,
    ) -> Backfilled:
        """Jobs for occurrences from `since` to `until`, both included, that have none: their count.

        At most `limit` occurrences are looked at, and `through` is the last of them where there may
        be more. A dry run only counts. Repeating it adds nothing. Raises `Invalid`.
        """
        work = self.abackfill(key, since, until, limit=limit, dry_run=dry_run)
        return self._backend.wait_for(work)

    async def abackfill(
        self,
        key: str,
        since: datetime,
        until: datetime,
        *,
        limit: int = PAGE_LIMIT_MAX,
        dry_run: bool = False,
    ) -> Backfilled:
        """Jobs for past occurrences; see `backfill`."""
        ends = {"from": instant("since", since), "to": instant("until", until)}
        body = msgspec.json.encode({**ends, "limit": limit, "dry_run": dry_run})
        return await self._ask(SCHEDULE_BACKFILL, key, body=body)

    def preview(self, key: str, *, count: int = 10) -> Preview:
        """Its next occurrences, its rule in words, and notes on what may surprise."""
        return self._backend.wait_for(self.apreview(key, count=count))

    async def apreview(self, key: str, *, count: int = 10) -> Preview:
        return await self._ask(SCHEDULE_PREVIEW, key, {"count": str(count)})

    def preview_rule(
        self, recurrence: Rule, *, after: datetime | None = None, count: int = 10
    ) -> Preview:
        """The same for a rule, after an instant or from now on, as the service reads it."""
        return self._backend.wait_for(self.apreview_rule(recurrence, after=after, count=count))

    async def apreview_rule(
        self, recurrence: Rule, *, after: datetime | None = None, count: int = 10
    ) -> Preview:
        begin = value_or_unset(instant("after", after))
        body = PreviewBody(**rule_fields(recurrence), after=begin, count=count)
        return await self._backend.ask(RECURRENCE_PREVIEW, {}, msgspec.json.encode(body))

    def events(
        self, key: str, *, ended: bool = True, limit: int = 100, page: int = 1
    ) -> Sequence[ScheduleEvent]:
        """A page of occurrences that had a job, latest first, with the history of each.

        Those that have ended, or with `ended=False` the others.
        """
        return self._backend.wait_for(self.aevents(key, ended=ended, limit=limit, page=page))

    async def aevents(
        self, key: str, *, ended: bool = True, limit: int = 100, page: int = 1
    ) -> Sequence[ScheduleEvent]:
        operation = SCHEDULE_HISTORY if ended else SCHEDULE_PENDING
        named = {"limit": str(limit), "page": str(page)}
        return (await self._ask(operation, key, named)).events

    def occurrences(
        self, key: str, *, limit: int = 100, **filters: Unpack[OccurrenceFilters]
    ) -> OccurrencesAnswer:
        """A page of what became of its occurrences and why, latest first.

        The `cursor` of the answer leads to the next page. Raises `Invalid`.
        """
        return self._backend.wait_for(self.aoccurrences(key, limit=limit, **filters))

    async def aoccurrences(
        self, key: str, *, limit: int = 100, **filters: Unpack[OccurrenceFilters]
    ) -> OccurrencesAnswer:
        check_keywords("schedules.occurrences", filters, OccurrenceFilters.__annotations__)
        named = {"limit": str(limit), **occurrence_query(filters)}
        return await self._ask(SCHEDULE_OCCURRENCES, key, named)

    def delete(self, key: str) -> None:
        """Cancel its waiting jobs and delete it; its ended jobs stay readable."""
        self._backend.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await self._call(SCHEDULE_DELETE, key)

    async def _ask(
        self,
        operation: Operation[Any, Answer],
        key: str,
        named: Mapping[str, str] = NOTHING,
        body: bytes | None = None,
    ) -> Answer:
        return await self._backend.with_schedule(
            key, lambda found: self._backend.ask(operation, {"id": found, **named}, body)
        )

    async def _call(self, operation: Operation[ScheduleById, Answer], key: str) -> Answer:
        return await self._backend.with_schedule(
            key, lambda found: self._backend.call(operation, ScheduleById(found))
        )


def occurrence_query(filters: OccurrenceFilters) -> dict[str, str]:
    """The filters as texts of a query; naive times raise `Invalid`."""
    times = {
        "from": instant("since", filters.get("since")),
        "to": instant("until", filters.get("until")),
        "cursor": instant("cursor", filters.get("cursor")),
    }
    named = {name: at.isoformat() for name, at in times.items() if at is not None}
    disposition = filters.get("disposition")
    return named if disposition is None else {**named, "disposition": str(disposition)}
