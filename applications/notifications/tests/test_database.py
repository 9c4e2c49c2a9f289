"""Connections are shared by those who wait, and none is lost."""

import asyncio
import random

import pytest

from notifications.database import Pool
from world import World

MOST = 3


class Door:
    """Counts who is in."""

    def __init__(self) -> None:
        self.opened = 0
        self.here: set[int] = set()
        self.most = 0

    async def connect(self) -> int:
        await asyncio.sleep(0)
        self.opened += 1
        self.here.add(self.opened)
        self.most = max(self.most, len(self.here))
        return self.opened

    async def close(self, connection: int) -> None:
        self.here.remove(connection)  # fails for one that is closed already
        await asyncio.sleep(0)


def pool_of(door: Door) -> Pool[int]:
    return Pool(MOST, door.connect, door.close)


async def use(pool: Pool[int], used: set[int], turns: int, *, fails: bool = False) -> None:
    async with pool.connection() as connection:
        assert connection not in used, "two have the same connection"
        used.add(connection)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            if fails:
                raise ConnectionError
        finally:
            used.remove(connection)


async def test_who_waits_gets_the_connection_of_who_is_done() -> None:
    door, used = Door(), set[int]()
    pool = pool_of(door)
    await asyncio.gather(*(use(pool, used, 2) for _ in range(60)))
    assert (door.opened, door.here) == (MOST, set())


@pytest.mark.parametrize("seed", range(30))
async def test_no_connection_is_lost_by_errors_and_cancellations(seed: int) -> None:
    chance, door, used = random.Random(seed), Door(), set[int]()
    pool = pool_of(door)
    tasks = [
        asyncio.create_task(use(pool, used, chance.randrange(4), fails=chance.random() < 0.2))
        for _ in range(40)
    ]
    for task in tasks:
        if chance.random() < 0.5:
            task.cancel()
        await asyncio.sleep(0)
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    known = (asyncio.CancelledError, ConnectionError)
    assert [end for end in ends if end is not None and not isinstance(end, known)] == []
    assert door.here == set()
    assert door.most <= MOST
    await use(pool, used, 1)


def test_a_transaction_that_fails_leaves_nothing(world: World) -> None:
    async def fail() -> None:
        async with world.database.session() as session, session.transaction():
            await session.run("INSERT INTO texts VALUES (?, ?, ?, ?, ?)", "t", "en", "a", "b", "c")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        world.finish(fail())
    assert world.rows("SELECT count(*) FROM texts") == [(0,)]
