"""A process that grows is found, and one that only breathes is not."""

from pathlib import Path

import pytest

from soak.growth import LOOKS_MIN, MIB, Vitals, growth
from soak.resident import WARM_ROUNDS, residing

CALM = Vitals(memory=100 * MIB, descriptors=30, connections=10, threads=12, tasks=20)


def looks(**last: int) -> list[Vitals]:
    """As many as a judgement needs; each value goes evenly from that of `CALM` to its last one."""
    steps = LOOKS_MIN * 2 - 1
    ends = CALM._replace(**last)
    return [
        Vitals(*(a + (b - a) * step // steps for a, b in zip(CALM, ends, strict=True)))
        for step in range(steps + 1)
    ]


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("memory", 200 * MIB),
        ("descriptors", 60),
        ("connections", 30),
        ("threads", 30),
        ("tasks", 60),
    ],
)
def test_what_grows_is_named(name: str, last: int) -> None:
    (grown,) = growth(looks(**{name: last}))
    assert grown.startswith(f"{name} grew from ")


def test_what_stays_within_its_bounds_has_not_grown() -> None:
    assert growth(looks(memory=115 * MIB, descriptors=33, connections=12, threads=14)) == []


def test_one_high_look_is_not_growth() -> None:
    assert growth([*looks()[:-1], CALM._replace(tasks=500)]) == []


def test_few_looks_say_nothing() -> None:
    assert growth([CALM, CALM._replace(tasks=500)]) == []


ROUNDS = WARM_ROUNDS + LOOKS_MIN


@pytest.mark.proof
@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
def test_a_service_does_not_grow(tmp_path: Path, store: str) -> None:
    with residing(store, tmp_path) as resident:
        resident.work(ROUNDS)
        assert len(resident.looks) == LOOKS_MIN
        assert f"rounds={ROUNDS}" in resident.verdict()


@pytest.mark.proof
def test_a_service_whose_jobs_leave_something_behind_is_found(tmp_path: Path) -> None:
    with residing("sqlite", tmp_path, LEAKS="yes") as resident:
        resident.work(ROUNDS)
        with pytest.raises(AssertionError, match=f"after {ROUNDS} rounds: ") as found:
            resident.verdict()
    assert all(f"{name} grew from" in str(found.value) for name in Vitals._fields)
