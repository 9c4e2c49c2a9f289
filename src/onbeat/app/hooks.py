"""Registers the hooks of a program, and runs those that belong to no single handler."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Outcome
from onbeat.ports.telemetry import Telemetry
from onbeat.targets.context import Context
from onbeat.targets.hooks import Hooks, name_of
from onbeat.wire.jobs import JobInfo, job_answer

log: Final = logging.getLogger("onbeat.hooks")

Before = TypeVar("Before", bound=Callable[[Context], object])
After = TypeVar("After", bound=Callable[[Context, BaseException | None], object])
Failure = TypeVar("Failure", bound=Callable[[JobInfo], object])
Plain = TypeVar("Plain", bound=Callable[[], object])


class HookRegistrar:
    """The decorators of an `Onbeat` for its hooks."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def before_job(self, function: Before) -> Before:
        """Call the function with the context before each handler, where the handler runs.

        A plain function runs in the handler's thread, or in the event loop beside a coroutine; a
        coroutine function in the event loop. An error is logged, and the handler runs all the same.
        """
        self._hooks.before.append(function)
        return function

    def after_job(self, function: After) -> After:
        """Call the function with the context, and what the handler raised or None, after each."""
        self._hooks.after.append(function)
        return function

    def on_job_failed(self, function: Failure) -> Failure:
        """Call the function with a job that has failed for good, as `jobs.get` shows it.

        Called once, by the process that stored the failure; a plain function runs in a thread. It
        is lost if that process dies: what must not be lost reacts to `onbeat.job.failed`.
        """
        self._hooks.failed.append(function)
        return function

    def on_start(self, function: Plain) -> Plain:
        """Call the function before this program runs its first job.

        An error stops the start. A plain function runs in the event loop's thread.
        """
        self._hooks.start.append(function)
        return function

    def on_stop(self, function: Plain) -> Plain:
        """Call the function when this program has run its last job. An error is logged."""
        self._hooks.stop.append(function)
        return function


async def run_start_hooks(hooks: Hooks) -> None:
    """Raises what a hook raises."""
    for hook in hooks.start:
        await finished(hook())


async def run_stop_hooks(hooks: Hooks) -> None:
    """In the reverse order of their registration."""
    for hook in reversed(hooks.stop):
        await run_guarded(hook, hook)


async def finished(value: object) -> None:
    if inspect.isawaitable(value):
        await value


async def run_guarded(hook: Callable[..., object], call: Callable[[], object]) -> None:
    try:
        await finished(call())
    except Exception:
        log.exception("a hook failed", extra={"hook": name_of(hook)})


class FailureTelemetry:
    """A telemetry that also tells hooks of jobs that failed for good."""

    def __init__(self, telemetry: Telemetry, hooks: Hooks) -> None:
        self._telemetry = telemetry
        self._hooks = hooks
        self._calls: set[asyncio.Task[None]] = set()
        self.started = telemetry.started  # of each job: `__getattr__` would cost more than it does

    def __getattr__(self, name: str) -> Any:
        return getattr(self._telemetry, name)

    def ended(self, job: Job, outcome: Outcome, seconds: float) -> None:
        self._telemetry.ended(job, outcome, seconds)
        self._note(job)

    def rescued(self, job: Job, worker: WorkerId) -> None:
        self._telemetry.rescued(job, worker)
        self._note(job)

    def _note(self, job: Job) -> None:
        if job.state is JobState.FAILED and self._hooks.failed:
            task = asyncio.get_running_loop().create_task(self._call(job_answer(job)))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _call(self, job: JobInfo) -> None:
        for hook in self._hooks.failed:
            await run_guarded(hook, partial(in_its_place, hook, job))

    async def finish(self) -> None:
        """Wait for the calls that have begun."""
        while self._calls:
            await asyncio.wait(self._calls)


def in_its_place(hook: Callable[..., object], job: JobInfo) -> Awaitable[object]:
    if inspect.iscoroutinefunction(hook):
        called: Awaitable[object] = hook(job)
        return called
    return asyncio.to_thread(hook, job)
