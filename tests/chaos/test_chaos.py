"""A small fleet under one round of the faults that take seconds; `make chaos` has the others."""

import os

import pytest

from chaos.fleet import SMALL
from chaos.run import chaos
from chaos.verdict import table

SEED = int(os.environ.get("ONBEAT_CRASH_SEED", "1"))
QUICK = ("kill worker", "kill all", "lose answers", "lock_writes")


@pytest.mark.proof
@pytest.mark.xdist_group("fleet")
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_chaos_breaks_no_promise(store):
    outcome = await chaos(store, 0, SEED, SMALL, QUICK)
    assert sorted(outcome.faults) == sorted(QUICK)
    assert outcome.is_good, f"{table(store, outcome.verdict)}\n{outcome.refusals}"
    assert outcome.verdict.recovered, "the kills met jobs that ran"
