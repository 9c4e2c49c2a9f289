"""`onbeat top` in a terminal without a screen, on a real store and on a real service."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import Static

from conditions import eventually
from interfaces.up import Up, up
from onbeat.app.stores import open_store
from onbeat.cli.client import ConnectionOptions
from onbeat.cli.main import root
from onbeat.cli.top.app import TopApp
from onbeat.cli.top.panel import Panel
from onbeat.cli.top.screen import TALL, WIDE
from onbeat.model.errors import Unauthorized
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Failed
from onbeat.ports.store import Store
from onbeat.rules.faults import change_of
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.steps import run_and_end

OPERATE = "operate-key-of-the-test-02"
READ = "read-key-of-the-test-00003"
KEYS = f"ops:operate={OPERATE},look:read={READ}"
SMALL = (80, 24)
PROGRAM = """
    from onbeat import Onbeat

    beat = Onbeat()


    @beat.task("shop.mail")
    async def mail(to: str) -> str:
        return to
"""


def due_job(queue: str) -> Job:
    return a_job(queue=queue, due_at=datetime.now(UTC) - timedelta(minutes=2))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """Two jobs that failed alike, and jobs that wait in two queues; nobody runs them."""
    store = open_store(f"sqlite:///{tmp_path}/onbeat.db")
    await store.open()
    for order in (1, 2):
        failed = Failed(f"order {order} failed", retryable=False)
        job = await run_and_end(store, a_job(), failed)
        at = datetime.now(UTC) - timedelta(hours=2)
        change = change_of(job.target, job.queue, job.id, job.error or "", at)
        await store.note_faults([change])
    await store.enqueue([due_job("mail"), due_job("mail"), due_job("bulk")])
    yield store
    await store.close()


class Terminal:
    """An open `onbeat top`, as its reader sees it."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    def words(self, id: str) -> str:
        return str(self.app.front.query_one(f"#{id}", Static).content)

    def panel(self, id: str) -> Panel:
        return self.app.front.query_one(f"#{id}", Panel)

    def rows(self, id: str) -> list[list[str]]:
        panel = self.panel(id)
        return [
            [cell.plain.strip() for cell in panel.get_row_at(n)] for n in range(panel.row_count)
        ]

    @property
    def buttons(self) -> set[str]:
        return {one.binding.description for one in self.app.screen.active_bindings.values()}

    def dialog(self, id: str) -> str:
        found = self.app.screen.query(f"#{id}").results(Static)
        return "".join(str(one.content) for one in found)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def asks(self, id: str = "question") -> str:
        return str(await eventually(lambda: self.dialog(id), f"there is a {id}"))

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        await eventually(condition, what)


@pytest.fixture
async def terminal(store: Store, tmp_path: Path) -> AsyncIterator[Terminal]:
    url = f"sqlite:///{tmp_path}/onbeat.db"
    app = TopApp(url, ConnectionOptions(store=url).connect)
    async with app.run_test(size=SMALL) as pilot:
        shown = Terminal(app, pilot)
        await shown.until(lambda: app.front.picture, "the first picture")
        yield shown


async def test_it_says_what_is_broken_and_lists_what_there_is(terminal: Terminal) -> None:
    assert terminal.words("verdict").splitlines() == [
        "✗ No worker is alive",
        "  3 jobs are due, and nobody runs them. And 2 more.",
    ]
    assert [row[:3] for row in terminal.rows("queues")] == [["mail", "2", "2"], ["bulk", "1", "1"]]
    assert [row[2:4] for row in terminal.rows("failures")] == [["2", "0"]]
    assert "Queues 2" in terminal.words("names")
    await terminal.press("v")
    assert "Queue mail is late" in await terminal.asks("message")


async def test_a_queue_is_paused_after_a_question_and_stays_chosen(
    terminal: Terminal, store: Store
) -> None:
    await terminal.press("down", "p")
    assert await terminal.asks() == "Pause the queue bulk?"
    await terminal.press("n")
    await terminal.press("p", "y")
    await terminal.until(
        lambda: terminal.rows("queues")[1][-1] == "paused", "it is shown as paused"
    )
    assert [queue.name for queue in await store.queues(NOW) if queue.paused] == ["bulk"]
    await store.enqueue([due_job("archive") for _ in range(9)])
    await terminal.until(lambda: terminal.rows("queues")[0][0] == "archive", "others come first")
    assert terminal.panel("queues").chosen == "bulk"
    await terminal.press("p")
    assert await terminal.asks() == "Resume the queue bulk?"


