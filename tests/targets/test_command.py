"""Commands as real processes: exit codes, environment, input, output, and their end."""

import asyncio
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conditions import eventually
from onbeat.model.credentials import HIDDEN
from onbeat.model.event import Event
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import COMMAND_OUTPUT_BYTES_MAX, LOG_LINES_MAX
from onbeat.model.outcome import Failed, Succeeded
from onbeat.ports.job_log import ATTEMPT_LOG
from onbeat.targets.command import gate, process
from onbeat.targets.command.environment import environment_of
from onbeat.targets.command.output import FIRST_LINES
from onbeat.wire.commands import JOB_VARIABLES
from targets.commands import (
    PYTHON,
    SHELL,
    KeptEntries,
    a_command,
    a_runner,
    a_shell,
    has_ended,
    open_files,
    pids_in,
)
from targets.runs import CLOCK, ARun

STUBBORN = """
trap '' TERM
(trap '' TERM; setsid sleep 600 & echo $! >> "$1"; sleep 600 & echo $! >> "$1"; sleep 600) &
echo $! >> "$1"
echo $$ >> "$1"
sleep 600
"""
"""A tree that ignores SIGTERM, with a process that has left the session. It writes four pids."""


async def outcome_of(run: ARun, *allowed: str) -> Any:
    async with a_runner(*allowed) as runner:
        return await runner.run(run)


async def result_of(run: ARun) -> Any:
    outcome = await outcome_of(run)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.result is not None
    return msgspec.json.decode(outcome.result)


async def test_exit_code_0_is_success_with_both_outputs_in_order() -> None:
    result = await result_of(a_shell("echo one; echo two >&2; echo three"))
    assert result == {"exit_code": 0, "output": "one\ntwo\nthree\n"}


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("exit 3", "/bin/sh ended with exit code 3"),
        ("echo no space; exit 75", "/bin/sh ended with exit code 75\nno space"),
        ("kill -KILL $$", "/bin/sh was ended by SIGKILL"),
        ("kill -36 $$", "/bin/sh was ended by signal 36"),
    ],
)
async def test_another_end_is_a_failure_that_is_tried_again(script: str, error: str) -> None:
    assert await outcome_of(a_shell(script)) == Failed(error)


async def test_no_shell_reads_the_arguments() -> None:
    result = await result_of(a_command(PYTHON, "-c", "import sys; print(sys.argv[1:])", "$A *", ""))
    assert result["output"] == "['$A *', '']\n"


async def test_a_program_that_is_not_allowed_is_not_run(tmp_path: Path) -> None:
    file = tmp_path / "made"
    outcome = await outcome_of(a_shell('echo > "$1"', "sh", str(file)), "/bin/true")
    assert isinstance(outcome, Failed)
    assert "does not allow the program /bin/sh; its setting commands.allow" in outcome.error
    assert not outcome.retryable
    assert not file.exists()


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (a_command("/nowhere/program"), "could not be run: No such file"),
        (a_command("/etc/passwd"), "could not be run: Permission denied"),
        (a_shell("true", cwd="/nowhere"), "could not be run: No such file"),
    ],
)
async def test_a_program_that_cannot_be_run_says_why(run: ARun, words: str) -> None:
    outcome = await outcome_of(run, "/nowhere/program", "/etc/passwd", SHELL)
    assert isinstance(outcome, Failed)
    assert words in outcome.error


async def test_the_environment_has_nothing_of_the_worker_but_four_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONBEAT_SECRETS_KEYS", "canary")
    monkeypatch.setenv("DATABASE_URL", "canary")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    run = a_command(PYTHON, "-c", "import os; print(*sorted(os.environ))", env={"A": "b"})
    names = {
        *("A", "HOME", "LANG", "PATH", "TZ"),
        *("ONBEAT_ATTEMPT", "ONBEAT_IDEMPOTENCY_KEY", "ONBEAT_JOB_ID", "ONBEAT_SCHEDULED_AT"),
        "ONBEAT_TOKEN",
    }
    found = (await result_of(run))["output"]
    # The Python that prints them may set its own locale where none is set.
    assert set(found.split()) - {"LANG", "LC_CTYPE", "HOME"} == names - {"LANG", "HOME"}


def test_the_variables_of_a_job_name_its_schedule_its_time_and_its_trace() -> None:
    at = datetime(2026, 3, 1, 2, tzinfo=UTC)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = a_command(
        SHELL, job={"schedule_id": ScheduleId("s"), "occurrence": at, "traceparent": trace}
    ).job
    variables = environment_of(job, job.target, {"PATH": "/bin", "SECRET": "x"})  # type: ignore[arg-type]
    assert variables["ONBEAT_SCHEDULED_AT"] == "2026-03-01T02:00:00Z"
    assert (variables["ONBEAT_SCHEDULE_ID"], variables["ONBEAT_ATTEMPT"]) == ("s", "2")
    assert variables["TRACEPARENT"] == trace
    assert "SECRET" not in variables
    assert {name for name in variables if name.startswith("ONBEAT_")} == JOB_VARIABLES


async def test_a_command_reads_its_input_in_its_folder(tmp_path: Path) -> None:
    body = "größe " * 40_000
    result = await result_of(a_shell("pwd; wc -c", cwd=str(tmp_path), stdin=body))
    assert result["output"].split() == [str(tmp_path), str(len(body.encode()))]


