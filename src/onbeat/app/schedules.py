"""`beat.schedules`: schedules by key."""

from collections.abc import Sequence
from typing import Any, Unpack

from onbeat.app.backend import Backend
from onbeat.app.call import Call
from onbeat.app.schedule_drafts import Policies, Rule, draft_of
from onbeat.model.ids import JobId, ScheduleId
from onbeat.operations.table import (
    SCHEDULE_DELETE,
    SCHEDULE_LIST,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
)
from onbeat.wire.requests import ListSchedules, ScheduleById
from onbeat.wire.schedules import ScheduleAnswer


class Schedules:
    """Schedules by key. Each method has an `a`-form for coroutines; the plain form blocks."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def put(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create the schedule under `key`, update it, or leave it unchanged.

        Its waiting jobs follow at once. Raises `Invalid` naming the invalid argument.
        """
        return self._backend.wait_for(self.aput(key, recurrence, call, **policies))

    async def aput(
        self, key: str, recurrence: Rule, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create or update the schedule under `key`; see `put`."""
        draft = draft_of(self._backend, key, recurrence, call, policies)
        return ScheduleId((await self._backend.put_schedule(key, draft)).id)

    def get(self, key: str) -> ScheduleAnswer:
        """The schedule under `key`, with its next occurrence. Raises `NotFound`."""
        return self._backend.wait_for(self.aget(key))

    async def aget(self, key: str) -> ScheduleAnswer:
        return await self._backend.call(SCHEDULE_SHOW, await self._by_key(key))

    def list(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        """Schedules, newest first; `q` matches any part of name or key."""
        return self._backend.wait_for(self.alist(q=q, limit=limit))

    async def alist(self, *, q: str | None = None, limit: int = 100) -> Sequence[ScheduleAnswer]:
        request = ListSchedules(q=q, limit=limit)
        return (await self._backend.call(SCHEDULE_LIST, request)).schedules

    def pause(self, key: str) -> None:
        """Run no further occurrence until `resume`."""
        self._backend.wait_for(self.apause(key))

    async def apause(self, key: str) -> None:
        await self._backend.call(SCHEDULE_PAUSE, await self._by_key(key))

    def resume(self, key: str) -> None:
        """Continue from now; occurrences missed during the pause do not run."""
        self._backend.wait_for(self.aresume(key))

    async def aresume(self, key: str) -> None:
        await self._backend.call(SCHEDULE_RESUME, await self._by_key(key))

    def trigger(self, key: str) -> JobId:
        """Run it once now, independent of its occurrences."""
        return self._backend.wait_for(self.atrigger(key))

    async def atrigger(self, key: str) -> JobId:
        answer = await self._backend.call(SCHEDULE_TRIGGER, await self._by_key(key))
        return JobId(answer.job_id)

    def delete(self, key: str) -> None:
        """Cancel its waiting jobs and delete it; its ended jobs stay readable."""
        self._backend.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await self._backend.call(SCHEDULE_DELETE, await self._by_key(key))

    async def _by_key(self, key: str) -> ScheduleById:
        return ScheduleById(id=await self._backend.schedule_id(key))
