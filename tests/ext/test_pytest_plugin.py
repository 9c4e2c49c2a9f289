"""The pytest plugin, in runs of pytest of its own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOP = """
from onbeat import Context, Onbeat, Retry, daily

beat = Onbeat("sqlite:///shop.db")
closed = []


@beat.task("mail.send", queue="mail", retry=Retry(attempts_max=3, delay="1m", jitter=False))
def send_mail(context: Context, to: str, *, copy: bool = False) -> str:
    if context.attempt < 2:
        raise ConnectionError("busy")
    return f"sent to {to}"


@beat.task("order.pay")
async def pay(order: int) -> int:
    if order:
        await send_mail.asend(f"{order}@example.com")
    return order


@beat.schedule(daily("03:00"), key="books")
async def close_books(context: Context) -> None:
    closed.append(context.occurrence)
"""


def run_pytest(folder: Path, tests: str, *options: str) -> str:
    """What a run of pytest with this plugin and those of coroutines prints, and its exit code."""
    (folder / "shop.py").write_text(SHOP)
    (folder / "test_shop.py").write_text(tests)
    if not (folder / "pytest.ini").exists():
        (folder / "pytest.ini").write_text(
            "[pytest]\nonbeat_app = shop:beat\nasyncio_mode = auto\n"
        )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-p", "onbeat.ext.pytest",
         "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider",
         "-o", "asyncio_default_fixture_loop_scope=function", *options],
        cwd=folder,
        env={
            "PYTHONPATH": f"{ROOT / 'src'}:{folder}",
            "PATH": os.environ["PATH"],
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    return f"{done.stdout}{done.stderr}\nexit {done.returncode}"


def test_plain_and_coroutine_tests_run_a_program_in_virtual_time(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        """
import pytest
from datetime import UTC, datetime
from shop import close_books, pay, send_mail


def test_result_runs_what_is_due(onbeat):
    assert pay.send(0).result() == 0
    assert onbeat.now == datetime(2026, 1, 1, tzinfo=UTC)


def test_what_was_sent(onbeat):
    pay.send(7).result()
    onbeat.assert_enqueued(send_mail, args=["7@example.com"], queue="mail", times=1)
    with pytest.raises(AssertionError, match="mail.send\\\\('7@example.com'\\\\) in mail"):
        onbeat.assert_enqueued(send_mail, args=["8@example.com"])
    with pytest.raises(AssertionError, match="should have been sent 0 times"):
        onbeat.assert_enqueued(send_mail, times=0)


def test_keywords_are_told_apart(onbeat):
    send_mail.send("a@example.com", copy=True)
    onbeat.assert_enqueued("mail.send", kwargs={"copy": True})
    with pytest.raises(AssertionError):
        onbeat.assert_enqueued(send_mail, args=["a@example.com"])


def test_a_job_that_waits_for_its_time_is_not_waited_for(onbeat):
    job = send_mail.send("b@example.com")
    with pytest.raises(TimeoutError, match="time stands still; use `advance`"):
        job.result()
    with pytest.raises(TimeoutError, match="time stands still; use `advance`"):
        job.result(timeout=60)
    onbeat.advance("1m")
    assert job.result() == "sent to b@example.com"


@pytest.mark.onbeat(at="2026-03-28T23:00+01:00")
def test_the_clock_begins_where_the_marker_says(onbeat):
    onbeat.advance("5h")
    onbeat.assert_ran(close_books, times=1)
    onbeat.assert_enqueued(close_books, times=0)


async def test_in_a_coroutine(onbeat):
    job = await pay.asend(7)
    assert await job.aresult() == 7
    await onbeat.aassert_enqueued(send_mail, args=["7@example.com"])
    await onbeat.aadvance("1m")
    onbeat.assert_ran(send_mail, times=2)


def test_no_trial_is_left(onbeat_app):
    assert onbeat_app.backend.url == "sqlite:///shop.db"
    assert onbeat_app.backend.run_due_jobs is None
    assert onbeat_app.backend.store.url != "memory://"
""",
    )
    assert "7 passed" in said, said
    assert not (tmp_path / "shop.db").exists()


def test_a_run_without_the_fixture_imports_nothing_of_onbeat(tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        """
import sys


def test_nothing_is_imported():
    ours = {name for name in sys.modules if name.startswith("onbeat")}
    assert ours == {"onbeat", "onbeat.ext", "onbeat.ext.pytest"}
    assert "msgspec" not in sys.modules and "apsw" not in sys.modules
""",
    )
    assert "1 passed" in said, said


def test_the_fixture_tells_how_to_name_the_program(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    said = run_pytest(tmp_path, "def test_it(onbeat): ...\n")
    assert "write `onbeat_app = MODULE:NAME` into the configuration of pytest" in said, said


def test_a_program_may_give_itself(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = """
import pytest
from shop import beat, pay


@pytest.fixture
def onbeat_app():
    return beat


def test_it(onbeat):
    assert pay.send(0).result() == 0
"""
    assert "1 passed" in run_pytest(tmp_path, tests)


def test_the_wheel_announces_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"onbeat": "onbeat.ext.pytest"}
