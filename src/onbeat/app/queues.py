"""`beat.queues`: queues by name."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import Any, TypedDict, Unpack

import msgspec

from onbeat.app.backend import Backend
from onbeat.app.call import Span, check_keywords
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.operations.tables.fleet import (
    QUEUE_LIMIT,
    QUEUE_LIST,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    QUEUE_SHOW,
)
from onbeat.wire.queues import PauseBody, QueueAnswer, QueueDetail
from onbeat.wire.requests import (
    ListQueues,
    PauseQueue,
    QueueByName,
)


class QueueLimits(TypedDict, total=False):
    """Limits of a queue and its groups, and after which wait of a due job it is late."""

    concurrency: int | None
    rate: str | None
    group_concurrency: int | None
    group_rate: str | None
    fair: bool | None
    late_after: Span | None


class Queues:
    """Queues by name."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(self) -> Sequence[QueueAnswer]:
        """Queues that have live jobs, are paused or are limited."""
        return self._backend.wait_for(self.alist())

    async def alist(self) -> Sequence[QueueAnswer]:
        result: list[QueueAnswer] = []
        for page in count(1):
            request = ListQueues(limit=PAGE_LIMIT_MAX, page=page)
            answer = await self._backend.call(QUEUE_LIST, request)
            result += answer.queues
            if page * PAGE_LIMIT_MAX >= answer.total:
                break
        return result

    def limit(self, name: str, **limits: Unpack[QueueLimits]) -> QueueAnswer:
        """Change the given limits of the queue; None removes one. Without any they are only read.

        Raises `Invalid` naming the invalid limit.
        """
        return self._backend.wait_for(self.alimit(name, **limits))

    async def alimit(self, name: str, **limits: Unpack[QueueLimits]) -> QueueAnswer:
        check_keywords("queues.limit", limits, QueueLimits.__annotations__)
        given: dict[str, Any] = dict(limits)
        if given.get("late_after") is not None:
            given["late_after"] = in_seconds(given["late_after"])
        body = msgspec.json.encode(given)
        return await self._backend.ask(QUEUE_LIMIT, {"name": name}, body)

    def get(self, name: str) -> QueueDetail:
        """One queue, with its groups that have most ready jobs."""
        return self._backend.wait_for(self.aget(name))

    async def aget(self, name: str) -> QueueDetail:
        return await self._backend.call(QUEUE_SHOW, QueueByName(name))

    def pause(self, name: str, *, note: str | None = None) -> None:
        """Start no more jobs of the queue until `resume`; running jobs continue.

        The note of up to 200 characters says why to those who find it paused.
        """
        self._backend.wait_for(self.apause(name, note=note))

    async def apause(self, name: str, *, note: str | None = None) -> None:
        await self._backend.call(QUEUE_PAUSE, PauseQueue(name, PauseBody(note=note)))

    def resume(self, name: str) -> None:
        """Start jobs of the queue again."""
        self._backend.wait_for(self.aresume(name))

    async def aresume(self, name: str) -> None:
        await self._backend.call(QUEUE_RESUME, QueueByName(name))


def in_seconds(value: Span) -> str | float:
    """The span as a request has it; a text stays as it is."""
    return value.total_seconds() if isinstance(value, timedelta) else value
