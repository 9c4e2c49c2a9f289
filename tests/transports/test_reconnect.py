import asyncio

import pytest

from conditions import eventually
from onbeat.model.errors import Unavailable
from onbeat.transports.reconnect import PAUSE_SECONDS_MAX, Reconnector, pause_after


class Thing:
    """Fails for so many times, then is made; each time once `let` is set."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.begun = 0
        self.let = asyncio.Event()
        self.let.set()

    async def make(self) -> None:
        self.begun += 1
        await self.let.wait()
        if self.begun <= self.failures:
            raise Unavailable(f"failure {self.begun}")


def soon() -> float:
    return asyncio.get_running_loop().time() + 10


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_what_can_be_made_is_made_at_once() -> None:
    thing = Thing()
    assert await Reconnector(thing.make).succeeds_by(soon())
    assert thing.begun == 1


async def test_a_failure_is_told_to_who_asks() -> None:
    attempts = Reconnector(Thing(failures=1).make)
    with pytest.raises(Unavailable, match="failure 1"):
        await attempts.succeeds_by(soon())
    assert await attempts.succeeds_by(soon())


async def test_all_who_ask_share_one_attempt() -> None:
    thing = Thing()
    attempts = Reconnector(thing.make)
    assert await asyncio.gather(*(attempts.succeeds_by(soon()) for _ in range(5))) == [True] * 5
    assert thing.begun == 1


async def test_who_has_no_time_leaves_the_attempt_to_others() -> None:
    thing = Thing()
    thing.let.clear()
    attempts = Reconnector(thing.make)
    assert not await attempts.succeeds_by(now())
    asking = asyncio.create_task(attempts.succeeds_by(soon()))
    await eventually(lambda: thing.begun, "the attempt begins")
    asking.cancel()
    thing.let.set()
    assert await attempts.succeeds_by(soon())
    assert thing.begun == 1


async def test_after_a_failure_who_has_no_time_is_told_of_it() -> None:
    thing = Thing(failures=1)
    attempts = Reconnector(thing.make, fraction=lambda: 0.99)
    with pytest.raises(Unavailable):
        await attempts.succeeds_by(soon())
    thing.let.clear()
    with pytest.raises(Unavailable, match="failure 1"):
        await attempts.succeeds_by(now())
    await attempts.cancel()


async def test_asking_again_and_again_begins_no_more_attempts() -> None:
    thing = Thing(failures=1_000)
    attempts = Reconnector(thing.make)
    until = now() + PAUSE_SECONDS_MAX / 2
    while now() < until:
        with pytest.raises(Unavailable):
            await attempts.succeeds_by(now())
    await attempts.cancel()
    assert thing.begun < 10


def test_pauses_grow_to_a_bound_and_differ_by_chance() -> None:
    longest = [pause_after(failures, 1.0) for failures in range(40)]
    shortest = [pause_after(failures, 0.0) for failures in range(40)]
    assert longest[0] == 0
    assert longest == sorted(longest)
    assert max(longest) == PAUSE_SECONDS_MAX
    assert shortest == [pause / 2 for pause in longest]


async def test_what_is_lost_soon_after_it_was_made_counts_as_a_failure() -> None:
    thing = Thing()
    attempts = Reconnector(thing.make)
    for _ in range(4):
        assert await attempts.succeeds_by(soon())
        attempts.note_loss()
    assert not await attempts.succeeds_by(now())
    assert thing.begun == 4
    assert await attempts.succeeds_by(soon())


async def test_ending_twice_is_no_error() -> None:
    thing = Thing()
    thing.let.clear()
    attempts = Reconnector(thing.make)
    assert not await attempts.succeeds_by(now())
    await attempts.cancel()
    await attempts.cancel()
    thing.let.set()
    assert await attempts.succeeds_by(soon())
