import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conditions import eventually
from engine.harness import FixedRandomness, RecordingTelemetry
from onbeat.engine.loop import PAUSE_MAX, PAUSE_MIN, Rest, Wakeup, pause_after, run_loop


@contextlib.asynccontextmanager
async def kept(
    step: Callable[..., Any], told: RecordingTelemetry, wakeup: Wakeup | None = None
) -> AsyncIterator[None]:
    task = asyncio.create_task(run_loop("loop", step, wakeup or Wakeup(), FixedRandomness(), told))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_step_with_more_to_do_is_repeated_at_once() -> None:
    rounds = []

    async def step() -> float:
        rounds.append(1)
        return 0.0 if len(rounds) < 50 else 3600.0

    answer = RecordingTelemetry()
    async with kept(step, answer):
        await eventually(lambda: len(rounds) == 50, "the rounds follow each other")
        await eventually(lambda: len(answer.of("loop_beat")) == 50, "each round is told")


async def test_a_round_without_work_is_no_recovery() -> None:
    rounds = []

    async def step() -> float | Rest:
        rounds.append(1)
        if len(rounds) == 1:
            raise ConnectionError("away")
        return Rest(0.001) if len(rounds) < 5 else 3600.0

    answer = RecordingTelemetry()
    async with kept(step, answer):
        await eventually(lambda: answer.of("loop_beat"), "the first round that did something")
        assert len(rounds) == 5
        assert len(answer.of("loop_failed")) == 1
        assert len(answer.of("loop_rested")) == 3


async def test_an_alarm_wakes_a_step_that_waits() -> None:
    rounds, wakeup = [], Wakeup()

    async def step() -> float:
        rounds.append(1)
        return 3600.0

    async with kept(step, RecordingTelemetry(), wakeup):
        await eventually(lambda: len(rounds) == 1, "the first round")
        wakeup.wake()
        await eventually(lambda: len(rounds) == 2, "the alarm is heard")


async def test_an_alarm_can_be_rung_from_any_thread() -> None:
    wakeup = Wakeup()
    threading.Thread(target=wakeup.wake_threadsafe).start()
    await asyncio.wait_for(wakeup.wait(3600.0), 10)


async def test_an_alarm_rung_twice_is_rung_once() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    wakeup.wake()
    await wakeup.wait(3600.0)
    assert not wakeup.is_awake


async def test_an_alarm_rung_during_the_step_is_not_lost() -> None:
    rounds, wakeup = [], Wakeup()

    async def step() -> float:
        rounds.append(1)
        if len(rounds) == 1:
            wakeup.wake()
        return 3600.0

    async with kept(step, RecordingTelemetry(), wakeup):
        await eventually(lambda: len(rounds) == 2, "the ring during the round is heard")


async def test_an_alarm_waits_no_longer_than_told() -> None:
    await asyncio.wait_for(Wakeup().wait(0.001), 10)


async def test_an_alarm_rung_while_its_wait_is_cancelled_is_not_lost() -> None:
    wakeup = Wakeup()
    waiting = asyncio.create_task(wakeup.wait(3600.0))
    await asyncio.sleep(0)
    wakeup.wake()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(wakeup.wait(3600.0), 10)


def test_ringing_for_a_loop_that_has_ended_is_harmless() -> None:
    async def made() -> Wakeup:
        return Wakeup()

    asyncio.run(made()).wake_threadsafe()


async def test_a_step_that_raises_is_tried_again_and_told_each_time() -> None:
    rounds = []

    async def step() -> float:
        rounds.append(1)
        if len(rounds) < 3:
            raise RuntimeError("broken")
        return 3600.0

    answer = RecordingTelemetry()
    async with kept(step, answer):
        await eventually(lambda: answer.of("loop_beat"), "the step recovers")
        assert [name for name, _ in answer.of("loop_failed")] == ["loop", "loop"]


async def test_a_step_that_raises_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = []

    class Watched(Wakeup):
        async def wait(self, seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)

    async def step() -> None:
        raise RuntimeError("broken")

    async with kept(step, RecordingTelemetry(), Watched()):
        await eventually(lambda: len(pauses) >= 8, "the pauses grow")
    assert pauses[:7] == [pause_after(n, 0.5) for n in range(7)]
    assert pauses[7] == pause_after(99, 0.5)


async def test_a_keeper_can_always_be_cancelled() -> None:
    async def step() -> float:
        return 0.0

    task = asyncio.create_task(
        run_loop("loop", step, Wakeup(), FixedRandomness(), RecordingTelemetry())
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 10)


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_pauses_stay_within_their_bounds(failures: int, chance: float) -> None:
    assert PAUSE_MIN / 2 <= pause_after(failures, chance) <= PAUSE_MAX


async def test_a_loop_that_others_wait_for_may_pause_for_less() -> None:
    pauses = []

    class Watched(Wakeup):
        async def wait(self, seconds: float) -> None:
            pauses.append(seconds)
            await asyncio.sleep(0)

    async def step() -> None:
        raise RuntimeError("broken")

    looping = run_loop(
        "loop", step, Watched(), FixedRandomness(), RecordingTelemetry(), pause_max=0.3
    )
    task = asyncio.create_task(looping)
    await eventually(lambda: len(pauses) >= 8, "the pauses grow")
    task.cancel()
    assert pauses[0] == pause_after(0, 0.5)
    assert set(pauses[3:]) == {0.3}
