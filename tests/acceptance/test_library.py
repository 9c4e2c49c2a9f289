"""What a program meets that uses Onbeat inside itself."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat import Context, Invalid, Onbeat, Retry, Snooze, Task, every

AT = "2026-03-28T23:00+01:00"


@pytest.mark.parametrize("delay", [timedelta(seconds=90), 90, 90.0, "90s", "1m30s", "PT90S"])
def test_a_handler_snoozes_by_any_span_and_no_attempt_is_spent(
    delay: timedelta | float | str,
) -> None:
    beat = Onbeat("memory://")
    attempts = []

    @beat.task("naps")
    async def naps(context: Context) -> None:
        attempts.append(context.attempt)
        if len(attempts) == 1:
            raise Snooze(delay)

    with beat.testing(at=AT) as trial:
        job = naps.send()
        trial.advance("89s")
        assert attempts == [1]
        trial.advance("1s")
        assert attempts == [1, 1]
        assert job.result() is None


def test_a_snooze_that_is_no_span_is_a_failed_attempt_that_says_so() -> None:
    beat = Onbeat("memory://")

    @beat.task("naps", retry=Retry(attempts_max=1))
    async def naps() -> None:
        raise Snooze("a while")

    with beat.testing(at=AT) as trial:
        job = naps.send()
        trial.drain()
        state = job.info()
        assert (state.state, state.reason) == ("failed", "attempts used up")
        assert state.error.startswith("the delay of Snooze must be a span such as 90s")


@pytest.fixture
def beat() -> Onbeat:
    return Onbeat("memory://")


@pytest.fixture
def work(beat: Onbeat) -> Task[..., Any, Any]:
    @beat.task("work")
    async def work() -> int:
        return 7

    return work


def test_what_is_no_call_is_refused_with_what_to_write(
    beat: Onbeat, work: Task[..., Any, Any]
) -> None:
    wrong: tuple[Any, ...] = (work, [work], 5, [work.call(), 5], None)
    for sent in wrong:
        with pytest.raises(TypeError, match=r"is not a call; write TASK\.call\(arguments\)"):
            beat.send(sent)
    with pytest.raises(TypeError, match=r"Task\('work'\) is not a call"):
        beat.schedules.put("k", every("1h"), wrong[0])


@pytest.mark.parametrize("rule", ["0 9 * * *", timedelta(hours=1), 60])
def test_what_is_no_rule_is_refused_with_what_to_write(
    beat: Onbeat, work: Task[..., Any, Any], rule: Any
) -> None:
    with pytest.raises(TypeError, match=r"is not a recurrence; write cron\("):
        beat.schedules.put("k", rule, work.call())


async def test_a_result_that_does_not_come_in_time_says_which(
    beat: Onbeat, work: Task[..., Any, Any]
) -> None:
    job = await work.asend()
    with pytest.raises(TimeoutError, match=f"job {job.id} had not ended after 0.01 s"):
        await job.aresult(timeout=0.01)


async def test_waiting_for_a_result_would_stop_the_loop_that_makes_it(
    beat: Onbeat, work: Task[..., Any, Any]
) -> None:
    async with beat:
        job = await work.asend()
        with pytest.raises(RuntimeError, match=r"use `await job\.aresult"):
            job.result(timeout=60)
        assert await job.aresult(timeout=60) == 7


async def test_a_result_can_be_waited_for_in_a_loop_that_runs_no_jobs(
    beat: Onbeat, work: Task[..., Any, Any]
) -> None:
    # As in a notebook, whose cells stand in a loop of their own.
    with beat.started():
        assert work.send().result(timeout=60) == 7


def test_jobs_are_listed_by_the_name_of_their_state(
    beat: Onbeat, work: Task[..., Any, Any]
) -> None:
    with beat.testing(at=AT) as trial:
        done = work.send()
        trial.drain()
        later = work.options(delay="1h").send()
        assert [job.id for job in beat.jobs.list(state="succeeded")] == [done.id]
        assert [job.id for job in beat.jobs.list(state="waiting")] == [later.id]
        unknown: Any = "done"
        misspelt: dict[str, Any] = {"stat": "failed"}
        with pytest.raises(Invalid, match="state must be one of waiting, running, succeeded"):
            beat.jobs.list(state=unknown)
        with pytest.raises(TypeError, match="unexpected keyword argument 'stat'"):
            beat.jobs.list(**misspelt)
