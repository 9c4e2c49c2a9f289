"""Onbeat's own events about jobs, written by the transaction that ends them."""

import asyncio
from datetime import datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from onbeat.model.event import Event, EventCause
from onbeat.model.limits import EVENT_DEPTH_MAX, REASON_CHARS_MAX
from onbeat.model.outcome import Cancelled, Failed, Outcome, Snoozed
from onbeat.model.owner import Owner
from onbeat.model.plan import Dropped, Skip
from onbeat.model.reaction import EventPattern
from onbeat.model.schedule import PauseReason, ScheduleStatus
from onbeat.ports.events import EventFilter
from onbeat.ports.store import Store
from onbeat.rules.declarations import orphan_event, paused_as_orphan
from onbeat.rules.misfires import misfire_event
from onbeat.testing.build import MINUTE, NOW, SECOND, a_job, a_plan, a_schedule, an_occurrence
from onbeat.testing.store_contract.steps import (
    FAILURE,
    IN_A_MINUTE,
    PASSING_FAILURE,
    SUCCESS,
    a_settlement,
    add_planned,
    claim_jobs,
    end,
    run_and_end,
    run_job,
)


async def listen_for(store: Store, *types: str) -> None:
    """A schedule that asks for these types of events."""
    schedule = a_schedule(on=tuple(map(EventPattern, types)), plan_at=None)
    await store.add_schedule(schedule, a_plan(schedule))


async def published(store: Store) -> list[Event]:
    """All events, in the order of their arrival."""
    return [one.event for one in reversed(await store.events(EventFilter(limit=100)))]


async def ends_published(store: Store) -> list[tuple[str, str]]:
    return [(one.type.rpartition(".")[2], one.subject or "") for one in await published(store)]


def data_of(event: Event) -> dict[str, Any]:
    assert event.data is not None
    data: dict[str, Any] = msgspec.json.decode(event.data)
    return data


