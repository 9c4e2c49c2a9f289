"""An effect outside happens once: whoever schedules it, however often its message comes."""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from conditions import eventually
from fleet.conftest import Fleet, Outside
from onbeat import Call, Context, Fail, Onbeat, Retry, every
from onbeat.model.job import Job, JobState
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.telemetry.structured_log import LogLine
from onbeat.wire.broker_messages import RESULTS, SUBMIT, run_queue, work_queue

pytestmark = pytest.mark.proof

RUN, WORK = run_queue("default"), work_queue("default")
CHARGE = {"jsonrpc": "2.0", "method": "submit:charge", "params": {"account": 7}}
EXPORT = {"jsonrpc": "2.0", "method": "submit:export", "params": {"objectID": 23}}
ACCOUNTS = 20
TIMES = 5


class Gateway:
    """Somebody else's system, which does what it is asked as often as it is asked."""

    def __init__(self) -> None:
        self.charges: Counter[Any] = Counter()
        self.answers = asyncio.Event()
        self.answers.set()

    async def charge(self, what: object) -> None:
        self.charges[what] += 1
        await self.answers.wait()


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def charging(gateway: Gateway) -> Callable[..., Any]:
    """Gives a program the task `charge`."""

    def register(beat: Onbeat) -> None:
        @beat.task("charge")
        async def charge(account: int) -> None:
            await gateway.charge(account)

    return register


async def succeeded(fleet: Fleet) -> Job:
    return await fleet.the_job(lambda job: job.state is JobState.SUCCEEDED, "its success")


async def empty(outside: Outside, queue: str) -> None:
    async def is_empty() -> bool:
        return await outside.broker.depth(queue) == 0

    await eventually(is_empty, f"{queue} is empty")


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    """What the log says under this name, as fields."""
    lines = [record.msg for record in caplog.records if isinstance(record.msg, LogLine)]
    return [link.fields for link in lines if link.event == name]


# S1-A07.


async def test_two_schedulers_at_the_same_instant_make_each_job_once(
    make_fleet: Callable[..., Any], gateway: Gateway
) -> None:
    def register(beat: Onbeat) -> None:
        @beat.task("charge")
        async def charge(account: int, month: str) -> None:
            await gateway.charge((account, month))

        @beat.schedule(every("1s"), key="billing")
        async def bill(context: Context) -> AsyncIterator[Call[None]]:
            assert context.occurrence is not None
            month = context.occurrence.isoformat()
            for account in range(ACCOUNTS):
                yield charge.options(unique=f"{account} {month}").call(account, month)

    async with (
        make_fleet(register=register, horizon=timedelta(seconds=2)) as one,
        make_fleet(register=register, horizon=timedelta(seconds=2)) as other,
    ):
        assert one.beat is not other.beat
        await eventually(lambda: len(gateway.charges) >= 3 * ACCOUNTS, "three runs over all")
        schedule = await one.beat.backend.store.schedule_by_key("billing")
        rows = await one.beat.backend.store.dispositions(
            schedule.id, schedule.created_at, schedule.planned_through
        )
    assert len({row.first for row in rows}) == len(rows)
    assert len({row.job_id for row in rows}) == len(rows)
    whole = Counter(month for _, month in gateway.charges)
    assert sorted(whole.values())[-3:] == [ACCOUNTS] * 3
    assert set(gateway.charges.values()) == {1}


# S1-A08.


async def test_a_message_submitted_five_times_has_one_effect(
    make_fleet: Callable[..., Any], outside: Outside, gateway: Gateway, charging: Callable[..., Any]
) -> None:
    async with make_fleet(register=charging) as fleet:
        for _ in range(TIMES):
            await outside.say(SUBMIT, CHARGE, id="invoice-1")
        await succeeded(fleet)
        await empty(outside, SUBMIT)
        assert (gateway.charges, len(await fleet.jobs())) == ({7: 1}, 1)


async def test_an_announcement_delivered_five_times_has_one_effect(
    make_fleet: Callable[..., Any], outside: Outside, gateway: Gateway, charging: Callable[..., Any]
) -> None:
    gateway.answers.clear()
    async with make_fleet(register=charging) as fleet:
        await outside.say(SUBMIT, CHARGE)
        await eventually(lambda: gateway.charges, "it runs")
        (job,) = await fleet.jobs()
        again = {"jsonrpc": "2.0", "method": "charge", "id": job.id, "token": job.token}
        for _ in range(TIMES):
            await outside.say(RUN, again)
        await empty(outside, RUN)
        gateway.answers.set()
        await succeeded(fleet)
        for _ in range(TIMES):
            await outside.say(RUN, again)
        await empty(outside, RUN)
        (attempt,) = await fleet.beat.backend.store.attempts(job.id)
        assert (gateway.charges, attempt.outcome, job.token) == ({7: 1}, "succeeded", 1)


