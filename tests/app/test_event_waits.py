"""Tasks that wait for an event: what they get, when, and what is refused."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from app.test_fan_out import give_up
from app.test_steps import Program
from conditions import eventually
from onbeat import Context, Event, Onbeat
from onbeat.model.limits import KEY_CHARS_MAX, NAME_CHARS_MAX, SPAN_MAX

REVIEWED = "invoice.reviewed"


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    with program.trial:
        yield program


async def review(context: Context) -> Any:
    event = await context.wait_for(REVIEWED, by="42", within="7d")
    return None if event is None else event.data


def shown(job: Any) -> tuple[str, int]:
    info = job.info()
    return info.state, info.attempt


def test_the_event_frees_the_job_and_costs_no_attempt(program: Program) -> None:
    job = program.run(review)
    assert shown(job) == ("waiting", 0)
    program.beat.events.publish(REVIEWED, "another", subject="43")
    program.beat.events.publish("invoice.sent", "another", subject="42")
    program.trial.drain()
    assert shown(job) == ("waiting", 0)
    program.beat.events.publish(REVIEWED, {"by": "ada"}, subject="42")
    program.trial.drain()
    assert job.result() == {"by": "ada"}
    assert shown(job) == ("succeeded", 1)


def test_the_handler_gets_the_whole_event(program: Program) -> None:
    async def body(context: Context) -> list[Any]:
        event = await context.wait_for("invoice.*")
        assert isinstance(event, Event)
        return [event.id, event.source, event.type, event.subject, event.data]

    job = program.run(body)
    attributes: Any = {"id": "e-1", "source": "/books", "subject": "7"}
    program.beat.events.publish("invoice.paid", [1], **attributes)
    program.trial.drain()
    assert job.result() == ["e-1", "/books", "invoice.paid", "7", [1]]


def test_without_an_event_it_goes_on_when_the_span_has_passed(program: Program) -> None:
    job = program.run(review)
    program.trial.advance("6d23h")
    assert shown(job) == ("waiting", 0)
    program.trial.advance("1h")
    assert shown(job) == ("succeeded", 1)
    assert job.result() is None


def test_what_a_wait_gave_stays_in_later_attempts(program: Program) -> None:
    seen: list[Any] = []

    async def body(context: Context) -> None:
        missed = await context.wait_for(REVIEWED, by="1", within="1h")
        event = await context.wait_for(REVIEWED, by="42", within="1h")
        seen.append((missed, event and event.data))
        if context.attempt == 1:
            program.beat.events.publish(REVIEWED, "late", subject="1")
            program.beat.events.publish(REVIEWED, "later", subject="42")
            raise ValueError("of its own")

    job = program.run(body)
    program.trial.advance("1h")
    program.beat.events.publish(REVIEWED, "first", subject="42")
    program.trial.drain()
    assert shown(job) == ("succeeded", 2)
    assert seen == [(None, "first")] * 2


def test_keys_tell_waits_for_the_same_event_apart(program: Program) -> None:
    async def body(context: Context) -> list[Any]:
        events = [await context.wait_for("tick", key=f"tick {n}") for n in range(2)]
        return [event and event.data for event in events]

    job = program.run(body)
    for number in range(2):
        program.beat.events.publish("tick", number)
        program.trial.drain()
    assert job.result() == [0, 1]


def test_waits_may_run_at_once(program: Program) -> None:
    async def body(context: Context) -> list[Any]:
        events = await asyncio.gather(*(context.wait_for(REVIEWED, by=by) for by in "ab"))
        return [event and event.data for event in events]

    job = program.run(body)
    for by in "ba":
        program.beat.events.publish(REVIEWED, by, subject=by)
        program.trial.drain()
    assert job.result() == ["a", "b"]


def test_an_event_before_the_first_call_does_not_count(program: Program) -> None:
    program.beat.events.publish(REVIEWED, "early", subject="42")
    program.trial.drain()
    assert shown(program.run(review)) == ("waiting", 0)


def test_a_replay_frees_what_waits_meanwhile(program: Program) -> None:
    event = program.beat.events.publish(REVIEWED, "early", subject="42")
    program.trial.drain()
    job = program.run(review)
    program.beat.events.replay(event.id)
    program.trial.drain()
    assert job.result() == "early"


def test_it_is_explained(program: Program) -> None:
    job = program.run(review)
    why = program.beat.jobs.why(job.id)
    assert why.code == "event"
    words = f"waits for event {REVIEWED} by 42 until 2026-11-30T20:00:00Z"
    assert why.explanation.startswith(f"It {words}.")
    assert why.may_run_at == program.trial.now + timedelta(days=7)
    assert job.info().reason == words
    freed = program.beat.events.publish(REVIEWED, subject="42")
    program.trial.drain()
    shown = program.beat.events.show(freed.id)
    assert shown.jobs == (job.id,)
    (verdict,) = shown.verdicts
    assert (verdict.schedule_id, verdict.reason) == (None, "freed: it waited for the event")


def test_one_without_a_bound_is_explained_without_a_time(program: Program) -> None:
    async def body(context: Context) -> None:
        await context.wait_for(REVIEWED)

    job = program.run(body)
    why = program.beat.jobs.why(job.id)
    assert why.explanation.startswith(f"It waits for event {REVIEWED}, without end.")
    assert why.may_run_at is None
    program.trial.advance(SPAN_MAX)
    program.trial.advance("1d")
    assert shown(job) == ("waiting", 0)


def test_the_key_of_a_sensitive_job_is_not_shown(program: Program) -> None:
    job = program.run(review, sensitive=True)
    assert job.info().reason.startswith(f"waits for event {REVIEWED} by … until ")


def test_a_cancelled_job_waits_no_more_and_begins_anew_by_a_retry(program: Program) -> None:
    job = program.run(review)
    program.beat.jobs.cancel(job.id)
    program.beat.events.publish(REVIEWED, "while cancelled", subject="42")
    program.trial.drain()
    assert job.info().state == "cancelled"
    program.beat.jobs.retry(job.id)
    program.trial.drain()
    assert shown(job) == ("waiting", 0)
    program.beat.events.publish(REVIEWED, "again", subject="42")
    program.trial.drain()
    assert job.result() == "again"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"type": ""}, "type cannot be empty"),
        ({"type": "a*b"}, "type may have a * only at its end"),
        ({"type": "onbeat.job.failed"}, "type: Onbeat's own events, as onbeat.job.failed, are"),
        ({"by": ""}, "by cannot be empty"),
        ({"by": "x" * (KEY_CHARS_MAX + 1)}, f"by must have at most {KEY_CHARS_MAX} characters"),
        ({"within": 0}, "within must be from "),
        ({"within": SPAN_MAX + timedelta(seconds=1)}, "within must be from "),
        ({"within": "soon"}, "within must be a span"),
    ],
)
def test_what_no_wait_can_be_for_is_refused(
    program: Program, given: dict[str, Any], says: str
) -> None:
    async def body(context: Context) -> None:
        await context.wait_for(**({"type": "t"} | given))

    job = program.run(body).info()
    assert (job.state, job.attempt) == ("failed", 1)
    assert job.error.startswith(f"wait_for: {says}")


@pytest.mark.parametrize("by", ["x" * KEY_CHARS_MAX, "x" * NAME_CHARS_MAX])
def test_the_longest_keys_are_waited_for(program: Program, by: str) -> None:
    async def body(context: Context) -> str:
        event = await context.wait_for("t" * 255, by=by, within=SPAN_MAX)
        return "" if event is None else event.id

    job = program.run(body)
    event = program.beat.events.publish("t" * 255, subject=by)
    program.trial.drain()
    assert job.result() == event.id


@pytest.mark.parametrize("other", [{"by": "43"}, {"by": None}, {"within": "8d"}])
def test_a_key_that_changes_its_arguments_is_refused(
    program: Program, other: dict[str, Any]
) -> None:
    async def body(context: Context) -> None:
        given: dict[str, Any] = {"by": "42", "within": "7d"}
        if program.calls:
            given |= other
        program.calls.append(None)
        await context.wait_for(REVIEWED, key="review", **given)

    job = program.run(body)
    program.beat.events.publish(REVIEWED, subject="42")
    program.trial.drain()
    assert "step 'review' was another function, or had other arguments" in job.info().error


async def is_reviewed(context: Context) -> bool:
    return await context.wait_for(REVIEWED) is not None


async def sleeps(context: Context) -> bool:
    await context.sleep("1h", key="pause")
    return True


async def steps(context: Context) -> bool:
    return await context.step("step", bool, 1)


@pytest.mark.parametrize("condition", [is_reviewed, sleeps, steps])
def test_a_condition_has_no_steps(program: Program, condition: Any) -> None:
    async def body() -> None: ...

    job = program.run(body, condition=condition).info()
    assert job.state == "failed"
    assert "a condition has no steps: it is judged before the attempt begins" in job.error


def test_a_task_that_a_condition_asks_has_no_steps(program: Program) -> None:
    program.beat.task("asked")(is_reviewed)

    async def body() -> None: ...

    condition = {"ask": {"task": "asked"}, "if": "answer"}
    assert "a condition has no steps" in program.run(body, condition=condition).info().error


async def test_an_event_that_comes_during_the_call_is_not_missed(
    beat: Onbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published and routed after the call, and before the wait is stored."""
    store = beat.backend.store
    enqueue_from = store.enqueue_from

    async def is_routed(id: str) -> bool:
        (stored,) = await store.events_by_id(id)
        return stored.routed_at is not None

    async def publish_first(sent: Any) -> Any:
        event = await beat.events.apublish(REVIEWED, "at once", subject="42")
        await eventually(lambda: is_routed(event.id), "the event has a decision")
        return await enqueue_from(sent)

    monkeypatch.setattr(store, "enqueue_from", publish_first)
    task = beat.task("work")(review)
    async with beat:
        assert await (await task.asend()).aresult(60) == "at once"


async def test_a_lost_lease_stores_no_wait(beat: Onbeat) -> None:
    begun, given_up, tokens = asyncio.Event(), asyncio.Event(), []

    async def number() -> int:
        return 1

    @beat.task("work")
    async def work(context: Context) -> Any:
        await context.step("first", number)
        if context.token == 1:
            begun.set()
            await given_up.wait()
        try:
            return await review(context)
        except Exception:
            tokens.append(context.token)
            raise

    async with beat:
        job = await work.asend()
        await begun.wait()
        await give_up(beat, job.id)
        given_up.set()
        await eventually(lambda: set(tokens) == {1, 2}, "both attempts have come to the wait")
        await eventually(lambda: is_parked(job), "the second attempt waits")
        await beat.events.apublish(REVIEWED, "once", subject="42")
        assert await job.aresult(60) == "once"


async def is_parked(job: Any) -> bool:
    return (await job.ainfo()).state == "waiting"