class OwnEventContract:
    @pytest.mark.parametrize(
        ("outcome", "state"),
        [(SUCCESS, "succeeded"), (FAILURE, "failed"), (Cancelled("enough"), "cancelled")],
    )
    async def test_an_end_that_a_schedule_asks_for_is_an_event(
        self, store: Store, outcome: Outcome, state: str
    ) -> None:
        await listen_for(store, f"onbeat.job.{state}")
        job = await run_and_end(store, a_job(labels={"team": "blue"}, queue="slow"), outcome)
        (event,) = await published(store)
        assert (event.type, event.source, event.time) == (f"onbeat.job.{state}", "onbeat", NOW)
        assert event.extensions == {"onbeatdepth": 1}
        data = data_of(event)
        assert (data["job"], data["state"], data["attempt"]) == (job.id, state, 1)
        assert (data["task"], data["target"], data["queue"]) == ("work", "work", "slow")
        assert (data["labels"], data["error"]) == ({"team": "blue"}, job.error)

    @pytest.mark.parametrize("outcome", [SUCCESS, FAILURE, Cancelled("enough")])
    async def test_an_end_that_no_schedule_asks_for_is_none(
        self, store: Store, outcome: Outcome
    ) -> None:
        await run_and_end(store, a_job(), outcome)
        await listen_for(store, "order.*")
        await run_and_end(store, a_job(), outcome)
        assert await published(store) == []

    async def test_ends_of_each_state_are_told_apart(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.failed")
        jobs = [await run_job(store, a_job()) for _ in range(3)]
        outcomes: tuple[Outcome, ...] = (SUCCESS, FAILURE, Cancelled("enough"))
        pairs = zip(jobs, outcomes, strict=True)
        answers = await store.settle([a_settlement(job, outcome) for job, outcome in pairs])
        assert list(answers) == [True] * 3
        assert await ends_published(store) == [("failed", jobs[1].id)]

    async def test_an_attempt_that_is_not_the_last_is_no_event(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        job = await run_and_end(store, a_job(retry=IN_A_MINUTE), PASSING_FAILURE)
        assert await published(store) == []
        (again,) = await claim_jobs(store, now=NOW + MINUTE)
        await end(store, again, FAILURE, NOW + MINUTE)
        assert await ends_published(store) == [("failed", job.id)]

    async def test_each_way_of_cancelling_is_an_event(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.cancelled")
        waiting, stopped = a_job(), await run_job(store, a_job())
        await store.enqueue([waiting])
        await store.cancel([waiting.id, stopped.id], "by hand", NOW)
        await store.settle([a_settlement(stopped, Snoozed(MINUTE))])
        overdue = a_job(start_by=NOW)
        await store.enqueue([overdue])
        await store.cancel_overdue([overdue.id], "too late", NOW + SECOND)
        schedule = a_schedule()
        planned = an_occurrence(schedule)
        await add_planned(store, schedule, planned)
        await store.delete_schedule(schedule.id, NOW)
        ids = [waiting.id, stopped.id, overdue.id, planned.id]
        assert await ends_published(store) == [("cancelled", id) for id in ids]
        reasons = [data_of(event)["reason"] for event in await published(store)]
        assert reasons[:3] == ["by hand", "by hand", "too late"]

    async def test_dependents_that_end_with_a_job_are_events_too(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        first = await run_job(store, a_job())
        second = a_job(after=(first.id,))
        await store.enqueue([second, a_job(after=(second.id,))])
        await end(store, first, FAILURE)
        late = a_job(after=(first.id,))
        await store.enqueue([late])
        kinds = [kind for kind, _ in await ends_published(store)]
        assert kinds == ["failed", "cancelled", "cancelled", "cancelled"]
        assert (await ends_published(store))[-1] == ("cancelled", late.id)

    async def test_a_repeated_settlement_is_one_event(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        job = await run_job(store, a_job())
        same = [a_settlement(job)] * 2
        answers = await asyncio.gather(*(store.settle(same) for _ in range(5)))
        assert all(map(all, answers))
        assert await ends_published(store) == [("succeeded", job.id)]

    async def test_a_settlement_after_a_lost_lease_is_no_event(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        job = await run_job(store, a_job())
        stale = a_settlement(replace(job, token=job.token + 1))
        assert list(await store.settle([stale])) == [False]
        assert await published(store) == []

    async def test_each_end_of_a_job_that_is_retried_by_hand_is_an_event(
        self, store: Store
    ) -> None:
        await listen_for(store, "onbeat.job.*")
        job = a_job()
        await store.enqueue([job])
        for minute in range(3):
            at = NOW + minute * MINUTE
            await store.cancel([job.id], "by hand", at)
            await store.retry([job.id], at)
        assert await ends_published(store) == [("cancelled", job.id)] * 3

    async def test_a_job_made_by_an_event_makes_none_of_its_type(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        cause = EventCause("onbeat.job.failed", depth=1)
        await run_and_end(store, a_job(cause=cause), FAILURE)
        assert await published(store) == []
        await run_and_end(store, a_job(cause=cause), SUCCESS)
        (event,) = await published(store)
        assert event.extensions == {"onbeatdepth": 2}

    async def test_events_cause_others_only_so_deep(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        for depth in (EVENT_DEPTH_MAX, EVENT_DEPTH_MAX - 1):
            await run_and_end(store, a_job(cause=EventCause("order.paid", depth)))
        (event,) = await published(store)
        assert event.extensions == {"onbeatdepth": EVENT_DEPTH_MAX}

    async def test_a_long_error_is_cut_to_its_end(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.failed")
        error = "x" * REASON_CHARS_MAX + "the end"
        await run_and_end(store, a_job(), Failed(error, retryable=False))
        (event,) = await published(store)
        assert data_of(event)["error"] == error[-REASON_CHARS_MAX:]

    async def test_the_event_waits_for_the_router(self, store: Store) -> None:
        await listen_for(store, "onbeat.job.*")
        await run_and_end(store, a_job())
        (waiting,) = (await store.unrouted_events(10)).events
        assert isinstance(waiting.received_at, datetime)
        assert waiting.event.type == "onbeat.job.succeeded"

    async def test_misfired_occurrences_are_one_event_where_it_is_wanted(
        self, store: Store
    ) -> None:
        await listen_for(store, "onbeat.schedule.misfired")
        schedule = a_schedule()
        late, planned = NOW - MINUTE, NOW
        job = an_occurrence(schedule, start_by=planned)
        await add_planned(store, schedule, job)
        skipped = misfire_event(schedule, late, late, NOW)
        of_job = misfire_event(schedule, planned, planned, NOW, job.id)
        skip = Skip(late, late, "misfire", skipped)
        plan = a_plan(schedule, skips=(skip,), dropped=(Dropped(job.id, "misfire", of_job),))
        for _ in range(2):  # a planner may repeat what it does not know to be stored
            await store.apply_plans([plan])
        events = await published(store)
        assert sorted(data_of(event)["first"] for event in events) == [
            "2030-01-01T11:59:00Z",
            "2030-01-01T12:00:00Z",
        ]
        assert {data_of(event)["job"] for event in events} == {None, job.id}
        assert {event.subject for event in events} == {schedule.id}

    async def test_a_misfire_that_nobody_asks_for_or_that_is_none_is_not_published(
        self, store: Store
    ) -> None:
        await listen_for(store, "onbeat.job.failed")
        schedule = a_schedule()
        await add_planned(store, schedule, an_occurrence(schedule))
        (job,) = await claim_jobs(store)
        event = misfire_event(schedule, NOW, NOW, NOW, job.id)
        skip = Skip(NOW - MINUTE, NOW - MINUTE, "misfire", event)
        await store.apply_plans([a_plan(schedule, skips=(skip,))])
        assert await published(store) == []
        await listen_for(store, "onbeat.schedule.misfired")
        await store.apply_plans([a_plan(schedule, dropped=(Dropped(job.id, "misfire", event),))])
        assert await published(store) == [], "the job had started"

    async def test_an_edit_is_published_with_the_event_that_it_makes_true(
        self, store: Store
    ) -> None:
        await listen_for(store, "onbeat.schedule.orphaned")
        schedule = a_schedule(key="a", owner="billing")
        await store.add_schedule(schedule, a_plan(schedule))
        paused = paused_as_orphan(schedule, Owner("billing", "2"), NOW)
        event = orphan_event(paused, NOW)
        assert not await store.update_schedule(
            replace(paused, version=schedule.version + 2), None, NOW, event
        )
        assert await published(store) == []
        assert await store.update_schedule(paused, None, NOW, event)
        assert [one.id for one in await published(store)] == [event.id]
        again = replace(paused, version=paused.version + 1, owner=None, release=None)
        assert await store.update_schedule(again, None, NOW)
        assert len(await published(store)) == 1

    async def test_the_schedules_of_an_owner_are_found(self, store: Store) -> None:
        mine = [a_schedule(key=key, owner="billing", release="1.2") for key in "ab"]
        others = [a_schedule(key="c", owner="Billing"), a_schedule(key="d")]
        for schedule in (*mine, *others):
            await store.add_schedule(schedule, a_plan(schedule))
        assert list(await store.schedules_of_owner("billing")) == sorted(
            mine, key=lambda one: one.id
        )
        given_up = replace(mine[0], version=mine[0].version + 1, owner="shop", release=None)
        assert await store.update_schedule(given_up, None, NOW)
        assert [one.id for one in await store.schedules_of_owner("billing")] == [mine[1].id]
        assert [one.owner for one in await store.schedules_of_owner("shop")] == ["shop"]
        paused = replace(
            given_up,
            version=given_up.version + 1,
            status=ScheduleStatus.PAUSED,
            pause_reason=PauseReason.ORPHANED,
        )
        assert await store.update_schedule(paused, None, NOW)
        (stored,) = await store.schedules_of_owner("shop")
        assert stored.pause_reason is PauseReason.ORPHANED
        assert list(await store.schedules_of_owner("nobody")) == []
