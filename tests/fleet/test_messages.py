"""Messages as targets: published, confirmed, and only then done."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually
from fleet.conftest import BrokerLine, Outside
from interfaces.rest_client import RestClient
from onbeat import Onbeat, Options, Retry, every, message
from onbeat.api.asgi import build_api
from onbeat.api.options import ApiOptions
from onbeat.app.handle import JobHandle
from onbeat.engine.running_attempt import RunningAttempt
from onbeat.model.ids import JobId
from onbeat.model.job import JobState

QUEUE = "onbeat.replies"  # one that is cleaned up


@pytest.fixture
def transport(link: BrokerLine) -> str:
    return link.straight


@pytest.fixture
async def beat(link: BrokerLine, tmp_path: Path) -> AsyncIterator[Onbeat]:
    beat = Onbeat(
        f"sqlite:///{tmp_path / 'onbeat.db'}",
        options=Options(
            connections={"events": link.through, "other": "redis://127.0.0.1:1/0?timeout=1"},
            retry=Retry(attempts_max=3, delay=0.2, jitter=False),
            drain_timeout=timedelta(seconds=1),
        ),
    )
    async with beat:
        yield beat


async def ended(beat: Onbeat, job: JobHandle) -> Any:
    async def end() -> Any:
        stored = await beat.backend.store.job(job.id)
        return stored if stored.is_final else None

    return await eventually(end, "its end")


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ("plain text, as it is: {", b"plain text, as it is: {"),
        ("", b""),
        ({"order": 7, "paid": True}, b'{"order":7,"paid":true}'),
        ([1, "\u00e4"], '[1,"\u00e4"]'.encode()),
        (None, b"null"),
    ],
)
async def test_a_message_comes_as_it_was_said(
    beat: Onbeat, outside: Outside, body: Any, sent: bytes
) -> None:
    job = await beat.asend(message("events", QUEUE, body, headers={"shop": "north"}))
    delivery = await outside.next(QUEUE)
    assert (delivery.body, delivery.id) == (sent, job.id)
    attempt = delivery.headers.pop("onbeat-attempt")
    assert delivery.headers == {"shop": "north", "onbeat-job-id": job.id}
    stored = await ended(beat, job)
    assert stored.state is JobState.SUCCEEDED
    # A broker that does not answer within a second, as on a busy machine, costs an attempt.
    assert 1 <= int(attempt) <= stored.attempt


async def test_a_message_of_a_schedule_says_of_which_occurrence_it_is(
    beat: Onbeat, outside: Outside
) -> None:
    await beat.schedules.aput("tick", every("1s"), message("events", QUEUE, {"tick": True}))
    delivery = await outside.next(QUEUE)
    schedule = await beat.backend.store.schedule_by_key("tick")
    assert delivery.headers["onbeat-schedule-id"] == schedule.id
    headers = datetime.fromisoformat(delivery.headers["onbeat-occurrence"])
    job = await beat.backend.store.job(JobId(delivery.id))
    assert (headers, headers.tzinfo) == (job.occurrence, UTC)


async def test_a_job_has_succeeded_when_its_message_is_confirmed_and_no_sooner(
    beat: Onbeat, outside: Outside, link: BrokerLine
) -> None:
    first = await beat.asend(message("events", QUEUE, 1))
    assert (await ended(beat, first)).state is JobState.SUCCEEDED
    await outside.next(QUEUE)
    link.proxy.silence()
    second = await beat.asend(message("events", QUEUE, 2))

    async def is_tried() -> bool:
        return (await beat.backend.store.job(second.id)).state is JobState.RUNNING

    await eventually(is_tried, "it is being sent")
    await link.proxy.reconnect()
    job = await ended(beat, second)
    assert job.state is JobState.SUCCEEDED
    delivery = await outside.next(QUEUE)
    assert (delivery.id, delivery.body) == (second.id, b"2")


async def test_while_the_broker_is_away_it_is_tried_again_by_the_policy(
    beat: Onbeat, outside: Outside, link: BrokerLine
) -> None:
    await link.proxy.disconnect()
    kept = await beat.asend(message("events", QUEUE, 1))

    async def has_failed() -> bool:
        return len(await beat.backend.store.attempts(kept.id)) == 1

    await eventually(has_failed, "the first attempt has failed")
    await link.proxy.reconnect()
    job = await ended(beat, kept)
    first, *_ = await beat.backend.store.attempts(kept.id)
    assert (job.state, job.attempt > 1, first.outcome) == (JobState.SUCCEEDED, True, "failed")
    assert "not available" in first.error
    delivery = await outside.next(QUEUE)
    assert (delivery.id, delivery.headers["onbeat-attempt"]) == (kept.id, str(job.attempt))


async def test_a_broker_that_stays_away_uses_the_attempts_up(beat: Onbeat) -> None:
    lost = await beat.asend(message("other", QUEUE, 1))
    job = await ended(beat, lost)
    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "attempts used up", 3)
    assert "127.0.0.1:1" in job.error


async def test_what_no_broker_would_take_fails_at_once(beat: Onbeat) -> None:
    wide = {f"h{n}": "x" * 8_000 for n in range(20)}
    job = await ended(beat, await beat.asend(message("events", QUEUE, 1, headers=wide)))
    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "not retryable", 1)
    assert "headers of a message" in job.error


async def test_a_message_sent_again_has_the_same_id(beat: Onbeat, outside: Outside) -> None:
    job = await beat.asend(message("events", QUEUE, 1))
    await ended(beat, job)
    first = await outside.next(QUEUE)
    # As a worker does whose word of the first was lost.
    again = RunningAttempt(await beat.backend.store.job(job.id), None, beat._running.runtime.guard)
    await beat._running.messages.run(again)
    second = await outside.next(QUEUE)
    assert first.id == second.id == job.id


async def test_many_messages_at_once_are_all_sent(beat: Onbeat, outside: Outside) -> None:
    jobs = await beat.asend([message("events", QUEUE, number) for number in range(200)])
    got = [json.loads((await outside.next(QUEUE)).body) for _ in jobs]
    assert sorted(got) == list(range(200))


async def test_a_worker_without_the_connection_leaves_the_job_to_others(
    beat: Onbeat, outside: Outside
) -> None:
    async with Onbeat(beat.backend.url) as other:
        jobs = await beat.asend([message("events", QUEUE, n) for n in range(20)])
        for _ in jobs:
            await outside.next(QUEUE)
        answer = [await other.backend.store.attempts((await ended(beat, job)).id) for job in jobs]
    workers = {attempt.worker for attempts in answer for attempt in attempts}
    assert workers == {beat._running.runtime.dependencies.identity.id}


async def test_what_no_worker_has_a_connection_for_waits_and_is_reported(beat: Onbeat) -> None:
    """A program may send what others have the connection for; the service would refuse it."""
    job = await beat.asend(message("nowhere", QUEUE, 1))
    stats = await beat.backend.store.stats(beat.backend.clock.now())
    assert stats.unknown_tasks == {"@message:nowhere": 1}
    assert (await beat.backend.store.job(job.id)).state is JobState.WAITING


async def test_messages_go_where_jobs_go_over_a_broker_too(
    link: BrokerLine, outside: Outside, tmp_path: Path
) -> None:
    """The transport and the connection may be the same broker."""
    url = f"sqlite:///{tmp_path / 'fleet.db'}"
    options = Options(transport=link.straight, connections={"events": link.straight})
    async with Onbeat(url, options=options) as beat:
        job = await beat.asend(message("events", QUEUE, "hello"))
        assert (await outside.next(QUEUE)).body == b"hello"
        assert (await ended(beat, job)).state is JobState.SUCCEEDED


# What is asked for over HTTP.


def asked(**fields: Any) -> dict[str, Any]:
    return {"target": {"message": {"to": "events", "queue": QUEUE} | fields}}


async def test_over_http_it_is_asked_for_and_shown_alike(beat: Onbeat, outside: Outside) -> None:
    client = RestClient(build_api(beat.backend.context, ApiOptions()))
    body = asked(body={"order": 7}, headers={"shop": "north"})
    created = await client.post("/api/jobs", body)
    assert created.status == 201, created.body
    shown = await client.get(f"/api/jobs/{created.json['id']}")
    assert shown.json["target"] == body["target"]
    assert json.loads((await outside.next(QUEUE)).body) == {"order": 7}


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"to": "nowhere"}, 422, "target.message.to: no connection is named 'nowhere'"),
        ({"to": "amqp://guest@evil/"}, 422, "events, other"),
        ({"queue": ""}, 422, "queue"),
        ({"headers": {"onbeat-job-id": "x"}}, 422, "onbeat-"),
        ({"headers": {"h": "x" * 8_193}}, 413, "8192"),
        ({"headers": {f"h{n}": "" for n in range(101)}}, 422, "100"),
        ({"body": "x" * 262_144}, 413, "262144"),
        ({"body": "x", "text": "y"}, 422, "text"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    fields: dict[str, Any], status: int, said: str
) -> None:
    nowhere = "redis://127.0.0.1:1/0"
    beat = Onbeat("memory://", options=Options(connections={"events": nowhere, "other": nowhere}))
    await beat.backend.open()
    client = RestClient(build_api(beat.backend.context, ApiOptions()))
    refused = await client.post("/api/jobs", asked(**fields))
    await beat.aclose()
    assert refused.status == status, refused.body
    assert said in refused.error["message"]
