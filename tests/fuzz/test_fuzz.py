"""A few seconds of long inputs, as `make fuzz` sends them for ten minutes."""

from pathlib import Path

from fuzz.__main__ import KEY, REFUSED, fuzz
from fuzz.requests import described, requests


def test_every_operation_gets_long_inputs() -> None:
    made = requests(1, KEY)
    seen = {(one.method, one.path.split("?")[0]) for one in (next(made) for _ in range(3_000))}
    fixed = {(one.method, one.path) for one in described() if "{" not in one.path}
    assert fixed <= seen


def test_no_long_input_is_slow_or_a_fault(tmp_path: Path) -> None:
    outcome = fuzz(tmp_path, seconds=5, seed=7)
    assert not outcome.faults, outcome.lines()
    assert outcome.statuses.total() > 20
    assert outcome.statuses["200"] + outcome.statuses["201"] > 0
    assert outcome.statuses["422"] + outcome.statuses["413"] > 0
    assert outcome.statuses[REFUSED] < outcome.statuses.total()
