"""Queues and counts, which must agree with the stored records."""

from datetime import timedelta

from onbeat.model.job import JobState
from onbeat.model.queue import NO_LIMITS, Limits, Pause, Queue, Rate
from onbeat.model.schedule import ScheduleStatus
from onbeat.ports.store import Store
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_schedule, a_worker
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    add_planned,
    run_and_end,
    run_job,
)


class QueueStatsContract:
    async def test_without_jobs_there_are_no_queues(self, store: Store) -> None:
        assert list(await store.queues(NOW)) == []

    async def test_a_queue_tells_what_stands_in_it(self, store: Store) -> None:
        await run_job(store, a_job())
        await store.enqueue([a_job(due_at=NOW - HOUR), a_job(), a_job(due_at=NOW + HOUR)])
        assert list(await store.queues(NOW)) == [
            Queue(name="default", waiting=3, due=2, running=1, oldest_due_at=NOW - HOUR)
        ]

    async def test_a_queue_that_has_nothing_due_has_no_oldest(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW + HOUR)])
        assert list(await store.queues(NOW)) == [Queue(name="default", waiting=1)]

    async def test_a_blocked_job_waits_and_is_not_due(self, store: Store) -> None:
        first = a_job(due_at=NOW + HOUR)
        await store.enqueue([first, a_job(after=(first.id,))])
        assert list(await store.queues(NOW)) == [Queue(name="default", waiting=2)]

    async def test_a_job_that_waits_for_another_try_is_due_after_its_wait(
        self, store: Store
    ) -> None:
        await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        (before,) = await store.queues(NOW)
        (after,) = await store.queues(NOW + MINUTE)
        assert (before.due, after.due) == (0, 1)

    async def test_queues_are_told_by_name(self, store: Store) -> None:
        await store.enqueue([a_job(queue=name) for name in ("b", "c", "a")])
        assert [queue.name for queue in await store.queues(NOW)] == ["a", "b", "c"]

    async def test_a_paused_queue_is_told_although_it_is_empty(self, store: Store) -> None:
        await store.pause_queue("slow", paused=True)
        assert list(await store.queues(NOW)) == [Queue(name="slow", paused=True)]

    async def test_a_resumed_queue_that_is_empty_is_not_told(self, store: Store) -> None:
        await store.pause_queue("slow", paused=True)
        await store.pause_queue("slow", paused=False)
        assert list(await store.queues(NOW)) == []

    async def test_a_pause_says_who_when_and_why_until_the_queue_is_resumed(
        self, store: Store
    ) -> None:
        pauses = [
            Pause(by="ops", at=NOW),
            Pause(by="boss", at=NOW + MINUTE, note="the bank is shut"),
        ]
        for pause in pauses:
            await store.pause_queue("slow", paused=True, pause=pause)
            assert list(await store.queues(NOW)) == [Queue(name="slow", paused=True, pause=pause)]
        await store.pause_queue("slow", paused=False)
        await store.pause_queue("slow", paused=True)
        assert list(await store.queues(NOW)) == [Queue(name="slow", paused=True)]

    async def test_a_queue_whose_jobs_have_ended_is_not_told(self, store: Store) -> None:
        await run_and_end(store, a_job())
        assert list(await store.queues(NOW)) == []

    async def test_a_queue_may_be_paused_twice(self, store: Store) -> None:
        await store.pause_queue("slow", paused=True)
        await store.pause_queue("slow", paused=True)
        await store.pause_queue("slow", paused=False)
        assert list(await store.queues(NOW)) == []

    async def test_a_limited_queue_is_told_although_it_is_empty(self, store: Store) -> None:
        limits = Limits(
            concurrency=3,
            rate=Rate(10, MINUTE),
            group_concurrency=1,
            group_rate=Rate(1, timedelta(seconds=1.5)),
        )
        await store.limit_queue("slow", limits)
        assert list(await store.queues(NOW)) == [Queue(name="slow", limits=limits)]

    async def test_limits_are_told_beside_what_stands_in_the_queue(self, store: Store) -> None:
        await store.limit_queue("default", Limits(concurrency=3))
        await run_job(store, a_job())
        await store.enqueue([a_job(due_at=NOW + HOUR)])
        assert list(await store.queues(NOW)) == [
            Queue(name="default", limits=Limits(concurrency=3), waiting=1, running=1)
        ]

    async def test_later_limits_take_the_place_of_the_earlier(self, store: Store) -> None:
        await store.limit_queue("slow", Limits(concurrency=3, group_concurrency=1))
        await store.limit_queue("slow", Limits(rate=Rate(1, SECOND)))
        assert list(await store.queues(NOW)) == [
            Queue(name="slow", limits=Limits(rate=Rate(1, SECOND)))
        ]

    async def test_a_queue_without_limits_any_more_is_not_told(self, store: Store) -> None:
        await store.limit_queue("slow", Limits(concurrency=3))
        await store.limit_queue("slow", NO_LIMITS)
        assert list(await store.queues(NOW)) == []

    async def test_pause_and_limits_are_kept_apart(self, store: Store) -> None:
        await store.limit_queue("slow", Limits(concurrency=3))
        await store.pause_queue("slow", paused=True)
        await store.limit_queue("slow", Limits(concurrency=4))
        assert list(await store.queues(NOW)) == [
            Queue(name="slow", paused=True, limits=Limits(concurrency=4))
        ]
        await store.limit_queue("slow", NO_LIMITS)
        assert list(await store.queues(NOW)) == [Queue(name="slow", paused=True)]

    async def test_a_resumed_queue_keeps_its_limits(self, store: Store) -> None:
        await store.pause_queue("slow", paused=True)
        await store.limit_queue("slow", Limits(concurrency=3))
        await store.pause_queue("slow", paused=False)
        assert list(await store.queues(NOW)) == [Queue(name="slow", limits=Limits(concurrency=3))]


