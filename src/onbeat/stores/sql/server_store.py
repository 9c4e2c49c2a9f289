"""A store on a database server: verbs run on the connections of an event loop."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedAnswer, KeyedRequest
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Progress
from onbeat.model.plan import Plan
from onbeat.ports.store import Enqueued
from onbeat.stores.sql.loop_connections import LoopConnections
from onbeat.stores.sql.session import Answer, P, Verb
from onbeat.stores.sql.store import SqlStore, T
from onbeat.stores.sql.verbs.idempotency import KeyedJobs

POOL_MAX = 8

Connections = TypeVar("Connections", bound=LoopConnections[Any, Any])


class ServerStore(SqlStore[T], Generic[Connections, T]):
    """Subclasses choose the connections for the running event loop."""

    @abstractmethod
    async def _at(self, act: Callable[[Connections], Awaitable[Answer]]) -> Answer:
        """Act with connections of the running loop, or in the loop of other connections."""

    async def _read(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _run(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run(verb, *args, **options))

    async def _transact(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.transact(verb, *args, **options))

    async def _snapshot(
        self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs
    ) -> Answer:
        return await self._at(lambda connections: connections.view(verb, *args, **options))

    async def _beat(self, verb: Verb[T, P, Answer], *args: P.args, **options: P.kwargs) -> Answer:
        return await self._at(lambda connections: connections.run_heartbeat(verb, *args, **options))

    async def apply_plans(self, plans: Sequence[Plan]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.apply_plans.submit(plans))

    async def note_progress(self, notes: Sequence[tuple[JobId, Token, Progress]]) -> Sequence[bool]:
        return await self._at(lambda connections: connections.note_progress.submit(notes))

    async def keyed_answer(self, digest: bytes) -> KeyedAnswer | None:
        (answer,) = await self._at(lambda connections: connections.keyed_answers.submit([digest]))
        return answer

    async def _enqueue_keyed(self, keyed: KeyedRequest, jobs: Sequence[Any]) -> Sequence[Enqueued]:
        """Add a few jobs, in one transaction with other requests."""
        request = KeyedJobs(keyed, jobs)
        (answer,) = await self._at(lambda connections: connections.enqueue_keyed.submit([request]))
        if answer is None:
            raise RequestInFlight
        return answer
