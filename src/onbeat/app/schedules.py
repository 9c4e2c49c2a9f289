"""`beat.schedules`: schedules by key or id."""

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

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
    Operation,
)
from onbeat.wire.requests import ListSchedules, ScheduleById
from onbeat.wire.schedules import ScheduleAnswer

Answer = TypeVar("Answer")


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
        Its waiting jobs follow at once. Raises `Invalid` naming the invalid argument.
        """
        return self._backend.wait_for(self.aput(key, recurrence, call, **policies))

    async def aput(
        self, key: str, recurrence: Rule | None, call: Call[Any], **policies: Unpack[Policies]
    ) -> ScheduleId:
        """Create or update the schedule under `key`; see `put`."""
        draft = draft_of(self._backend, key, recurrence, call, policies)
        return ScheduleId((await self._backend.put_schedule(key, draft)).id)

    def get(self, key: str) -> ScheduleAnswer:
        """The schedule with this key or id, with its next occurrence. Raises `NotFound`."""
        return self._backend.wait_for(self.aget(key))

    async def aget(self, key: str) -> ScheduleAnswer:
        return await self._call(SCHEDULE_SHOW, key)

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

    def delete(self, key: str) -> None:
        """Cancel its waiting jobs and delete it; its ended jobs stay readable."""
        self._backend.wait_for(self.adelete(key))

    async def adelete(self, key: str) -> None:
        await self._call(SCHEDULE_DELETE, key)

    async def _call(self, operation: Operation[ScheduleById, Answer], key: str) -> Answer:
        return await self._backend.with_schedule(
            key, lambda found: self._backend.call(operation, ScheduleById(found))
        )
