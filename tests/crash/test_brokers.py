"""Real processes over brokers of our own that die, forget, fill up and come back."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.programs import Program, program
from conditions import PATIENCE, eventually_here
from crash.brokers import KINDS, RabbitMq
from crash.invariants import Invariants
from crash.test_kill import SEED, count, let_it_run
from onbeat.app.brokers import open_broker
from onbeat.model.worker import is_carried
from onbeat.ports.transport import Envelope
from onbeat.wire.broker_messages import SUBMIT

PROGRAM = (Path(__file__).parent / "broker_app.py").read_text()
RESTARTS = max(2, int(os.environ.get("CRASH_CYCLES", "8")) // 4)
BACK_WITHIN = 15.0  # for a machine that has much else to do; five seconds are what is promised

pytestmark = pytest.mark.proof


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest) -> Iterator[RabbitMq]:
    made = KINDS[request.param]()
    yield made
    made.stop()


class Fleet:
    """Processes by what they are for; those that run jobs talk over the broker."""

    def __init__(self, place: Path, broker: RabbitMq, stack: ExitStack) -> None:
        self.place = place
        self.broker = broker
        self.stack = stack
        self.running: dict[str, Program] = {}

    def start(self, name: str, roles: str) -> Program:
        url = f"{self.broker.url}?timeout=3"
        words = ("--transport", url, "--roles", roles, "--port", "0", "--planner-horizon", "2s")
        self.running[name] = self.stack.enter_context(program(PROGRAM, self.place, *words))
        return self.running[name]

    def start_sender(self) -> None:
        self.running["sender"] = self.stack.enter_context(program(PROGRAM, self.place, "send"))
        self.running["sender"].wait_to_say("sending")

    def wait_until_ready(self) -> None:
        for name, one in self.running.items():
            one.wait_to_say("sending" if name == "sender" else "event=ready")

    def all_say(self, text: str, times: int) -> None:
        for name, one in self.running.items():
            if name != "sender":
                one.wait_to_say(text, times)

    def wait_for_work(self, jobs: int, what: str, within: float = PATIENCE) -> None:
        done = count(self.place, "ended")
        eventually_here(lambda: count(self.place, "ended") >= done + jobs, what, within)

    def wait_until_quiet(self) -> None:
        """Nothing more is sent, and all that was due ends."""
        self.running.pop("sender").kill()
        since = datetime.now(UTC)
        eventually_here(
            lambda: Invariants.glance(self.place).is_quiet(since),
            "all that was due has ended",
        )

    def drain(self) -> None:
        for one in self.running.values():
            one.signal(signal.SIGTERM)
        for name, one in self.running.items():
            assert one.ended() == 0, f"{name}: {one.log.read_text()}"


ALL = {"all": "planner,dispatcher,worker,maintenance"}
SPREAD = {
    "keeper": "planner,maintenance,dispatcher",
    "dispatcher": "dispatcher",
    "worker-1": "worker",
    "worker-2": "worker",
}


@contextlib.contextmanager
def fleet(place: Path, broker: RabbitMq, parts: dict[str, Any]) -> Iterator[Fleet | None]:
    with contextlib.ExitStack() as stack:
        made = Fleet(place, broker, stack)
        made.start_sender()
        for name, roles in parts.items():
            made.start(name, roles)
        made.wait_until_ready()
        yield made


class BrokeredBooks(Invariants):
    """What was only on its way, and given back, was no attempt."""

    async def read(self) -> None:
        await super().read()
        self.attempts = {
            id: [one for one in answer if not is_carried(one.worker)]
            for id, answer in self.attempts.items()
        }


def checked(place: Path, *, lost: int = 0) -> BrokeredBooks:
    """Nothing is missing, and nothing was done twice that did not say why."""
    books = BrokeredBooks(place)
    books.check_accepted()
    books.check_attempts()
    books.check_occurrences()
    books.check_runs_of_occurrences()
    assert sum(job.lost for job in books.jobs.values()) == lost
    states = Counter(job.state.value for job in books.jobs.values())
    # What `pytest -rP` shows, so that less of anything is seen.
    sys.stdout.write(f"jobs {dict(states)} refused {count(place, 'refused')}\n")
    return books


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_broker_killed_under_load_loses_nothing_and_is_not_missed(
    place: Path, broker: RabbitMq
) -> None:
    chance = random.Random(SEED)
    broker.start()
    with fleet(place, broker, SPREAD) as made:
        for number in range(RESTARTS):
            made.wait_for_work(50, "it works")
            let_it_run(chance.uniform(0.0, 0.3))
            broker.kill()
            made.wait_for_work(100, "it works without the broker")
            made.all_say("event=loop.failed loop=broker", number + 1)
            broker.start()
            made.all_say("event=loop.recovered loop=broker", number + 1)
            made.wait_for_work(50, "it works over the broker", BACK_WITHIN)
        made.wait_until_quiet()
        made.drain()
    checked(place)


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_broker_that_forgets_everything_under_load_costs_time_alone(
    place: Path, broker: RabbitMq
) -> None:
    broker.start()
    with fleet(place, broker, SPREAD) as made:
        for _ in range(RESTARTS):
            made.wait_for_work(50, "it works")
            broker.forget()
            made.wait_for_work(50, "it works on", BACK_WITHIN)
        made.wait_until_quiet()
        made.drain()
    checked(place)


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_full_broker_is_done_without_until_it_has_room(place: Path, broker: RabbitMq) -> None:
    broker.start()
    with fleet(place, broker, SPREAD) as made:
        made.wait_for_work(50, "it works")
        broker.fill()
        dispatcher = made.running["dispatcher"]
        dispatcher.wait_to_say("event=loop.failed loop=broker")
        made.wait_for_work(200, "it works without the broker")
        broker.clear()
        dispatcher.wait_to_say("event=loop.recovered loop=broker")
        made.wait_for_work(50, "it works over the broker", BACK_WITHIN)
        made.wait_until_quiet()
        made.drain()
    checked(place)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_service_starts_before_its_broker_and_is_ready(place: Path, broker: RabbitMq) -> None:
    """One process, one file: it serves and works, and says what it misses."""
    with fleet(place, broker, ALL | {"all": f"{ALL['all']},api"}) as made:
        service = made.running["all"]
        service.wait_to_say("event=loop.failed loop=broker")
        made.wait_for_work(200, "it works without the broker")
        assert not service.said("event=loop.recovered")
        broker.start()
        service.wait_to_say("event=loop.recovered loop=broker")
        made.wait_for_work(50, "it works over the broker", BACK_WITHIN)
        made.wait_until_quiet()
        made.drain()
    checked(place)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_rolling_restarts_over_a_broker_lose_nothing_and_cost_no_attempt(
    place: Path, broker: RabbitMq
) -> None:
    broker.start()
    with fleet(
        place, broker, {"keeper": "planner,maintenance", "all": "dispatcher,worker"}
    ) as made:
        for _ in range(4):
            made.wait_for_work(30, "it works")
            old = made.running.pop("all")
            made.start("all", "dispatcher,worker")
            old.signal(signal.SIGTERM)
            assert old.ended() == 0, old.log.read_text()
        made.wait_until_quiet()
        made.drain()
    books = checked(place)
    assert {job.attempt for job in books.jobs.values() if job.is_final} == {1}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_worker_killed_under_load_costs_what_it_ran_and_no_more(
    place: Path, broker: RabbitMq
) -> None:
    broker.start()
    parts = {"keeper": "planner,maintenance,dispatcher", "one": "worker", "two": "worker"}
    with fleet(place, broker, parts) as made:
        for victim in ("one", "keeper", "two"):
            made.wait_for_work(30, "it works")
            made.running.pop(victim).kill()
            made.start(victim, parts[victim])
            made.wait_until_ready()
        made.wait_until_quiet()
        made.drain()
    books = BrokeredBooks(place)
    books.check_accepted()
    books.check_attempts()
    books.check_runs_of_occurrences()


LARGE = 5_000_000
LARGE_MESSAGES = 150
MEGABYTES_MAX = 700  # of the process at its height: 250 on their way, as much again, and itself


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_flood_of_huge_messages_is_put_aside_within_bounded_memory(
    place: Path, broker: RabbitMq
) -> None:
    broker.start()
    with fleet(place, broker, ALL) as made:
        asyncio.run(flood(broker.url))
        made.wait_for_work(50, "it works on")
        eventually_here(lambda: asyncio.run(depth(broker.url)) == 0, "all is put aside", 60)
        height = megabytes(made.running["all"].pid)
        made.wait_until_quiet()
        made.drain()
    sys.stdout.write(f"height {height} MB\n")
    assert height < MEGABYTES_MAX
    checked(place)


async def flood(url: str) -> None:
    broker = open_broker(f"{url}?timeout=30")
    await broker.open()
    for number in range(LARGE_MESSAGES):
        await broker.publish(SUBMIT, [Envelope(body=b"x" * LARGE, id=f"large-{number}")])
    await broker.close()


async def depth(url: str) -> Any:
    broker = open_broker(f"{url}?timeout=30")
    await broker.open()
    try:
        return await broker.depth(SUBMIT)
    finally:
        await broker.close()


def megabytes(pid: Any) -> Any:
    """The most memory that it has had."""
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return int(line.split()[1]) // 1024
