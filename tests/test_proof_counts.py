"""The one line of `make proof`."""

import json
from io import StringIO

import pytest

from proof_counts import COUNTERS, MINIMA, Counts, counting, main, total


@pytest.fixture
def counts_file(tmp_path, monkeypatch):
    path = tmp_path / "proofs" / "counts.jsonl"
    monkeypatch.setenv("PROOF_COUNTS", str(path))
    return path


def test_counts_of_all_proofs_are_summed(counts_file, capsys):
    for _ in range(2):
        with counting("everything", "sqlite") as counts:
            counts.add(**dict.fromkeys(COUNTERS[:-1], 4_000))
            counts.add(kills=1)
    assert main([str(counts_file)]) == 0
    assert capsys.readouterr().out == (
        "histories=8000 kills=8002 restarts=8000 cuts=8000 partitions=8000 violations=0\n"
    )


def test_a_count_below_its_minimum_is_no_proof(counts_file, capsys):
    enough = MINIMA["quick"] | {"kills": 7}
    with counting("few kills") as counts:
        counts.add(**enough)
    assert main([str(counts_file), "--of", "quick"]) == 1
    assert "kills: 7 of at least " in capsys.readouterr().out


def test_proofs_that_were_not_run_are_no_proof(tmp_path):
    assert main([str(tmp_path / "none")]) == 1


def test_what_a_command_says_of_itself_is_added(counts_file, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", StringIO("seed=4 slow\nhistories=70 violations=2 kills=9\n"))
    assert main(["--add", "simulation", str(counts_file)]) == 0
    assert capsys.readouterr().out.endswith("kills=9\n"), "it is shown too"
    sums = total(counts_file)
    assert (sums["histories"], sums["violations"], sums["kills"]) == (70, 2, 0)


def test_a_failed_assertion_is_a_violation(counts_file, capsys):
    with counting("much") as counts:
        counts.add(**MINIMA["quick"])
    with pytest.raises(AssertionError), counting("bad"):
        raise AssertionError
    assert total(counts_file)["violations"] == 1
    assert main([str(counts_file)]) == 1
    assert "violations: 1" in capsys.readouterr().out


def test_a_counter_that_is_not_printed_is_refused():
    with pytest.raises(AssertionError):
        Counts().add(kill=1)


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("PROOF_COUNTS", raising=False)
    monkeypatch.chdir(tmp_path)
    with counting("quiet") as counts:
        counts.add(kills=1)
    assert not list(tmp_path.iterdir())


def test_a_line_says_which_proof_it_is(counts_file):
    with counting("cuts", "sqlite") as counts:
        counts.add(cuts=3)
    (line,) = map(json.loads, counts_file.read_text().splitlines())
    assert (line["proof"], line["store"], line["cuts"]) == ("cuts", "sqlite", 3)
    assert line["seconds"] >= 0
