"""Nothing that is cancelled goes on, and no close waits for ever."""

import asyncio
import threading
from collections.abc import Collection, Coroutine
from typing import Any

import pytest

from onbeat.model.errors import Unavailable
from onbeat.ports.store import Hint
from onbeat.stores.mysql import hints
from onbeat.stores.mysql.connection import MysqlDriver, parse_dsn
from onbeat.stores.mysql.hints import HintSender
from onbeat.stores.mysql.store import MysqlStore
from onbeat.stores.sql import pool
from onbeat.stores.sql.pool import Pool
from onbeat.testing.build import a_job

PATIENCE = 60
CANCELS = 100


async def test_a_call_that_is_cancelled_just_as_it_is_answered_ends(store: MysqlStore) -> None:
    async def work() -> None:
        while True:
            await store.schedule_by_key("key")

    async with asyncio.timeout(PATIENCE):
        for number in range(CANCELS):
            worker = asyncio.ensure_future(work())
            for _ in range(20 + number):
                await asyncio.sleep(0)
            worker.cancel()
            await asyncio.wait([worker])


async def test_opening_that_is_cancelled_just_as_it_is_answered_ends(dsn: str) -> None:
    cancelled = 0
    for number in range(CANCELS):
        store = MysqlStore(dsn)
        opening = asyncio.ensure_future(store.open())
        for _ in range(number):
            await asyncio.sleep(0)
        if opening.done():
            await store.close()
            break
        opening.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([opening])
        assert opening.cancelled()
        cancelled += 1
        await store.close()
    assert cancelled


class Steeple:
    def __init__(self) -> None:
        self.rung: list[Collection[Hint]] = []
        self.is_stuck = False

    async def ring(self, hints: Collection[Hint]) -> None:
        self.rung.append(set(hints))
        if self.is_stuck:
            await asyncio.Event().wait()


async def test_a_bell_that_is_stopped_before_it_begins_is_not_waited_for() -> None:
    steeple = Steeple()
    bell = HintSender(steeple.ring)
    bell.send({Hint.JOBS})
    (ringing,) = asyncio.all_tasks() - {asyncio.current_task()}
    ringing.cancel()
    async with asyncio.timeout(PATIENCE):
        await bell.wait_until_sent()
        bell.send({Hint.ENDED})
        await bell.wait_until_sent()
    assert steeple.rung == [{Hint.JOBS, Hint.ENDED}]


async def test_a_bell_that_is_stuck_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "CLOSE_SECONDS", 0.0)
    steeple = Steeple()
    steeple.is_stuck = True
    bell = HintSender(steeple.ring)
    bell.send({Hint.JOBS})
    async with asyncio.timeout(PATIENCE):
        await bell.wait_until_sent()


async def test_what_is_rung_meanwhile_is_rung_together() -> None:
    steeple = Steeple()
    bell = HintSender(steeple.ring)
    for hint in Hint:
        bell.send({hint})
    await bell.wait_until_sent()
    assert steeple.rung == [set(Hint)]


async def test_a_turn_that_comes_too_late_is_passed_on(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenders = Pool(MysqlDriver(parse_dsn(dsn)), 1)

    async def borrow() -> None:
        async with lenders.borrow():
            pass

    loop = asyncio.get_running_loop()
    async with asyncio.timeout(PATIENCE):
        async with lenders.borrow():
            monkeypatch.setattr(pool, "WAIT_SECONDS", 0.0)
            late = loop.create_task(borrow())
            loop.call_soon(monkeypatch.setattr, pool, "WAIT_SECONDS", 2 * PATIENCE)
            patient = loop.create_task(borrow())
            await asyncio.sleep(0)
            # The turn of the first comes in the moment in which its patience ends.
        with pytest.raises(Unavailable):
            await late
        await patient
    await lenders.close()


async def test_a_loop_that_ends_during_the_close_is_not_waited_for(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MysqlStore(dsn)
    await store.open()
    held, request, closed = threading.Event(), threading.Event(), threading.Event()
    ask = asyncio.run_coroutine_threadsafe

    def asking(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> Any:
        future = ask(work, loop)
        request.set()
        return future

    def hold_then_stop(loop: asyncio.AbstractEventLoop) -> None:
        held.set()
        request.wait(PATIENCE)
        loop.stop()

    def work() -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(store.enqueue([a_job()]))
        loop.call_soon(hold_then_stop, loop)
        loop.run_forever()
        closed.wait(PATIENCE)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    await asyncio.to_thread(held.wait, PATIENCE)
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", asking)
    async with asyncio.timeout(PATIENCE):
        await store.close()
    closed.set()
    await asyncio.to_thread(thread.join)