async def test_a_call_delivered_five_times_to_remote_workers_is_settled_once(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """What the worker keeps with its effect is the id of the job; the service needs nothing kept."""
    exported: Counter[str] = Counter()
    async with make_fleet() as fleet:
        await outside.say(SUBMIT, EXPORT)
        delivery = await outside.next(WORK)
        for _ in range(TIMES):
            request = json.loads(delivery.body)
            if request["id"] not in exported:
                exported[request["id"]] += 1
            result = {"jsonrpc": "2.0", "result": {"rows": 1, "attempt": 1}, "id": request["id"]}
            await outside.say(RESULTS, result, **{"onbeat-token": delivery.headers["onbeat-token"]})
        job = await succeeded(fleet)
        await empty(outside, RESULTS)
        (attempt,) = await fleet.beat.backend.store.attempts(job.id)
        assert (exported, attempt.outcome) == ({job.id: 1}, "succeeded")
        assert not await fleet.beat.backend.store.dead_letters(None, 10)


async def test_a_job_waits_for_a_remote_worker_that_is_away(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    """Nobody has taken its call, which is sent again; then a worker comes."""

    async def work() -> None:
        while True:
            delivery = await outside.next(WORK, 60)
            result = json.loads(delivery.body)["params"]
            await outside.answer(delivery, result=result)

    async with make_fleet(lease=timedelta(seconds=2)) as fleet:
        await outside.say(SUBMIT, EXPORT)
        await fleet.the_job(lambda job: job.token > 1, "its call is sent again")
        worker = asyncio.create_task(work())
        job = await succeeded(fleet)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        *away, last = await fleet.beat.backend.store.attempts(job.id)
        assert (job.attempt, last.outcome) == (job.lost + 1, "succeeded")
        assert {one.outcome for one in away} == {"lost"}


# S1-A10.


async def test_a_final_failure_is_told_once_and_leaves_nothing_behind(
    make_fleet: Callable[..., Any],
    outside: Outside,
    gateway: Gateway,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The one event is a line of the log, and the job stands among those that failed."""

    def register(beat: Onbeat) -> None:
        beat.backend.telemetry = CompositeTelemetry()

        @beat.task("charge")
        async def charge(account: int) -> None:
            await gateway.charge(account)
            raise Fail("the card's token is not valid", retryable=False)

    with caplog.at_level(logging.INFO, "onbeat"):
        async with make_fleet(register=register) as fleet:
            await outside.say(SUBMIT, CHARGE)
            job = await fleet.the_job(lambda job: job.is_final, "its end")
            await empty(outside, RUN)
            await check_final(fleet, outside, job, "the card's token is not valid")
    (event,) = events(caplog, "job.failed")
    assert (event["job"], event["state"]) == (job.id, "failed")
    assert gateway.charges == {7: 1}


async def test_a_remote_worker_s_final_failure_is_told_once(
    make_fleet: Callable[..., Any], outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    def register(beat: Onbeat) -> None:
        beat.backend.telemetry = CompositeTelemetry()

    with caplog.at_level(logging.INFO, "onbeat"):
        async with make_fleet(register=register) as fleet:
            await outside.say(SUBMIT, EXPORT)
            delivery = await outside.next(WORK)
            error = {
                "code": 7,
                "message": "the card's token is not valid",
                "data": {"retryable": False},
                "attempt": 1,
            }
            for _ in range(TIMES):
                await outside.answer(delivery, error=error)
            job = await fleet.the_job(lambda job: job.is_final, "its end")
            await empty(outside, RESULTS)
            await check_final(fleet, outside, job, "the card's token is not valid")
    (event,) = events(caplog, "job.failed")
    assert (event["job"], event["state"]) == (job.id, "failed")


async def check_final(fleet: Fleet, outside: Outside, job: Job, error: str) -> None:
    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "not retryable", 1)
    assert error in job.error
    (attempt,) = await fleet.beat.backend.store.attempts(job.id)
    assert attempt.outcome == "failed"
    assert await outside.broker.depth(WORK) == 0
    assert not await fleet.beat.backend.store.dead_letters(None, 10)
    stats = await fleet.beat.backend.store.stats(fleet.beat.backend.clock.now())
    assert (stats.jobs["failed"], stats.jobs["waiting"], stats.jobs["running"]) == (1, 0, 0)


# S1-A11.


async def test_a_passing_failure_is_tried_again_and_completes(
    make_fleet: Callable[..., Any], outside: Outside, gateway: Gateway
) -> None:
    def register(beat: Onbeat) -> None:
        @beat.task("charge", retry=Retry(attempts_max=3, delay=0))
        async def charge(context: Context, account: int) -> int:
            await gateway.charge(account)
            if context.attempt == 1:
                raise ConnectionError("the database is locked")
            return context.attempt

    async with make_fleet(register=register) as fleet:
        await outside.say(SUBMIT, CHARGE)
        job = await succeeded(fleet)
        first, second = await fleet.beat.backend.store.attempts(job.id)
        assert (bytes(job.result), first.outcome, second.outcome) == (b"2", "failed", "succeeded")
        assert "the database is locked" in first.error


async def test_a_remote_worker_s_passing_failure_is_tried_again_and_completes(
    make_fleet: Callable[..., Any], outside: Outside
) -> None:
    async with make_fleet() as fleet:
        await outside.say(SUBMIT, EXPORT)
        for fields in (
            {"error": {"code": 1, "message": "the database is locked", "attempt": 1}},
            {"result": {"rows": 3, "attempt": 2}},
        ):
            delivery = await outside.next(WORK)
            request = json.loads(delivery.body)
            token = delivery.headers["onbeat-token"]
            answer = {"jsonrpc": "2.0", "id": request["id"]} | fields
            await outside.say(RESULTS, answer, **{"onbeat-token": token})
        job = await succeeded(fleet)
        attempts = await fleet.beat.backend.store.attempts(job.id)
        # One that a slow broker kept from its worker is released, and costs nothing.
        outcomes = [one.outcome for one in attempts if one.outcome != "released"]
        assert (job.attempt, outcomes) == (2, ["failed", "succeeded"])
        assert json.loads(bytes(job.result)) == {"rows": 3}
