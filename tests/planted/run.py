"""Runs the tests that should catch a planted bug, over a copy of the source that has it."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planted.patches import ROOT, TESTS, Bug

SECONDS_MAX = 300
FAILED: Final = 1
"""The exit code of pytest where a test has failed."""

PLUGINS: Final = ("-p", "asyncio", "-p", "timeout", "-p", "xdist", "-p", "_hypothesis_pytestplugin")
"""Those that tests need: to load all that are installed takes longer than most tests."""

VARIABLES: Final = {"POWER_CUTS": "80", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""The variables of a run: long proofs are as long as it takes to find a bug."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one bug: `caught` by a failing test, or not; `note` is the first failure."""

    bug: Bug
    caught: bool
    seconds: float
    note: str

    def line(self) -> str:
        word = "caught" if self.caught else "MISSED"
        return f"{self.bug.name:8} {word} {self.seconds:5.1f} s  {self.bug.what}: {self.note}"


def try_bug(bug: Bug) -> Trial:
    """Plant the bug and run its tests. Raises if they do not import the copy, or do not run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="onbeat-planted-") as folder:
        copy = bug.plant(Path(folder))
        env = os.environ | {"PYTHONPATH": str(copy)} | VARIABLES
        env.pop("PYTEST_XDIST_WORKER", None)
        env.pop("PROOF_COUNTS", None)  # what a planted bug breaks is no violation
        check_import(copy, env)
        code, output = run_tests(bug, env)
    if code not in (0, FAILED):
        raise AssertionError(f"{bug.name}: its tests did not run (exit {code}):\n{output[-3000:]}")
    is_cut_off = "Timeout" in output and not bug.hangs
    # An error of a fixture is no test that has failed.
    failures = [line for line in output.splitlines() if line.startswith("FAILED ")]
    note = failures[0] if failures else "none of its tests failed"
    if is_cut_off:
        note = f"its tests did not end: {note}"
    caught = bool(failures) and not is_cut_off
    return Trial(bug, caught, time.monotonic() - began, note)


def check_import(copy: Path, env: dict[str, str]) -> None:
    program = [sys.executable, "-c", "import onbeat; print(onbeat.__file__)"]
    found = subprocess.run(program, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    where = Path(found.stdout.strip())
    assert where.is_relative_to(copy), f"the tests would import {where}"


def run_tests(bug: Bug, env: dict[str, str]) -> tuple[int, str]:
    """The exit code of pytest and what it printed; tests that never end have failed."""
    words = [str(TESTS / word) if word.split("::")[0].endswith((".py", "/")) else word
             for word in bug.tests]  # fmt: skip
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "no:cacheprovider",
        *PLUGINS, f"--timeout={SECONDS_MAX // 3}", *words,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, env=env, cwd=ROOT, capture_output=True, text=True, check=False,
            timeout=SECONDS_MAX,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return FAILED, f"FAILED Timeout: no end within {SECONDS_MAX} s"
    return done.returncode, done.stdout + done.stderr
