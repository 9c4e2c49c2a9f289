"""Tasks with isolation="process": a process for each attempt, which can be stopped for certain."""

import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app import isolated_tasks as tasks
from onbeat import Invalid, JobFailed, Onbeat


@pytest.fixture
async def running() -> AsyncIterator[Any]:
    async with tasks.beat as beat:
        yield beat


async def failure(task: Any) -> Any:
    with pytest.raises(JobFailed) as failed:
        await (await task.asend()).aresult(60)
    return failed.value.job


async def test_an_attempt_runs_in_another_process_that_is_used_again(running: Any) -> None:
    first = await (await tasks.pid.asend()).aresult(60)
    second = await (await tasks.pid.asend()).aresult(60)

    assert first != os.getpid()
    assert second == first


async def test_context_arguments_progress_and_result_cross_the_border(running: Any) -> None:
    job = await tasks.told.asend(word="ä\u2028")

    assert await job.aresult(60) == [job.id, "1", "ä\u2028"]


@pytest.mark.parametrize("fail", [False, True])
async def test_what_it_logs_is_kept_with_the_job(running: Any, fail: bool) -> None:
    job = await tasks.logs.asend(fail=fail)
    await running.backend.wait_for_end(job.id)
    await running._running.runtime.job_log.flush()
    first, second = (await running.jobs.alog(job.id)).lines
    assert (first.text, second.text, second.level) == ("begun", "of a thread", "warning")
    assert first.to_dict()["fields"]["pid"] != os.getpid()


async def test_a_coroutine_function_runs_there_too(running: Any) -> None:
    assert await (await tasks.asks.asend()).aresult(60) == "a coroutine"


async def test_what_the_handler_raises_comes_back_with_its_own_frames(running: Any) -> None:
    job = await failure(tasks.raises)

    assert job.error.endswith("ValueError: of its own making")
    assert "isolated_tasks.py" in job.error
    assert "in_process.py" not in job.error


async def test_a_snooze_comes_back_as_one(running: Any) -> None:
    assert await (await tasks.snoozes.asend()).aresult(60) == "awake"


async def test_a_handler_that_never_looks_up_is_killed_when_its_time_is_over(running: Any) -> None:
    job = await failure(tasks.spins)

    assert job.error == "timed out after 0.3 s"


async def test_a_crash_ends_the_child_alone_and_counts_as_lost(running: Any) -> None:
    job = await failure(tasks.crashes)

    assert job.error == "its process was ended by SIGSEGV"
    assert job.reason == (
        f"poison: its process died 3 times while it ran, each time alone; last: {job.error}"
    )
    assert [attempt.outcome for attempt in job.attempts] == ["lost"] * 3


async def test_a_handler_that_leaves_the_process_is_lost(running: Any) -> None:
    assert (await failure(tasks.leaves)).error == "its process ended with exit code 7"


async def test_memory_is_bounded(running: Any) -> None:
    assert (await failure(tasks.hoards)).error.endswith("MemoryError")


async def test_a_task_that_is_not_at_the_top_of_its_module_is_told(running: Any) -> None:
    job = await failure(tasks.hide())

    assert "has no task 'hidden' at its top level" in job.error


async def test_a_transaction_of_its_own_cannot_finish_its_job(running: Any) -> None:
    job = await failure(tasks.finishes)

    assert "a task with isolation='process' cannot finish within a transaction" in job.error


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "thread"}, "isolation must be none or process"),
        ({"memory": "512MB"}, "memory bounds a process"),
        ({"isolation": "process", "memory": "63MB"}, "memory must be at least 64MB"),
        ({"isolation": "process", "memory": "much"}, "memory must be at least 64MB"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        Onbeat("memory://").task("t", **options)


@pytest.mark.parametrize("memory", [67_108_864, "64MB", "64 mib", "65536K"])
def test_the_least_memory_may_be_written_in_many_ways(memory: int | str) -> None:
    Onbeat("memory://").task("t", isolation="process", memory=memory)
