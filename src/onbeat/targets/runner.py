"""Runs handler targets: each handler where it wants to run."""

import asyncio

from onbeat.model.outcome import Failed, Outcome
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.targets import isolated
from onbeat.targets.calling import Caller
from onbeat.targets.handler import Registry
from onbeat.targets.isolation import Processes


class HandlerRunner:
    """Implements `onbeat.ports.target.TargetRunner` for handler targets."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.caller = Caller(registry.program)
        self.processes: Processes | None = None

    async def open(self) -> None:
        await self.caller.open()
        self.processes = Processes(isolated.serve)

    async def close(self) -> None:
        await self.caller.close()
        if self.processes is not None:
            await asyncio.to_thread(self.processes.close)
            self.processes = None

    async def run(self, run: Run) -> Outcome:
        target = run.job.target
        assert isinstance(target, HandlerTarget), "the worker picks the runner by the target's type"
        handler = self.registry.handlers.get(target.task)
        if handler is None:
            return Failed(f"no task {target.task!r} is registered in this worker")
        if handler.isolation is None:
            return await self.caller.run(handler, run)
        assert self.processes is not None, "the runner is open while jobs run"
        module, memory_bytes = handler.function.__module__, handler.isolation.memory_bytes
        return await self.processes.run(run, module, memory_bytes)
