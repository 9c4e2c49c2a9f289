"""What is asked before a target runs: conditions and windows, at the start of an attempt."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from engine.harness import EngineHarness, Scripted
from onbeat.app.virtual_clock import ManualClock
from onbeat.engine import start_check
from onbeat.expressions.cel import CelExpressions
from onbeat.model.attempt import OutcomeName
from onbeat.model.condition import Condition, Window
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Cancelled, Failed, Snoozed, Succeeded
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.ports.expressions import NO_EXPRESSIONS
from onbeat.rules.condition import PREDICATES
from onbeat.targets.handler import Handler
from onbeat.testing.build import HOUR, MINUTE, NOW, a_job

FALSE = "job.queue == 'other'"
TRUE = "job.queue == 'default' && now.getFullYear() == 2030"
ASK = HandlerTarget("ask")


class CheckHarness(EngineHarness):
    """`runs` has an entry for each run of the target."""

    def __init__(self, **tasks: Any) -> None:
        self.runs: list[int] = []
        self.asked: dict[Any, Any] = {}
        super().__init__(**{"work": self.note_run, **tasks})
        self.asked.update(self.worker.runners)
        self.worker.runners = self.worker.start_check.runners = self.asked
        self.worker.start_check.expressions = CelExpressions()

    async def note_run(self) -> int:
        self.runs.append(1)
        return 7


async def outcomes(bench: EngineHarness, job: Job) -> list[OutcomeName]:
    return [attempt.outcome for attempt in await bench.store.attempts(job.id)]


async def test_a_true_condition_lets_the_job_run() -> None:
    async with CheckHarness() as bench:
        job = await bench.run(a_job(condition=Condition(text=TRUE)))
        assert (job.state, bench.runs) == (JobState.SUCCEEDED, [1])


async def test_a_false_condition_cancels() -> None:
    async with CheckHarness() as bench:
        job = await bench.run(a_job(condition=Condition(text=FALSE)))
        assert (job.state, bench.runs) == (JobState.CANCELLED, [])
        assert job.reason == f"condition is false: {FALSE}"


async def test_a_false_condition_puts_off_until_the_job_expires() -> None:
    condition = Condition(text=FALSE, postpone=timedelta(minutes=5))
    async with CheckHarness() as bench:
        first = a_job(condition=condition, expires_at=NOW + 12 * MINUTE)
        job = await bench.run(first)
        assert (job.state, job.attempt, job.due_at) == (JobState.WAITING, 0, NOW + 5 * MINUTE)
        assert job.reason == f"condition is false: {FALSE}"
        assert job.start_by == NOW + 12 * MINUTE
        bench.clock.set(bench.clock.now() + 5 * MINUTE)
        await bench.begin_due()
        await bench.worker.idle.wait()
        again = await bench.job(job)
        assert (again.attempt, again.due_at) == (0, NOW + 10 * MINUTE)
        assert await outcomes(bench, job) == [OutcomeName.SNOOZED] * 2
        assert bench.runs == []


async def test_a_fault_is_a_failed_attempt_and_is_judged_again() -> None:
    async with CheckHarness() as bench:
        job = await bench.run(a_job(condition=Condition(text="job.nothing > 1")))
        assert (job.state, job.attempt) == (JobState.WAITING, 1)
        assert job.error == 'condition failed: job.nothing > 1: Key not found in map : "nothing"'
        bench.clock.set(bench.clock.now() + HOUR)
        await bench.begin_due()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).attempt == 2
        assert bench.runs == []


async def test_a_condition_that_held_is_not_judged_again() -> None:
    answers = iter([True, False])

    async def ask() -> bool:
        return next(answers)

    async def work() -> None:
        raise ValueError("no")

    condition = Condition(text="answer", ask=ASK)
    async with CheckHarness(ask=ask, work=work) as bench:
        job = await bench.run(a_job(condition=condition))
        bench.clock.set(bench.clock.now() + HOUR)
        await bench.begin_due()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).attempt == 2
        assert next(answers) is False


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"enabled": True}, JobState.SUCCEEDED),
        ({"enabled": False}, JobState.CANCELLED),
    ],
)
async def test_the_answer_of_a_task(value: Any, state: JobState) -> None:
    async def ask(name: str) -> Any:
        return value if name == "otp" else None

    asked = HandlerTarget("ask", args=msgspec.Raw(b'["otp"]'))
    async with CheckHarness(ask=ask) as bench:
        job = await bench.run(a_job(condition=Condition(text="answer.enabled", ask=asked)))
        assert job.state is state


@pytest.mark.parametrize(
    ("body", "text"),
    [('{"enabled":true}', "answer.body.enabled"), ("yes", "answer.body == 'yes'")],
)
async def test_the_answer_of_an_endpoint(body: str, text: str) -> None:
    async def act(run: Any) -> Any:
        if run.job.target == endpoint:
            return Succeeded(msgspec.Raw(msgspec.json.encode({"status": 200, "body": body})))
        return Succeeded()

    endpoint = HttpTarget("https://flags.internal/otp")
    condition = Condition(text=f"answer.status == 200 && {text}", ask=endpoint)
    async with CheckHarness() as bench:
        bench.asked[HttpTarget] = Scripted(act)
        job = await bench.run(a_job(condition=condition))
        assert job.state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    ("outcome", "state", "error", "attempt"),
    [
        (Failed("no route"), JobState.WAITING, "condition failed: answer: ask: no route", 1),
        (
            Failed("gone", retryable=False),
            JobState.FAILED,
            "condition failed: answer: ask: gone",
            1,
        ),
        (Snoozed(MINUTE, "it is down"), JobState.WAITING, None, 0),
        (Cancelled("never"), JobState.CANCELLED, None, 0),
    ],
)
async def test_a_question_without_an_answer(
    outcome: Any, state: JobState, error: str | None, attempt: int
) -> None:
    async def act(run: Any) -> Any:
        return outcome

    condition = Condition(text="answer", ask=HttpTarget("https://flags.internal/"))
    async with CheckHarness() as bench:
        bench.asked[HttpTarget] = Scripted(act)
        job = await bench.run(a_job(condition=condition))
        assert (job.state, job.error, job.attempt, bench.runs) == (state, error, attempt, [])


async def test_a_worker_that_cannot_ask() -> None:
    async with CheckHarness() as bench:
        del bench.asked[HttpTarget]
        asks = Condition(text="answer", ask=HttpTarget("https://flags.internal/"))
        job = await bench.run(a_job(condition=asks))
        assert "this worker runs no such target" in job.error
        unknown = await bench.run(a_job(condition=Condition(text="answer", ask=ASK)))
        assert "no task 'ask' is registered in this worker" in unknown.error


async def test_a_worker_without_the_extra() -> None:
    async with CheckHarness() as bench:
        bench.worker.start_check.expressions = NO_EXPRESSIONS
        job = await bench.run(a_job(condition=Condition(text=TRUE)))
        assert job.state is JobState.WAITING
        assert "run: pip install 'onbeat[cel]'" in job.error


@pytest.mark.parametrize(
    ("value", "state"),
    [(True, JobState.SUCCEEDED), (False, JobState.CANCELLED), ("yes", JobState.WAITING)],
)
async def test_a_predicate(value: Any, state: JobState) -> None:
    async with CheckHarness() as bench:
        name = PREDICATES + "flags.open"
        bench.handlers.registry.add(Handler(name, lambda: value))
        job = await bench.run(a_job(condition=Condition(predicate="flags.open")))
        assert job.state is state
        if value == "yes":
            assert job.error == (
                "condition failed: flags.open: its value is a text, which is not true or false"
            )


async def test_a_closed_window_puts_off_and_costs_no_attempt() -> None:
    window = Window(start=13 * 60, end=14 * 60, timezone="UTC")
    async with CheckHarness() as bench:
        job = await bench.run(a_job(window=(window,), expires_at=NOW + HOUR))
        assert (job.state, job.attempt, job.reason) == (JobState.WAITING, 0, "its window is closed")
        assert (job.due_at, job.start_by) == (NOW + HOUR, NOW + HOUR)
        bench.clock.set(bench.clock.now() + HOUR)
        await bench.begin_due()
        await bench.worker.idle.wait()
        assert (await bench.job(job)).state is JobState.SUCCEEDED


class TickingClock(ManualClock):
    """A little time passes between any two readings."""

    def now(self) -> datetime:
        self.set(self.at + timedelta(microseconds=1))
        return self.at


async def test_a_closed_window_puts_off_to_the_instant_at_which_it_opens() -> None:
    window = Window(start=13 * 60, end=14 * 60, timezone="UTC")
    async with CheckHarness(clock=TickingClock(NOW)) as bench:
        assert (await bench.run(a_job(window=(window,)))).due_at == NOW + HOUR


async def test_the_condition_is_asked_within_the_timeout_of_the_job() -> None:
    async def ask() -> None:
        raise TimeoutError

    async with CheckHarness(ask=ask) as bench:
        job = await bench.run(a_job(condition=Condition(text="answer", ask=ASK), timeout=MINUTE))
        assert job.error.startswith("condition failed: answer: ask: ")


async def test_a_job_that_is_sent_elsewhere_is_judged_as_well() -> None:
    async def ask() -> bool:
        return False

    async with CheckHarness(ask=ask) as bench:
        check = bench.worker.start_check.judge_sent
        assert await check(a_job()) is None
        assert await check(a_job(attempt=1, condition=Condition(text=TRUE))) is None
        held = await check(a_job(attempt=1, condition=Condition(text="answer", ask=ASK)))
        assert held == Cancelled("condition is false: answer", unstarted=True)


async def test_a_question_about_a_job_that_is_sent_elsewhere_ends_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(start_check, "SENT_SECONDS_MAX", 0.01)
    async with CheckHarness(ask=ask) as bench:
        job = a_job(attempt=1, condition=Condition(text="answer", ask=ASK))
        failed = await bench.worker.start_check.judge_sent(job)
        assert failed == Failed("condition failed: no answer within 0.01 s")
