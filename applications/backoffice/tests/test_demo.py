"""`make run-backoffice`, small."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from world import SERVER, World

RUN = Path(__file__).parents[1] / "demo" / "run.py"


def started(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(RUN), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def databases_of(process: "subprocess.Popen[str]") -> list[str]:
    like = f"backoffice\\_test\\_{process.pid}\\_%"
    return [name for (name,) in World(SERVER).rows("SHOW DATABASES LIKE ?", like)]


def test_s1_58_the_demo_adds_up_while_processes_are_killed() -> None:
    demo = started("--workspaces", "50", "--kill")
    printed, _ = demo.communicate(timeout=100)
    assert demo.returncode == 0, printed
    assert "50 invoices for 50 workspaces" in printed
    assert "0 bills were charged twice" in printed
    assert "NO" not in printed
    assert databases_of(demo) == []


def test_the_demo_is_gone_when_it_was_interrupted() -> None:
    demo = started("--workspaces", "50")
    assert demo.stdout is not None
    assert "bills" in demo.stdout.readline()
    demo.send_signal(signal.SIGINT)
    printed, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, printed
    assert databases_of(demo) == []
