"""Power cuts: what was acknowledged is on the disk, and the file is whole."""

import os
import random

import pytest

from power.disk import REMAINS, Platter, Write
from power.lives import cut_power
from proof_counts import counting

CUTS = int(os.environ.get("POWER_CUTS", "400"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
PARTS = 4  # run beside each other


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_power_cut_loses_nothing_acknowledged(part, tmp_path):
    with counting("power cuts", "sqlite") as counts:
        sums = await cut_power(tmp_path, CUTS // PARTS, SEED * PARTS + part)
        counts.add(cuts=sums.cuts)
        assert not sums.lost
        assert sums.cuts == CUTS // PARTS
        assert sums.cuts_amid > sums.cuts // 2, "cuts fall while the store writes"
        assert sums.acknowledged > 10 * sums.cuts


async def test_a_disk_that_refuses_flushes_loses_nothing_acknowledged(tmp_path):
    """No refused commit is acknowledged, and no later one rests on what the disk has dropped."""
    with counting("failing disk", "sqlite") as counts:
        sums = await cut_power(tmp_path, 60, SEED, fails=True)
        counts.add(cuts=sums.cuts)
        assert not sums.lost
        assert sums.failures > 60
        assert sums.acknowledged > 5 * sums.cuts


async def test_a_store_that_does_not_flush_each_commit_is_found_out(tmp_path):
    sums = await cut_power(tmp_path, 24, SEED, "NORMAL")
    assert sums.lost


@pytest.mark.parametrize("remains", REMAINS)
def test_what_was_flushed_survives_every_cut(remains):
    platter = Platter(pending=[Write("a", 0, b"x" * 1024), Write("b", 0, b"y" * 1024)])
    platter.flush("a")
    for seed in range(50):
        left = platter.after_cut(remains, random.Random(seed))
        assert left["a"] == b"x" * 1024


def test_what_was_not_flushed_may_be_gone_in_part_or_torn():
    platter = Platter(pending=[Write("a", 0, b"x" * 1024), Write("a", 1024, b"y" * 1024)])
    lengths = {
        remains: {
            len(platter.after_cut(remains, random.Random(seed)).get("a", b"")) for seed in range(50)
        }
        for remains in REMAINS
    }
    assert lengths == {
        "nothing": {0},
        "prefix": {0, 1024, 2048},
        "some": {0, 1024, 2048},
        "torn": {0, 512, 1024, 1536, 2048},
    }
