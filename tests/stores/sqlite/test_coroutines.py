"""Verbs that are coroutines, in a thread without an event loop."""

import asyncio

import apsw
import pytest

from onbeat.model.errors import Conflict
from onbeat.stores.sqlite.transaction import Transaction, finish, in_thread


async def level(number: int) -> int:
    return number if number == 0 else 1 + await level(number - 1)


def test_a_coroutine_is_run_to_its_end_with_all_that_it_awaits():
    assert finish(level(20)) == 20


def test_a_plain_function_becomes_one():
    def plain(transaction: Transaction, *, count: int) -> tuple[Transaction, int]:
        return transaction, count

    transaction = Transaction(apsw.Connection(":memory:"))
    assert finish(in_thread(plain)(transaction, count=3)) == (transaction, 3)


def test_what_is_raised_in_it_comes_out():
    async def refuse() -> None:
        raise Conflict("taken")

    with pytest.raises(Conflict, match="taken"):
        finish(refuse())


def test_one_that_waits_is_ended_and_told():
    ended = []

    async def wait() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append(True)

    with pytest.raises(AssertionError, match="waited"):
        finish(wait())
    assert ended == [True]
