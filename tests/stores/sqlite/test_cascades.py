from pathlib import Path

from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.stores.sqlite.store import SqliteStore
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
