"""Commands in a program that runs its own jobs."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually, eventually_here
from onbeat import Invalid, JobFailed, Onbeat, Options, Retry, command, every
from onbeat.app.request_bodies import target_body
from onbeat.model.target import CommandTarget
from onbeat.wire.job_logs import LogLineAnswer
from onbeat.wire.targets import read_target
from targets.commands import SHELL, has_ended, pids_in

ONCE = Retry(attempts_max=1)


def a_beat(*allowed: str, **options: object) -> Onbeat:
    return Onbeat("memory://", options=Options(commands=allowed, sidecar=False, **options))  # type: ignore[arg-type]


async def test_a_result_has_the_exit_code_and_the_output() -> None:
    call = command(SHELL, "-c", 'echo "$A $ONBEAT_JOB_ID"; cat', env={"A": "b"}, stdin="in")
    async with a_beat(SHELL) as beat:
        job = await beat.asend(call)
        assert await job.aresult(timeout=60) == {"exit_code": 0, "output": f"b {job.id}\nin"}
        lines = await eventually(lambda: lines_of(beat, job.id), "its lines are kept")
        assert [line.text for line in lines] == [f"b {job.id}", "in"]


async def lines_of(beat: Onbeat, id: str) -> Sequence[LogLineAnswer]:
    return (await beat.jobs.alog(id)).lines


async def test_a_failure_is_tried_again_and_says_what_was_printed(tmp_path: Path) -> None:
    script = 'echo x >> "$1"; test "$ONBEAT_ATTEMPT" = 3 || { echo not yet >&2; exit 75; }'
    retry = Retry(attempts_max=3, delay=timedelta(0), jitter=False)
    file = tmp_path / "attempts"
    async with a_beat(SHELL) as beat:
        job = await beat.asend(
            command(SHELL, "-c", script, "sh", str(file)).with_options(retry=retry)
        )
        await job.aresult(timeout=60)
        failed = await beat.asend(command(SHELL, "-c", "echo no; exit 2").with_options(retry=ONCE))
        with pytest.raises(JobFailed, match=r"/bin/sh ended with exit code 2\nno"):
            await failed.aresult(timeout=60)
    assert file.read_text() == "x\n" * 3


async def test_a_timeout_and_a_cancellation_end_the_program(tmp_path: Path) -> None:
    script = 'sleep 600 & echo $! >> "$1"; echo $$ >> "$1"; wait'
    late, unwanted = tmp_path / "late", tmp_path / "unwanted"
    async with a_beat(SHELL) as beat:
        timed = command(SHELL, "-c", script, "sh", str(late))
        job = await beat.asend(timed.with_options(timeout=1, retry=ONCE))
        with pytest.raises(JobFailed, match="timed out after 1 s"):
            await job.aresult(timeout=60)
        job = await beat.asend(command(SHELL, "-c", script, "sh", str(unwanted)))
        await eventually(lambda: len(pids_in(unwanted)) == 2, "it runs")
        await beat.jobs.acancel(job.id, "by hand")
        with pytest.raises(JobFailed, match="by hand"):
            await job.aresult(timeout=60)
    for file in (late, unwanted):
        assert all(map(has_ended, pids_in(file)))


WORKER = """
import asyncio, sys
from onbeat import Onbeat, Options, command

async def run():
    async with Onbeat("memory://", options=Options(commands=("/bin/sh",))) as beat:
        await beat.asend(command("/bin/sh", "-c", sys.argv[1], "sh", sys.argv[2]))
        await asyncio.Event().wait()

asyncio.run(run())
"""


def test_a_worker_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = (
        'sleep 600 & echo $! >> "$1"; setsid sleep 600 & echo $! >> "$1"; echo $$ >> "$1"; wait'
    )
    worker = subprocess.Popen([sys.executable, "-c", WORKER, script, str(file)])
    try:
        eventually_here(lambda: len(pids_in(file)) == 3, "it runs")
        assert not any(map(has_ended, pids_in(file)))
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    eventually_here(lambda: all(map(has_ended, pids_in(file))), "all have ended")


async def test_a_worker_that_stops_ends_the_program_and_the_job_waits(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    beat = a_beat(SHELL, drain_timeout=timedelta(0))
    async with beat:
        job = await beat.asend(command(SHELL, "-c", 'echo $$ > "$1"; sleep 600', "sh", str(file)))
        await eventually(lambda: pids_in(file) != [], "it runs")
        await beat.stop()
        assert all(map(has_ended, pids_in(file)))
        assert (await job.ainfo()).state == "waiting"


async def test_a_job_whose_program_no_worker_allows_waits_and_says_so() -> None:
    async with a_beat("/bin/true") as beat:
        job = await beat.asend(command(SHELL, "-c", "true"))
        done = await beat.asend(command("/bin/true"))
        assert await done.aresult(timeout=60) == {"exit_code": 0, "output": ""}
        assert (await job.ainfo()).state == "waiting"
        words = await beat.jobs.awhy(job.id)
        assert "No live worker allows the program /bin/sh (setting commands.allow)." in str(words)
        assert (await beat.backend.store.stats(datetime.now(UTC))).unknown_tasks == {
            "@command:/bin/sh": 1
        }


async def test_a_schedule_runs_a_program() -> None:
    async with a_beat("/bin/echo") as beat:
        await beat.schedules.aput("greet", every("1s"), command("/bin/echo", "hello"))
        run = await eventually(lambda: done_of(beat), "it has run")
        assert run.result == {"exit_code": 0, "output": "hello\n"}


async def done_of(beat: Onbeat) -> Any:
    jobs = await beat.jobs.alist(state="succeeded")
    return next(iter(jobs), None)


@pytest.mark.parametrize("program", ["backup", "/bin/../x"])
def test_a_program_without_an_absolute_path_is_refused_at_once(program: str) -> None:
    with pytest.raises(Invalid, match="absolute path"):
        command(program)
    with pytest.raises(Invalid, match="absolute path"):
        Options(commands=(program,))


def test_a_call_has_its_parts() -> None:
    call = command("/bin/p", "a", env={"A": "b"}, cwd="/srv", stdin="in")
    assert call.target == CommandTarget(("/bin/p", "a"), {"A": "b"}, "/srv", "in")
    assert repr(call) == "Call('@command:/bin/p')"


def test_a_command_is_sent_to_a_service_with_all_its_parts() -> None:
    for call in (
        command("/bin/p"),
        command("/bin/p", "a", env={"A": "b"}, cwd="/srv", stdin="in"),
    ):
        assert read_target(target_body(call.target), "target") == call.target
