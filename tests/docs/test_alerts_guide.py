"""The examples of the guide on alerts and reminders, pasted beside the demo of `make run`."""

import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from conditions import eventually_here
from docs.pages import ROOT, blocks
from docs.services import running
from docs.shell import Shell

GUIDE = ROOT / "docs" / "guides" / "alerts-and-reminders.md"
ADDRESS = re.compile(r"API +http://127\.0\.0\.1:(\d+)/")
SOONER = {
    '"gather": {"until": {"cron": "0 8 * * MON-FRI", "timezone": "Europe/Berlin"}}': (
        '"gather": {"for": "3s"}'
    ),
    '"from": "08:00", "to": "21:00"': '"from": "00:00", "to": "24:00"',
    '"delay": "10m"': '"delay": "3s"',
    '"gather": {"for": "5m"}': '"gather": {"for": "1s"}',
    '"gather": {"for": "1m"},': '"gather": {"for": "1s"},',
    '"late_after": "5m"': '"late_after": "1s"',
}
"""What the guide waits for, and what this test waits for."""

TOLD = [
    "Your code for payment p1 is 4711.",
    "2 orders - ada: 7 EUR. bob: 8 EUR.",
    "Your invoice is ready.",
    "Order b is not paid.",
    "All stages are done.",
    "onbeat.queue.late - reports",
    "1 failed in queue default - @http: not retryable.",
    "Wrong: @http fails: HTTP 404 from 127.0.0.1",
]


def sooner(text: str) -> str:
    for long, short in SOONER.items():
        text = text.replace(long, short)
    return text


def is_told(log: Path, words: str) -> bool:
    return words in log.read_text()


@pytest.mark.usefixtures("only_demo")
@pytest.mark.xdist_group("demo")
def test_the_examples_work_beside_the_demo(tmp_path: Path) -> None:
    page = GUIDE.read_text("utf-8")
    assert all(page.count(long) == 1 for long in SOONER)
    demo, log = ROOT / "examples" / "demo" / "run.py", tmp_path / "run.py.log"
    with running([sys.executable, str(demo)], tmp_path):
        found = eventually_here(lambda: ADDRESS.search(log.read_text()), "the demo runs")
        api = f"http://127.0.0.1:{found[1]}/api"
        with Shell(tmp_path) as shell:
            for block in blocks(GUIDE, "sh"):
                text = sooner(block.text).replace("http://127.0.0.1:8080/api", api)
                text = text.replace("127.0.0.1:8080", f"127.0.0.1:{found[1]}")
                for command in re.split(r"\n(?=curl )", text.strip()):
                    code, printed = shell.run(command)
                    assert code == 0, printed
                    assert "error" not in printed, printed
            for words in TOLD:
                eventually_here(partial(is_told, log, words), words, 60)
            _, answer = shell.run(f"curl -s '{api}/jobs?state=cancelled&queue=default'")
    assert [job["reason"] for job in json.loads(answer)["jobs"]] == ["event paid-a"]
    assert "Order a" not in log.read_text()
