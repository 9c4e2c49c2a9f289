from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.harness import RecordingTelemetry
from onbeat.engine.clocks import DRIFT, ClockKeeper, StoreClock
from onbeat.model.errors import Unavailable
from onbeat.testing.build import NOW

WAY = 0.002


class World:
    """A store's clock and a machine's, each with a rate of its own, and the way between them.

    The machine's wall clock is `wall_ahead` of the store's.
    """

    def __init__(
        self, *, own_clock: bool = True, rate: float = 1.0, wall_ahead: float = 0.0
    ) -> None:
        self.own_clock = own_clock
        self.rate = rate
        self.wall_ahead = wall_ahead
        self.store_at = NOW
        self.ticks = 1_000.0
        self.way_there = self.way_back = WAY
        self.is_away = False

    def pass_by(self, seconds: float) -> None:
        self.store_at += timedelta(seconds=seconds)
        self.ticks += seconds * self.rate

    def set_store(self, seconds: int) -> None:
        self.store_at += timedelta(seconds=seconds)

    async def now_of_store(self) -> datetime | None:
        self.pass_by(self.way_there)
        read = self.store_at
        self.pass_by(self.way_back)
        if self.is_away:
            raise Unavailable("away")
        return read if self.own_clock else None


class Machine:
    def __init__(self, world: World) -> None:
        self.world = world

    def now(self) -> datetime:
        return self.world.store_at + timedelta(seconds=self.world.wall_ahead)

    def monotonic(self) -> float:
        return self.world.ticks


class ClockOnly:
    """A store of which only the clock is asked."""

    def __init__(self, world: World) -> None:
        self.now = world.now_of_store


def kept(world: World) -> tuple[StoreClock, ClockKeeper, RecordingTelemetry]:
    answer = RecordingTelemetry()
    clock = StoreClock(Machine(world))
    only: Any = ClockOnly(world)
    return clock, ClockKeeper(clock, only, answer), answer


def ahead(clock: StoreClock, world: World) -> float:
    """Seconds by which the clock is ahead of the store's."""
    return (clock.now() - world.store_at).total_seconds()


async def test_before_the_first_reading_it_shows_its_own_machines_time() -> None:
    world = World(wall_ahead=3_600)
    clock, _, _ = kept(world)
    assert ahead(clock, world) == 3_600


async def test_after_a_reading_it_shows_the_stores_time_whatever_its_own_machine_shows() -> None:
    world = World(wall_ahead=3_600)
    clock, keeper, _ = kept(world)
    await keeper.step()
    assert -2 * WAY <= ahead(clock, world) <= 0
    world.wall_ahead = -86_400
    world.pass_by(1.0)
    assert -2 * WAY <= ahead(clock, world) <= 0


async def test_a_slow_answer_neither_sets_it_back_nor_counts_as_a_step() -> None:
    world = World()
    clock, keeper, answer = kept(world)
    await keeper.step()
    world.way_there = world.way_back = 5.0
    before = clock.now()
    await keeper.step()
    assert clock.now() - before >= timedelta(seconds=9.9)
    assert not answer.of("clock_stepped")


async def test_one_slow_first_answer_is_made_good_by_the_next() -> None:
    world = World()
    clock, keeper, answer = kept(world)
    world.way_back = 5.0
    await keeper.step()
    assert ahead(clock, world) == pytest.approx(-5.0, abs=0.01)
    world.way_back = WAY
    await keeper.step()
    assert -2 * WAY <= ahead(clock, world) <= 0
    assert not answer.of("clock_stepped")


@pytest.mark.parametrize("seconds", [3_600, 2, -2, -86_400])
async def test_a_step_of_the_stores_clock_is_followed_and_told_once(seconds: int) -> None:
    world = World()
    clock, keeper, answer = kept(world)
    await keeper.step()
    world.set_store(seconds)
    await keeper.step()
    await keeper.step()
    assert -2 * WAY <= ahead(clock, world) <= 0
    ((fields,),) = answer.of("clock_stepped")
    assert fields == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize("seconds", [3_600, -3_600])
async def test_a_step_of_the_machines_own_clock_is_told_where_the_store_has_none(
    seconds: int,
) -> None:
    world = World(own_clock=False)
    clock, keeper, answer = kept(world)
    await keeper.step()
    world.wall_ahead = seconds
    await keeper.step()
    await keeper.step()
    assert ahead(clock, world) == seconds, "it is the machine's own clock that counts"
    ((fields,),) = answer.of("clock_stepped")
    assert fields == pytest.approx(seconds, abs=0.01)


async def test_a_step_of_the_machines_clock_is_none_where_the_store_has_its_own() -> None:
    world = World()
    _, keeper, answer = kept(world)
    await keeper.step()
    world.wall_ahead = 3_600
    await keeper.step()
    assert not answer.of("clock_stepped")


async def test_a_long_absence_of_the_store_is_no_step_and_lets_nothing_start_early() -> None:
    world = World(rate=1 + DRIFT / 2)
    clock, keeper, answer = kept(world)
    await keeper.step()
    world.is_away = True
    world.pass_by(86_400)
    with pytest.raises(Unavailable):
        await keeper.step()
    assert ahead(clock, world) <= 0
    world.is_away = False
    await keeper.step()
    assert -2 * WAY <= ahead(clock, world) <= 0
    assert not answer.of("clock_stepped")


async def test_nothing_begins_by_a_local_clock_because_the_first_reading_failed() -> None:
    world = World()
    clock, keeper, _ = kept(world)
    world.is_away = True
    with pytest.raises(Unavailable):
        await keeper.refresh()
    world.is_away = False
    await keeper.refresh()
    assert -2 * WAY <= ahead(clock, world) <= 0


async def test_a_program_without_loops_reads_anew_what_has_grown_old_and_bears_an_absence() -> None:
    world = World()
    clock, keeper, _ = kept(world)
    assert clock.is_stale
    await keeper.refresh()
    assert not clock.is_stale
    world.pass_by(60)
    assert clock.is_stale
    world.is_away = True
    await keeper.refresh()
    assert clock.is_stale
    assert ahead(clock, world) <= 0


@given(
    rate=st.floats(1 - DRIFT * 0.9, 1 + DRIFT * 0.9),
    rounds=st.lists(
        st.tuples(st.floats(0, 10), st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=20
    ),
)
async def test_it_never_runs_ahead_and_never_goes_back_while_no_clock_is_set(
    rate: float, rounds: list[tuple[float, float, float]]
) -> None:
    world = World(rate=rate, wall_ahead=3_600)
    clock, keeper, answer = kept(world)
    await keeper.step()
    shown = clock.now()
    for pause, there, back in rounds:
        world.pass_by(pause)
        assert ahead(clock, world) <= 2e-6  # datetimes count in microseconds
        world.way_there, world.way_back = there, back
        await keeper.step()
        assert ahead(clock, world) <= 2e-6
        assert clock.now() >= shown
        shown = clock.now()
    assert not answer.of("clock_stepped")


async def test_its_monotonic_clock_is_the_machines() -> None:
    world = World()
    clock, _, _ = kept(world)
    assert clock.monotonic() == world.ticks
