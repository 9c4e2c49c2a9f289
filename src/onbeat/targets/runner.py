"""Runs handler targets, each in its own mode of isolation."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from onbeat.model.ids import JobId
from onbeat.model.outcome import Failed, Outcome
from onbeat.model.target import HandlerTarget
from onbeat.ports.target import Run
from onbeat.targets.app_context import AppContext
from onbeat.targets.event import ended_job_of, ended_jobs
from onbeat.targets.handler import Handler, Registry
from onbeat.targets.in_process import InProcessRunner
from onbeat.targets.predecessors import PriorJob, earlier_jobs
from onbeat.targets.subprocess import child
from onbeat.targets.subprocess.parent import ChildProcesses, Serve


class HandlerRunner:
    """Implements `onbeat.ports.target.TargetRunner` for handler targets."""

    def __init__(
        self,
        registry: Registry,
        program: AppContext | None = None,
        serve_child: Serve = child.serve,
    ) -> None:
        self.registry = registry
        self.serve_child = serve_child
        self.app = program
        self.in_process = InProcessRunner(program)
        self.subprocesses: ChildProcesses | None = None

    async def open(self) -> None:
        await self.in_process.open()
        self.subprocesses = ChildProcesses(self.serve_child, program=self.app)

    async def close(self) -> None:
        await self.in_process.close()
        if self.subprocesses is not None:
            await asyncio.to_thread(self.subprocesses.close)
            self.subprocesses = None

    def run(self, run: Run) -> Coroutine[Any, Any, Outcome]:
        # No coroutine of its own: thousands of attempts run per second.
        target = run.job.target
        assert isinstance(target, HandlerTarget), "the worker picks the runner by the target's type"
        task = target.task
        handler = self.registry.handlers.get(task) or self.registry.find(task)
        if handler is None:
            return self.refuse(task)
        if handler.isolation is None and not run.job.after and not run.events:
            return self.in_process.run(handler, run)
        ids = ids_shown(handler, run)
        if ids and self.app is not None:
            return self.run_after_others(handler, run, ids)
        return self.start(handler, run)

    def start(
        self, handler: Handler, run: Run, earlier: Sequence[PriorJob] = ()
    ) -> Coroutine[Any, Any, Outcome]:
        if handler.isolation is None:
            return self.in_process.run(handler, run, earlier)
        assert self.subprocesses is not None, "the runner is open while jobs run"
        module, memory_bytes = handler.function.__module__, handler.isolation.memory_bytes
        return self.subprocesses.run(run, module, memory_bytes, earlier)

    async def run_after_others(self, handler: Handler, run: Run, ids: Sequence[JobId]) -> Outcome:
        assert self.app is not None, "only a program runs jobs that are stored"
        stored = await self.app.store.jobs_by_id(ids)
        of_events = {one.id: one for one in ended_jobs(run.events, stored)}
        before = [of_events.pop(one.id, one) for one in earlier_jobs(run.job, stored)]
        return await self.start(handler, run, (*before, *of_events.values()))

    async def refuse(self, task: str) -> Outcome:
        return Failed(f"no task {task!r} is registered in this worker")


def ids_shown(handler: Handler, run: Run) -> list[JobId]:
    """The ended jobs that the handler sees; only one that sees them pays for it.

    With a context those that its job came after; with a context or an event those of its events.
    """
    codec = handler.codec
    after = run.job.after if codec.context is not None else ()
    events = run.events if codec.context is not None or codec.event is not None else ()
    of_events = (id for id in map(ended_job_of, events) if id is not None)
    return list(dict.fromkeys((*after, *of_events)))
