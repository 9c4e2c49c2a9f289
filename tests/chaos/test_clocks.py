"""The clock that is set shows in programs, and in nothing but their time of day."""

import os
import subprocess
import sys
import time

import pytest

from chaos.clocks import Clock, library

PROGRAM = """
import sqlite3, sys, time
for line in sys.stdin:
    before = time.monotonic()
    time.sleep(0.01)
    (day,) = sqlite3.connect(":memory:").execute("SELECT unixepoch()").fetchone()
    print(time.time(), day, time.monotonic() - before, flush=True)
"""


@pytest.mark.parametrize("ahead", [0.0, 3_600.25, -86_400.75])
def test_the_time_of_day_is_set_while_a_program_runs(ahead, tmp_path):
    clock = Clock(library(tmp_path), tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:

        def told() -> list[float]:
            program.stdin.write("\n")
            program.stdin.flush()
            return [float(word) for word in program.stdout.readline().split()]

        early = time.time()
        here, _, _ = told()
        assert early <= here <= time.time()
        clock.set(ahead)
        early = time.time()
        here, day, passed = told()
        late = time.time()
        assert early + ahead - 0.001 <= here <= late + ahead
        assert early + ahead - 1 <= day <= late + ahead
        assert 0.01 <= passed <= late - early
        program.stdin.close()
