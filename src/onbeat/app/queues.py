"""`beat.queues`: queues by name."""

from collections.abc import Sequence
from itertools import count

from onbeat.app.backend import Backend
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.operations.table import (
    QUEUE_LIST,
    QUEUE_PAUSE,
    QUEUE_RESUME,
)
from onbeat.wire.queues import QueueAnswer
from onbeat.wire.requests import (
    ListQueues,
    QueueByName,
)


class Queues:
    """Queues by name."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def list(self) -> Sequence[QueueAnswer]:
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

    def pause(self, name: str) -> None:
        """Start no more jobs of the queue until `resume`; running jobs continue."""
        self._backend.wait_for(self.apause(name))

    async def apause(self, name: str) -> None:
        await self._backend.call(QUEUE_PAUSE, QueueByName(name))

    def resume(self, name: str) -> None:
        self._backend.wait_for(self.aresume(name))

    async def aresume(self, name: str) -> None:
        await self._backend.call(QUEUE_RESUME, QueueByName(name))
