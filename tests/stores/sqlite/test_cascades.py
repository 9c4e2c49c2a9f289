from pathlib import Path

import pytest

from onbeat.model.errors import Unavailable
from onbeat.model.job import Edge, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.rules.dependents import Wait
from onbeat.stores.sql.verbs.dependents import free, lock_jobs
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.stores.sqlite.transaction import Transaction, finish
from onbeat.testing.build import NOW, a_job


async def test_what_one_transaction_left_over_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "onbeat.db")
    store = SqliteStore(path)
    await store.open()
    head = a_job()
    dependents = [a_job(after=(head.id,)) for _ in range(DEPENDENTS_MAX + 1)]
    await store.enqueue([head, *dependents])
    await store.cancel([head.id], "by hand", NOW)
    await store.close()

    again = SqliteStore(path)
    await again.open()
    assert (await again.stats(NOW)).jobs[JobState.WAITING] == 1
    assert await again.continue_cascades(NOW) > 0
    assert (await again.stats(NOW)).jobs[JobState.WAITING] == 0
    await again.close()


async def test_a_wait_that_is_gone_since_it_was_read_unblocks_nobody(store: SqliteStore) -> None:
    head, other = a_job(), a_job()
    dependent = a_job(after=(head.id,))
    await store.enqueue([head, other, dependent])
    db = store._writer._db
    assert db is not None
    transaction = Transaction(db)
    blocked = finish(lock_jobs(transaction, [dependent.id]))
    with pytest.raises(Unavailable):
        finish(free(transaction, [Wait(dependent.id, other.id, Edge.SUCCESS)], blocked))
    job = await store.job(dependent.id)
    assert job is not None
    assert job.blocked_by == 1
