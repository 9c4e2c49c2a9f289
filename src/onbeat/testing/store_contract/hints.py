"""Opening and closing a store, and its hints of changes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from onbeat.model.queue import Limits
from onbeat.model.worker import FIRST_BEAT
from onbeat.ports.store import Hint, Store
from onbeat.testing.build import NOW, a_job, a_schedule, a_worker
from onbeat.testing.store_contract.steps import FAILURE, add_planned, end, run_and_end, run_job

PATIENCE = 5.0
"""Seconds within which a hint must arrive; far more than needed."""


@asynccontextmanager
async def expect_hint(store: Store, hint: Hint) -> AsyncGenerator[None, None]:
    """Fails unless the store sends this hint within the block or soon after it."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()

    def listener(answer: Hint) -> None:
        if answer is hint:
            loop.call_soon_threadsafe(came.set)

    stop = store.listen(listener)
    try:
        yield
        await asyncio.wait_for(came.wait(), PATIENCE)
    finally:
        stop()


class HintContract:
    async def test_new_jobs_are_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.JOBS):
            await store.enqueue([a_job()])

    async def test_a_job_that_goes_on_is_told(self, store: Store) -> None:
        job = await run_and_end(store, a_job(), FAILURE)
        async with expect_hint(store, Hint.JOBS):
            await store.retry([job.id], NOW)

    async def test_a_job_that_becomes_free_is_told(self, store: Store) -> None:
        job = await run_job(store, a_job())
        await store.enqueue([a_job(after=(job.id,))])
        async with expect_hint(store, Hint.JOBS):
            await end(store, job)

    async def test_a_resumed_queue_is_told(self, store: Store) -> None:
        await store.pause_queue("slow", paused=True)
        async with expect_hint(store, Hint.JOBS):
            await store.pause_queue("slow", paused=False)

    async def test_new_limits_of_a_queue_are_told(self, store: Store) -> None:
        await store.limit_queue("slow", Limits(concurrency=1))
        async with expect_hint(store, Hint.JOBS):
            await store.limit_queue("slow", Limits(concurrency=2))

    async def test_a_new_schedule_is_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.SCHEDULES):
            await add_planned(store, a_schedule())

    async def test_an_edit_of_a_schedule_is_told(self, store: Store) -> None:
        schedule = a_schedule()
        await add_planned(store, schedule)
        async with expect_hint(store, Hint.SCHEDULES):
            await store.update_schedule(replace(schedule, version=2), None, NOW)

    async def test_a_request_to_stop_is_told(self, store: Store) -> None:
        job = await run_job(store, a_job())
        async with expect_hint(store, Hint.CANCELS):
            await store.cancel([job.id], "by hand", NOW)

    async def test_a_new_worker_is_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.WORKERS):
            await store.heartbeat(a_worker(beat=FIRST_BEAT))

    async def test_the_end_of_a_job_is_told(self, store: Store) -> None:
        job = await run_job(store, a_job())
        async with expect_hint(store, Hint.ENDED):
            await end(store, job)

    async def test_the_end_of_a_cancelled_job_is_told(self, store: Store) -> None:
        job = a_job()
        await store.enqueue([job])
        async with expect_hint(store, Hint.ENDED):
            await store.cancel([job.id], "by hand", NOW)

    async def test_a_listener_that_raises_undoes_nothing(self, store: Store) -> None:
        def listener(hint: Hint) -> None:
            raise ValueError(hint)

        stop = store.listen(listener)
        async with expect_hint(store, Hint.JOBS):
            await store.enqueue([a_job()])
        stop()

    async def test_one_function_may_listen_twice(self, store: Store) -> None:
        loop, came = asyncio.get_running_loop(), asyncio.Event()

        def listener(_: Hint) -> None:
            loop.call_soon_threadsafe(came.set)

        stops = [store.listen(listener), store.listen(listener)]
        stops[0]()
        stops[0]()
        await store.enqueue([a_job()])
        await asyncio.wait_for(came.wait(), PATIENCE)
        stops[1]()

    async def test_every_listener_is_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.JOBS), expect_hint(store, Hint.JOBS):
            await store.enqueue([a_job()])

    async def test_who_has_stopped_listening_is_not_told(self, store: Store) -> None:
        answer: list[Hint] = []
        stop = store.listen(answer.append)
        stop()
        async with expect_hint(store, Hint.JOBS):
            await store.enqueue([a_job()])
        assert answer == []

    async def test_one_may_stop_listening_twice(self, store: Store) -> None:
        stop = store.listen(lambda _: None)
        stop()
        stop()

    async def test_a_listener_may_ask_the_store_again(self, store: Store) -> None:
        stop = store.listen(lambda _: store.listen(lambda _: None)())
        async with expect_hint(store, Hint.JOBS):
            await store.enqueue([a_job()])
        stop()


class OpeningContract:
    async def test_an_open_store_answers(self, store: Store) -> None:
        await store.ping()

    async def test_a_store_may_be_closed_twice(self, store: Store) -> None:
        await store.close()
        await store.close()

    async def test_a_store_says_where_it_is(self, store: Store) -> None:
        assert "://" in store.url

    async def test_the_doctor_names_a_remedy_for_all_that_is_not_well(self, store: Store) -> None:
        findings = await store.doctor()
        assert findings
        assert [finding for finding in findings if not finding.ok and not finding.remedy] == []
