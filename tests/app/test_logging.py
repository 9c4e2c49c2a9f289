"""What a program that uses Onbeat as a library sees in its log, with and without logging set up."""

from pathlib import Path

import pytest

from app.programs import program

FAILING = """
{setup}
from onbeat import Onbeat, Retry

beat = Onbeat("{store}")

@beat.task("boom", retry=Retry(attempts_max=2, delay="10ms", jitter=False))
def boom() -> None:
    1 / 0

{run}
"""

RUNS = {
    "run": "boom.send(); beat.run()",
    "async with": """
import asyncio, signal

async def main() -> None:
    async with beat:
        await boom.asend()
        await asyncio.Event().wait()

asyncio.run(main())
""",
    "started": """
import threading
with beat.started():
    boom.send()
    threading.Event().wait()
""",
}


@pytest.mark.parametrize("how", RUNS)
def test_a_bare_script_shows_its_failures(tmp_path: Path, how: str) -> None:
    text = FAILING.format(setup="", store="sqlite:///beat.db", run=RUNS[how])
    with program(text, tmp_path) as running:
        running.wait_to_say("ZeroDivisionError: division by zero", times=2)
        running.wait_to_say("state=failed")
        running.kill()
    log = running.log.read_text()
    first, last = [line for line in log.splitlines() if line.startswith("job.failed")]
    assert "task=boom" in first
    assert "attempt=1/2" in first
    assert "next_at=" in first
    assert "state=failed" in last
    assert "1 / 0" in log


def test_levels_and_names_are_the_standard_librarys(tmp_path: Path) -> None:
    setup = """
import logging
logging.basicConfig(level=logging.DEBUG, format="%(levelname)s:%(name)s:%(message)s")
logging.getLogger("asyncio").setLevel(logging.ERROR)
"""
    text = FAILING.format(setup=setup, store="memory://", run=RUNS["run"])
    with program(text, tmp_path) as running:
        running.wait_to_say("WARNING:onbeat.jobs:job.failed", times=2)
        running.wait_to_say("DEBUG:onbeat.jobs:job.started", times=2)
        running.kill()


def test_a_program_may_quiet_it(tmp_path: Path) -> None:
    setup = "import logging; logging.getLogger('onbeat').setLevel(logging.CRITICAL)"
    run = """
import threading
with beat.started():
    job = boom.send()
    try:
        job.result(timeout=20)
    except Exception as error:
        print("ended:", type(error).__name__, flush=True)
"""
    text = FAILING.format(setup=setup, store="memory://", run=run)
    with program(text, tmp_path) as running:
        running.wait_to_say("ended: JobFailed")
        running.process.wait()
    assert running.log.read_text().splitlines() == ["ended: JobFailed"]
