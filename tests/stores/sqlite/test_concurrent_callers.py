"""What several callers, threads and stores on one file see of each other."""

import asyncio
import threading
from collections import Counter
from pathlib import Path

from conditions import PATIENCE
from onbeat.model.ids import WorkerId
from onbeat.model.queue import Limits, Rate
from onbeat.model.worker import carrier_id
from onbeat.ports.store import Hint
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import HOUR, NOW, a_job
from onbeat.testing.store_contract.steps import a_request, a_settlement


async def test_what_is_written_is_read_at_once(store: SqliteStore) -> None:
    for _ in range(50):
        job = a_job()
        await store.enqueue([job])
        assert await store.job(job.id) == job


async def test_two_stores_give_each_job_out_once(store: SqliteStore, other: SqliteStore) -> None:
    jobs = [a_job() for _ in range(200)]
    await store.enqueue(jobs)
    answers = await asyncio.gather(
        *(one.claim(a_request(limit=7)) for one in (store, other) * 20),
    )
    claimed = [job.id for answer in answers for job in answer.jobs]
    assert sorted(claimed) == sorted(job.id for job in jobs)


async def test_two_stores_hold_to_one_limit(store: SqliteStore, other: SqliteStore) -> None:
    await store.limit_queue("default", Limits(concurrency=5, group_rate=Rate(2, HOUR)))
    await other.enqueue([a_job(group=f"{number % 3}") for number in range(30)])
    answers = await asyncio.gather(*(one.claim(a_request(limit=2)) for one in (store, other) * 20))
    groups = Counter(job.group for answer in answers for job in answer.jobs)
    assert groups.total() == 5
    assert max(groups.values()) == 2


async def test_of_two_workers_who_start_one_lease_one_gets_it(
    store: SqliteStore, other: SqliteStore
) -> None:
    await store.enqueue([a_job() for _ in range(20)])
    jobs = (await store.claim(a_request(worker=carrier_id("1")))).jobs
    leases = [(job.id, job.token) for job in jobs]
    one, two = WorkerId("one"), WorkerId("two")
    answers = await asyncio.gather(
        *(
            start
            for lease in leases
            for start in (
                store.start(one, [lease], NOW),
                store.start(two, [lease], NOW),
                other.start(one, [lease], NOW),
            )
        )
    )
    answer = Counter((job.id, job.worker) for (job,) in answers if job is not None)
    assert len(answer) == len(jobs)
    assert len(await store.held_leases(one)) + len(await store.held_leases(two)) == len(jobs)


async def test_the_end_of_a_limited_job_in_one_store_is_heard_in_the_other(
    store: SqliteStore, other: SqliteStore
) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    await store.limit_queue("default", Limits(concurrency=1))
    await store.enqueue([a_job(), a_job()])
    (job,) = (await store.claim(a_request())).jobs

    def hear(hint: Hint) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, hint)

    stop = store.listen(hear)
    await store.ping()
    assert list(await other.settle([a_settlement(job)])) == [True]
    async with asyncio.timeout(PATIENCE):
        while await heard.get() is not Hint.JOBS:
            continue
    stop()
    assert len((await store.claim(a_request())).jobs) == 1


async def test_one_of_many_threads_gets_a_unique_key(store: SqliteStore) -> None:
    created: list[bool] = []

    async def race() -> None:
        answers = await asyncio.gather(
            *(store.enqueue([a_job(unique="only")]) for _ in range(20)),
        )
        created.extend(answer.created for (answer,) in answers)

    threads = [threading.Thread(target=asyncio.run, args=(race(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(created) == [False] * 79 + [True]


async def test_a_refused_operation_leaves_its_neighbours_alone(store: SqliteStore) -> None:
    jobs = [a_job() for _ in range(20)]
    orphan = a_job(after=("0190ffff-0000-7000-8000-000000000000",))
    answers = await asyncio.gather(
        *(store.enqueue([job]) for job in (*jobs[:10], orphan, *jobs[10:])),
        return_exceptions=True,
    )
    assert [str(answer) for answer in answers if isinstance(answer, Exception)] == [
        "job 0190ffff-0000-7000-8000-000000000000 does not exist; name jobs that do"
    ]
    assert [await store.job(job.id) for job in jobs] == jobs
    assert await store.job(orphan.id) is None


async def test_a_cancelled_caller_does_not_hold_up_others(store: SqliteStore) -> None:
    job = a_job()
    lost = asyncio.ensure_future(store.enqueue([a_job()]))
    await asyncio.sleep(0)
    lost.cancel()
    assert [answer.created for answer in await store.enqueue([job])] == [True]


def test_a_loop_that_was_closed_does_not_stop_the_store(path: str) -> None:
    store = SqliteStore(path)
    first = asyncio.new_event_loop()
    first.run_until_complete(store.open())
    task = first.create_task(store.enqueue([a_job()]))
    first.run_until_complete(asyncio.sleep(0))
    task.cancel()
    first.run_until_complete(asyncio.wait([task]))
    first.close()

    async def after() -> None:
        job = a_job()
        await store.enqueue([job])
        assert await store.job(job.id) == job
        await store.close()

    asyncio.run(after())


async def test_closing_finishes_what_was_asked_before(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    jobs = [a_job() for _ in range(500)]
    writes = [asyncio.ensure_future(store.enqueue([job])) for job in jobs]
    await asyncio.sleep(0)
    await store.close()
    answers = await asyncio.gather(*writes)
    assert all(answer.created for (answer,) in answers)
    again = SqliteStore(path)
    await again.open()
    assert len((await again.claim(a_request(limit=1_000))).jobs) == 500
    await again.close()


async def test_changes_by_another_store_are_heard(store: SqliteStore, other: SqliteStore) -> None:
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[Hint] = asyncio.Queue()

    def hear(hint: Hint) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, hint)

    stop = store.listen(hear)
    await store.ping()
    await other.enqueue([a_job()])
    async with asyncio.timeout(PATIENCE):
        while await heard.get() is not Hint.JOBS:
            continue
    stop()


async def test_settling_a_batch_of_which_some_lost_their_lease(store: SqliteStore) -> None:
    await store.enqueue([a_job() for _ in range(10)])
    jobs = (await store.claim(a_request())).jobs
    settlements = [a_settlement(job) for job in jobs]
    assert list(await store.settle(settlements[:3])) == [True] * 3
    await store.cancel([jobs[5].id], "by hand", NOW)
    assert list(await store.settle(settlements)) == [True] * 10
    assert [attempt.token for attempt in await store.attempts(jobs[0].id)] == [1]


async def test_a_store_that_is_open_may_be_opened_again(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "onbeat.db"))
    await store.open()
    await store.open()

    await store.enqueue([a_job()])
    async with asyncio.timeout(10):
        await store.close()
