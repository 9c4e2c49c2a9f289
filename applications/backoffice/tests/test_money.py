"""Shares and rounding."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backoffice.money import SHARES, charged, half_up, overage_share, seed_share
from tenant import in_cents

AMOUNTS = st.integers(0, 10**9)
UNITS = st.integers(0, 10**6)


@pytest.mark.parametrize(
    ("full", "included", "used", "figure"),
    [
        ("1000", 200, 216, "160"),
        ("1000", 200, 205, "500"),
        ("1000", 200, 300, "100"),
        ("2499", 200, 216, "399.84"),
        ("1000", 200, 150, "0"),
        ("1000", 0, 5, "1000"),
        ("1000", 0, 0, "1000"),
        ("500", 300, -200, "0"),
    ],
)
def test_s1_a02_s1_a03_the_seeds_share_gives_its_figures(
    full: str, included: int, used: int, figure: str
) -> None:
    cents = charged(in_cents(full), seed_share(included, used))
    assert cents == in_cents(figure)


def test_the_seeds_share_refuses_a_part_of_a_unit() -> None:
    with pytest.raises(ValueError, match="whole units"):
        seed_share(10, Fraction("16.5"))


def test_s1_d20_the_seeds_share_falls_where_use_grows_and_ours_does_not() -> None:
    assert seed_share(200, 205) > seed_share(200, 216) > seed_share(200, 300)
    assert overage_share(200, 205) < overage_share(200, 216) < overage_share(200, 300)
    assert overage_share(200, Fraction("216.5")) == Fraction(33, 433)


def test_s1_a02_the_share_of_onbeat_is_what_is_not_included() -> None:
    assert charged(in_cents("1000"), overage_share(200, 216)) == in_cents("74.07")


@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES)
@given(included=st.integers(-10, 10**6), used=UNITS)
def test_a_share_is_from_nothing_to_all(share: object, included: int, used: int) -> None:
    assert callable(share)
    assert 0 <= share(included, used) <= 1


@given(full=AMOUNTS, included=UNITS, used=UNITS)
def test_s1_d20_a_charge_is_never_above_the_full_price(full: int, included: int, used: int) -> None:
    assert 0 <= charged(full, overage_share(included, used)) <= full


@given(full=AMOUNTS, more_cents=AMOUNTS, included=UNITS, used=UNITS, more=UNITS)
def test_s1_d20_a_charge_does_not_fall_with_use(
    full: int, more_cents: int, included: int, used: int, more: int
) -> None:
    less = charged(full, overage_share(included, used))
    assert less <= charged(full, overage_share(included, used + more))
    assert less <= charged(full + more_cents, overage_share(included, used + more))


@given(full=AMOUNTS, included=UNITS, more=UNITS, used=UNITS)
def test_a_charge_does_not_grow_with_what_is_included(
    full: int, included: int, more: int, used: int
) -> None:
    assert charged(full, overage_share(included + more, used)) <= charged(
        full, overage_share(included, used)
    )


@pytest.mark.parametrize(
    ("amount", "cents"),
    [("0.49", 0), ("0.5", 1), ("1.4999999999999999999", 1), ("1.5", 2), ("2.5", 3), ("7", 7)],
)
def test_s1_d23_halves_are_rounded_up(amount: str, cents: int) -> None:
    assert half_up(Fraction(amount)) == cents


def test_s1_d23_amounts_beyond_floats_are_exact() -> None:
    full = 10**17 + 1
    assert charged(full, Fraction(1)) == full
    assert charged(full, Fraction(1, 2)) == 5 * 10**16 + 1


def test_a_price_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="below 0 cents: -1"):
        charged(-1, Fraction(1))
