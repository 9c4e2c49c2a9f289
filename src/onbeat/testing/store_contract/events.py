"""Events: what is published, routed, replayed and pruned."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.errors import RequestInFlight
from onbeat.model.event import Event, EventCause, EventVerdict, StoredEvent
from onbeat.model.ids import EventSeq, JobId
from onbeat.model.job import Job, JobState
from onbeat.model.reaction import EventPattern, Gather, Keep
from onbeat.model.route import Carried, EventKey, KeyedJob, Routing
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.ports.events import EventFilter
from onbeat.ports.store import Hint, Store
from onbeat.testing.build import DAY, HOUR, MINUTE, NOW, SECOND, a_job, a_plan, a_schedule, an_id
from onbeat.testing.store_contract.hints import expect_hint
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.races import in_threads
from onbeat.testing.store_contract.steps import (
    SUCCESS,
    claim_jobs,
    end,
    run_and_end,
    stored_job,
)

PAID = "order.paid"
REASON = "event e-1"


def an_event(**fields: Any) -> Event:
    event = Event(id=an_id(), source="/shop", type=PAID, time=NOW)
    return replace(event, **fields)


def a_reaction(*patterns: EventPattern, **fields: Any) -> Schedule:
    """A schedule for events of these patterns, by default of paid orders."""
    return a_schedule(on=patterns or (EventPattern(PAID),), plan_at=None, **fields)


async def add_reaction(store: Store, *patterns: EventPattern, **fields: Any) -> Schedule:
    schedule = a_reaction(*patterns, **fields)
    await store.add_schedule(schedule, a_plan(schedule))
    return schedule


async def published(store: Store, *events: Event, now: datetime = NOW) -> tuple[StoredEvent, ...]:
    """Publish these events, or one, and return those without a decision."""
    await store.publish(events or (an_event(),), now)
    return (await store.unrouted_events(100)).events


def a_reaction_job(schedule: Schedule, **fields: Any) -> Job:
    job = a_job(schedule_id=schedule.id, cause=EventCause(PAID), due_at=NOW + HOUR)
    return replace(job, **fields)


def a_routing(
    events: Sequence[StoredEvent], schedule: Schedule, job: Job | None = None, **fields: Any
) -> Routing:
    """The decision that these events make the job, or none."""
    verdict = EventVerdict(schedule.id, None if job is None else job.id)
    routing = Routing(
        verdicts={one.seq: (verdict,) for one in events},
        at=NOW + SECOND,
        versions={schedule.id: schedule.version},
        jobs=() if job is None else (job,),
        carried=tuple(Carried(one.seq, job.id, schedule.id) for one in events if job is not None),
    )
    return replace(routing, **fields)


def a_keyed_job(job: Job, by: str = "o-1", **fields: Any) -> KeyedJob:
    assert job.schedule_id is not None
    keyed = KeyedJob(
        key=EventKey(job.schedule_id, by), job_id=job.id, opened_at=NOW, due_at=job.due_at
    )
    return replace(keyed, **fields)


async def stored_event(store: Store, id: str) -> StoredEvent:
    (event,) = await store.events_by_id(id)
    return event


async def open_job(store: Store, schedule: Schedule, by: str = "o-1", **fields: Any) -> Job:
    """A job that was made for a new event with this key."""
    job = a_reaction_job(schedule, **fields)
    events = await published(store)
    assert await store.route(a_routing(events, schedule, job, keyed=(a_keyed_job(job, by),)))
    return job


class PublishContract:
    async def test_an_event_is_kept_as_it_came(self, store: Store) -> None:
        event = an_event(
            source="https://größe.example/\u2028",
            subject="o-1",
            datacontenttype="application/json",
            dataschema="https://example.com/schema",
            data=msgspec.Raw(b'{"amount": 12.50, "name": "\\u00e4\\n"}'),
            time=NOW - timedelta(microseconds=1),
            extensions={"onbeatdepth": 2, "trace": "x", "urgent": True},
        )
        assert list(await store.publish([event], NOW)) == [True]
        (stored,) = await store.events(EventFilter(limit=9))
        assert stored == StoredEvent(seq=stored.seq, event=event, received_at=NOW)
        assert stored.event.data is not None
        assert bytes(stored.event.data) == b'{"amount": 12.50, "name": "\\u00e4\\n"}'

    async def test_an_event_is_stored_once_for_its_source_and_id(self, store: Store) -> None:
        event = an_event()
        other = replace(event, source="/other")
        assert list(await store.publish([event], NOW)) == [True]
        again = [replace(event, type="another"), other, an_event()]
        assert list(await store.publish(again, NOW + SECOND)) == [False, True, True]
        assert [one.event for one in await store.events_by_id(event.id)] == [event, other]
        assert len(await store.events(EventFilter(limit=9))) == 3

    async def test_an_event_that_stands_twice_in_one_call_is_stored_once(
        self, store: Store
    ) -> None:
        event = an_event()
        again = replace(event, type="another")
        assert list(await store.publish([event, an_event(), again], NOW)) == [True, True, False]
        assert (await stored_event(store, event.id)).event == event

    async def test_no_events_are_no_change(self, store: Store) -> None:
        assert list(await store.publish([], NOW)) == []
        assert (await store.unrouted_events(9)).events == ()

    async def test_of_concurrent_publishers_one_is_first(self, store: Store) -> None:
        events = [an_event() for _ in range(20)]
        orders = (events, events[::-1], events[10:] + events[:10])
        answers = await asyncio.gather(
            *(store.publish([one], NOW) for order in orders for one in order),
            *(store.publish(order, NOW) for order in orders),
        )
        assert sum(map(sum, answers)) == len(events)
        assert len((await store.unrouted_events(100)).events) == len(events)

    async def test_events_of_one_call_keep_their_order(self, store: Store) -> None:
        events = [an_event(id=f"{number}") for number in (3, 1, 2)]
        await store.publish(events, NOW)
        unrouted = (await store.unrouted_events(9)).events
        assert [one.event for one in unrouted] == events
        assert [one.seq for one in unrouted] == sorted(one.seq for one in unrouted)

    async def test_a_request_with_a_key_publishes_once(self, store: Store) -> None:
        keyed = a_keyed_request("publish")
        assert list(await store.publish([an_event()], NOW, keyed)) == [True]
        with pytest.raises(RequestInFlight):
            await store.publish([an_event()], NOW, keyed)
        assert len(await store.events(EventFilter(limit=9))) == 1

    async def test_publishers_in_many_threads_store_each_event_once(self, store: Store) -> None:
        events = [an_event() for _ in range(20)]

        async def publisher(number: int) -> Sequence[bool]:
            order = events[number:] + events[:number]
            return [*await store.publish(order[:10], NOW), *await store.publish(order[10:], NOW)]

        answers = await in_threads(publisher)
        assert sum(map(sum, answers)) == len(events)
        assert len((await store.unrouted_events(100)).events) == len(events)

    async def test_a_new_event_is_told(self, store: Store) -> None:
        async with expect_hint(store, Hint.EVENTS):
            await store.publish([an_event()], NOW)


class EventListingContract:
    async def test_the_newest_are_told_first(self, store: Store) -> None:
        first, second, third = await published(store, *(an_event() for _ in range(3)))
        assert list(await store.events(EventFilter(limit=2))) == [third, second]
        assert list(await store.events(EventFilter(limit=2, before=second.seq))) == [first]

    async def test_events_are_found_by_type_and_source(self, store: Store) -> None:
        types = ("order.paid", "order.sent", "order", "Order.paid", "xorder.paid")
        await store.publish(
            [an_event(id=type, type=type, source=f"/{type}") for type in types], NOW
        )

        async def found(**patterns: Any) -> list[str]:
            events = await store.events(EventFilter(limit=9, **patterns))
            return [one.event.id for one in reversed(events)]

        assert await found(type="order.paid") == ["order.paid"]
        assert await found(type="order.*") == ["order.paid", "order.sent"]
        assert await found(type="order*") == ["order.paid", "order.sent", "order"]
        assert await found(type="*") == [*types]
        assert await found(type="order%") == []
        assert await found(source="/order.s*") == ["order.sent"]
        assert await found(source="/order") == ["order"]
        assert await found(type="order.*", source="/order.paid") == ["order.paid"]

    async def test_an_event_is_found_by_its_id(self, store: Store) -> None:
        sources = [f"/{number}" for number in range(12)]
        await store.publish([an_event(id="e-1", source=source) for source in sources], NOW)
        found = await store.events_by_id("e-1")
        assert [one.event.source for one in found] == sources[:10]
        assert [one.event.source for one in await store.events_by_id("e-1", "/11")] == ["/11"]
        assert list(await store.events_by_id("e-2")) == []


class EventScheduleContract:
    async def test_a_reaction_is_kept_as_it_was_told(self, store: Store) -> None:
        schedule = await add_reaction(
            store,
            EventPattern(PAID, source="/shop/*", condition="event.data.amount > 0", by="event.id"),
            cancel_on=(EventPattern("order.*", by="event.subject"),),
            gather=Gather(span=HOUR, quiet=MINUTE, keep=Keep.LAST, most=10, by="event.type"),
            delay=10 * MINUTE,
        )
        assert await store.schedule(schedule.id) == schedule

    async def test_only_schedules_with_on_are_told(self, store: Store) -> None:
        schedule, timed = await add_reaction(store), a_schedule()
        await store.add_schedule(timed, a_plan(timed))
        found = await store.event_schedules({})
        assert (found.versions, list(found.changed)) == ({schedule.id: 1}, [schedule])

    async def test_a_known_version_is_not_told_again(self, store: Store) -> None:
        kept, edited = await add_reaction(store), await add_reaction(store)
        gone = await add_reaction(store)
        known = {one.id: 1 for one in (kept, edited, gone)}
        assert list((await store.event_schedules(known)).changed) == []
        edited = replace(edited, version=2, delay=MINUTE)
        assert await store.update_schedule(edited, None, NOW)
        assert await store.delete_schedule(gone.id, NOW)
        found = await store.event_schedules(known)
        assert (found.versions, list(found.changed)) == ({kept.id: 1, edited.id: 2}, [edited])

    async def test_a_schedule_may_get_and_lose_its_reaction(self, store: Store) -> None:
        schedule = a_schedule()
        await store.add_schedule(schedule, a_plan(schedule))
        reacting = replace(schedule, version=2, on=(EventPattern("onbeat.job.*"),))
        assert await store.update_schedule(reacting, None, NOW)
        assert (await store.event_schedules({})).versions == {schedule.id: 2}
        assert len(await store.wanted_types()) == 3
        assert await store.update_schedule(replace(schedule, version=3), None, NOW)
        assert (await store.event_schedules({})).versions == {}
        assert await store.wanted_types() == frozenset()

    async def test_own_types_are_wanted_while_a_schedule_asks_for_them(self, store: Store) -> None:
        first = await add_reaction(store, EventPattern("onbeat.job.failed"))
        second = await add_reaction(store, cancel_on=(EventPattern("onbeat.job.failed"),))
        await add_reaction(store, EventPattern("onbeat.schedule.*"))
        of_schedules = {"onbeat.schedule.misfired", "onbeat.schedule.orphaned"}
        wanted = {"onbeat.job.failed"} | of_schedules
        assert await store.wanted_types() == wanted
        await store.delete_schedule(first.id, NOW)
        assert await store.wanted_types() == wanted
        await store.delete_schedule(second.id, NOW)
        assert await store.wanted_types() == of_schedules

    async def test_an_imported_reaction_is_told(self, store: Store) -> None:
        schedule = a_reaction(EventPattern("onbeat.job.failed"))
        await store.import_schedules([schedule])
        assert list((await store.event_schedules({})).changed) == [schedule]
        assert await store.wanted_types() == {"onbeat.job.failed"}
        newer = replace(schedule, version=2, on=(EventPattern(PAID),))
        await store.import_schedules([newer])
        assert list((await store.event_schedules({})).changed) == [newer]
        assert await store.wanted_types() == frozenset()


class RouteContract:
    async def test_a_decision_is_stored_whole(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store, an_event(), an_event())
        job = a_reaction_job(schedule)
        routing = a_routing(events, schedule, job)
        assert await store.route(routing)
        assert await stored_job(store, job) == job
        assert list(await store.events_of_job(job.id)) == [
            replace(one, routed_at=NOW + SECOND, verdicts=(EventVerdict(schedule.id, job.id),))
            for one in events
        ]
        assert (await store.unrouted_events(9)).events == ()

    async def test_an_event_that_makes_no_job_has_its_reason(self, store: Store) -> None:
        schedule = await add_reaction(store)
        (event,) = await published(store)
        verdicts = (EventVerdict(schedule.id, reason="schedule is paused"),)
        routing = a_routing((event,), schedule, verdicts={event.seq: verdicts})
        assert await store.route(routing)
        assert (await stored_event(store, event.event.id)).verdicts == verdicts

    async def test_the_first_events_come_first(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store, *(an_event() for _ in range(3)))
        assert (await store.unrouted_events(2)).events == events[:2]
        assert await store.route(a_routing(events[:2], schedule))
        assert (await store.unrouted_events(2)).events == events[2:]

    async def test_a_new_job_is_told_and_runs(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store)
        job = a_reaction_job(schedule, due_at=NOW)
        async with expect_hint(store, Hint.JOBS):
            await store.route(a_routing(events, schedule, job))
        (claimed,) = await claim_jobs(store)
        assert (claimed.id, claimed.cause) == (job.id, EventCause(PAID))

    async def test_events_that_are_only_counted_are_not_read(self, store: Store) -> None:
        schedule = await add_reaction(store)
        first, second = await published(store, an_event(), an_event())
        job = a_reaction_job(schedule)
        carried = (
            Carried(first.seq, job.id, schedule.id),
            Carried(second.seq, job.id, schedule.id, reads=False),
        )
        assert await store.route(a_routing((first, second), schedule, job, carried=carried))
        assert [one.seq for one in await store.events_of_job(job.id)] == [first.seq]

    async def test_a_later_event_may_be_read_in_place_of_those_before(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule)
        other = await open_job(store, schedule, "o-2")
        (later,) = await published(store)
        joining = a_routing([later], schedule, unread=(job.id,), joined=(job.id,))
        carried = (Carried(later.seq, job.id, schedule.id),)
        assert await store.route(replace(joining, carried=carried))
        assert [one.seq for one in await store.events_of_job(job.id)] == [later.seq]
        assert len(await store.events_of_job(other.id)) == 1

    async def test_a_routed_event_refuses_a_second_decision(self, store: Store) -> None:
        schedule = await add_reaction(store)
        first, second = await published(store, an_event(), an_event())
        job = a_reaction_job(schedule)
        assert await store.route(a_routing((first,), schedule, job))
        assert not await store.route(a_routing((first,), schedule, job))
        other = a_reaction_job(schedule)
        assert not await store.route(a_routing((first, second), schedule, other))
        assert await store.job(other.id) is None
        assert (await store.unrouted_events(9)).events == (second,)

    async def test_an_unknown_event_refuses_a_decision(self, store: Store) -> None:
        schedule = await add_reaction(store)
        (event,) = await published(store)
        unknown = replace(event, seq=EventSeq(event.seq + 1))
        assert not await store.route(a_routing((event, unknown), schedule))

    async def test_an_edited_schedule_refuses_a_decision(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store)
        job = a_reaction_job(schedule)
        edited = replace(schedule, version=2, status=ScheduleStatus.PAUSED)
        assert await store.update_schedule(edited, None, NOW)
        assert not await store.route(a_routing(events, schedule, job))
        assert await store.job(job.id) is None
        assert await store.route(a_routing(events, edited))

    async def test_a_deleted_schedule_refuses_a_decision(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store)
        await store.delete_schedule(schedule.id, NOW)
        assert not await store.route(a_routing(events, schedule))
        assert await store.route(a_routing(events, schedule, versions={}))

    async def test_a_joined_job_must_wait(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule, due_at=NOW)
        (event,) = await published(store)
        routing = a_routing(
            (event,),
            schedule,
            joined=(job.id,),
            carried=(Carried(event.seq, job.id, schedule.id),),
            keyed=(a_keyed_job(job, gathered=2),),
        )
        (running,) = await claim_jobs(store)
        assert not await store.route(routing)
        await end(store, running)
        assert not await store.route(routing)
        assert not await store.route(replace(routing, joined=(JobId(an_id()),)))
        assert len(await store.events_of_job(job.id)) == 1
        assert (await store.unrouted_events(9)).events == (event,)

    async def test_an_event_joins_a_waiting_job(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule)
        (event,) = await published(store)
        routing = a_routing(
            (event,),
            schedule,
            joined=(job.id,),
            carried=(Carried(event.seq, job.id, schedule.id),),
            keyed=(a_keyed_job(job, gathered=2),),
            postponed={job.id: NOW + DAY},
        )
        assert await store.route(routing)
        assert [one.seq for one in await store.events_of_job(job.id)][-1] == event.seq
        (keyed,) = await store.keyed_jobs([EventKey(schedule.id, "o-1")])
        assert keyed == a_keyed_job(job, gathered=2, due_at=NOW + DAY)
        assert (await stored_job(store, job)).due_at == NOW + DAY

    async def test_existing_jobs_are_left_as_they_are(self, store: Store) -> None:
        schedule = await add_reaction(store)
        live = a_reaction_job(schedule)
        ended = await run_and_end(store, a_reaction_job(schedule, due_at=NOW), SUCCESS)
        await store.enqueue([live])
        events = await published(store)
        again = tuple(
            a_reaction_job(schedule, id=one.id, due_at=NOW, priority=5) for one in (live, ended)
        )
        assert await store.route(a_routing(events, schedule, jobs=again))
        assert await stored_job(store, live) == live
        assert await stored_job(store, ended) == ended
        assert await claim_jobs(store) == ()

    async def test_only_unstarted_jobs_are_put_off(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule, due_at=NOW)
        (running,) = await claim_jobs(store)
        events = await published(store)
        assert await store.route(a_routing(events, schedule, postponed={job.id: NOW + DAY}))
        assert await stored_job(store, job) == running

    async def test_a_job_may_be_put_forward(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule)
        events = await published(store)
        assert await claim_jobs(store) == ()
        assert await store.route(a_routing(events, schedule, postponed={job.id: NOW}))
        assert [one.id for one in await claim_jobs(store)] == [job.id]

    async def test_waiting_jobs_are_cancelled_with_their_dependents(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule)
        running = await open_job(store, schedule, due_at=NOW)
        await claim_jobs(store)
        after = a_job(after=(job.id,))
        await store.enqueue([after])
        events = await published(store)
        cancelled = {job.id: REASON, running.id: REASON, JobId(an_id()): REASON}
        assert await store.route(a_routing(events, schedule, cancelled=cancelled))
        stored = await stored_job(store, job)
        assert (stored.state, stored.reason) == (JobState.CANCELLED, REASON)
        assert stored.finished_at == NOW + SECOND
        assert (await stored_job(store, after)).state is JobState.CANCELLED
        assert (await stored_job(store, running)).cancel_reason is None

    async def test_a_decision_may_cancel_a_job_that_it_makes(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store, an_event(), an_event())
        job = a_reaction_job(schedule)
        keyed, cancelled = (a_keyed_job(job),), {job.id: REASON}
        assert await store.route(a_routing(events, schedule, job, keyed=keyed, cancelled=cancelled))
        assert (await stored_job(store, job)).state is JobState.CANCELLED
        (keyed_job,) = await store.keyed_jobs([EventKey(schedule.id, "o-1")])
        assert not keyed_job.is_waiting

    async def test_of_two_routers_one_decides(self, store: Store) -> None:
        schedule = await add_reaction(store)
        await store.publish([an_event() for _ in range(60)], NOW)

        async def router(number: int) -> int:
            decided = 0
            while events := (await store.unrouted_events(7 + number)).events:
                jobs = [a_reaction_job(schedule) for _ in events]
                routing = a_routing(
                    events,
                    schedule,
                    jobs=tuple(jobs),
                    carried=tuple(
                        Carried(one.seq, job.id, schedule.id)
                        for one, job in zip(events, jobs, strict=True)
                    ),
                )
                decided += len(events) if await store.route(routing) else 0
            return decided

        assert sum(await asyncio.gather(*map(router, range(3)))) == 60
        assert (await store.stats(NOW)).jobs["waiting"] == 60

    async def test_a_join_and_a_claim_take_their_turns(self, store: Store) -> None:
        schedule = await add_reaction(store)
        for _ in range(10):
            job = await open_job(store, schedule, due_at=NOW)
            (event,) = await published(store)
            routing = a_routing(
                (event,),
                schedule,
                joined=(job.id,),
                carried=(Carried(event.seq, job.id, schedule.id),),
            )
            joined, claimed = await asyncio.gather(store.route(routing), claim_jobs(store))
            if not claimed:  # it was locked, and is due still
                claimed = await claim_jobs(store)
            assert [one.id for one in claimed] == [job.id]
            assert len(await store.events_of_job(job.id)) == 1 + joined
            await end(store, claimed[0])
            if not joined:
                assert await store.route(a_routing((event,), schedule))


class EventKeyContract:
    async def test_jobs_are_told_by_their_keys(self, store: Store) -> None:
        schedule, other = await add_reaction(store), await add_reaction(store)
        first = await open_job(store, schedule, "o-1")
        second = await open_job(store, schedule, "O-1")
        third = await open_job(store, schedule, "")
        await open_job(store, other, "o-1")
        keys = [EventKey(schedule.id, by) for by in ("o-1", "O-1", "", "none")]
        assert list(await store.keyed_jobs(keys)) == [
            a_keyed_job(first, "o-1"),
            a_keyed_job(second, "O-1"),
            a_keyed_job(third, ""),
        ]
        assert list(await store.keyed_jobs([])) == []

    async def test_a_started_job_no_longer_waits(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule, due_at=NOW)
        key = EventKey(schedule.id, "o-1")
        (running,) = await claim_jobs(store)
        assert list(await store.keyed_jobs([key])) == [a_keyed_job(job, is_waiting=False)]
        await end(store, running)
        assert list(await store.keyed_jobs([key])) == [a_keyed_job(job, is_waiting=False)]

    async def test_of_started_jobs_only_the_latest_is_kept(self, store: Store) -> None:
        schedule = await add_reaction(store)
        jobs: list[Job] = []
        for _ in range(3):
            jobs.append(await open_job(store, schedule, due_at=NOW))
            for running in await claim_jobs(store):
                await end(store, running)
        waiting = await open_job(store, schedule)
        found = await store.keyed_jobs([EventKey(schedule.id, "o-1")])
        assert list(found)[-1] == a_keyed_job(waiting)
        assert jobs[0].id not in {one.job_id for one in found}


class ReplayContract:
    async def test_a_replayed_event_is_routed_again_with_the_jobs_it_made(
        self, store: Store
    ) -> None:
        schedule = await add_reaction(store)
        events = await published(store)
        job = a_reaction_job(schedule)
        await store.route(a_routing(events, schedule, job))
        async with expect_hint(store, Hint.EVENTS):
            assert await store.replay_event(events[0].seq)
        unrouted = await store.unrouted_events(9)
        verdict = EventVerdict(schedule.id, job.id)
        assert [one.event for one in unrouted.events] == [events[0].event]
        assert unrouted.events[0].routed_at is None
        assert unrouted.made == {events[0].seq: (verdict,)}
        assert await store.route(a_routing(unrouted.events, schedule, job))
        assert await stored_job(store, job) == job
        assert len(await store.events_of_job(job.id)) == 1

    async def test_an_unknown_event_cannot_be_replayed(self, store: Store) -> None:
        assert not await store.replay_event(EventSeq(1))

    async def test_an_event_without_a_decision_may_be_replayed(self, store: Store) -> None:
        (event,) = await published(store)
        assert await store.replay_event(event.seq)
        assert (await store.unrouted_events(9)).events == (event,)


class EventPruneContract:
    async def test_old_routed_events_are_deleted(self, store: Store) -> None:
        schedule = await add_reaction(store)
        old = await published(store, now=NOW - DAY)
        await store.route(a_routing(old, schedule))
        (late,) = await published(store, an_event(id="late"), now=NOW - DAY)
        new = [one for one in await published(store, an_event(id="new")) if one != late]
        await store.route(a_routing(new, schedule))
        assert await store.prune_events(NOW, 10) == 1
        left = [one.event.id for one in await store.events(EventFilter(limit=9))]
        assert left == ["new", "late"]

    async def test_at_most_the_limit_is_examined(self, store: Store) -> None:
        schedule = await add_reaction(store)
        events = await published(store, *(an_event() for _ in range(5)))
        await store.route(a_routing(events, schedule))
        counts = [await store.prune_events(NOW + DAY, 3) for _ in range(3)]
        assert counts == [3, 2, 0]

    async def test_a_pruned_event_may_come_again(self, store: Store) -> None:
        schedule, event = await add_reaction(store), an_event()
        await store.route(a_routing(await published(store, event), schedule))
        await store.prune_events(NOW + DAY, 10)
        assert list(await store.publish([event], NOW)) == [True]

    async def test_events_of_stored_jobs_stay(self, store: Store) -> None:
        schedule = await add_reaction(store)
        job = await open_job(store, schedule, due_at=NOW)
        assert await store.prune_events(NOW + DAY, 10) == 1
        assert len(await store.events_of_job(job.id)) == 1
        assert await store.prune_events(NOW + DAY, 10) == 0
        (running,) = await claim_jobs(store)
        await end(store, running)
        await store.prune_events(NOW + 2 * DAY, 10)
        assert len(await store.events_of_job(job.id)) == 1
        await store.prune(finished_before=NOW + DAY, failed_before=NOW, limit=10)
        await store.prune_events(NOW + 3 * DAY, 10)
        assert list(await store.events_of_job(job.id)) == []
        assert list(await store.events(EventFilter(limit=9))) == []
        assert list(await store.keyed_jobs([EventKey(schedule.id, "o-1")])) == []
