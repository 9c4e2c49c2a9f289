"""A handler of an event that tells the end of a job gets the job's arguments with it."""

from typing import Any

import pytest

from app import ended_job_tasks
from conditions import eventually
from onbeat import Context, Event, Onbeat, Options, Retry, http

AT = "2026-03-28T23:00Z"
KEY = "one:" + "A" * 43 + "="
FAILED = "onbeat.job.failed"


class Shop:
    """A program with a task that fails, and a list of what its alarm has seen."""

    def __init__(self) -> None:
        self.beat = Onbeat("memory://", options=Options(encryption_keys=(KEY,)))
        self.seen: list[Any] = []

        def fail(*_: object, **__: object) -> None:
            raise ValueError("of its own")

        def charge(order: int, *, currency: str = "EUR") -> None:
            fail(order, currency)

        def secret(number: str) -> None:
            fail(number)

        self.charge: Any = self.beat.task("charge", retry=Retry(1))(charge)
        self.secret: Any = self.beat.task("secret", retry=Retry(1), encrypted=True)(secret)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def shown(event: Event[Any]) -> Any:
    job = event.job
    return None if job is None else (job.id, job.task, job.args, job.kwargs)


def test_the_event_of_a_failure_has_the_arguments(shop: Shop) -> None:
    @shop.beat.schedule(on=FAILED)
    def alarm(event: Event[Any]) -> None:
        shop.seen.append((event.data["job"], shown(event)))

    with shop.beat.testing(at=AT) as trial:
        job = shop.charge.send(7, currency="CHF")
        trial.drain()
    assert shop.seen == [(job.id, (job.id, "charge", [7], {"currency": "CHF"}))]


def test_so_have_many_events_and_those_of_the_context(shop: Shop) -> None:
    @shop.beat.schedule(on=FAILED, gather={"for": "1h"})
    def alarm(context: Context, events: list[Event[Any]]) -> None:
        assert list(map(shown, context.events)) == list(map(shown, events))
        assert not context.after
        shop.seen += [event.job.args for event in events if event.job]

    with shop.beat.testing(at=AT) as trial:
        shop.beat.send([shop.charge.call(1), shop.charge.call(2)])
        trial.advance("2h")
    assert sorted(shop.seen) == [[1], [2]]


def test_what_is_hidden_in_answers_is_hidden_here(shop: Shop) -> None:
    @shop.beat.schedule(on=FAILED)
    def alarm(event: Event[Any]) -> None:
        shop.seen.append(event.job.args if event.job else None)

    with shop.beat.testing(at=AT) as trial:
        shop.secret.send("4711")
        shop.charge.options(sensitive=True).send(7)
        trial.drain()
    assert shop.seen == [["…"], ["…"]]


def test_other_events_have_no_job(shop: Shop) -> None:
    @shop.beat.schedule(on=["order.paid", FAILED])
    def alarm(event: Event[Any]) -> None:
        shop.seen.append(event.job)

    with shop.beat.testing(at=AT) as trial:
        shop.beat.events.publish("order.paid", subject="7")
        trial.drain()
    assert shop.seen == [None]


def test_a_callback_has_no_task(shop: Shop) -> None:
    @shop.beat.schedule(on="onbeat.job.cancelled")
    def alarm(event: Event[Any]) -> None:
        shop.seen.append(shown(event))

    with shop.beat.testing(at=AT) as trial:
        trial.drain()
        call = http("POST", "https://example.com").with_options(delay="1h")
        job = shop.beat.send(call)
        shop.beat.jobs.cancel(job.id)
        trial.drain()
    assert shop.seen == [(job.id, None, [], {})]


async def test_the_job_crosses_to_a_process_of_its_own() -> None:
    async with ended_job_tasks.beat as beat:
        failed: Any = await ended_job_tasks.charge.asend(7, currency="CHF")

        async def alarms() -> Any:
            return await beat.jobs.alist(task="alarm", state="succeeded")

        (job,) = await eventually(alarms, "the alarm has run")
        assert job.to_dict()["result"] == ["shop.charge", [7], {"currency": "CHF"}]
        assert (await beat.jobs.aget(failed.id)).state == "failed"
