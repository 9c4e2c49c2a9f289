"""Enqueue and settle jobs, and publish events, inside the caller's database transaction."""

from collections.abc import Awaitable, Generator, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, Unpack, overload

from onbeat.app.backend import Backend
from onbeat.app.call import Call, check_calls
from onbeat.app.event_drafts import EventAttributes, event_of
from onbeat.app.flow import Sending, sending_of
from onbeat.app.handle import JobHandle
from onbeat.app.transaction.connections import (
    AsyncConnection,
    SqlAlchemyAsync,
    SyncAsAsync,
    SyncConnection,
    adapt,
    run_synchronously,
)
from onbeat.app.transaction.publisher import publish_async, publish_sync
from onbeat.model.errors import Invalid, Misconfigured
from onbeat.model.event import Event
from onbeat.model.job import Job
from onbeat.operations.conditions import has_conditions, with_stored_conditions
from onbeat.operations.encryption import encrypted_jobs
from onbeat.ports.store import Enqueued, Settlement, Store
from onbeat.rules.flows import looks_like_id
from onbeat.wire.events import PublishedEvent

Result = TypeVar("Result")
NAMES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mysql": "MariaDB or MySQL"}


HAVE_CLOCKS: Final = frozenset({"postgresql", "mysql"})


class TransactionalSender:
    """Sends like `Onbeat`, in the transaction that `connection` is in, and never commits it.

    The jobs exist if and only if that transaction commits. On a connection in autocommit mode they
    exist at once. Errors of the driver are raised unchanged.
    """

    def __init__(self, backend: Backend, connection: object) -> None:
        self.backend = backend
        self.connection = adapt(connection)
        backend.find_tracing()  # the store may never be opened here

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
        if calls and kind_of(self.backend.store) in HAVE_CLOCKS:
            self.backend.wait_for(self.backend.open())
        sending = self.sending(calls)
        enqueued = enqueue_sync(self.backend.store, line, sending.jobs)
        return self.handles(calls, sending.in_place(enqueued))

    async def asend_all(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]:
        store, line = self.backend.store, self.connection
        if calls and kind_of(store) in HAVE_CLOCKS:
            await self.backend.open()
        sending = self.sending(calls)
        jobs = sending.jobs
        if isinstance(line, SyncConnection):
            enqueued = enqueue_sync(store, line, jobs)
        elif isinstance(line, SqlAlchemyAsync):
            enqueued = await line.run_sync(lambda plain: enqueue_sync(store, plain, jobs))
        else:
            enqueued = await enqueue_async(store, line, jobs)
        return self.handles(calls, sending.in_place(enqueued))

    def publish(
        self, type: str, data: Any = None, **attributes: Unpack[EventAttributes]
    ) -> PublishedEvent:
        """Publish an event, as `events.publish`. TypeError on an asynchronous connection."""
        store, line = self.backend.store, self.connection
        if not isinstance(line, SyncConnection):
            raise TypeError("the connection is asynchronous; use apublish")
        if kind_of(store) in HAVE_CLOCKS:
            self.backend.wait_for(self.backend.open())
        event = event_of(self.backend, type, data, attributes)
        (created,) = checked_publish(store, line, [event], self.backend.clock.now())
        return PublishedEvent(id=event.id, created=created)

    async def apublish(
        self, type: str, data: Any = None, **attributes: Unpack[EventAttributes]
    ) -> PublishedEvent:
        """The same; a synchronous connection blocks the loop."""
        store, line, now = self.backend.store, self.connection, self.backend.clock.now
        if kind_of(store) in HAVE_CLOCKS:
            await self.backend.open()
        events = [event_of(self.backend, type, data, attributes)]
        if isinstance(line, SqlAlchemyAsync):
            (created,) = await line.run_sync(
                lambda plain: checked_publish(store, plain, events, now())
            )
        elif isinstance(line, SyncConnection):
            (created,) = checked_publish(store, line, events, now())
        else:
            refuse_other_store(store, line)
            (created,) = await publish_async(store, line, events, now())
        return PublishedEvent(id=events[0].id, created=created)

    def sending(self, calls: Sequence[Call[Any]]) -> Sending:
        check_calls(calls)
        if any(
            isinstance(one.of, str) and looks_like_id(one.of)
            for call in calls
            for one in call.options.after
        ):
            raise Invalid(
                "a job sent within a transaction can wait only for others of its list, since it"
                " would keep stored ones from ending; send it after the commit",
                field="after",
            )
        now, retry = self.backend.clock.now(), self.backend.options.retry
        sending = sending_of(calls, self.backend.randomness, now, retry)
        jobs = sending.jobs
        if has_conditions(jobs):
            jobs = [*with_stored_conditions(self.backend.context, jobs)]
        jobs = encrypted_jobs(self.backend.cipher, jobs)
        return Sending(jobs, sending.order, sending.flow)

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
    scheme = store.url.partition(":")[0]
    return "mysql" if scheme == "mariadb" else scheme


def refuse_other_store(store: Store, line: "SyncConnection | AsyncConnection") -> None:
    kind = kind_of(store)
    if kind not in NAMES:
        raise Misconfigured(
            "a transaction can be shared on SQLite, PostgreSQL, MariaDB and MySQL, "
            f"not on {store.url}",
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
    if line.kind == "mysql":
        from onbeat.stores.mysql import caller_transaction  # noqa: PLC0415  loaded on demand

        return await caller_transaction.enqueue(line, store.url, jobs)
    from onbeat.stores.postgres.caller_transaction import enqueue  # noqa: PLC0415  loaded on demand

    return await enqueue(line, store.url, jobs)


def checked_publish(
    store: Store, line: "SyncConnection", events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    refuse_other_store(store, line)
    return publish_sync(store, line, events, now)


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
    if line.kind == "mysql":
        from onbeat.stores.mysql import caller_transaction  # noqa: PLC0415  loaded on demand

        await caller_transaction.settle(line, store.url, settlement)
        return
    from onbeat.stores.postgres.caller_transaction import settle  # noqa: PLC0415  loaded on demand

    await settle(line, store.url, settlement)


class AlreadyDone:
    """An awaitable for work that is already done."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
