"""Runs coroutine verbs in a thread that waits only for the database."""

from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from onbeat.stores.sqlite.transaction import Transaction

P = ParamSpec("P")
Answer = TypeVar("Answer")


def in_thread(
    verb: Callable[Concatenate[Transaction, P], Answer],
) -> Callable[Concatenate[Transaction, P], Awaitable[Answer]]:
    """Wraps a plain function as the coroutine that `finish` runs."""

    async def run(transaction: Transaction, /, *args: P.args, **options: P.kwargs) -> Answer:
        return verb(transaction, *args, **options)

    return run


def finish(work: Awaitable[Answer]) -> Answer:
    """The result of `work`, a coroutine that never suspends."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    steps.close()
    raise AssertionError("a verb waited in the store's thread")