async def test_failed_jobs_are_counted_and_replayed(terminal: Terminal, store: Store) -> None:
    assert "Replay" not in terminal.buttons
    await terminal.press("tab")
    assert {"Replay", "Details"} <= terminal.buttons
    assert "Pause/resume" not in terminal.buttons
    await terminal.press("r")
    assert (await terminal.asks()).startswith("Retry 2 failed jobs of ")
    await terminal.press("y")
    await terminal.until(lambda: terminal.rows("failures")[0][2] == "0", "none failed for good")
    assert (await store.stats(NOW)).jobs[JobState.FAILED] == 0


async def test_enter_tells_why_a_job_waits_and_what_an_error_said(terminal: Terminal) -> None:
    await terminal.press("enter")
    assert "No worker is alive" in await terminal.asks("message")
    await terminal.press("escape", "tab", "enter")
    assert "order 2 failed" in await terminal.asks("message")
    await terminal.press("escape", "question_mark")
    assert "pause the chosen queue" in await terminal.asks("message")


async def test_a_large_terminal_shows_all_tables_at_once(terminal: Terminal) -> None:
    panels = [terminal.panel(id) for id in ("queues", "failures", "workers", "fires")]
    assert [panel.display for panel in panels] == [True, False, False, False]
    await terminal.press("shift+tab")
    assert [panel.display for panel in panels] == [False, False, False, True]
    await terminal.pilot.resize_terminal(WIDE, TALL)
    await terminal.until(lambda: all(panel.display for panel in panels), "all tables")
    await terminal.pilot.resize_terminal(WIDE, TALL - 1)
    await terminal.until(lambda: not all(panel.display for panel in panels), "some tables")


def service_in(folder: Path, *args: str) -> Any:
    (folder / "shop.py").write_text(dedent(PROGRAM))
    return up(folder, "shop:beat", *args, ONBEAT_API__KEYS=KEYS)


def watching(service: Up, key: str) -> TopApp:
    host, port = service.address
    url = f"http://{host}:{port}"
    return TopApp(url, ConnectionOptions(server=url, api_key=key).connect)


async def buttons_with(service: Up, key: str) -> set[str]:
    """Once the stream tells of changes."""
    app = watching(service, key)
    async with app.run_test(size=SMALL) as pilot:
        terminal = Terminal(app, pilot)
        await terminal.until(lambda: "live" in terminal.words("head"), "the stream tells")
        assert [row[1] for row in terminal.rows("workers")] == ["0 of 100"]
        return terminal.buttons


async def test_a_service_tells_of_changes_and_a_reading_key_has_no_buttons(tmp_path: Path) -> None:
    with service_in(tmp_path) as service:
        assert not await buttons_with(service, READ) & {"Pause/resume", "Replay"}
        assert "Pause/resume" in await buttons_with(service, OPERATE)
        app = watching(service, "no-such-key-of-the-test")
        async with app.run_test(size=SMALL):
            await eventually(lambda: app.error, "the key is refused")
        assert isinstance(app.error, Unauthorized)


async def test_a_service_that_is_away_is_asked_until_it_is_back(tmp_path: Path) -> None:
    with service_in(tmp_path) as service:
        port = service.address[1]
        app = watching(service, OPERATE)
        first = app.run_test(size=SMALL)
        pilot = await first.__aenter__()
        terminal = Terminal(app, pilot)
        await terminal.until(lambda: app.front.picture, "the first picture")
    try:
        await terminal.until(lambda: "No answer" in terminal.words("verdict"), "it says so")
        assert "Shown as of" in terminal.words("verdict")
        assert terminal.rows("workers"), "the last picture stays"
        await terminal.press("p", "y")
        with service_in(tmp_path, "--port", str(port)):
            await terminal.until(lambda: "No answer" not in terminal.words("verdict"), "it is back")
    finally:
        await first.__aexit__(None, None, None)


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)

    def run(*args: str, code: int = 0) -> Any:
        result = CliRunner().invoke(root, args)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.mark.usefixtures("store")
def test_one_picture_is_printed_for_scripts_without_the_extra(
    onbeat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    lines = onbeat("top", "--once").output.splitlines()
    assert lines[0] == "✗ No worker is alive"
    assert any(line.split()[:3] == ["mail", "2", "2"] for line in lines)
    picture = json.loads(onbeat("top", "--once", "--json").output)
    assert picture["troubles"][0]["key"] == "no-worker"
    assert [queue["name"] for queue in picture["queues"]] == ["mail", "bulk"]


def test_what_it_needs_is_named(
    onbeat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--once" in onbeat("top", "--json", code=2).stderr
    assert "`onbeat top --once` prints one picture" in onbeat("top", code=2).stderr
    monkeypatch.setattr("onbeat.cli.top.command.is_terminal", lambda: True)
    for name in [name for name in sys.modules if name.startswith("onbeat.cli.top.")]:
        if name != "onbeat.cli.top.command":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual", None)
    assert "pip install 'onbeat[server,top]'" in onbeat("top", code=2).stderr