async def test_an_input_that_is_not_read_does_no_harm() -> None:
    assert await result_of(a_shell("exit 0", stdin="x" * 262_144))


async def test_without_an_input_a_command_reads_the_events_of_its_job() -> None:
    run = a_shell("cat")
    run.events = (Event(id="1", source="/shop", type="order.paid", time=CLOCK.at),)
    assert '"type":"order.paid"' in (await result_of(run))["output"].replace(" ", "")


async def test_bytes_that_are_not_text_are_replaced() -> None:
    result = await result_of(a_shell(r"printf 'a\377b\000c\303'"))
    assert result["output"] == "a\ufffdb\ufffdc\ufffd"


async def test_secret_variables_are_hidden_in_the_output_the_error_and_the_log() -> None:
    log = KeptEntries()
    ATTEMPT_LOG.set(log)
    run = a_shell('echo "key $API_TOKEN"; exit 1', env={"API_TOKEN": "canary-4711"})
    outcome = await outcome_of(run)
    assert outcome.error == f"/bin/sh ended with exit code 1\nkey {HIDDEN}"
    assert log.texts == [f"key {HIDDEN}"]


@pytest.mark.parametrize("level", [None, 30])
async def test_lines_are_logged_only_where_information_is_kept(level: int | None) -> None:
    log = KeptEntries(level)
    ATTEMPT_LOG.set(log)
    assert await result_of(a_shell("echo one"))
    assert log.texts == []


@pytest.mark.parametrize(
    "script", ["yes | head -c 10000000", "head -c 10000000 /dev/zero | tr '\\0' x"]
)
async def test_10_mb_of_output_are_bounded_and_memory_is_flat(script: str) -> None:
    log = KeptEntries()
    ATTEMPT_LOG.set(log)
    tracemalloc.start()
    try:
        result = await result_of(a_shell(f"echo first; {script}; echo; echo last"))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    output = result["output"]
    assert len(output) <= COMMAND_OUTPUT_BYTES_MAX + 100
    assert output.startswith("first\n")
    assert output.endswith("\nlast\n")
    assert " bytes are left out " in output
    assert FIRST_LINES < len(log.texts) <= LOG_LINES_MAX
    assert (log.texts[0], log.texts[-1]) == ("first", "last")
    assert most < 4_000_000


async def test_a_command_that_is_stopped_ends_with_all_its_descendants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.5)
    file = tmp_path / "pids"
    async with a_runner() as runner:
        attempt = asyncio.create_task(runner.run(a_shell(STUBBORN, "sh", str(file))))
        await eventually(lambda: len(pids_in(file)) == 4, "the tree has started")
        pids = pids_in(file)
        attempt.cancel()
        await eventually(lambda: bool(attempt.cancelling()), "it is being stopped")
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        await eventually(lambda: all(map(has_ended, pids)), "all have ended")
        assert not runner.processes


async def test_a_command_that_is_stopped_may_tidy_up(tmp_path: Path) -> None:
    file, made = tmp_path / "pids", tmp_path / "made"
    script = (
        'trap "echo tidy > $2; exit 1" TERM; echo $$ >> "$1"; while :; do sleep 600 & wait; done'
    )
    log = KeptEntries()
    ATTEMPT_LOG.set(log)
    async with a_runner() as runner:
        attempt = asyncio.create_task(runner.run(a_shell(script, "sh", str(file), str(made))))
        await eventually(lambda: pids_in(file) != [], "it has started")
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
    assert made.read_text() == "tidy\n"
    assert all(map(has_ended, pids_in(file)))


async def test_what_a_command_leaves_in_its_session_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    result = await result_of(a_shell('sleep 600 & echo $! > "$1"; echo done', "sh", str(file)))
    assert result["output"] == "done\n"
    await eventually(lambda: all(map(has_ended, pids_in(file))), "all have ended")


async def test_a_runner_that_closes_ends_what_still_runs(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    async with a_runner() as runner:
        attempt = asyncio.create_task(runner.run(a_shell(STUBBORN, "sh", str(file))))
        await eventually(lambda: len(pids_in(file)) == 4, "the tree has started")
    outcome = await attempt
    assert outcome == Failed("/bin/sh was ended by SIGKILL")
    await eventually(lambda: all(map(has_ended, pids_in(file))), "all have ended")


async def test_an_attempt_leaves_no_open_files() -> None:
    async with a_runner() as runner:
        await runner.run(a_shell("exit 0"))
        before = open_files()
        for script in ("exit 0", "exit 3", "sleep 0"):
            await runner.run(a_shell(script))
        await eventually(lambda: open_files() <= before, "its files are closed")


async def test_a_worker_that_dies_before_its_order_runs_nothing(tmp_path: Path) -> None:
    """The gate sees the end of the socket without a whole order."""
    file = tmp_path / "made"
    order = gate.order_of((SHELL, "-c", f"echo > {file}"), {}, "")
    for part in (b"", order[:-1]):
        async with a_runner() as runner:
            started = await process.start_process(runner.reaper, lambda _: None)
            await asyncio.get_running_loop().sock_sendall(started.link, part)
            started.link.close()
            await started.end()
            started.close()
    assert not file.exists()
