"""A scheduler of notifications in front of a message queue: its acceptance scenarios, by name.

The services are processes, their clients speak HTTP, and the pipeline behind them reads RabbitMQ.
"""

import contextlib
import json
import secrets
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conditions import eventually
from crash.conftest import store_url
from fleet.conftest import BrokerLine, Outside, rabbitmq_url, speaking
from interfaces.up import Up, up
from onbeat import Onbeat, Options, cron, message
from transports.proxy import Proxy
from transports.rabbitmq import server as rabbitmq

QUEUE = "onbeat.replies"  # one that is cleaned up
MANY = 1_000
PACE = timedelta(milliseconds=4)
LAST = "the last message"
TIMES = ("created_at", "run_at", "started_at", "finished_at")


@pytest.fixture
async def mq() -> AsyncIterator[str]:
    async with rabbitmq_url() as url:
        yield url


@pytest.fixture
async def pipeline(mq: str) -> AsyncIterator[Outside]:
    async with speaking(mq) as outside:
        yield outside


class Services:
    """Starts services on one store; each has a folder of its own."""

    def __init__(self, folder: Path, store: str, mq: str) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {"ONBEAT_STORE": store, "ONBEAT_CONNECTIONS": f"mq={mq}"}

    @contextlib.contextmanager
    def start(self, name: str = "one", **settings: Any) -> Iterator[Up]:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        with up(place, **self.settings, **settings) as running:
            yield running


@pytest.fixture(params=["sqlite"])
def services(request: pytest.FixtureRequest, tmp_path: Path, mq: str) -> Iterator[Services]:
    with store_url(request.param, tmp_path) as store:
        yield Services(tmp_path, store, mq)


def otp(number: int = 0, **options: object) -> dict[str, object]:
    """A notification of type SendOTP with its payload."""
    body = {"type": "SendOTP", "payload": {"number": number}}
    return {"target": {"message": {"to": "mq", "queue": QUEUE, "body": body}}, **options}


def send(service: Up, *jobs: dict[str, object]) -> list[str]:
    status, answer = service.ask("/api/jobs", {"jobs": list(jobs)})
    assert status == 201, answer
    ids: list[str] = answer["ids"]
    return ids


def show(service: Up, id: str) -> Any:
    status, answer = service.ask(f"/api/jobs/{id}")
    assert status == 200, answer
    return answer


async def succeeded(service: Up, id: str) -> Any:
    def job() -> Any:
        found = show(service, id)
        return found if found["state"] == "succeeded" else None

    return await eventually(job, "the job has succeeded")


def states(service: Up) -> dict[str, int]:
    status, answer = service.ask("/api/stats")
    assert status == 200, answer
    counts: dict[str, int] = answer["jobs"]
    return counts


async def all_succeeded(service: Up, count: int) -> None:
    await eventually(lambda: states(service)["succeeded"] == count, f"{count} have succeeded")


async def read(pipeline: Outside, counts: Counter[str], until: int) -> None:
    """Read messages until so many different ones are there."""
    while len(counts) < until:
        counts[(await pipeline.next(QUEUE)).id] += 1


async def read_rest(pipeline: Outside, counts: Counter[str]) -> None:
    """Read what is still in the queue, which keeps its order."""
    await pipeline.say(QUEUE, LAST, id=LAST)
    while (delivery := await pipeline.next(QUEUE)).id != LAST:
        counts[delivery.id] += 1


def spread(count: int = MANY) -> Sequence[dict[str, object]]:
    """Jobs that are due one after the other, so that a service can be stopped between them."""
    first = datetime.now(UTC) + timedelta(seconds=1)
    return [otp(n, run_at=(first + n * PACE).isoformat()) for n in range(count)]


async def test_s4_a01_without_a_time_it_is_published_at_once(
    services: Services, pipeline: Outside
) -> None:
    with services.start() as service:
        (id,) = send(service, otp(7))
        delivery = await pipeline.next(QUEUE)
        sent = {"type": "SendOTP", "payload": {"number": 7}}
        assert (delivery.id, json.loads(delivery.body)) == (id, sent)
        job = await succeeded(service, id)
        assert (job["attempt"], job["error"]) == (1, None)


