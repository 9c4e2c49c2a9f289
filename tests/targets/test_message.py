"""Messages while their broker is away."""

import asyncio
from datetime import timedelta
from typing import Any

from free_ports import free_port
from onbeat import Onbeat, Options, message
from onbeat.model.errors import Unavailable
from onbeat.model.outcome import Failed, Snoozed, Succeeded
from onbeat.model.target import MessageTarget
from onbeat.ports.transport import Envelope
from onbeat.rules.circuit_breaker import CALLS_MIN
from onbeat.targets.breaker import Breakers
from onbeat.targets.message import MessageRunner
from onbeat.testing.build import a_job
from targets.runs import CLOCK, ARun, a_run

MESSAGES = 400


class LostBroker:
    """Answers nothing at all until it is `back`."""

    url = "amqp://lost/"

    def __init__(self) -> None:
        self.back = asyncio.Event()
        self.pings = 0
        self.published: list[Envelope] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def ping(self) -> None:
        self.pings += 1
        await self.back.wait()

    async def publish(self, queue: str, envelopes: list[Envelope]) -> None:
        if not self.back.is_set():
            raise Unavailable("lost")
        self.published += envelopes


def a_runner_to(broker: Any) -> MessageRunner:
    return MessageRunner({"lost": broker.url}, lambda _url: broker, Breakers(CLOCK))


def a_message() -> ARun:
    run = a_run("http://x/")
    run.job = a_job(target=MessageTarget("lost", "queue"))
    return run


async def test_messages_wait_together_for_one_answer_and_not_for_long() -> None:
    broker = LostBroker()
    runner = a_runner_to(broker)
    outcomes = await asyncio.gather(*(runner.run(a_message()) for _ in range(CALLS_MIN)))
    assert [type(outcome) for outcome in outcomes] == [Failed] * CALLS_MIN
    assert "no answer within 1 s" in outcomes[0].error
    assert broker.pings == 1
    later = await runner.run(a_message())
    assert isinstance(later, Snoozed)
    assert "connection 'lost' seems to be down" in later.reason
    await runner.close()


async def test_a_broker_that_is_back_is_found_by_the_question_that_was_asked() -> None:
    broker = LostBroker()
    runner = a_runner_to(broker)
    assert isinstance(await runner.run(a_message()), Failed)
    broker.back.set()
    assert isinstance(await runner.run(a_message()), Succeeded)
    assert (broker.pings, len(broker.published)) == (1, 1)
    await runner.close()


async def test_a_broker_that_is_away_starves_no_other_job() -> None:
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    options = Options(connections={"down": url}, drain_timeout=timedelta(seconds=1))
    beat = Onbeat("memory://", options=options)

    @beat.task("quick")
    def quick() -> int:
        return 1

    waiting = beat.send([message("down", "q", {"n": n}) for n in range(MESSAGES)])
    async with beat:
        job = await quick.asend()
        assert await job.aresult(timeout=60) == 1
        tried = [one for one in waiting if (await one.ainfo()).attempt > 0]
    # It was begun before each of the messages had held a place of the worker for a while.
    assert len(tried) < MESSAGES
