"""Histories of a whole fleet under faults that are drawn from seeds."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from onbeat.testing.simulation import (
    SimulationOptions,
    draw_options,
    revision,
    run_histories,
    run_history,
)
from onbeat.testing.simulation import __main__ as command
from onbeat.testing.simulation.journal import Journal
from onbeat.testing.simulation.options import EXTRA_RATES, read_options
from proof_counts import counting

SEEDS = Path(__file__).parent / "seeds.txt"
HISTORIES = 40
FIRST = 1_000
CHUNKS = 4
EACH = HISTORIES // CHUNKS


def assert_none_broken(seeds: list[int], *, liveness: bool = False) -> None:
    with counting("simulation", "model") as counts:
        report = run_histories(
            seeds, options_of=partial(draw_options, liveness=liveness), failures_max=1
        )
        counts.add(histories=len(seeds))
        assert not report.failures, command.describe(report.failures[0])


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_history_breaks_an_invariant(chunk: int) -> None:
    first = FIRST + chunk * EACH
    assert_none_broken(list(range(first, first + EACH)))


@pytest.mark.parametrize("seed", command.read_seeds(str(SEEDS)))
def test_what_was_found_once_is_mended(seed: int) -> None:
    assert_none_broken([seed])


@pytest.mark.parametrize("first", [0, 5])
def test_a_fleet_of_which_one_process_is_cut_off_for_good_ends_its_work(first: int) -> None:
    assert_none_broken(list(range(first, first + 5)), liveness=True)


NOT_DRAWN = {"isolated", "serial", "clients", *EXTRA_RATES}


def test_every_class_of_faults_is_on_in_some_history_and_off_in_others() -> None:
    drawn = [draw_options(seed) for seed in range(100)]
    for name in draw_options(0).__struct_fields__:
        values = {getattr(options, name) for options in drawn}
        assert len(values) > 1 or name in NOT_DRAWN, f"{name} is {values}"


def test_only_an_edit_by_a_clock_that_is_further_off_than_rows_are_kept_may_plan_again() -> None:
    journal = Journal()
    journal.edited.add("edited")
    journal.store_steps = 3.0
    assert journal.may_plan_again("edited", keep=2.9)
    assert not journal.may_plan_again("edited", keep=3.0)
    assert not journal.may_plan_again("edited", keep=0.0)
    assert not journal.may_plan_again("other", keep=2.9)


def test_options_are_printed_so_that_they_can_be_read_again() -> None:
    options = draw_options(17)
    assert read_options(options.show()) == options


PYTHONS = [sys.executable, *filter(None, [os.environ.get("OTHER_PYTHON")])]
"""This interpreter, and another one with the package where it is named: a later Python."""


@pytest.mark.parametrize("python", PYTHONS)
def test_the_same_seed_gives_the_same_history_in_another_interpreter(python: str) -> None:
    seeds = range(8, 12)
    elsewhere = subprocess.run(
        [python, "-m", "onbeat.testing.simulation", "--traces", "--first=8", "--seeds=4"],
        env={"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    here = {seed: run_history(seed).trace_hash for seed in seeds}
    assert len(set(here.values())) == len(here)
    assert elsewhere.stdout.splitlines() == [f"{seed} {trace}" for seed, trace in here.items()]


def test_a_history_is_shown_with_the_source_that_it_ran() -> None:
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(
        asked, cwd=SEEDS.parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    shown = command.describe(run_history(1, SimulationOptions(horizon=3.0, jobs=1)))
    assert (f" revision={commit}" in shown) is bool(commit)


def test_where_git_has_no_source_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision, "SOURCE", tmp_path)
    assert revision.revision() is None
    monkeypatch.setenv("PATH", "")
    assert revision.revision() is None