async def test_s4_a02_it_is_not_published_before_its_time(
    services: Services, pipeline: Outside
) -> None:
    with services.start() as service:
        due = datetime.now(UTC) + timedelta(seconds=2)
        (id,) = send(service, otp(run_at=due.isoformat()))
        assert (await pipeline.next(QUEUE)).id == id
        assert datetime.now(UTC) >= due
        job = await succeeded(service, id)
        assert datetime.fromisoformat(job["started_at"]) >= due


@pytest.fixture
async def line(mq: str) -> AsyncIterator[BrokerLine]:
    parts = urlsplit(mq)
    async with Proxy(parts.hostname or "", parts.port or 0) as proxy:
        yield BrokerLine(mq, rabbitmq.through(proxy.address, mq, parts.query), proxy)


def attempts_of(service: Up, id: str, outcome: str) -> list[Any]:
    return [one for one in show(service, id)["attempts"] if one.get("outcome") == outcome]


async def test_s4_a03_a_broker_that_is_down_for_two_tries_delays_it(
    services: Services, pipeline: Outside, line: BrokerLine
) -> None:
    services.settings["ONBEAT_CONNECTIONS"] = f"mq={line.through}"
    retry = {"attempts_max": 6, "backoff": "exponential", "delay": "2s", "jitter": False}
    await line.proxy.disconnect()
    with services.start() as service:
        (id,) = send(service, otp(retry=retry))

        def failed_twice() -> bool:
            return len(attempts_of(service, id, "failed")) == 2

        await eventually(failed_twice, "two tries have failed")
        await line.proxy.reconnect()
        assert (await pipeline.next(QUEUE)).id == id
        job = await succeeded(service, id)
        first, second, last = job["attempts"]
        assert (job["attempt"], last["outcome"]) == (3, "succeeded")
        assert "not available" in second["error"]
        gaps = [
            datetime.fromisoformat(later["started"]) - datetime.fromisoformat(earlier["finished"])
            for earlier, later in ((first, second), (second, last))
        ]
        assert gaps[0] >= timedelta(seconds=2)
        assert gaps[1] >= timedelta(seconds=4)


async def test_s4_a04_a_broker_that_stays_down_fails_it_for_good(
    services: Services,
) -> None:
    services.settings["ONBEAT_CONNECTIONS"] = "mq=amqp://127.0.0.1:1/?timeout=1"
    with services.start() as service:
        (id,) = send(service, otp(retry={"attempts_max": 3, "delay": "0s"}))

        def failed() -> Any:
            job = show(service, id)
            return job if job["state"] == "failed" else None

        job = await eventually(failed, "the job has failed")
        assert (job["attempt"], job["reason"]) == (3, "attempts used up")
        assert "127.0.0.1:1" in job["error"]
        assert len(job["attempts"]) == 3
        *_, last = service.events("job.failed")
        assert (last["job"], last["state"]) == (id, "failed")


async def test_s4_a05_a_thousand_are_each_published_once(
    services: Services, pipeline: Outside
) -> None:
    counts: Counter[str] = Counter()
    with services.start() as service:
        ids = send(service, *(otp(n) for n in range(MANY)))
        await read(pipeline, counts, MANY)
        await all_succeeded(service, MANY)
        await read_rest(pipeline, counts)
    assert counts == Counter(ids)


async def test_s4_a05_kills_lose_none_of_a_thousand(services: Services, pipeline: Outside) -> None:
    """A message whose confirmation a kill cut off comes again, under the same id, and no other."""
    counts: Counter[str] = Counter()
    ids: list[str] = []
    for until in (200, 500, 800):
        with services.start() as service:
            ids = ids or send(service, *spread())
            await read(pipeline, counts, until)
            service.process.kill()
    with services.start() as service:
        await read(pipeline, counts, MANY)
        await all_succeeded(service, MANY)
        await read_rest(pipeline, counts)
        again = {id: count - 1 for id, count in counts.items() if count > 1}
        lost = {id: len(attempts_of(service, id, "lost")) for id in again}
    assert set(counts) == set(ids)
    assert all(times <= lost[id] for id, times in again.items())


