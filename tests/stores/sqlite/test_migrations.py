"""What earlier versions left behind goes on working."""

from contextlib import closing
from importlib.resources import files
from itertools import pairwise

import apsw
import pytest

from onbeat.model.job import JobState
from onbeat.model.queue import Limits
from onbeat.stores.sqlite.migrate import APPLICATION_ID, migrations
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.acts import a_request, a_settlement

SPEC = '{"target":{"kind":"task","task":"work"},"created_at":"2030-01-01T12:00:00Z"}'
DUE_AT = 1_893_499_200_000_000  # NOW, in microseconds


@pytest.fixture
def first_version(path: str) -> str:
    """A file of the first schema, with a job that waits, one that runs and a paused queue."""
    with closing(apsw.Connection(path)) as db:
        db.execute(migrations()[0])
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.execute(
            f"""
            INSERT INTO jobs (id, state, queue, priority, lane, due_at, overlap, token, worker,
                              attempt, started_at, spec)
            VALUES
              ('a', 'waiting', 'default', 0, 'work', {DUE_AT}, 'allow', 0, NULL, 0, NULL, '{SPEC}'),
              ('b', 'running', 'default', 0, 'work', {DUE_AT}, 'allow', 1, 'worker-1', 1,
               {DUE_AT}, '{SPEC}');
            INSERT INTO queues (name, paused) VALUES ('still', 1);
            """
        )
    return path


async def test_jobs_of_the_first_version_go_on(first_version: str) -> None:
    store = SqliteStore(first_version)
    await store.open()
    (waited,) = (await store.claim(a_request())).jobs
    ran = await store.job("b")
    assert waited == a_job(
        id="a", state=JobState.RUNNING, worker="worker-1", token=1, attempt=1, started_at=NOW
    )
    assert ran is not None
    assert list(await store.settle([a_settlement(waited), a_settlement(ran)])) == [True, True]
    assert [queue.name for queue in await store.queues(NOW)] == ["still"]
    await store.close()


async def test_a_retry_of_the_first_version_is_not_too_late(first_version: str) -> None:
    with closing(apsw.Connection(first_version)) as db:
        db.execute("UPDATE jobs SET token = 1, attempt = 1, start_by = due_at - 1 WHERE id = 'a'")
    store = SqliteStore(first_version)
    await store.open()
    assert [job.id for job in (await store.claim(a_request())).jobs] == ["a"]
    await store.close()


async def test_a_file_of_the_first_version_can_do_what_is_new(first_version: str) -> None:
    store = SqliteStore(first_version)
    await store.open()
    await store.limit_queue("default", Limits(group_concurrency=1))
    await store.enqueue([job := a_job(group="green"), a_job(group="green")])
    assert [one.id for one in (await store.claim(a_request())).jobs] == [job.id, "a"]
    await store.close()


def test_migrations_are_numbered_without_a_gap() -> None:
    folder = files("onbeat.stores.sqlite") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    numbers = [int(name.split("_")[0]) for name in names]
    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))
