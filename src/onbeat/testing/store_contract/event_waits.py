"""Waits of running jobs for events: no event is missed, and none counts twice."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.event import StoredEvent
from onbeat.model.event_wait import AwaitedKey, EventWait, FreedWait, WaitResult
from onbeat.model.ids import EventSeq, Token
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Failed, Snoozed
from onbeat.model.route import Routing
from onbeat.ports.events import EventFilter
from onbeat.ports.store import SentJobs, Settlement, Store
from onbeat.rules.event_waits import FREED, freed_waits, key_of, reason_of, with_freed
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job
from onbeat.testing.store_contract.copy.jobs import (
    CopyDirection,
    both_ways,
    copy,
    source_and_target,
)
from onbeat.testing.store_contract.events import an_event, published, stored_event
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    SUCCESS,
    claim_jobs,
    end,
    run_job,
    stored_job,
)

REVIEWED = "invoice.reviewed"
KEY = AwaitedKey(REVIEWED, "42")
ROUNDS = 10
LATE = NOW + 8 * DAY


def a_wait(job: Job, **fields: Any) -> EventWait:
    wait = EventWait(
        job_id=job.id,
        step="review",
        type=REVIEWED,
        by="42",
        since=EventSeq(0),
        until=NOW + 7 * DAY,
    )
    return replace(wait, **fields)


async def begin_wait(store: Store, job: Job, **fields: Any) -> EventWait:
    wait = a_wait(job, **fields)
    sent = SentJobs(sender=job.id, token=job.token, jobs=(), wait=wait)
    assert list(await store.enqueue_from([sent])) == [True]
    return wait


async def newest(store: Store) -> EventSeq:
    """The newest event, as a handler reads it at its first call."""
    events = await store.events(EventFilter(limit=1))
    return events[0].seq if events else EventSeq(0)


def parking(job: Job, wait: EventWait, now: datetime = NOW) -> Settlement:
    """The settlement of a handler that waits for an event."""
    delay = (wait.until or now + 100 * DAY) - now
    outcome = Snoozed(delay, reason_of(wait, is_sensitive=False), awaits=wait.step)
    return Settlement(
        job=settle(job, outcome, now, 0.0),
        attempt=attempt_of(job, outcome, now),
        awaits=wait.step,
    )


async def park(store: Store, job: Job, wait: EventWait) -> Job:
    assert list(await store.settle([parking(job, wait)])) == [True]
    return await stored_job(store, job)


async def parked_job(store: Store, **fields: Any) -> tuple[Job, EventWait]:
    """A job that is put off until an event."""
    job = await run_job(store, a_job())
    wait = await begin_wait(store, job, **({"since": await newest(store)} | fields))
    assert await ask(store, job, wait) == WaitResult(is_open=True)
    return await park(store, job, wait), wait


async def ask(store: Store, job: Job, wait: EventWait, now: datetime = NOW) -> WaitResult:
    """What has become of the wait, as its running job reads it."""
    answer = await store.await_event(wait, job.token, now)
    assert answer is not None, "the lease is held"
    return answer


async def review(store: Store, **fields: Any) -> StoredEvent:
    """Publish an event that a wait is for."""
    event = an_event(**({"type": REVIEWED, "subject": "42"} | fields))
    await store.publish([event], NOW)
    return await stored_event(store, event.id)


async def decision(store: Store, at: datetime = NOW) -> Routing:
    """What a router decides about all events without a decision, where no schedule wants them."""
    events = (await store.unrouted_events(100)).events
    waits = await store.open_waits({key_of(one.event) for one in events}, 100)
    routing = Routing(verdicts={one.seq: () for one in events}, at=at)
    return with_freed(routing, freed_waits(events, waits))


async def route(store: Store, at: datetime = NOW) -> bool:
    return await store.route(await decision(store, at))


async def open_steps(store: Store, key: AwaitedKey = KEY, limit: int = 9) -> list[str]:
    return [wait.step for wait in await store.open_waits([key], limit)]


async def claim_again(store: Store, job: Job, now: datetime = NOW) -> Job:
    (claimed,) = await claim_jobs(store, now=now)
    assert claimed.id == job.id
    return claimed


class EventWaitContract:
    async def test_an_event_frees_the_job_that_waits_for_it(self, store: Store) -> None:
        job, wait = await parked_job(store)
        assert (job.state, job.due_at, job.attempt) == (JobState.WAITING, wait.until, 0)
        event = await review(store)
        assert await route(store, NOW + MINUTE)
        assert (await stored_job(store, job)).due_at == NOW + MINUTE
        claimed = await claim_again(store, job, NOW + MINUTE)
        answer = await ask(store, claimed, wait)
        assert (answer.is_open, answer.event and answer.event.event) == (False, event.event)

    async def test_the_event_says_which_jobs_it_freed(self, store: Store) -> None:
        job, _ = await parked_job(store)
        event = await review(store)
        assert await route(store)
        (verdict,) = (await stored_event(store, event.event.id)).verdicts
        assert (verdict.schedule_id, verdict.job_id, verdict.reason) == ("", job.id, FREED)

    async def test_every_later_attempt_gets_the_same_event(self, store: Store) -> None:
        job, wait = await parked_job(store)
        event = await review(store)
        assert await route(store)
        for _ in range(2):
            claimed = await claim_again(store, job)
            await review(store)
            assert await route(store)
            answer = await ask(store, claimed, wait)
            assert answer.event is not None
            assert answer.event.seq == event.seq
            job = await end(store, claimed, Snoozed(timedelta()))

    async def test_an_event_between_the_call_and_the_parking_frees_the_job(
        self, store: Store
    ) -> None:
        job = await run_job(store, a_job())
        wait = await begin_wait(store, job)
        assert await ask(store, job, wait) == WaitResult(is_open=True)
        await review(store)
        assert await route(store)
        assert (await stored_job(store, job)).state is JobState.RUNNING
        parked = await park(store, job, wait)
        assert (parked.state, parked.due_at) == (JobState.WAITING, NOW)

    async def test_an_event_that_was_routed_before_the_wait_was_stored_is_found(
        self, store: Store
    ) -> None:
        early = await review(store)
        job = await run_job(store, a_job())
        await review(store, type="invoice.sent")
        await review(store, subject="43")
        event = await review(store)
        later = await review(store)
        assert await route(store)
        wait = await begin_wait(store, job, since=early.seq)
        answer = await ask(store, job, wait)
        assert answer.event is not None
        assert answer.event.seq == event.seq != later.seq

    async def test_the_look_back_reads_page_by_page(self, store: Store) -> None:
        for _ in range(3):
            others = [an_event(type=REVIEWED, subject="43") for _ in range(15)]
            await store.publish(others, NOW)
        event = await review(store)
        assert await route(store)
        job = await run_job(store, a_job())
        answer = await ask(store, job, await begin_wait(store, job, type="invoice.*"))
        assert answer.event is not None
        assert answer.event.seq == event.seq

    async def test_an_event_before_the_first_call_does_not_count(self, store: Store) -> None:
        early = await review(store)
        assert await route(store)
        job = await run_job(store, a_job())
        wait = await begin_wait(store, job, since=early.seq)
        assert await ask(store, job, wait) == WaitResult(is_open=True)
        assert (await park(store, job, wait)).due_at == wait.until

    @pytest.mark.parametrize(
        ("type", "subject"),
        [(REVIEWED, "43"), (REVIEWED, None), ("invoice.sent", "42"), (REVIEWED + ".late", "42")],
    )
    async def test_a_wait_is_for_one_type_and_subject(
        self, store: Store, type: str, subject: str | None
    ) -> None:
        await parked_job(store)
        assert await open_steps(store) == ["review"]
        assert await open_steps(store, AwaitedKey(type, subject)) == []

    @pytest.mark.parametrize("pattern", ["invoice.*", "*", REVIEWED + "*", REVIEWED])
    async def test_a_pattern_and_any_subject(self, store: Store, pattern: str) -> None:
        await parked_job(store, type=pattern, by=None)
        for subject in ("42", "größe", None):
            assert await open_steps(store, AwaitedKey(REVIEWED, subject)) == ["review"]
        other = await open_steps(store, AwaitedKey("order.paid"))
        assert other == (["review"] if pattern == "*" else [])

    async def test_waits_are_read_in_order_and_bounded(self, store: Store) -> None:
        jobs = [a_job() for _ in range(3)]
        for job in jobs:
            running = await run_job(store, job)
            for step in ("b", "a"):
                await begin_wait(store, running, step=step, by=None if step == "a" else "42")
        keys = [KEY, AwaitedKey(REVIEWED, "43")]
        found = [(wait.job_id, wait.step) for wait in await store.open_waits(keys, 100)]
        assert found == sorted((job.id, step) for job in jobs for step in "ab")
        assert len(await store.open_waits(keys, 4)) == 4

    async def test_a_wait_ends_without_an_event(self, store: Store) -> None:
        job, wait = await parked_job(store)
        assert wait.until is not None
        claimed = await claim_again(store, job, wait.until)
        assert await ask(store, claimed, wait, wait.until) == WaitResult(is_open=False)
        await review(store)
        assert await open_steps(store) == []
        assert await route(store)
        assert await ask(store, claimed, wait, NOW) == WaitResult(is_open=False)

    async def test_a_wait_without_a_bound_stays_open(self, store: Store) -> None:
        job, wait = await parked_job(store, until=None)
        claimed = await claim_again(store, job, job.due_at)
        assert await ask(store, claimed, wait, job.due_at) == WaitResult(is_open=True)

    async def test_only_the_holder_of_the_lease_reads_and_writes(self, store: Store) -> None:
        job = await run_job(store, a_job())
        stale = Token(job.token + 1)
        sent = SentJobs(sender=job.id, token=stale, jobs=(), wait=a_wait(job))
        assert list(await store.enqueue_from([sent])) == [False]
        assert await store.await_event(a_wait(job), stale, NOW) is None
        assert await open_steps(store) == []

    async def test_a_wait_that_was_lost_is_added_again(self, store: Store) -> None:
        job = await run_job(store, a_job())
        assert await ask(store, job, a_wait(job, since=None)) == WaitResult(is_open=True)
        assert await open_steps(store) == ["review"]

    async def test_a_job_that_waits_for_its_retry_is_not_hurried(self, store: Store) -> None:
        job = await run_job(store, a_job(retry=IN_A_MINUTE))
        wait = await begin_wait(store, job)
        again = await end(store, job, PASSING_FAILURE)
        await review(store)
        assert await route(store)
        assert (await stored_job(store, job)).due_at == again.due_at == NOW + MINUTE
        claimed = await claim_again(store, job, NOW + MINUTE)
        assert (await ask(store, claimed, wait)).event is not None

    async def test_a_new_wait_replaces_one_of_the_same_step(self, store: Store) -> None:
        job, wait = await parked_job(store)
        event = await review(store)
        assert await route(store)
        claimed = await claim_again(store, job)
        wait = await begin_wait(store, claimed, since=event.seq)
        assert await ask(store, claimed, wait) == WaitResult(is_open=True)

    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Failed("no")])
    async def test_an_ended_job_waits_for_nothing(self, store: Store, outcome: Any) -> None:
        job = await run_job(store, a_job())
        await begin_wait(store, job)
        if isinstance(outcome, Failed) and outcome.retryable:
            await store.cancel([job.id], "enough", NOW)
            outcome = Snoozed(HOUR)
        assert (await end(store, job, outcome)).is_final
        assert await open_steps(store) == []
        await store.prune_events(NOW, 100)
        assert not await store.export_event_waits(None, 9)

    async def test_a_job_that_was_cancelled_and_retried_waits_anew(self, store: Store) -> None:
        job, _ = await parked_job(store)
        await store.cancel([job.id], "enough", NOW)
        await review(store)
        assert await route(store)
        (again,) = await store.retry([job.id], NOW + SECOND)
        assert again is not None
        claimed = await claim_again(store, job, NOW + SECOND)
        wait = await begin_wait(store, claimed, since=await newest(store))
        assert await ask(store, claimed, wait) == WaitResult(is_open=True)

    async def test_an_event_that_ended_a_wait_is_kept_with_the_job(self, store: Store) -> None:
        job, wait = await parked_job(store)
        event = await review(store)
        other = await review(store)
        assert await route(store)
        await store.prune_events(LATE, 100)
        assert not await store.events_by_id(other.event.id)
        claimed = await claim_again(store, job)
        answer = await ask(store, claimed, wait)
        assert answer.event is not None
        assert answer.event.event == event.event
        await end(store, claimed)
        await store.prune_events(LATE + 2 * HOUR, 100)
        assert not await store.events_by_id(event.event.id)

    async def test_of_two_routers_one_ends_the_wait(self, store: Store) -> None:
        await parked_job(store)
        await review(store)
        one, other = await decision(store), await decision(store)
        answers = await asyncio.gather(store.route(one), store.route(other))
        assert sorted(answers) == [False, True]

    async def test_waits_may_end_before_their_event_is_decided(self, store: Store) -> None:
        """Of many waits, some are ended at a time."""
        first, _ = await parked_job(store)
        second, _ = await parked_job(store)
        event = await review(store)
        part = Routing(verdicts={}, at=NOW, freed=(FreedWait(first.id, "review", event.seq),))
        assert await store.route(part)
        assert not await store.route(part)
        assert (await stored_job(store, first)).due_at == NOW
        assert await open_steps(store) == ["review"]
        assert await route(store)
        assert (await stored_job(store, second)).due_at == NOW

    async def test_an_event_and_the_parking_never_miss_each_other(self, store: Store) -> None:
        for _ in range(ROUNDS):
            job = await run_job(store, a_job())
            wait = await begin_wait(store, job, since=await newest(store))
            assert await ask(store, job, wait) == WaitResult(is_open=True)
            await review(store)
            await asyncio.gather(store.settle([parking(job, wait)]), route(store))
            claimed = await claim_again(store, job)
            assert (await ask(store, claimed, wait)).event is not None
            await end(store, claimed)

    async def test_an_event_and_the_call_never_miss_each_other(self, store: Store) -> None:
        for _ in range(ROUNDS):
            job = await run_job(store, a_job())
            since = await newest(store)

            async def publish_and_route() -> None:
                await review(store)
                await route(store)

            async def call_and_park(job: Job = job, since: EventSeq = since) -> None:
                wait = await begin_wait(store, job, since=since)
                if (await ask(store, job, wait)).is_open:
                    await park(store, job, wait)
                else:
                    await end(store, job, Snoozed(timedelta()))

            await asyncio.gather(publish_and_route(), call_and_park())
            claimed = await claim_again(store, job)
            assert (await ask(store, claimed, a_wait(job))).event is not None
            await end(store, claimed)

    async def test_the_end_of_a_wait_and_its_event_agree(self, store: Store) -> None:
        """Both at once: the job gets the event, or the event frees nobody."""
        for _ in range(ROUNDS):
            job, wait = await parked_job(store)
            assert wait.until is not None
            claimed = await claim_again(store, job, wait.until)
            event = await review(store)
            answer, _ = await asyncio.gather(ask(store, claimed, wait, wait.until), route(store))
            if (await store.unrouted_events(9)).events:
                assert await route(store)
            freed = bool((await stored_event(store, event.event.id)).verdicts)
            assert (answer.event is not None) is freed
            await end(store, claimed, now=wait.until)


class CopiedWaitContract:
    @both_ways
    async def test_waits_are_copied_with_their_events(
        self, store: Store, way: CopyDirection
    ) -> None:
        target, source = source_and_target(store, way)
        await published(target)
        first, wait = await parked_job(source)
        second, _ = await parked_job(source, type="order.*", by=None)
        event = await review(source)
        assert await route(source)
        await copy(source, target)
        await target.import_events(await source.export_events(None, 9))
        exports = await source.export_event_waits(None, 9)
        assert [one.wait.job_id for one in exports] == sorted([first.id, second.id])
        page = await source.export_event_waits((first.id, "review"), 9)
        assert [one.wait.job_id for one in page] == [second.id]
        assert await target.import_event_waits(exports) == 2
        assert await target.import_event_waits(exports) == 0
        (open_wait,) = await target.open_waits([AwaitedKey("order.paid"), KEY], 9)
        assert open_wait.job_id == second.id
        claimed = await claim_again(target, first)
        answer = await ask(target, claimed, wait)
        assert answer.event is not None
        assert answer.event.event == event.event

    @both_ways
    async def test_a_wait_that_ended_in_the_target_stays(
        self, store: Store, way: CopyDirection
    ) -> None:
        target, source = source_and_target(store, way)
        await parked_job(source)
        before = await source.export_event_waits(None, 9)
        await copy(source, target)
        assert await target.import_event_waits(before) == 1
        await review(target)
        assert await route(target)
        assert await target.import_event_waits(before) == 0
        assert await open_steps(target) == []

    @both_ways
    async def test_a_wait_of_a_job_that_is_not_there_is_left_out(
        self, store: Store, way: CopyDirection
    ) -> None:
        target, source = source_and_target(store, way)
        await parked_job(source)
        exports = await source.export_event_waits(None, 9)
        assert await target.import_event_waits(exports) == 0
        assert not await target.export_event_waits(None, 9)
