"""Gives attempts the tasks they run in. Attempts that never wait share one.

A task and a context for each attempt cost a busy worker about a fifth of its processor time.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Final, Generic, TypeVar

Attempt = TypeVar("Attempt")

# So much runs in one task before others of the loop have their turn. Fewer attempts would make
# smaller batches of outcomes, which cost the store more for each.
SHARE_MAX: Final = 1_000
SHARE_SECONDS: Final = 0.02
WIDTH_MAX: Final = 256  # tasks that are made at once for attempts that wait


class AttemptTasks(Generic[Attempt]):
    """Runs the attempts in `ready` in their order, each as if in a task of its own.

    An attempt begins in the task of the one before it only where nobody can tell: the one before
    has not waited for anything, changed no context variable, and left no reference to its task, by
    which the next one could be cancelled.

    `run` gets the attempt and its task. What it raises ends the task, and no other attempt. When
    attempts have ended, `refill` may append others to `ready`, and calls `start`.
    """

    def __init__(
        self,
        run: Callable[[Attempt, "asyncio.Task[Any]"], Awaitable[None]],
        refill: Callable[[], None],
    ) -> None:
        self.run = run
        self.refill = refill
        self.context = copy_context()
        self.ready: deque[Attempt] = deque()
        self.is_started = False
        self.is_refilling = False
        self.turn = 0
        self.width = 1
        self.made = 0
        self.ended = 0

    def start(self) -> None:
        """Let the attempts that were appended to `ready` begin, at the next turn of the loop."""
        if self.ready and not self.is_started:
            self.is_started = True
            self.make_tasks()

    def make_tasks(self) -> None:
        """The loop holds a task until its first step, and what it waits for holds it after."""
        self.made, self.ended = min(self.width, len(self.ready)), 0
        for _ in range(self.made):
            asyncio.get_running_loop().create_task(self.run_ready(), context=self.context.copy())
        # Its turn comes when each of them has ended or waits.
        asyncio.get_running_loop().call_soon(self.look, context=self.context)

    def look(self) -> None:
        """Make tasks for attempts that are left, more of them at once where all attempts wait."""
        self.turn += 1
        if self.ended == 0:
            self.width = min(2 * self.width, WIDTH_MAX)
        elif self.ended == self.made:
            self.width = max(1, self.width // 2)
        if not self.ready:
            self.refill()
        if self.ready:
            self.make_tasks()
        else:
            self.is_started = False

    def refill_soon(self) -> None:
        """An attempt that has waited has ended; those that end in the same turn count together."""
        if not self.is_refilling:
            self.is_refilling = True
            asyncio.get_running_loop().call_soon(self.refill_now, context=self.context)

    def refill_now(self) -> None:
        self.is_refilling = False
        self.refill()

    async def run_ready(self) -> None:
        """Run attempts until one has left something behind, or had to wait."""
        task = asyncio.current_task()
        assert task is not None
        turn, before, references = self.turn, copy_context(), sys.getrefcount(task)
        now = asyncio.get_running_loop().time
        until = now() + SHARE_SECONDS
        for _ in range(SHARE_MAX):
            if not self.ready:
                self.refill()
            if not self.ready or now() > until:
                break
            await self.run(self.ready.popleft(), task)
            if self.turn != turn:
                self.refill_soon()
                return
            if (
                not is_same(copy_context(), before)
                or sys.getrefcount(task) != references
                or task.cancelling()
            ):
                break
        self.ended += 1


def is_same(one: Context, other: Context) -> bool:
    """Whether both have the same variables. Takes no time where nothing was set since a copy."""
    try:
        return one == other
    except Exception:  # noqa: BLE001  values may refuse to be compared
        return False
