"""Exact money: integer cents, shares as fractions, one rounding.

A category of a bill, such as its calls, has a full price and a share of it that is charged. They
are taken from sums over all its rows and rounded once, half up. So neither the order of the rows
nor how use is split over them changes a cent.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import floor
from typing import Final

Cents = int
Share = Callable[[Fraction | int, Fraction | int], Fraction]
"""From what is included and what was used to the part of the full price that is charged."""


def overage_share(included: Fraction | int, used: Fraction | int) -> Fraction:
    """The part of the use that is not included: from 0 to 1, and never less for more use.

    With nothing included it is all, also of what counts as no use, such as calls under a minute.
    """
    if included <= 0:
        return Fraction(1)
    if used <= included:
        return Fraction(0)
    return Fraction(used - included) / Fraction(used)


def seed_share(included: Fraction | int, used: Fraction | int) -> Fraction:
    """The share of the old system, for those who must repeat its figures.

    It reads the digits of what is used beyond the included as a decimal fraction: 16 minutes
    beyond are 0.16, 5 are 0.5, 100 are 0.1. So it falls where use grows. With nothing included
    all is charged. Raises `ValueError` if the overage is no whole number.
    """
    if included <= 0:
        return Fraction(1)
    if used <= included:
        return Fraction(0)
    beyond = Fraction(used - included)
    if beyond.denominator != 1:
        raise ValueError(f"the seed's share is for whole units; {beyond} are not included")
    return Fraction(beyond.numerator, 10 ** len(str(beyond.numerator)))


SHARES: Final[Mapping[str, Share]] = {"proportional": overage_share, "seed": seed_share}


def charged(full: Fraction | int, share: Fraction) -> Cents:
    """That share of a full price, rounded. Raises `ValueError` if the price is below 0."""
    if full < 0:
        raise ValueError(f"a price cannot be below 0 cents: {full}")
    return half_up(full * share)


def half_up(amount: Fraction | int) -> Cents:
    return floor(amount + Fraction(1, 2))
