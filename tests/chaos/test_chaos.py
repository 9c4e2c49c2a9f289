"""A small fleet under one round of the faults that take seconds; `make chaos` has the others."""

import os

import pytest

from chaos.fleet import SMALL
from chaos.run import chaos
from chaos.verdict import table
from proof_counts import counting

SEED = int(os.environ.get("CRASH_SEED", "1"))
QUICK = ("kill worker", "kill all", "stop twice", "lose answers", "lock_writes")
NETWORK = (
    "reset connections to store",
    "lose answers of store",
    "lose requests to store",
    "cut off worker",
    "slow store",
    "lose answers",
)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("store", "only"),
    [
        ("sqlite", (*QUICK, "set_clock")),
        ("postgres", (*QUICK, "kill")),
        ("mysql", (*QUICK, "kill")),
    ],
)
async def test_chaos_breaks_no_promise(store, only):
    outcome = await attacked(store, only)
    assert outcome.verdict.recovered, "the kills met jobs that ran"


@pytest.mark.proof
@pytest.mark.parametrize("store", ["postgres", "mysql"])
async def test_a_broken_network_breaks_no_promise(store):
    outcome = await attacked(store, NETWORK)
    assert outcome.counts["partitions"] >= len(NETWORK)


async def attacked(store, only):
    with counting("chaos", store) as counts:
        outcome = await chaos(store, 0, SEED, SMALL, only)
        counts.add(**outcome.counts)
        assert sorted(outcome.faults) == sorted(only)
        assert outcome.is_good, f"{table(store, outcome.verdict)}\n{outcome.refusals}"
        return outcome