class QueueNameContract:
    async def test_at_first_no_queue_has_a_name(self, store: Store) -> None:
        assert list(await store.queue_names()) == []

    async def test_queues_that_were_named_are_told_by_name(self, store: Store) -> None:
        await store.name_queues(["b", "a"])
        await store.name_queues({"c", "a"})
        await store.name_queues([])
        assert list(await store.queue_names()) == ["a", "b", "c"]

    async def test_names_are_told_apart_by_every_character(self, store: Store) -> None:
        await store.name_queues(["queue", "Queue", "qüeue", "queue "])
        assert sorted(await store.queue_names()) == ["Queue", "queue", "queue ", "qüeue"]

    async def test_a_name_alone_is_no_queue_to_be_told(self, store: Store) -> None:
        await store.name_queues(["a"])
        assert list(await store.queues(NOW)) == []

    async def test_naming_a_queue_changes_nothing_else(self, store: Store) -> None:
        await store.limit_queue("a", Limits(concurrency=1))
        await store.pause_queue("a", paused=True)
        await store.name_queues(["a"])
        assert list(await store.queues(NOW)) == [
            Queue(name="a", paused=True, limits=Limits(concurrency=1))
        ]

    async def test_a_queue_that_was_paused_or_limited_has_its_name_kept(self, store: Store) -> None:
        await store.pause_queue("a", paused=True)
        await store.pause_queue("a", paused=False)
        await store.limit_queue("b", Limits(concurrency=1))
        await store.limit_queue("b", NO_LIMITS)
        assert list(await store.queue_names()) == ["a", "b"]


class StatsContract:
    async def test_jobs_are_counted_by_state(self, store: Store) -> None:
        await run_and_end(store, a_job())
        await run_and_end(store, a_job(), FAILURE)
        cancelled = a_job()
        await store.enqueue([cancelled])
        await store.cancel([cancelled.id], "by hand", NOW)
        await run_job(store, a_job())
        await store.enqueue([a_job(), a_job()])
        counts = (await store.stats(NOW)).jobs
        assert {state: counts.get(state, 0) for state in JobState} == {
            JobState.WAITING: 2,
            JobState.RUNNING: 1,
            JobState.SUCCEEDED: 1,
            JobState.FAILED: 1,
            JobState.CANCELLED: 1,
        }

    async def test_schedules_are_counted_by_status(self, store: Store) -> None:
        for status in (ScheduleStatus.ACTIVE, ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED):
            await add_planned(store, a_schedule(status=status))
        counts = (await store.stats(NOW)).schedules
        assert (counts.get("active"), counts.get("paused")) == (2, 1)

    async def test_workers_are_counted(self, store: Store) -> None:
        await store.heartbeat(a_worker())
        await store.heartbeat(a_worker())
        assert (await store.stats(NOW)).workers == 2

    async def test_the_longest_wait_of_a_due_job_is_told(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW - MINUTE), a_job(), a_job(due_at=NOW + HOUR)])
        assert (await store.stats(NOW)).oldest_due_seconds == 60.0

    async def test_with_nothing_due_nothing_has_waited(self, store: Store) -> None:
        await store.enqueue([a_job(due_at=NOW + HOUR)])
        assert (await store.stats(NOW)).oldest_due_seconds == 0.0

    async def test_waiting_jobs_that_no_worker_can_run_are_counted_by_task(
        self, store: Store
    ) -> None:
        await store.heartbeat(a_worker(lanes=("work",)))
        await store.enqueue([a_job("work"), a_job("unknown"), a_job("unknown")])
        assert (await store.stats(NOW)).unknown_tasks == {"unknown": 2}

    async def test_a_pruned_job_is_not_counted(self, store: Store) -> None:
        await run_and_end(store, a_job())
        await store.prune(finished_before=NOW + HOUR, failed_before=NOW + HOUR, limit=10)
        assert sum((await store.stats(NOW)).jobs.values()) == 0
