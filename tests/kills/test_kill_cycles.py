"""Kills of one process or of all, with at least 50 jobs in flight, break no promise.

Restarts of a server under them break none either. `make kills` kills a thousand times.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from conditions import eventually_here
from kills.cycles import IN_FLIGHT, Flights, empty_stores, kill_again_and_again
from kills.drain import drain_under_kills
from kills.restarts import STORES, restart_again_and_again
from kills.zygote import Handle, Zygote
from proof_counts import counting

KILLS = int(os.environ.get("KILLS", "60"))
RESTARTS = int(os.environ.get("RESTARTS", "8"))
DRAINED = int(os.environ.get("DRAINED", "20000"))
SEED = int(os.environ.get("CRASH_SEED", "1"))


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
def test_kills_break_no_promise(store, tmp_path):
    with counting("kill cycles", store) as counts:
        for figures in kill_again_and_again(store, tmp_path, KILLS, SEED):
            counts.add(kills=figures["kills"])
            assert figures["in_flight"] >= IN_FLIGHT * figures["cycles"]
            assert figures["lost_attempts"] > figures["kills"], "the kills met jobs that ran"


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
def test_workers_killed_while_they_hold_thousands_of_jobs_lose_none(store, tmp_path):
    with (
        empty_stores(store) as empty,
        empty(tmp_path) as url,
        counting("kill cycles", store) as counts,
    ):
        figures = drain_under_kills(url, tmp_path, DRAINED, kills=6, seed=SEED)
        counts.add(kills=figures["kills"])
    assert figures["lost_attempts"] > figures["kills"], "the kills met jobs that were held"
    assert DRAINED < figures["attempts"] < 2 * DRAINED


@pytest.mark.proof
@pytest.mark.parametrize("store", STORES)
def test_a_server_that_restarts_again_and_again_is_no_loss(store, tmp_path):
    with counting("restarts of a server", store) as counts:
        figures = restart_again_and_again(store, tmp_path, RESTARTS, SEED)
        counts.add(restarts=figures["restarts"])
        assert not figures["lost_attempts"], "who cannot beat while the server is away is not dead"


def has_said(log: Path, text: str) -> bool:
    return log.exists() and log.read_text() == text


def test_a_forked_program_has_its_words_and_its_log(tmp_path):
    program = tmp_path / "told.py"
    program.write_text("import sys, time\nprint(sys.argv[1:], flush=True)\ntime.sleep(60)\n")
    with Zygote.running(tmp_path) as zygote:
        words = {"first": ["a", "b c"], "second": [], "third": []}
        forked = {name: zygote.fork(program, name, *args) for name, args in words.items()}
        for name, args in words.items():
            said = partial(has_said, tmp_path / f"{name}.log", f"{[name, *args]}\n")
            eventually_here(said, "it has begun")
        forked["first"].kill()
        assert not forked["first"].is_up
        assert forked["second"].is_up
        forked["second"].signal(signal.SIGTERM)
        forked["second"].wait()
        assert forked["third"].is_up
    forked["third"].wait()


def test_a_handle_signals_one_process_and_nobody_once_that_has_ended():
    asks = [sys.executable, "-c", "input()"]
    with subprocess.Popen(asks, stdin=subprocess.PIPE) as process:
        handle = Handle(process.pid)
        assert handle.is_up
        handle.signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not handle.is_up
    handle.signal(signal.SIGKILL)


def test_what_is_in_flight_is_read_from_the_journals(tmp_path):
    flights = Flights(tmp_path)
    assert flights.count({"w"}) == 0
    (tmp_path / "began").write_text("a 1 1 w\nb 1 1 w\nc 1 1 x\nd 1 1 w")
    assert flights.count({"w", "x"}) == 3
    (tmp_path / "ended").write_text("a 1 1 w\n")
    with (tmp_path / "began").open("a") as file:
        file.write("\n")
    assert flights.count({"w"}) == 2