@pytest.mark.parametrize("services", ["postgres"], indirect=True)
async def test_s4_a06_four_schedulers_publish_each_of_a_thousand_once(
    services: Services, pipeline: Outside
) -> None:
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        schedulers = [stack.enter_context(services.start(f"n{number}")) for number in range(4)]
        ids = send(schedulers[0], *spread())
        await read(pipeline, counts, MANY)
        await all_succeeded(schedulers[-1], MANY)
        await read_rest(pipeline, counts)
        workers = {show(schedulers[0], id)["attempts"][0]["worker"] for id in ids[:: MANY // 100]}
    assert counts == Counter(ids)
    assert len(workers) > 1


async def test_s4_a08_what_its_condition_forbids_is_not_published(
    services: Services, pipeline: Outside
) -> None:
    counts: Counter[str] = Counter()
    allowed = {"if": "job.labels.customer != 'ada'"}
    with services.start() as service:
        forbidden, sent = send(
            service,
            otp(1, condition=allowed, labels={"customer": "ada"}),
            otp(2, condition=allowed, labels={"customer": "bob"}),
        )
        await succeeded(service, sent)
        job = await eventually(lambda: cancelled(service, forbidden), "the job is cancelled")
        assert job["reason"] == "condition is false: job.labels.customer != 'ada'"
        await read_rest(pipeline, counts)
    assert counts == Counter([sent])


def cancelled(service: Up, id: str) -> Any:
    job = show(service, id)
    return job if job["state"] == "cancelled" else None


async def test_s4_a09_a_stop_finishes_what_is_being_published_and_leaves_the_rest(
    services: Services, pipeline: Outside
) -> None:
    counts: Counter[str] = Counter()
    with services.start() as service:
        ids = send(service, *spread())
        await read(pipeline, counts, 100)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(30) == 0
    with services.start(ONBEAT_ROLES="api") as service:
        left = states(service)
        assert left["running"] == left["failed"] == 0
        assert left["succeeded"] + left["waiting"] == MANY
        assert left["waiting"] > 0
    with services.start() as service:
        await read(pipeline, counts, MANY)
        await all_succeeded(service, MANY)
        await read_rest(pipeline, counts)
    assert counts == Counter(ids)


async def test_s4_a10_a_query_shows_the_whole_record(services: Services, pipeline: Outside) -> None:
    with services.start() as service:
        (id,) = send(service, otp(7, retry={"attempts_max": 6}, labels={"type": "SendOTP"}))
        await pipeline.next(QUEUE)
        job = await succeeded(service, id)
    body = {"type": "SendOTP", "payload": {"number": 7}}
    assert job["target"]["message"] == {"to": "mq", "queue": QUEUE, "body": body}
    assert job["labels"] == {"type": "SendOTP"}
    assert (job["attempt"], job["attempts_max"], job["error"]) == (1, 6, None)
    times = [datetime.fromisoformat(job[name]) for name in TIMES]
    assert times == sorted(times)


async def test_s4_a07_a_recurring_one_comes_every_minute_without_drift() -> None:
    pipeline = f"memory://minutes-{secrets.token_hex(4)}"
    beat = Onbeat("memory://", options=Options(connections={"mq": pipeline}))
    start = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)  # the clocks of Europe go forward at 1:00
    async with speaking(pipeline) as outside, beat.testing(at=start) as trial:
        await beat.schedules.aput("minutes", cron("* * * * *"), message("mq", QUEUE, "tick"))
        await trial.aadvance("60m")
        comes = [await outside.next(QUEUE) for _ in range(60)]
        occurrences = [datetime.fromisoformat(one.headers["onbeat-occurrence"]) for one in comes]
        assert len(trial.ran) == 60
    assert occurrences == [start + timedelta(minutes=n) for n in range(1, 61)]
