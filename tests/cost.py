"""What an input costs to read, compared with what twice as much of it costs."""

import gc
import time
from collections.abc import Callable

GROWTH_MAX = 3.0  # twice as much to read may cost twice as much, and what the machine adds
ROUNDS_MIN = 3  # the best of all rounds counts, also where one of them takes longer than all may
ENOUGH_SECONDS = (
    10.0  # neighbours disturb many short rounds in a row: time bounds them, not their number
)
NOISE_SECONDS = 0.001  # below this a quotient says nothing

Act = Callable[[], object]


def assert_linear(once: Act, twice: Act, what: str) -> None:
    """`twice` does what `once` does with an input twice as long, and may cost thrice as much."""
    small = large = float("inf")
    spent, rounds = 0.0, 0
    while rounds == 0 or growth(small, large) >= GROWTH_MAX:
        if rounds >= ROUNDS_MIN and spent > ENOUGH_SECONDS:
            break
        again = cost(once), cost(twice)
        small, large = min(small, again[0]), min(large, again[1])
        spent, rounds = spent + sum(again), rounds + 1
    assert growth(small, large) < GROWTH_MAX, f"{what}: {small:.4f} s, twice as much {large:.4f} s"


def growth(small: float, large: float) -> float:
    return (large + NOISE_SECONDS) / (small + NOISE_SECONDS)


def cost(act: Act) -> float:
    """Seconds of this process; those of others on the machine do not count."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.process_time()
        act()
        return time.process_time() - began
    finally:
        if was_on:
            gc.enable()
