"""A few seconds of long inputs, as `make fuzz` sends them for ten minutes."""

from pathlib import Path

from fuzz.__main__ import KEY, REFUSED, fuzz
from fuzz.requests import every_address, requests
from onbeat.operations.table import OPERATIONS


def test_every_address_gets_long_inputs_in_each_round() -> None:
    made = requests(1, KEY)
    round_of = [next(made) for _ in every_address()]
    seen = {(one.method, one.path.split("?")[0]) for one in round_of}
    assert {(one.method, one.path) for one in every_address() if "{" not in one.path} <= seen
    assert {f"/{place}" for place in ("api/jobs", "rpc", "jobs", "schedules/new")} <= {
        path for _, path in seen
    }


def test_every_method_of_json_rpc_is_among_the_addresses() -> None:
    called = {(one.example or {}).get("method") for one in every_address()}
    assert {one.name for one in OPERATIONS} <= called


def test_no_long_input_is_slow_or_a_fault(tmp_path: Path) -> None:
    outcome = fuzz(tmp_path, seconds=5, seed=7)
    assert not outcome.faults, outcome.lines()
    assert outcome.statuses.total() > 20
    assert outcome.statuses["200"] + outcome.statuses["201"] > 0
    assert outcome.statuses["422"] + outcome.statuses["413"] > 0
    assert outcome.statuses[REFUSED] < outcome.statuses.total()
