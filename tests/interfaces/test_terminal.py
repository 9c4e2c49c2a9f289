"""What `onbeat up` shows to people at a terminal."""

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from conditions import PATIENCE, eventually_here
from onbeat import Onbeat
from onbeat.cli.banner import announce_for, next_text, transport_of, unknown_text
from onbeat.cli.up import split_levels
from onbeat.model.errors import Unavailable
from onbeat.operations.coming_work import ComingFire, ComingWork
from onbeat.settings import Settings
from onbeat.settings.records import LogFormat, LogSettings
from onbeat.stores.memory import MemoryStore
from operations.harness import NOON, OperationsHarness
from telemetry.test_log import Terminal

PROGRAM = """
import logging

from onbeat import Onbeat, Retry, every

beat = Onbeat("sqlite:///shop.db")
log = logging.getLogger("shop")


@beat.task("fine")
def fine() -> None:
    log.debug("a line of the shop")


@beat.task("breaks", retry=Retry(attempts_max=1))
def breaks() -> None:
    raise ValueError("no such shop")


@beat.schedule(every("90m"), key="report")
def report() -> None: ...
"""


class Screen:
    """What a process has written to its terminal so far."""

    def __init__(self, terminal: int) -> None:
        self.terminal = terminal
        self.data = b""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        with contextlib.suppress(OSError):  # the process has closed its side
            while data := os.read(self.terminal, 4096):
                self.data += data

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace").replace("\r\n", "\n")

    def line(self, pattern: str) -> re.Match[str]:
        """Waits for it."""
        found: re.Match[str] = eventually_here(
            lambda: re.search(pattern, self.text, re.MULTILINE), f"{pattern} on the screen"
        )
        return found


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screen]:
    """Of a service with jobs that its program knows, and one that it does not."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "app.py").write_text(PROGRAM)
    with Onbeat(f"sqlite:///{folder}/shop.db") as sender:
        for name in ("absent", "fine", "breaks"):
            sender.task(name)(print).send()
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "onbeat",
            "up",
            "app.py",
            "--port",
            "0",
            "--log-level",
            "shop=debug",
        ],
        cwd=folder,
        env=kept | {"NO_COLOR": "1", "COLUMNS": "400"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Screen(ours)
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(ours)


def test_the_banner_tells_where_it_is_and_what_comes(screen: Screen) -> None:
    address = screen.line(r"ready .*address=(\S+)")[1]
    banner = screen.text.partition("Ctrl-C stops it.")[0]
    assert re.search(r"^onbeat \d+\.\d+", banner, re.MULTILINE)
    assert re.search(r"^store +sqlite:////\S+/shop.db$", banner, re.MULTILINE)
    assert re.search(rf"^dashboard +{address}$", banner, re.MULTILINE)
    assert re.search(
        r"^roles +api, planner, dispatcher, worker, maintenance$", banner, re.MULTILINE
    )
    assert re.search(r"^next +\d\d:\d\d .*, in \d+ (min|h): report$", banner, re.MULTILINE)
    assert "! No worker that is alive knows absent.\n" in banner


def test_each_job_has_its_lines(screen: Screen) -> None:
    screen.line(r"info +\] job\.started .* task=fine .*late=\d")
    screen.line(r"info +\] job\.succeeded .* task=fine .*took=\d")
    screen.line(r"warning +\] job\.failed .* task=breaks .*took=.*'ValueError: no such shop'")


def test_one_logger_is_more_talkative_than_the_others(screen: Screen) -> None:
    screen.line(r"debug +\] a line of the shop +\[shop\]")
    screen.line(r"job\.succeeded .* task=fine")
    assert "schedules.planned" not in screen.text


def test_without_colours_it_has_no_escapes(screen: Screen) -> None:
    screen.line("job.succeeded")
    assert "\x1b" not in screen.text


@pytest.mark.parametrize(
    ("stream", "log", "expected"),
    [
        (Terminal(), LogSettings(), True),
        (Terminal(), LogSettings(banner=False), False),
        (Terminal(), LogSettings(format=LogFormat.JSON), False),
        (io.StringIO(), LogSettings(), False),
        (io.StringIO(), LogSettings(format=LogFormat.CONSOLE), False),
    ],
)
def test_nobody_else_gets_a_banner(
    monkeypatch: pytest.MonkeyPatch, stream: Any, log: LogSettings, expected: bool
) -> None:
    monkeypatch.setattr("sys.stdout", stream)
    assert (announce_for(Settings(log=log)) is not None) is expected


class AwayStore(MemoryStore):
    async def schedules(self, filter: Any) -> Any:
        raise Unavailable("gone")


async def test_a_store_that_is_away_does_not_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Terminal())
        announce = announce_for(Settings())
    assert announce is not None
    await announce(OperationsHarness(AwayStore()).context, None)
    shown = capsys.readouterr().out
    assert "store" in shown
    assert "next" not in shown
    assert "dashboard" not in shown


def test_what_comes_next_in_words() -> None:
    fire = ComingFire(NOON + timedelta(minutes=5), "two\nlines")
    some = ComingWork(fires=[fire, fire], schedules=2, unknown=())
    first, second = next_text(some, NOON).split("\n")
    assert first == second
    assert first.endswith(", in 5 min: two lines")
    none = ComingWork(fires=(), schedules=0, unknown=())
    assert next_text(none, NOON) == "nothing: no active schedule fires"
    many = ComingWork(fires=None, schedules=1200, unknown=())
    assert next_text(many, NOON) == "more than can be searched: 1,200 schedules"


def test_many_unknown_tasks_are_counted() -> None:
    assert unknown_text(["a", "b"]) == "a, b"
    assert unknown_text([*"abcdefg"]) == "a, b, c, d, e and 2 more tasks"


def test_the_transport_has_no_password() -> None:
    shown = transport_of(Settings(transport="amqp://shop:hunter22@broker/"))
    assert "broker" in shown
    assert "hunter22" not in shown


def test_a_level_with_a_name_is_of_one_logger() -> None:
    assert split_levels(["info", "shop=debug", "warning", "a=error"]) == {
        "log.level": "warning",
        "log.levels": "shop=debug a=error",
    }
    assert split_levels([]) == {"log.level": None, "log.levels": None}
