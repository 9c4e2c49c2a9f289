"""An event loop with virtual time, in which several processes take turns in the order of a seed.

Nothing here waits: when nobody is ready, the clock jumps to the next timer. The callbacks of one
process run in the order in which they were scheduled, as asyncio promises; which process runs next
is drawn. A process can be paused, as by SIGSTOP, and killed, as by SIGKILL.
"""

import asyncio
import contextvars
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, TypeVar, TypeVarTuple

import msgspec

from onbeat.testing.simulation.chance import Chance

Answer = TypeVar("Answer")
Args = TypeVarTuple("Args")

STEP_SECONDS: Final = 5e-6
"""What one callback takes, so that a process that never rests does not stop time."""


CURRENT: ContextVar["Process"] = ContextVar("simulated process")


class Process:
    """What runs, stops and dies together: the tasks and timers that one process has created."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ready: deque[Due] = deque()
        self.is_paused = False
        self.is_dead = False
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = contextvars.copy_context()
        """In it everything that is scheduled belongs to the process."""
        self.context.run(CURRENT.set, self)


class Due(msgspec.Struct, eq=False):
    """A callback that is ready to run, at once or at an instant, and the process that it is of.

    A history makes some ten thousand. This one is quickly made, and has what asyncio asks of a
    handle: that it can be cancelled.
    """

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    process: Process
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled


class Stuck(AssertionError):
    """A history takes more steps than it may, or nothing would ever happen again."""


class SimulationLoop(asyncio.AbstractEventLoop):
    """Runs processes; `spawn` starts one. Its time begins at 0 and is in seconds.

    `steps_max` bounds a history: a program that is never idle raises `Stuck`.
    """

    def __init__(self, chance: Chance, steps_max: int = 2_000_000) -> None:
        self.chance = chance
        self.steps = iter(range(steps_max))
        self.at = 0.0
        self.outside = Process("simulator")
        self.processes: list[Process] = [self.outside]
        self.runnable: list[Process] = []
        self.timers: list[tuple[float, int, Due]] = []
        self.numbers = count()
        self.closed = False
        self.errors: list[dict[str, Any]] = []

    # Processes.

    def new_process(self, name: str) -> Process:
        process = Process(name)
        self.processes.append(process)
        return process

    def spawn(self, process: Process, work: Coroutine[Any, Any, Answer]) -> "asyncio.Task[Answer]":
        return self.create_task(work, context=process.context.copy())

    def call_in(
        self, process: Process, delay: float, callback: Callable[[*Args], object], *args: *Args
    ) -> None:
        """Call it in the process after so many seconds."""
        due = Due(callback, args, process.context, process)
        heappush(self.timers, (self.at + delay, next(self.numbers), due))

    def pause(self, process: Process) -> None:
        """Stop to run it; its timers go on, as on a real machine."""
        process.is_paused = True
        self.refresh(process)

    def resume(self, process: Process) -> None:
        process.is_paused = False
        self.refresh(process)

    def kill(self, process: Process) -> None:
        """Nothing of it runs any more, not even a `finally`."""
        process.is_dead = True
        process.ready.clear()
        self.refresh(process)

    def refresh(self, process: Process) -> None:
        can_run = bool(process.ready) and not process.is_paused
        if can_run and process not in self.runnable:
            self.runnable.append(process)
        elif not can_run and process in self.runnable:
            self.runnable.remove(process)

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.at

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.closed

    def is_closed(self) -> bool:
        return self.closed

    def call_soon(  # type: ignore[override]
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> Due:
        where = contextvars.copy_context() if context is None else context
        process = where.get(CURRENT, self.outside)
        due = Due(callback, args, where, process)
        if not process.is_dead and not self.closed:
            process.ready.append(due)
            if len(process.ready) == 1 and not process.is_paused:
                self.runnable.append(process)
        return due

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> Due:
        where = contextvars.copy_context() if context is None else context
        due = Due(callback, args, where, where.get(CURRENT, self.outside))
        heappush(self.timers, (self.at + delay, next(self.numbers), due))
        return due

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> Due:
        where = contextvars.copy_context() if context is None else context
        due = Due(callback, args, where, where.get(CURRENT, self.outside))
        heappush(self.timers, (when, next(self.numbers), due))
        return due

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, Answer] | Coroutine[Any, Any, Answer],
        *,
        name: str | None = None,
        context: Context | None = None,
        **_: Any,
    ) -> "asyncio.Task[Answer]":
        where = contextvars.copy_context() if context is None else context
        task: asyncio.Task[Answer] = asyncio.Task(coro, loop=self, name=name, context=where)
        where.get(CURRENT, self.outside).tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Callable[..., Answer], *args: Any
    ) -> "asyncio.Future[Answer]":
        """What programs give to threads runs in one turn of its process."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  given to who awaits it
                future.set_exception(error)

        self.call_soon(run)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Kept in `errors`, as nobody looks at the output of thousands of histories."""
        if not self.closed:
            self.errors.append(context)

    # Running.

    def run_until_complete(self, future: Any) -> Any:
        """Run until the coroutine, which is part of no process, has ended. Raises `Stuck`."""
        events._set_running_loop(self)  # noqa: SLF001  meant for loops
        try:
            task = self.create_task(future)
            while not task.done():
                self.run_until(task.done)
            return task.result()
        finally:
            events._set_running_loop(None)  # noqa: SLF001  as above

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Run callbacks until it is done, or one has failed, as asyncio's own loops do."""
        try:
            self.run_steps(is_done)
        except Stuck:
            raise
        except Exception as error:  # noqa: BLE001  as in asyncio
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def run_steps(self, is_done: Callable[[], bool]) -> None:
        """Run one callback of one process after the other. Time jumps if nothing is ready."""
        timers, runnable, below = self.timers, self.runnable, self.chance.below
        for _ in self.steps:
            if is_done():
                return
            if not runnable:
                self.jump()
            elif timers and timers[0][0] <= self.at:
                self.ring()
            if not runnable:
                continue
            place = 0 if len(runnable) == 1 else below(len(runnable))
            ready = runnable[place].ready
            due = ready.popleft()
            if not ready:
                runnable[place] = runnable[-1]
                runnable.pop()
            self.at += STEP_SECONDS
            if not due.is_cancelled:
                due.context.run(due.callback, *due.args)
        raise Stuck(f"the history takes too many steps; it is at {self.at:.3f} s")

    def jump(self) -> None:
        """Let time pass until the next timer, and make ready what is due then."""
        if not self.timers:
            raise Stuck(f"nothing is left to happen at {self.at:.3f} s")
        at = self.timers[0][0]
        self.at = max(self.at, at)
        self.ring()

    def ring(self) -> None:
        """Make ready what is due by now."""
        timers, at = self.timers, self.at
        while timers and timers[0][0] <= at:
            due = heappop(timers)[2]
            process = due.process
            if not due.is_cancelled and not process.is_dead:
                process.ready.append(due)
                if len(process.ready) == 1 and not process.is_paused:
                    self.runnable.append(process)

    def close(self) -> None:
        """End all coroutines that still wait, in the order of their creation, and unheard."""
        self.closed = True
        self.timers.clear()
        for process in self.processes:
            process.ready.clear()
            for task in process.tasks:
                if not task.done():
                    end_unheard(task)
            process.tasks.clear()
        self.runnable.clear()


def open_loop(chance: Chance) -> SimulationLoop:
    """A loop at its time 0. What asyncio's loops can do besides is not simulated."""
    return SimulationLoop(chance)  # type: ignore[abstract]


def end_unheard(task: "asyncio.Task[Any]") -> None:
    """Close the coroutine of a task that will never run again, without a word about it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  as gather does
    coroutine = task.get_coro()
    assert coroutine is not None, "it is not done"
    try:
        coroutine.close()
    except (RuntimeError, ValueError):
        return  # it awaits while it is closed; nobody runs it any more
