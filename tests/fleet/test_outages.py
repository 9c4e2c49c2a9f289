"""A broker that goes, stalls, forgets or is misused: jobs run meanwhile, once, and none is lost."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest

from conditions import eventually
from fleet.conftest import BrokerLine, Fleet, Outside, speaking
from onbeat import Onbeat, Task
from onbeat.app.health import RESTFUL_LOOPS
from onbeat.engine.broker.fallback import BrokerWatch
from onbeat.engine.broker.runtime import BrokerRuntime
from onbeat.model.ids import Token
from onbeat.model.job import JobState
from onbeat.ports.transport import Delivery, Envelope
from onbeat.telemetry.composite import CompositeTelemetry
from onbeat.wire.broker_messages import DEAD, REPLIES, RESULTS, SUBMIT, run_queue, work_queue
from transports.proxy import Proxy

pytestmark = pytest.mark.proof

RUN, WORK = run_queue("default"), work_queue("default")
BACK_WITHIN = 5.0  # seconds after which a broker that is back is used as before
AWAY_WITHIN = 10.0  # three seconds of patience, and a slow machine
# Loops whose next round may be half a minute away, and the one that the broker holds up.
MAY_REST = RESTFUL_LOOPS | {"planner", "ballast", "outages", "recorder", "broker"}


@pytest.fixture
def transport(link: BrokerLine) -> str:
    return link.through


@pytest.fixture
async def outside(link: BrokerLine) -> AsyncIterator[Outside]:
    async with speaking(link.straight) as outside:
        yield outside


@pytest.fixture
def ran() -> Counter[Any]:
    return Counter()


class Working:
    """Makes programs with a task that notes which numbers it was called with."""

    def __init__(self, make_fleet: Callable[..., Any], ran: Counter[Any]) -> None:
        self.make_fleet = make_fleet
        self.ran = ran
        self.tasks: dict[Onbeat, Task[[int], Any, None]] = {}

    def register(self, beat: Onbeat) -> None:
        beat.backend.telemetry = CompositeTelemetry()

        @beat.task("work")
        async def work(n: int) -> None:
            self.ran[n] += 1

        self.tasks[beat] = work

    def __call__(self, **runtime: Any) -> Any:
        return self.make_fleet(register=self.register, **runtime)

    async def send(self, fleet: Fleet, numbers: list[int] | range) -> None:
        work = self.tasks[fleet.beat]
        await fleet.beat.asend([work.call(n) for n in numbers])


@pytest.fixture
def make_working(make_fleet: Callable[..., Any], ran: Counter[Any]) -> Working:
    return Working(make_fleet, ran)


def brokered(fleet: Fleet) -> BrokerRuntime:
    return fleet.beat._running.runtime.broker_runtime


def watch_of(fleet: Fleet) -> BrokerWatch:
    return brokered(fleet).broker_watch


async def used_again(fleet: Fleet, within: float = BACK_WITHIN) -> None:
    await eventually(
        lambda: watch_of(fleet).is_usable and not brokered(fleet).fallback.is_needed,
        "jobs go over the broker again",
        within,
    )


def counted(fleet: Fleet) -> Counter[Any]:
    """The numbers of messages that the program publishes, as it goes on."""
    broker = fleet.beat._running.broker_setup.broker
    publish = broker.publish
    counts: Counter[Any] = Counter()

    async def counting(queue: str, envelopes: Sequence[Envelope]) -> None:
        counts[queue] += 1
        await publish(queue, envelopes)

    broker.publish = counting
    return counts


async def all_ran(ran: Counter[Any], count: int, within: float = AWAY_WITHIN) -> None:
    await eventually(lambda: len(ran) == count, f"{count} have run", within)


async def check_once(fleet: Fleet, ran: Counter[Any]) -> None:
    """Every job has ended by one attempt that ran."""
    assert set(ran.values()) == {1}
    stats = await fleet.beat.backend.store.stats(fleet.beat.backend.clock.now())
    assert stats.jobs["succeeded"] == len(ran)
    assert stats.jobs["waiting"] == stats.jobs["running"] == stats.jobs["failed"] == 0


async def settled(fleet: Fleet, count: int) -> None:
    async def all_settled() -> bool:
        stats = await fleet.beat.backend.store.stats(fleet.beat.backend.clock.now())
        return stats.jobs["succeeded"] == count

    await eventually(all_settled, f"{count} have ended")


@pytest.mark.parametrize("fault", ["cut", "silent"])
async def test_jobs_run_while_the_broker_is_away_and_over_it_when_it_is_back(
    make_working: Working, link: BrokerLine, ran: Counter[Any], fault: str
) -> None:
    async with make_working() as fleet:
        watch, counts = watch_of(fleet), counted(fleet)
        await make_working.send(fleet, range(10))
        await all_ran(ran, 10)
        assert counts[RUN] > 0
        link.proxy.silence() if fault == "silent" else await link.proxy.disconnect()
        await make_working.send(fleet, range(10, 30))
        await all_ran(ran, 30)
        assert not watch.is_usable
        await eventually(lambda: watch.is_away, "it is seen to be away")
        published, tries, looks = counts.total(), link.proxy.refused, watch.failed_pings
        await eventually(lambda: watch.failed_pings > looks + 3, "some seconds pass")
        assert counts.total() <= published + 1, "nothing is published to a broker that is away"
        assert link.proxy.refused - tries < 60, "nor is it overrun by those who would reach it"
        await link.proxy.reconnect()
        await used_again(fleet)
        before = counts[RUN]
        # One after the other: what each waits for adds up.
        for number in range(30, 80):
            await make_working.send(fleet, [number])
            await all_ran(ran, number + 1, BACK_WITHIN)
        assert counts[RUN] > before
        await settled(fleet, 80)
        await check_once(fleet, ran)


async def test_a_program_starts_without_its_broker_and_uses_it_when_it_comes(
    make_working: Working, link: BrokerLine, ran: Counter[Any]
) -> None:
    await link.proxy.disconnect()
    async with make_working() as fleet:
        await make_working.send(fleet, range(5))
        await all_ran(ran, 5)
        await link.proxy.reconnect()
        await used_again(fleet)
        counts = counted(fleet)
        await make_working.send(fleet, range(5, 10))
        await all_ran(ran, 10, BACK_WITHIN)
        assert counts[RUN] > 0
        await settled(fleet, 10)
        await check_once(fleet, ran)


async def test_after_a_short_interruption_jobs_are_as_quick_as_before(
    make_working: Working, link: BrokerLine, ran: Counter[Any]
) -> None:
    async with make_working() as fleet:
        await make_working.send(fleet, range(5))
        await all_ran(ran, 5)
        await link.proxy.disconnect()
        tries = link.proxy.refused
        await eventually(lambda: link.proxy.refused > tries + 10, "it is missed")
        await link.proxy.reconnect()
        async with asyncio.timeout(BACK_WITHIN + 10):
            for number in range(5, 105):
                await make_working.send(fleet, [number])
                await all_ran(ran, number + 1)
        await settled(fleet, 105)
        await check_once(fleet, ran)


async def test_of_all_loops_only_the_broker_s_own_falls_silent(
    make_working: Working, link: BrokerLine
) -> None:
    """So a process that nobody can reach over the broker is alive, and its readiness says why."""
    async with make_working() as fleet:
        watch = watch_of(fleet)
        counts = fleet.beat.backend.telemetry.counters
        failures = counts.loop_failures
        await link.proxy.disconnect()
        await eventually(lambda: watch.is_away, "it is seen to be away")
        # What each loop had begun before that comes to its end.
        await eventually(lambda: failures.get("broker", 0) > 5, "it is said so")
        beats, failed = dict(counts.loop_beats), dict(failures)
        await eventually(lambda: failures["broker"] > 10, "it is said again")
        others = {name: at for name, at in beats.items() if name not in MAY_REST}
        await eventually(
            lambda: all(counts.loop_beats[name] > at for name, at in others.items()),
            "every other loop has gone on",
        )
        assert {name for name, _ in failures.items() - failed.items()} == {"broker"}
        assert counts.loop_beats.get("broker") == beats.get("broker")


async def test_a_slow_broker_is_used_all_the_same(
    make_working: Working, link: BrokerLine, ran: Counter[Any]
) -> None:
    parts = urlsplit(link.straight)
    async with Proxy(parts.hostname, parts.port) as proxy:
        proxy.delay = 0.1
        slow = link.straight.replace(parts.netloc.rpartition("@")[2], proxy.address)
        async with make_working(over=slow) as fleet:
            await make_working.send(fleet, range(10))
            await all_ran(ran, 10, 20)
            # To connect and make the queues takes many questions; what follows takes few.
            await used_again(fleet, 30)
            counts = counted(fleet)
            for start in range(10, 50, 10):
                await make_working.send(fleet, range(start, start + 10))
            await all_ran(ran, 50, 20)
            assert (watch_of(fleet).is_usable, counts[RUN] > 0) == (True, True)
            await settled(fleet, 50)
            await check_once(fleet, ran)


async def test_remote_work_and_results_wait_for_the_broker(
    make_working: Working, link: BrokerLine, outside: Outside
) -> None:
    """A call comes once more where word of its arrival was cut off; a worker answers each."""
    async with make_working() as fleet:
        await outside.say(SUBMIT, {"jsonrpc": "2.0", "method": "submit:export"})
        first = await outside.next(WORK)
        await link.proxy.disconnect()
        await eventually(lambda: watch_of(fleet).is_away, "it is seen to be away")
        await answer(outside, first)
        await outside.say(SUBMIT, {"jsonrpc": "2.0", "method": "submit:export"})
        await link.proxy.reconnect()
        worker = asyncio.create_task(answer_all(outside))
        await settled(fleet, 2)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert {job.attempt for job in await fleet.jobs()} == {1}


async def answer_all(outside: Outside) -> None:
    """As a remote worker does."""
    while True:
        await answer(outside, await outside.next(WORK, 60))


async def answer(outside: Outside, delivery: Delivery) -> None:
    request = json.loads(delivery.body)
    result = {"jsonrpc": "2.0", "result": request["params"], "id": request["id"]}
    await outside.say(RESULTS, result, **{"onbeat-token": delivery.headers["onbeat-token"]})


async def test_a_worker_cut_off_alone_still_takes_its_share(
    make_working: Working, link: BrokerLine, ran: Counter[Any]
) -> None:
    """The dispatcher reaches the broker, and there is no other worker."""
    dispatching = frozenset({"dispatcher", "maintenance"})
    async with (
        make_working(roles=frozenset({"worker"})) as worker,
        make_working(over=link.straight, roles=dispatching) as dispatcher,
    ):
        await make_working.send(dispatcher, range(5))
        await all_ran(ran, 5)
        await link.proxy.disconnect()
        await make_working.send(dispatcher, range(5, 10))
        await all_ran(ran, 10)
        assert (watch_of(worker).is_away, watch_of(dispatcher).is_usable) == (True, True)
        await settled(dispatcher, 10)
        await check_once(dispatcher, ran)


async def test_a_purge_under_load_costs_time_alone(
    make_working: Working, outside: Outside, ran: Counter[Any]
) -> None:
    async with make_working() as fleet:
        for start in range(0, 200, 20):
            await make_working.send(fleet, range(start, start + 20))
            await outside.broker.purge(RUN)
        await all_ran(ran, 200, 15)
        await settled(fleet, 200)
        await check_once(fleet, ran)


NOBODYS = "0199a1b2-0000-7000-8000-000000000001"
FORGED = [
    b"",
    b"\x00\xff\xfe",
    b"[" * 100_000,
    b"{" + b'"a":' * 10_000,
    b'"' + b"x" * 5_000_000 + b'"',
    json.dumps({"jsonrpc": "2.0", "method": "work", "id": NOBODYS, "token": 2**70}).encode(),
    json.dumps({"jsonrpc": "2.0", "method": "work", "id": NOBODYS, "token": 1}).encode(),
    json.dumps({"jsonrpc": "2.0", "result": {"attempt": 1}, "id": NOBODYS}).encode(),
    json.dumps(
        {"jsonrpc": "2.0", "method": "submit:work", "params": {"n": "x" * 5_000_000}}
    ).encode(),
]
HEADERS = {
    "onbeat-token": "9" * 5_000,
    "onbeat-hops": "-1",
    "onbeat-deadline": "tomorrow",
    "reply-to": REPLIES,
}


@pytest.mark.parametrize("queue", [RUN, SUBMIT, RESULTS])
async def test_forged_messages_are_put_aside_and_hold_nothing_up(
    make_working: Working, outside: Outside, ran: Counter[Any], queue: str
) -> None:
    async with make_working() as fleet:
        for body in FORGED:
            await outside.broker.publish(queue, [Envelope(body=body, id="", headers=HEADERS)])
        await make_working.send(fleet, range(20))
        await all_ran(ran, 20, BACK_WITHIN)
        await fleet.dead_letters(5)
        letters = await fleet.beat.backend.store.dead_letters(None, 100)
        assert {letter.source for letter in letters} == {queue}
        assert all(len(letter.body) <= 1_048_576 for letter in letters)
        for _ in letters:
            answer = await outside.next(DEAD)
            assert answer.headers["onbeat-source"] == queue
        await settled(fleet, 20)
        await check_once(fleet, ran)


async def test_forged_results_and_announcements_of_real_jobs_change_nothing(
    make_working: Working, outside: Outside, ran: Counter[Any]
) -> None:
    """Who may write to the broker, and guesses an id, still lacks the token."""
    async with make_working() as fleet:
        await outside.say(SUBMIT, {"jsonrpc": "2.0", "method": "submit:export", "params": {}})
        delivery = await outside.next(WORK)
        request = json.loads(delivery.body)
        seal = delivery.headers["onbeat-token"].partition(".")[2]
        forged = {"jsonrpc": "2.0", "result": {"by": "forger", "attempt": 1}, "id": request["id"]}
        await outside.say(RESULTS, forged)
        for token in ("0", "1", "2", "-1", "x", f"2.{seal}", f"1.{seal[::-1]}"):
            await outside.say(RESULTS, forged, **{"onbeat-token": token})
            call = {"jsonrpc": "2.0", "method": "work", "id": request["id"], "token": 7}
            await outside.say(RUN, call)
        await make_working.send(fleet, range(5))
        await all_ran(ran, 5)
        job = await fleet.beat.backend.store.job(request["id"])
        assert (job.state, job.token, job.attempt) == (JobState.RUNNING, Token(1), 1)
        real = {"jsonrpc": "2.0", "result": {"attempt": 1}, "id": request["id"]}
        await outside.say(RESULTS, real, **{"onbeat-token": delivery.headers["onbeat-token"]})
        await fleet.the_job(lambda job: job.state is JobState.SUCCEEDED, "its end")


async def test_messages_out_of_order_and_doubled_are_each_done_once(
    make_working: Working, outside: Outside, ran: Counter[Any]
) -> None:
    async with make_working(roles=frozenset({"dispatcher", "worker", "maintenance"})) as fleet:
        calls = [
            {"jsonrpc": "2.0", "method": "submit:work", "params": {"n": n}} for n in range(100)
        ]
        for number in [*reversed(range(100)), *range(0, 100, 3)]:
            await outside.say(SUBMIT, calls[number], id=f"order-{number}")
        await all_ran(ran, 100)
        await settled(fleet, 100)
        await check_once(fleet, ran)


@pytest.mark.parametrize("fault", ["cut", "silent"])
async def test_ends_with_the_broker_away_are_quick_and_lose_nothing(
    make_working: Working, link: BrokerLine, ran: Counter[Any], fault: str
) -> None:
    async with make_working() as fleet:
        await make_working.send(fleet, range(10))
        await all_ran(ran, 10)
        link.proxy.silence() if fault == "silent" else await link.proxy.disconnect()
        await make_working.send(fleet, range(10, 15))
        await asyncio.wait_for(fleet.beat.stop(), 10)
    async with make_working():
        await all_ran(ran, 15)
    assert set(ran.values()) == {1}
