import asyncio
import contextlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.bench import Chance, Told
from onbeat.engine.keeper import PAUSE_MAX, PAUSE_MIN, Alarm, keep, pause_after
from waiting import eventually


@contextlib.asynccontextmanager
async def kept(step, told, alarm=None):
    task = asyncio.create_task(keep("loop", step, alarm or Alarm(), Chance(), told))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_step_with_more_to_do_is_repeated_at_once():
    rounds = []

    async def step():
        rounds.append(1)
        return 0.0 if len(rounds) < 50 else 3600.0

    told = Told()
    async with kept(step, told):
        await eventually(lambda: len(rounds) == 50, "the rounds follow each other")
        await eventually(lambda: len(told.of("loop_beat")) == 50, "each round is told")


async def test_an_alarm_wakes_a_step_that_waits():
    rounds, alarm = [], Alarm()

    async def step():
        rounds.append(1)
        return 3600.0

    async with kept(step, Told(), alarm):
        await eventually(lambda: len(rounds) == 1, "the first round")
        alarm.ring()
        await eventually(lambda: len(rounds) == 2, "the alarm is heard")


async def test_an_alarm_can_be_rung_from_any_thread():
    alarm = Alarm()
    threading.Thread(target=alarm.ring_from_anywhere).start()
    await asyncio.wait_for(alarm.wait(3600.0), 10)


async def test_an_alarm_rung_twice_is_rung_once():
    alarm = Alarm()
    alarm.ring()
    alarm.ring()
    await alarm.wait(3600.0)
    assert not alarm.rung.is_set()


async def test_an_alarm_rung_during_the_step_is_not_lost():
    rounds, alarm = [], Alarm()

    async def step():
        rounds.append(1)
        if len(rounds) == 1:
            alarm.ring()
        return 3600.0

    async with kept(step, Told(), alarm):
        await eventually(lambda: len(rounds) == 2, "the ring during the round is heard")


async def test_an_alarm_waits_no_longer_than_told():
    await asyncio.wait_for(Alarm().wait(0.001), 10)


def test_ringing_for_a_loop_that_has_ended_is_harmless():
    async def made():
        return Alarm()

    asyncio.run(made()).ring_from_anywhere()


async def test_a_step_that_raises_is_tried_again_and_told_each_time():
    rounds = []

    async def step():
        rounds.append(1)
        if len(rounds) < 3:
            raise RuntimeError("broken")
        return 3600.0

    told = Told()
    async with kept(step, told):
        await eventually(lambda: told.of("loop_beat"), "the step recovers")
        assert [name for name, _ in told.of("loop_failed")] == ["loop", "loop"]


async def test_a_step_that_raises_leaves_others_their_turn(monkeypatch):
    pauses = []

    class Watched(Alarm):
        async def wait(self, seconds):
            pauses.append(seconds)
            await asyncio.sleep(0)

    async def step():
        raise RuntimeError("broken")

    async with kept(step, Told(), Watched()):
        await eventually(lambda: len(pauses) >= 8, "the pauses grow")
    assert pauses[:7] == [pause_after(n, 0.5) for n in range(7)]
    assert pauses[7] == pause_after(99, 0.5)


async def test_a_keeper_can_always_be_cancelled():
    async def step():
        return 0.0

    task = asyncio.create_task(keep("loop", step, Alarm(), Chance(), Told()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_pauses_stay_within_their_bounds(failures, chance):
    assert PAUSE_MIN / 2 <= pause_after(failures, chance) <= PAUSE_MAX
