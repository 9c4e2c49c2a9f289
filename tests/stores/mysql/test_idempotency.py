"""A request whose key another transaction holds."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from onbeat.stores.mysql.connection import (
    IDLE_IN_TRANSACTION_SECONDS,
    LOCK_SECONDS,
    is_mariadb,
)
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.mysql.transaction import Transaction
from onbeat.testing.store_contract.idempotency import a_keyed_request
from stores.pending_request import Holder, refuses_while_it_is_held


@pytest.fixture
def holder(store: MysqlStore) -> Holder:
    async def hold(run: Callable[[Transaction], Awaitable[Any]], key: str) -> None:
        await store._write(a_keyed_request(key), run)

    return Holder(hold)


async def test_a_held_key_is_refused_soon_and_free_after_a_failure(
    store: MysqlStore, holder: Holder
) -> None:
    await refuses_while_it_is_held(store, holder)


async def test_a_connection_waits_for_other_locks_as_long_as_before(
    store: MysqlStore, holder: Holder
) -> None:
    async def patience(transaction: Transaction) -> object:
        return await transaction.value("SELECT @@innodb_lock_wait_timeout")

    await refuses_while_it_is_held(store, holder)
    result = {await store._connections.run(patience) for _ in range(8)}
    assert result == {LOCK_SECONDS}


async def test_mariadb_ends_the_transaction_of_a_process_that_is_cut_off(store: MysqlStore) -> None:
    """It would hold the keys of its requests, and the rows of its jobs."""

    async def bounds(transaction: Transaction) -> tuple[bool, object]:
        sql = "SHOW SESSION VARIABLES LIKE 'idle_transaction_timeout'"
        return is_mariadb(transaction.db), await transaction.rows(sql)

    known, result = await store._connections.run(bounds)
    seconds = (("idle_transaction_timeout", str(IDLE_IN_TRANSACTION_SECONDS)),)
    assert result == (seconds if known else ())
