"""Runs handler targets, each in its own mode of isolation."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from onbeat.model.outcome import Failed, Outcome
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.targets.app_context import AppContext
from onbeat.targets.handler import Registry
from onbeat.targets.in_process import InProcessRunner
from onbeat.targets.subprocess import child
from onbeat.targets.subprocess.parent import ChildProcesses


class HandlerRunner:
    """Implements `onbeat.ports.target.TargetRunner` for handler targets."""

    def __init__(self, registry: Registry, program: AppContext | None = None) -> None:
        self.registry = registry
        self.in_process = InProcessRunner(program)
        self.subprocesses: ChildProcesses | None = None

    async def open(self) -> None:
        await self.in_process.open()
        self.subprocesses = ChildProcesses(child.serve)

    async def close(self) -> None:
        await self.in_process.close()
        if self.subprocesses is not None:
            await asyncio.to_thread(self.subprocesses.close)
            self.subprocesses = None

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]:
        # No coroutine of its own: thousands of attempts run per second.
        target = run.job.target
        assert isinstance(target, HandlerTarget), "the worker picks the runner by the target's type"
        handler = self.registry.handlers.get(target.task)
        if handler is None:
            return self.refuse(target.task)
        if handler.isolation is None:
            return self.in_process.run(handler, run)
        assert self.subprocesses is not None, "the runner is open while jobs run"
        module, memory_bytes = handler.function.__module__, handler.isolation.memory_bytes
        return self.subprocesses.run(run, module, memory_bytes)

    async def refuse(self, task: str) -> Outcome:
        return Failed(f"no task {task!r} is registered in this worker")
