"""A request whose key another transaction holds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from conditions import eventually
from onbeat.model.errors import RequestInFlight, Unavailable
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued
from onbeat.stores.postgres import connection, enqueue
from onbeat.stores.postgres.store import PostgresStore
from onbeat.stores.postgres.transaction import Transaction
from onbeat.testing.build import a_job
from onbeat.testing.store_contract.idempotency import a_keyed_request
from stores.pending_request import Holder, refuses_while_it_is_held
from transports.proxy import Proxy


@pytest.fixture
def holder(store: PostgresStore) -> Holder:
    async def hold(run: Callable[[Transaction], Awaitable[Any]], key: str) -> None:
        await store._write(a_keyed_request(key), run)

    return Holder(hold)


async def test_a_held_key_is_refused_at_once_and_free_after_a_failure(
    store: PostgresStore, holder: Holder
) -> None:
    await refuses_while_it_is_held(store, holder)


async def test_a_held_key_takes_no_connection_from_others(
    store: PostgresStore, holder: Holder
) -> None:
    """More repeats than the pool has connections."""
    async with holder.holding("one"):
        answers = await asyncio.gather(
            *(store.enqueue([a_job()], a_keyed_request("one")) for _ in range(20)),
            return_exceptions=True,
        )
        assert {type(answer) for answer in answers} == {RequestInFlight}
        job = a_job()
        await store.enqueue([job])
        assert await store.job(job.id) == job


async def test_a_process_that_is_cut_off_gives_its_key_up(
    database: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request is under way when the network between it and the server goes silent."""
    monkeypatch.setitem(connection.SETTINGS, "idle_in_transaction_session_timeout", "1s")
    parts = urlsplit(database)
    async with Proxy(parts.hostname or "", parts.port or 5432) as proxy:
        far = PostgresStore(urlunsplit(parts._replace(netloc=f"postgres@{proxy.address}")))
        await far.open()
        silenced = asyncio.Event()

        async def add_late(transaction: Transaction, jobs: Sequence[Job]) -> Sequence[Enqueued]:
            proxy.silence()
            silenced.set()
            return await enqueue.enqueue_in_one(transaction, jobs)

        lost, job = a_job(), a_job()
        request = a_keyed_request("one", lost)
        cut_off = asyncio.ensure_future(far._write(request, add_late, [lost]))
        await silenced.wait()
        with pytest.raises(RequestInFlight):
            await store.enqueue([job], a_keyed_request("one", job))

        async def is_taken() -> bool:
            try:
                await store.enqueue([job], a_keyed_request("one", job))
            except RequestInFlight:
                return False
            return True

        await eventually(is_taken, "the server has ended the other transaction")
        await proxy.disconnect()
        with pytest.raises(Unavailable):
            await cut_off
        await far.close()
    assert await store.job(lost.id) is None
    assert await store.job(job.id) == job
