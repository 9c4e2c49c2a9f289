"""A request that is under way for as long as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from onbeat.model.errors import Conflict, RequestInFlight
from onbeat.ports.store import Store
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.idempotency import a_keyed_request

Verb = Callable[[Any], Awaitable[Any]]


class Holder:
    """`hold` runs a verb under a key, in a transaction of the store."""

    def __init__(self, hold: Callable[[Verb, str], Awaitable[None]]) -> None:
        self.hold = hold

    @asynccontextmanager
    async def holding(self, key: str, *, fails: bool = False) -> AsyncIterator[None]:
        """The key is held during the block; at its end the request is done, or has failed."""
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def wait(_transaction: Any) -> None:
            begun.set()
            await may_end.wait()
            if fails:
                raise Conflict("of its own")

        held = asyncio.ensure_future(self.hold(wait, key))
        await begun.wait()
        try:
            yield
        finally:
            may_end.set()
            await asyncio.wait([held])
        assert isinstance(held.exception(), Conflict) is fails


async def refuses_while_it_is_held(store: Store, holder: Holder) -> None:
    """It ends at once or after a second, long before a lock's own time is over."""
    async with asyncio.timeout(8):
        async with holder.holding("fails", fails=True):
            with pytest.raises(RequestInFlight):
                await store.enqueue([a_job()], a_keyed_request("fails"))
        job = a_job()
        await store.enqueue([job], a_keyed_request("fails"))
        assert await store.job(job.id) == job

        async with holder.holding("ends"):
            with pytest.raises(RequestInFlight):
                await store.enqueue([a_job()], a_keyed_request("ends"))
        other = a_job()
        with pytest.raises(RequestInFlight):
            await store.enqueue([other], a_keyed_request("ends"))
        assert await store.job(other.id) is None
