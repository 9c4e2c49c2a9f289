"""Queues that are watched for lateness."""

import asyncio
from datetime import timedelta

from onbeat.model.ids import JobId
from onbeat.model.queue import LatenessChange, Limits, WatchedQueue
from onbeat.model.schedule import ScheduleStatus
from onbeat.ports.store import Store
from onbeat.rules.lateness import TYPE, late_event, lateness_changes
from onbeat.testing.build import HOUR, MINUTE, NOW, SECOND, a_job, a_plan, a_schedule
from onbeat.testing.store_contract.own_events import data_of, listen_for, published
from onbeat.testing.store_contract.steps import claim_jobs

WATCHED = Limits(late_after=MINUTE)
LATER = NOW + HOUR


async def oldest_of(store: Store, queue: str = "slow") -> JobId | None:
    (watched,) = [one for one in await store.watched_queues(LATER) if one.name == queue]
    return watched.oldest


async def judge(store: Store, seconds: int = 3_600) -> int:
    """One look at the watched queues; returns how many changed."""
    now = NOW + seconds * SECOND
    changes = lateness_changes(await store.watched_queues(now), now)
    return await store.note_lateness(changes, now)


class LatenessContract:
    async def test_only_queues_with_late_after_are_watched(self, store: Store) -> None:
        await store.limit_queue("limited", Limits(concurrency=1))
        await store.limit_queue("slow", Limits(concurrency=1, late_after=90 * SECOND))
        await store.limit_queue("a", WATCHED)
        await store.pause_queue("a", paused=True)
        await store.name_queues(["named"])
        assert list(await store.watched_queues(NOW)) == [
            WatchedQueue(name="a", paused=True, late_after=MINUTE),
            WatchedQueue(name="slow", paused=False, late_after=90 * SECOND),
        ]
        shown = {queue.name: queue.limits for queue in await store.queues(NOW)}
        assert shown == {
            "a": WATCHED,
            "limited": Limits(concurrency=1),
            "slow": Limits(concurrency=1, late_after=90 * SECOND),
        }
        await store.limit_queue("slow", Limits(concurrency=1))
        await store.limit_queue("a", Limits())
        assert list(await store.watched_queues(NOW)) == []

    async def test_a_queue_that_is_only_watched_is_claimed_as_without(self, store: Store) -> None:
        await store.limit_queue("slow", Limits(late_after=timedelta(microseconds=1_000_001)))
        await store.enqueue([a_job(queue="slow", group=group) for group in (None, "a", "a")])
        assert len(await claim_jobs(store)) == 3

    async def test_the_oldest_due_job_is_found_in_every_ready_list(self, store: Store) -> None:
        await store.limit_queue("slow", WATCHED)
        assert await oldest_of(store) is None
        lists = [(priority, group) for priority in (-5, 0, 7) for group in (None, "a", "b")]
        ages = (4, 8, 2, 9, 3, 7, 1, 6, 5)  # minutes; the last are due first
        jobs = [
            a_job(queue="slow", due_at=NOW - age * MINUTE, priority=priority, group=group)
            for age, (priority, group) in zip(ages, lists, strict=True)
        ]
        others = [a_job(queue=name, due_at=NOW - HOUR) for name in ("slo", "slow ", "slower", "a")]
        await store.enqueue([*jobs, *others])
        by_age = [job for _, job in sorted(zip(ages, jobs, strict=True), key=lambda it: -it[0])]
        for job in by_age:
            assert await oldest_of(store) == job.id
            await store.cancel([job.id], "by hand", NOW)
        assert await oldest_of(store) is None

    async def test_jobs_that_may_not_be_claimed_make_no_queue_late(self, store: Store) -> None:
        await store.limit_queue("slow", WATCHED)
        first = a_job(queue="other")
        schedule = a_schedule(status=ScheduleStatus.PAUSED)
        await store.add_schedule(schedule, a_plan(schedule))
        await store.enqueue(
            [
                first,
                a_job(queue="slow", after=(first.id,)),
                a_job(queue="slow", due_at=LATER + SECOND),
                a_job(queue="slow", schedule_id=schedule.id),
            ]
        )
        assert await oldest_of(store) is None
        await store.enqueue([mine := a_job(queue="slow", due_at=LATER)])
        assert await oldest_of(store) == mine.id
        await claim_jobs(store, now=LATER)
        assert await oldest_of(store) is None

    async def test_a_queue_that_becomes_late_is_one_event(self, store: Store) -> None:
        await listen_for(store, TYPE)
        await store.limit_queue("slow", WATCHED)
        await store.pause_queue("slow", paused=True)
        await store.enqueue([job := a_job(queue="slow")])
        assert await judge(store, 60) == 0
        assert await judge(store, 61) == 1
        assert await judge(store, 62) == 0
        (event,) = await published(store)
        assert (event.type, event.source, event.subject) == (TYPE, "onbeat", "slow")
        assert event.extensions == {"onbeatdepth": 1}
        assert data_of(event) == {
            "queue": "slow",
            "paused": True,
            "job": job.id,
            "due_at": "2030-01-01T12:00:00Z",
            "waited": 61.0,
            "late_after": 60.0,
        }

    async def test_a_queue_that_is_late_again_is_another_event(self, store: Store) -> None:
        await listen_for(store, TYPE)
        await store.limit_queue("slow", WATCHED)
        for minutes in (2, 20):
            at = NOW + minutes * MINUTE
            await store.enqueue([job := a_job(queue="slow", due_at=NOW)])
            assert await judge(store, minutes * 60) == 1
            await store.cancel([job.id], "by hand", at)
            assert await judge(store, minutes * 60 + 1) == 1
        times = [event.time for event in await published(store)]
        assert times == [NOW + 2 * MINUTE, NOW + 20 * MINUTE]

    async def test_processes_that_notice_together_write_one_event(self, store: Store) -> None:
        await listen_for(store, TYPE)
        await store.limit_queue("slow", WATCHED)
        await store.enqueue([a_job(queue="slow")])
        (seen,) = await store.watched_queues(LATER)
        late = [
            LatenessChange(queue="slow", event=late_event(seen, LATER + n * SECOND))
            for n in range(5)
        ]
        noted = await asyncio.gather(
            *(store.note_lateness([one], LATER + n * SECOND) for n, one in enumerate(late))
        )
        assert sorted(noted) == [0, 0, 0, 0, 1]
        assert len(await published(store)) == 1
        in_time = [LatenessChange(queue="slow", event=None)]
        noted = await asyncio.gather(*(store.note_lateness(in_time, LATER) for _ in range(3)))
        assert sorted(noted) == [0, 0, 1]

    async def test_lateness_that_nobody_asks_for_is_noted_once_somebody_does(
        self, store: Store
    ) -> None:
        await store.limit_queue("slow", WATCHED)
        await store.enqueue([a_job(queue="slow")])
        assert await judge(store) == 0
        await listen_for(store, "onbeat.queue.*")
        assert await judge(store) == 1
        assert len(await published(store)) == 1

    async def test_a_queue_that_is_watched_no_longer_is_not_late(self, store: Store) -> None:
        await listen_for(store, TYPE)
        await store.limit_queue("slow", WATCHED)
        await store.enqueue([a_job(queue="slow")])
        (seen,) = await store.watched_queues(LATER)
        await store.limit_queue("slow", Limits(concurrency=5))
        change = LatenessChange(queue="slow", event=late_event(seen, LATER))
        assert await store.note_lateness([change], LATER) == 0
        await store.limit_queue("slow", WATCHED)
        assert await judge(store) == 1
        await store.limit_queue("slow", Limits(late_after=2 * MINUTE))
        (watched,) = await store.watched_queues(LATER)
        assert watched.late_since == LATER
        await store.limit_queue("slow", Limits())
        await store.limit_queue("slow", WATCHED)
        assert await judge(store, 3_700) == 1
