"""The command line as a process of its own: codes, streams, colours, what it imports."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from onbeat.cli.exit_codes import ExitStatus, exit_status_of
from onbeat.model.errors import Unauthorized

HEAVY = {
    "uvicorn",
    "aiohttp",
    "starlette",
    "structlog",
    "rich",
    "yaml",
    "prometheus_client",
    "opentelemetry",
}


@pytest.fixture
def onbeat(tmp_path: Path) -> Callable[..., Any]:
    def run(*args: str, environment: Any = None, **more: Any) -> CompletedProcess:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
        return subprocess.run(
            [sys.executable, "-m", "onbeat", *args],
            cwd=tmp_path,
            env=kept | (environment or {}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )

    return run


def test_streams_and_codes_are_as_promised(onbeat: Callable[..., Any]) -> None:
    added = onbeat("job", "add", "--task", "t")
    assert (added.returncode, added.stderr) == (0, "")
    listed = onbeat("job", "list", "--json")
    assert json.loads(listed.stdout)["jobs"][0]["id"] == added.stdout.strip()
    for args, code in (
        (["job", "show", "01900000-0000-7000-8000-000000000000"], 1),
        (["nonsense"], 2),
        (["job", "list", "--server", "http://127.0.0.1:1"], 3),
    ):
        failed = onbeat(*args)
        assert (failed.returncode, failed.stdout) == (code, "")
        assert failed.stderr.count("\n") == 1
        assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_fault(tmp_path: Path, closed: str) -> None:
    for args, code in (("job list", 0), ("job list --json", 0), ("version", 0), ("nonsense", 2)):
        ended = subprocess.run(
            ["/bin/sh", "-c", f"exec {sys.executable} -m onbeat {args} {closed}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == code
        assert "unexpected" not in ended.stderr
        assert ended.stderr.count("\n") == (code == 2 and "2>" not in closed)


@pytest.mark.parametrize("group", [[], ["job"], ["schedule"]])
def test_a_group_without_a_command_shows_its_help_and_nothing_around_it(
    onbeat: Callable[..., Any], group: list[str]
) -> None:
    shown = onbeat(*group)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.startswith(" ".join(["Usage: onbeat", *group, "[OPTIONS]"]))
    assert "see `" not in shown.stderr


@pytest.mark.parametrize("place", ["none/onbeat.db", "folder.db", "text.db"])
def test_a_service_without_its_store_does_not_start_and_says_so_in_one_line(
    onbeat: Callable[..., Any], tmp_path: Path, place: str
) -> None:
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "text.db").write_text("no database, though long enough to be looked at " * 20)
    failed = onbeat("up", "--port", "0", "--store", f"sqlite:///{place}")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("onbeat: store: SQLite database ")
    assert place in failed.stderr
    assert failed.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--roles", "worker"], "with worker name dispatcher too"),
        (["--roles", "api,planner,dispatcher"], "with dispatcher name worker too"),
        (["--roles", "api", "--store", "memory://"], "name dispatcher and worker too"),
        (
            ["--roles", "dispatcher,worker", "--transport", "memory://x"],
            "with dispatcher name maintenance too",
        ),
    ],
)
def test_roles_that_could_do_nothing_do_not_start(
    onbeat: Callable[..., Any], args: list[str], said: str
) -> None:
    failed = onbeat("up", "--port", "0", *args)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith("onbeat: roles: ")
    assert failed.stderr.endswith(f"{said}\n")


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_pipe_gets_no_colours_and_no_progress(
    onbeat: Callable[..., Any], environment: dict[str, Any]
) -> None:
    onbeat("job", "add", "--file", "-", input='{"task": "t"}\n')
    listed = onbeat("job", "list", environment=environment)
    assert "\x1b" not in listed.stdout + listed.stderr
    assert "waiting" in listed.stdout


def on_terminal(folder: Path, *args: str, **environment: Any) -> tuple[int, str]:
    """What the command writes when a terminal is at its other end."""
    ours, theirs = pty.openpty()
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    kept = {name: text for name, text in kept.items() if name not in {"NO_COLOR", "COLUMNS"}}
    command = [sys.executable, "-m", "onbeat", *args]
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs,
        env=kept | {"TERM": "xterm"} | environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        written = b"".join(iter(lambda: read_or_end(ours), b""))
    os.close(ours)
    return process.returncode, written.decode()


def read_or_end(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # so Linux says that the other side is closed
        return b""


def test_a_terminal_gets_colours_unless_they_are_refused(
    onbeat: Callable[..., Any], tmp_path: Path
) -> None:
    onbeat("job", "add", "--task", "t")
    onbeat("queue", "pause", "default")
    code, text = on_terminal(tmp_path, "queue", "list")
    assert (code, "\x1b[33mpaused" in text) == (0, True)
    code, text = on_terminal(tmp_path, "queue", "list", NO_COLOR="1")
    assert (code, "paused" in text, "\x1b" in text) == (0, True, False)


def test_long_work_shows_its_progress_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "jobs.jsonl").write_text('{"task": "t"}\n' * 3)
    code, text = on_terminal(tmp_path, "job", "add", "--file", "jobs.jsonl")
    assert code == 0
    assert "3/3" in text
    assert "3 jobs added" in text


def test_a_wrong_configuration_stops_every_command(
    onbeat: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "onbeat.yaml").write_text("api: {prot: 1}\n")
    for args in (["up"], ["job", "list"], ["doctor"]):
        failed = onbeat(*args)
        assert failed.returncode == 2
        assert "did you mean 'api.port'" in failed.stderr
    unknown = onbeat("job", "list", "--config", "/dev/null", environment={"ONBEAT_STOR": "x"})
    assert unknown.returncode == 2
    assert "ONBEAT_STORE" in unknown.stderr


@pytest.mark.parametrize("args", [["version"], ["--help"]])
def test_what_needs_no_service_imports_none(onbeat: Callable[..., Any], args: list[str]) -> None:
    script = (
        "import sys\n"
        "from onbeat.cli.main import root\n"
        "try:\n"
        f"    root.main({args!r})\n"
        "finally:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert HEAVY & set(done.stderr.split()) == set()


@pytest.mark.parametrize(
    ("package", "args"),
    [
        ("rich", ["job", "list"]),
        ("aiohttp", ["job", "list", "--server", "http://127.0.0.1:1"]),
        ("yaml", ["job", "list", "--config", "onbeat.yaml"]),
    ],
)
def test_a_missing_package_is_named_with_what_to_install(
    tmp_path: Path, package: str, args: list[str]
) -> None:
    (tmp_path / "onbeat.yaml").write_text("log: {level: info}\n")
    script = (
        f"import sys\nsys.modules[{package!r}] = None\n"
        f"from onbeat.cli.main import root\nroot.main({args!r})\n"
    )
    command = [sys.executable, "-c", script]
    failed = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1
    assert f"the package {package}: pip install 'onbeat[server]'" in failed.stderr


def test_a_reader_that_has_read_enough_is_no_error(onbeat: Callable[..., Any]) -> None:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    with subprocess.Popen(
        [sys.executable, "-m", "onbeat", "next", "@hourly", "-n", "1000", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kept,
    ) as process:  # fmt: skip
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_version_is_printed(onbeat: Callable[..., Any]) -> None:
    assert onbeat("version").stdout.startswith("onbeat 0.")


APP = """
from onbeat import Onbeat

