"""Enqueue and settle jobs inside the caller's database transaction."""

from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Final, TypeVar, overload

from onbeat.app.backend import Backend
from onbeat.app.call import Call
from onbeat.app.handle import JobHandle
from onbeat.app.transaction.connections import (
    AsyncConnection,
    SqlAlchemyAsync,
    SyncAsAsync,
    SyncConnection,
    adapt,
    run_synchronously,
)
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.job import Job
from onbeat.operations.encryption import encrypted_jobs
from onbeat.ports.store import Enqueued, Settlement, Store

Result = TypeVar("Result")
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


class TransactionalSender:
    """Sends like `Onbeat`, in the transaction that `connection` is in, and never commits it.

    The jobs exist if and only if that transaction commits. On a connection in autocommit mode they
    exist at once. Errors of the driver are raised unchanged.
    """

    def __init__(self, backend: Backend, connection: object) -> None:
        self.backend = backend
        self.connection = adapt(connection)

    @overload
    def send(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    def send(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    def send(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one statement. TypeError on an asynchronous connection."""
        return self.send_call(calls) if isinstance(calls, Call) else self.send_all(calls)

    @overload
    async def asend(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    async def asend(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    async def asend(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one statement; a synchronous connection blocks the loop."""
        if isinstance(calls, Call):
            return await self.asend_call(calls)
        return await self.asend_all(calls)

    def send_call(self, call: Call[Result]) -> JobHandle[Result]:
        (job,) = self.send_all([call])
        return job

    async def asend_call(self, call: Call[Result]) -> JobHandle[Result]:
        (job,) = await self.asend_all([call])
        return job

    def send_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        line = self.connection
        if not isinstance(line, SyncConnection):
            raise TypeError("the connection is asynchronous; use asend")
        # Opening synchronizes the clock with the store's, which sets the jobs' times.
        if calls and kind_of(self.backend.store) == "postgresql":
            self.backend.wait_for(self.backend.open())
        jobs = self.jobs(calls)
        return self.handles(calls, enqueue_sync(self.backend.store, line, jobs))

    async def asend_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        store, line = self.backend.store, self.connection
        if calls and kind_of(store) == "postgresql":
            await self.backend.open()
        jobs = self.jobs(calls)
        if isinstance(line, SyncConnection):
            enqueued = enqueue_sync(store, line, jobs)
        elif isinstance(line, SqlAlchemyAsync):
            enqueued = await line.run_sync(lambda plain: enqueue_sync(store, plain, jobs))
        else:
            enqueued = await enqueue_async(store, line, jobs)
        return self.handles(calls, enqueued)

    def jobs(self, calls: Sequence[Call[Any]]) -> Sequence[Job]:
        if any(call.options.job.after for call in calls):
            raise Invalid(
                "a job sent within a transaction cannot wait for others; send it after the commit",
                field="after",
            )
        now, retry = self.backend.clock.now(), self.backend.options.retry
        ids = self.backend.randomness.ids(len(calls))
        jobs = [call.job(id, now, retry) for call, id in zip(calls, ids, strict=True)]
        return encrypted_jobs(self.backend.cipher, jobs)

    def handles(
        self, calls: Sequence[Call[Any]], enqueued: Sequence[Enqueued]
    ) -> list[JobHandle[Any]]:
        return [
            JobHandle(self.backend, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    def in_transaction(self, connection: object) -> "TransactionalSender":
        return TransactionalSender(self.backend, connection)


# Access to the store


def kind_of(store: Store) -> str:
    return store.url.partition(":")[0]


def refuse_other_store(store: Store, line: "SyncConnection | AsyncConnection") -> None:
    kind = kind_of(store)
    if kind not in NAMES:
        raise Misconfigured(
            f"a transaction can be shared on SQLite and PostgreSQL, not on {store.url}",
            key="store",
        )
    if kind != line.kind:
        raise Invalid(
            f"the connection is to {NAMES.get(line.kind, line.kind)}, and the store is "
            f"{NAMES[kind]}; one transaction needs one database",
            field="connection",
        )


def enqueue_sync(store: Store, line: "SyncConnection", jobs: Sequence[Job]) -> Sequence[Enqueued]:
    refuse_other_store(store, line)
    if not jobs:
        return []
    if line.kind == "sqlite":
        from onbeat.stores.sqlite.caller_transaction import enqueue  # noqa: PLC0415  loaded on demand

        return enqueue(line, store.url, jobs)
    return run_synchronously(enqueue_async(store, SyncAsAsync(line), jobs))


async def enqueue_async(
    store: Store, line: "AsyncConnection", jobs: Sequence[Job]
) -> Sequence[Enqueued]:
    refuse_other_store(store, line)
    if not jobs:
        return []
    from onbeat.stores.postgres.caller_transaction import enqueue  # noqa: PLC0415  loaded on demand

    return await enqueue(line, store.url, jobs)


def finish_in_transaction(
    store: Store, connection: object, settlement: Settlement
) -> Awaitable[None]:
    """Settle in the transaction that `connection` is in; a synchronous one settles at once.

    Raises `LeaseLost` when the lease is no longer valid, `Invalid` outside a transaction.
    """
    line = adapt(connection)
    if isinstance(line, SyncConnection):
        settle_sync(store, line, settlement)
        return AlreadyDone()
    if isinstance(line, SqlAlchemyAsync):
        return line.run_sync(lambda plain: settle_sync(store, plain, settlement))
    return settle_async(store, line, settlement)


def settle_sync(store: Store, line: "SyncConnection", settlement: Settlement) -> None:
    refuse_other_store(store, line)
    if line.kind == "sqlite":
        from onbeat.stores.sqlite.caller_transaction import settle  # noqa: PLC0415  loaded on demand

        settle(line, store.url, settlement)
    else:
        run_synchronously(settle_async(store, SyncAsAsync(line), settlement))


async def settle_async(store: Store, line: "AsyncConnection", settlement: Settlement) -> None:
    refuse_other_store(store, line)
    from onbeat.stores.postgres.caller_transaction import settle  # noqa: PLC0415  loaded on demand

    await settle(line, store.url, settlement)


class AlreadyDone:
    """An awaitable for work that is already done."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
