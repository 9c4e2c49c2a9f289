"""An engine on a bench: real parts on a memory store, each to be stepped by hand."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Self

from conditions import eventually
from onbeat.app.virtual_clock import ManualClock
from onbeat.engine.dispatcher import Dispatcher
from onbeat.engine.heartbeat import Heartbeat
from onbeat.engine.job_log import JobLog
from onbeat.engine.lease_guard import LeaseGuard
from onbeat.engine.planner import Planner
from onbeat.engine.rescuer import Rescuer
from onbeat.engine.session_watcher import SessionWatcher
from onbeat.engine.worker import JobRunner
from onbeat.engine.worker_leases import WorkerLeases
from onbeat.model.errors import Unavailable
from onbeat.model.ids import WorkerId
from onbeat.model.job import Job, JobState
from onbeat.model.outcome import Outcome, Succeeded
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.model.worker import WorkerRecord
from onbeat.ports.sessions import NO_SESSIONS
from onbeat.ports.store import ClaimRequest, SucceededAttempt
from onbeat.recurrence import compile_spec
from onbeat.stores.memory import MemoryStore
from onbeat.targets.handler import Handler, Registry
from onbeat.targets.runner import HandlerRunner
from onbeat.telemetry.composite import settled
from onbeat.testing.build import MINUTE, NOW, a_job, a_worker, an_id


class FixedRandomness:
    def __init__(self, fraction: float = 0.5) -> None:
        self.fixed = fraction

    def ids(self, count: int) -> Sequence[str]:
        return [an_id() for _ in range(count)]

    def fraction(self) -> float:
        return self.fixed


class RecordingTelemetry:
    """A telemetry that remembers every word."""

    def __init__(self) -> None:
        self.words: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.words.append((name, (*args, *kwargs.values())))

    def succeeded(self, ended: Sequence[SucceededAttempt]) -> None:
        for one in ended:
            self.words.append(("ended", (settled(one), Succeeded(one.result), one.seconds)))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        return [args for answer, args in self.words if answer == name]


class NullLiveness:
    """A liveness that knows nothing."""

    tells = False

    def is_gone(self, worker: WorkerRecord) -> bool:
        return False

    def watch(self, workers: Iterable[WorkerRecord], on_end: Callable[[], None]) -> None:
        pass


READS = frozenset(
    [
        "abandoned_jobs",
        "attempts",
        "dead_letters",
        "dead_letters_by_id",
        "dispositions",
        "doctor",
        "count_depths",
        "count_ended",
        "due_schedules",
        "held_leases",
        "job",
        "jobs",
        "log_lines",
        "overdue_jobs",
        "newest_sample",
        "next_plan_at",
        "now",
        "oldest_history",
        "pulses",
        "queue_names",
        "queues",
        "samples",
        "schedule",
        "schedule_by_key",
        "schedules",
        "schedules_by_id",
        "stats",
        "transitions",
        "workers",
    ]
)


class OthersGone:
    """A liveness that knows that all processes have ended but one."""

    tells = False

    def __init__(self, mine: WorkerId) -> None:
        self.mine = mine

    def is_gone(self, worker: WorkerRecord) -> bool:
        return worker.id != self.mine

    def watch(self, workers: Iterable[WorkerRecord], on_end: Callable[[], None]) -> None:
        pass


class FaultyStore:
    """A store of which chosen verbs raise for as many times as `trouble` says, before or after.

    While it `refuses_writes` it can be read, and nothing else.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.trouble: dict[str, int] = {}
        self.after: dict[str, int] = {}
        self.calls: list[str] = []
        self.refuses_writes = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.inner, name)
        if not asyncio.iscoroutinefunction(verb):
            return verb

        async def tried(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if self.refuses_writes and name not in READS:
                raise Unavailable("it takes no writes")
            if self.trouble.get(name, 0) > 0:
                self.trouble[name] -= 1
                raise Unavailable(f"no {name} just now")
            answer = await verb(*args, **kwargs)
            if self.after.get(name, 0) > 0:
                self.after[name] -= 1
                raise Unavailable(f"{name} was done, but nobody heard")
            return answer

        return tried


def ignore_end() -> None:
    """Rounds are called by hand."""


def ignore_free_slot() -> None: ...


class EngineHarness:
    """One worker process's parts; `tasks` are its handlers by name."""

    def __init__(
        self,
        *,
        store: Any = None,
        clock: Any = None,
        concurrency: int = 10,
        prefetch: int = 0,
        queues: tuple[str, ...] | None = None,
        runners: Any = None,
        log: JobLog | None = None,
        **tasks: Callable[..., Any],
    ) -> None:
        self.store = FaultyStore(store or MemoryStore())
        self.clock = clock or ManualClock(NOW)
        self.told = RecordingTelemetry()
        self.chance = FixedRandomness()
        registry = Registry()
        for name, function in tasks.items():
            registry.add(Handler(name, function))
        self.handlers = HandlerRunner(registry)
        self.row = a_worker(
            id=WorkerId(f"worker-{an_id()}"), beat=0, lanes=tuple(sorted(registry.tasks()))
        )
        self.regained: list[int] = []
        self.guard = LeaseGuard(self.clock, self.row.lease_seconds, self.note_regained)
        self.worker = JobRunner(
            self.store,
            runners or {HandlerTarget: self.handlers, HttpTarget: self.handlers},
            self.clock,
            self.chance,
            self.told,
            self.guard,
            concurrency=concurrency,
            prefetch=prefetch,
            on_slot_free=ignore_free_slot,
            log=log,
        )
        self.dispatcher = Dispatcher(
            self.store, self.worker, self.clock, self.row.id, registry.tasks, queues
        )
        self.planner = Planner(
            self.store, self.clock, self.chance, self.told, 10 * MINUTE, compile_spec
        )
        self.leases = WorkerLeases(self.worker)
        self.renewer = Heartbeat(
            self.store, self.store, self.clock, lambda: self.row, self.leases, self.guard
        )
        self.rescuer = Rescuer(
            self.store,
            self.store,
            self.clock,
            self.chance,
            NullLiveness(),
            self.told,
            None,
            SessionWatcher(NO_SESSIONS, self.clock, ignore_end),
            ignore_end,
        )

    async def __aenter__(self) -> Self:
        await self.handlers.open()
        await self.renewer.renew_leases()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.handlers.close()
        left = [running.task for running in self.worker.running.values() if running.task]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def note_regained(self) -> None:
        self.regained.append(self.worker.capacity())

    async def begin(self, *jobs: Job) -> None:
        """Enqueue these, and begin what is due."""
        await self.store.enqueue(jobs)
        await self.begin_due()

    async def begin_due(self) -> int:
        count, _ = await self.dispatcher.dispatch_due()
        return count

    async def claim(self, worker: WorkerId | None = None) -> Sequence[Job]:
        """Claim as a dispatcher does, for another worker or before this one has the answer."""
        request = ClaimRequest(
            worker=worker or self.row.id,
            now=self.clock.now(),
            limit=self.worker.concurrency,
            lanes=self.dispatcher.lanes(),
        )
        return (await self.store.claim(request)).jobs

    async def run(self, job: Job | None = None) -> Job:
        """Run this job, or one of the task `work`, to the end of its attempt."""
        job = job or a_job()
        await self.begin(job)
        await self.worker.idle.wait()
        return await self.job(job)

    async def beat(self) -> None:
        """What the renewer does at every beat, and what its thread then has the worker do."""
        answer = await self.renewer.renew_leases()
        self.leases.reconcile_leases(answer)
        self.guard.on_applied(answer.sent_at)

    async def job(self, job: Job) -> Job:
        return await self.store.job(job.id)

    async def until(self, job: Job, state: JobState) -> Job:
        async def reached() -> Job | None:
            result = await self.job(job)
            return result if result.state is state else None

        return await eventually(reached, f"{job.id} {state}")


class Scripted:
    """A target runner that does as told."""

    def __init__(self, act: Callable[[Any], Awaitable[Outcome]]) -> None:
        self.act = act

    async def run(self, run: Any) -> Outcome:
        return await self.act(run)

    async def open(self) -> None: ...

    async def close(self) -> None: ...
