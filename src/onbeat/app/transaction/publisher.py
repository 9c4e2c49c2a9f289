"""Publish events inside the caller's database transaction."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.app.transaction.connections import (
    AsyncConnection,
    SyncAsAsync,
    SyncConnection,
    run_synchronously,
)
from onbeat.model.event import Event
from onbeat.ports.store import Store


def publish_sync(
    store: Store, line: SyncConnection, events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    """Which of the events are new. Raises `Invalid` for a connection to another database."""
    if line.kind == "sqlite":
        from onbeat.stores.sqlite.caller_transaction import publish  # noqa: PLC0415  on demand

        return publish(line, store.url, events, now)
    return run_synchronously(publish_async(store, SyncAsAsync(line), events, now))


async def publish_async(
    store: Store, line: AsyncConnection, events: Sequence[Event], now: datetime
) -> Sequence[bool]:
    if line.kind == "mysql":
        from onbeat.stores.mysql import caller_transaction  # noqa: PLC0415  on demand

        return await caller_transaction.publish(line, store.url, events, now)
    from onbeat.stores.postgres.caller_transaction import publish  # noqa: PLC0415  on demand

    return await publish(line, store.url, events, now)