beat = Onbeat()


@beat.task("double")
def double(n: int) -> int:
    print("secret-canary is not shown by the log", flush=True)
    return 2 * n
"""

TUNED = """
import sys
from onbeat import Onbeat

if {own}:
    sys.setswitchinterval({own})
beat = Onbeat()


@beat.task("switches")
def switches() -> float:
    return sys.getswitchinterval()
"""


@pytest.mark.parametrize(("own", "found"), [(None, 0.0005), (0.02, 0.02)])
def test_a_service_hands_the_interpreter_over_often_unless_its_program_says_how(
    onbeat: Callable[..., Any], tmp_path: Path, own: float | None, found: float
) -> None:
    (tmp_path / "app.py").write_text(TUNED.format(own=own))
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    environment = kept | {"ONBEAT_API__KEYS": "secret-canary"}
    with subprocess.Popen(
        [sys.executable, "-m", "onbeat", "up", "app.py", "--port", "0", "--log-level", "debug"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            asking = {
                "ONBEAT_SERVER": address_in(process.stdout),
                "ONBEAT_API_KEY": "secret-canary",
            }
            added = onbeat("job", "add", "--task", "switches", environment=asking)
            until(process.stdout, "job.succeeded")
            shown = onbeat("job", "show", added.stdout.strip(), "--json", environment=asking)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    assert json.loads(shown.stdout)["result"] == found


def test_a_service_runs_an_app_and_drains_at_the_signal(
    onbeat: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    environment = kept | {"ONBEAT_API__KEYS": "secret-canary"}
    command = [sys.executable, "-m", "onbeat", "up", "app.py", "--port", "0"]
    with subprocess.Popen(
        [*command, "--log-level", "debug"],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            address = address_in(process.stdout)
            asking = {"ONBEAT_SERVER": address, "ONBEAT_API_KEY": "secret-canary"}
            added = onbeat("job", "add", "--task", "double", "--args", "[21]", environment=asking)
            assert added.returncode == 0, added.stderr
            until(process.stdout, "job.succeeded")
            shown = onbeat("job", "show", added.stdout.strip(), "--json", environment=asking)
            assert json.loads(shown.stdout)["result"] == 42
            refused = onbeat("job", "list", environment={"ONBEAT_SERVER": address})
            assert refused.returncode == 1
        finally:
            process.send_signal(signal.SIGTERM)
            rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "drained" in rest


def address_in(lines: Any) -> Any:
    """Where the service says that it listens, once it is ready."""
    line = until(lines, "event=ready")
    return re.search(r"address=(\S+)", line)[1]


def until(lines: Any, word: Any) -> Any:
    for line in lines:
        if word in line:
            return line
    raise AssertionError(f"{word} never came")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unauthorized(), "No API key was given, or it is not known"),
        (Unauthorized("The API key is mistyped"), "The API key is mistyped"),
    ],
)
def test_a_key_that_is_missing_is_named_as_on_the_command_line(
    error: Unauthorized, said: str
) -> None:
    line = f"onbeat: {said}; set ONBEAT_API_KEY, or give --api-key"
    assert exit_status_of(error) == ExitStatus(1, line)
