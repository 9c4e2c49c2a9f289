"""What the parts of an `Onbeat` share, and where its requests go: a store, or a service."""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, TypedDict, TypeVar, Unpack

import msgspec

from onbeat.app import shutdown
from onbeat.app.notices import notices_of
from onbeat.app.options import Options
from onbeat.app.portal import Portal
from onbeat.app.registry import TaskRegistry
from onbeat.app.stores import cipher_for
from onbeat.app.system import SystemClock, SystemRandomness
from onbeat.app.tracing import tracing_of_program
from onbeat.engine.broker.dead_letters import DeadLetterPublisher
from onbeat.engine.clocks import ClockKeeper, StoreClock
from onbeat.expressions.cel import CelExpressions
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Misconfigured, NotFound
from onbeat.model.event import Event
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.outcome import Outcome
from onbeat.model.owner import NOBODY, Owner
from onbeat.model.remote_task import RemoteFence
from onbeat.operations.context import OperationContext, no_capacity_check
from onbeat.operations.declarations import declare_all, delete_doubles
from onbeat.operations.old_lanes import OldLanes
from onbeat.operations.seen_workers import SeenWorkers
from onbeat.operations.tables.operation import Operation
from onbeat.ports.clock import Clock
from onbeat.ports.encryption import Cipher
from onbeat.ports.expressions import Expressions
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Enqueued, Store
from onbeat.ports.target import CheckStart, allow_start
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.tracing import UNTRACED_SEND, SendSpan, Tracing
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.live_feed import LiveFeed
from onbeat.telemetry.log_events import LogEvents
from onbeat.wire.jobs import JobInfo
from onbeat.wire.requests import PutResult
from onbeat.wire.schedules import ScheduleDraft
from onbeat.wire.settings import SettingAnswer
from onbeat.wire.values import is_id

LOOK_AGAIN: Final = 0.25  # seconds; a notice of a change may be lost
Request = TypeVar("Request", bound=msgspec.Struct)
Answer = TypeVar("Answer")
Value = TypeVar("Value")


class Changes(Protocol):
    """A waiter for changes of jobs."""

    async def wait(self, seconds: float) -> None: ...

    def close(self) -> None: ...


class BackendParts(TypedDict, total=False):
    """Parts of a backend that a caller may replace; None is the default."""

    options: Options | None
    store: Store | None
    clock: Clock | None
    randomness: Randomness | None
    telemetry: Telemetry | None
    owner: Owner


class Backend(ABC):
    """The store, the clock and the options of one program, and where its requests go.

    Tasks, handles, facades and the loops of an `Onbeat` have the same one. `url` names the store or
    the service, with its secrets. A service replaces store, options and telemetry before it starts,
    a virtual run store, clock and telemetry while it lasts. `tracing` is
    None where nothing makes spans.
    """

    def __init__(
        self, url: str, registry: TaskRegistry | None = None, **parts: Unpack[BackendParts]
    ) -> None:
        self.url = url
        self.registry = registry or TaskRegistry()
        self.options = parts.get("options") or Options()
        # Those that the options came from, for people.
        self.settings: tuple[SettingAnswer, ...] = ()
        self.configured_keys = frozenset[str]()
        self.clock: Clock = StoreClock(parts.get("clock") or SystemClock())
        self.randomness = parts.get("randomness") or SystemRandomness()
        self.telemetry = parts.get("telemetry") or LogEvents()
        self.tracing: Tracing | None = None
        self.expressions: Expressions = CelExpressions()
        self.check_start: CheckStart = allow_start
        self.check_disk: Callable[[], Awaitable[None]] = no_capacity_check
        self.faults = FaultTally()
        self.seen_workers = SeenWorkers()
        self.live = LiveFeed()
        self.past = OldLanes()
        self.live.on_past = self.past.changed
        self.owner = parts.get("owner", NOBODY)
        self.portal = Portal()
        self.is_open = False
        # A trial runs what is due before somebody waits for a job.
        self.run_due_jobs: Callable[[JobId], Awaitable[None]] | None = None
        self._own_store = parts.get("store")
        self._opening = threading.Lock()
        self._jobs_loop: asyncio.AbstractEventLoop | None = None
        self._publisher: DeadLetterPublisher | None = None

    # Requests

    @abstractmethod
    async def call(self, operation: Operation[Request, Answer], request: Request) -> Answer:
        """The answer of the operation. Raises an `OnbeatError`."""

    @abstractmethod
    async def ask(
        self,
        operation: Operation[Request, Answer],
        named: Mapping[str, str],
        body: bytes | None = None,
    ) -> Answer:
        """The same with a request in the form of HTTP.

        `named` are the texts of path and query, `body` is JSON.
        """

    @abstractmethod
    async def call_json(
        self, operation: Operation[Any, Any], named: Mapping[str, str], body: bytes | None
    ) -> Any:
        """The same, answered in plain JSON values."""

    @abstractmethod
    async def enqueue(self, jobs: Sequence[Job]) -> Sequence[Enqueued]: ...

    @abstractmethod
    async def enqueue_flow(
        self, jobs: Sequence[Job], *, is_flow: bool = False
    ) -> tuple[Sequence[Enqueued], JobId | None]:
        """The same, and the flow where others choose it; `is_flow` asks for one."""

    @abstractmethod
    async def put_schedule(self, key: str, draft: ScheduleDraft) -> PutResult: ...

    async def put_declared(self) -> None:
        """Store the schedules that the program declares; see `operations.declarations`.

        Not in a cell: its other cells would have them too, so the front of all declares them, and
        deletes what cells have stored before they knew that they are cells.
        """
        if await self.store.note_map_version(0) > 0:
            return
        declared = self.registry.schedules
        await declare_all(self.context, declared, self.owner)
        if self.store.has_slots:
            await delete_doubles(self.context, [key for key, _ in declared])

    @abstractmethod
    async def schedule_id(self, key: str) -> str:
        """Raises `NotFound`."""

    async def with_schedule(self, name: str, work: Callable[[str], Awaitable[Value]]) -> Value:
        """What `work` answers for the id of a schedule, which `name` is, or whose key it is.

        A text in the form of an id is a key only where no schedule has that id. Raises `NotFound`.
        """
        if is_id(name):
            with contextlib.suppress(NotFound):
                return await work(name)
        return await work(await self.schedule_id(name))

    @abstractmethod
    async def finished_job(self, id: JobId) -> JobInfo | None:
        """The job if it has ended. Raises `NotFound`."""

    @abstractmethod
    def changes(self) -> Changes: ...

    # The program's own store

    @property
    def store(self) -> Store:
        """Raises `Misconfigured` where a remote service has the store."""
        if self._own_store is None:
            raise Misconfigured(
                f"the service at {self.url} keeps and runs everything; "
                "to run tasks here, name its store instead",
                "store",
            )
        return self._own_store

    @store.setter
    def store(self, store: Store) -> None:
        self._own_store = store

    async def open(self) -> None:
        """Open the store once and synchronize with its clock; every use calls this."""
        if not self.is_open:
            await self._open_once()
        if isinstance(self.clock, StoreClock) and self.clock.is_stale:
            await ClockKeeper(self.clock, self.store, self.telemetry).refresh()

    def find_tracing(self) -> None:
        """Use the tracer provider that the program has set meanwhile, unless tracing is set."""
        if self.tracing is None:
            self.tracing = tracing_of_program()

    def sending(self) -> contextlib.AbstractContextManager[SendSpan]:
        """A span around the making and storing of jobs, where something makes spans."""
        return UNTRACED_SEND if self.tracing is None else self.tracing.send(None)

    async def _open_once(self) -> None:
        if not self._opening.acquire(blocking=False):
            await asyncio.to_thread(self._opening.acquire)
        try:
            if not self.is_open:
                self.find_tracing()
                await self.store.open()
                self.is_open = True
                shutdown.register(self)
        finally:
            self._opening.release()

    async def aclose(self) -> None:
        """Close the store. The next use opens it again."""
        if self.is_open:
            self.is_open = False
            shutdown.unregister(self)
            await self.store.close()

    async def now(self) -> datetime:
        """The current time, by the store's clock where this program opens the store itself."""
        if self._own_store is not None:
            await self.open()
        else:
            self.find_tracing()
        return self.clock.now()

    @property
    def cipher(self) -> Cipher:
        """Encrypts data in this program's own store."""
        return cipher_for(self.options.encryption_keys)

    @property
    def context(self) -> OperationContext:
        """The context of operations."""
        return OperationContext(
            store=self.store,
            clock=self.clock,
            randomness=self.randomness,
            horizon=self.options.runtime.horizon,
            retry=self.options.retry,
            refuse_url=self.options.http.refusal_of,
            task_defaults=self.registry.task_defaults,
            compile=self.registry.compile,
            knows_task=self._knows_task,
            remote_tasks=self.options.remote_tasks_by_name,
            remote_fence=RemoteFence(self.options.remote_fence),
            on_dead_letter=self._note_dead_letter,
            telemetry=self.telemetry,
            connections=frozenset(self.options.connections),
            notices=notices_of(self.options.channels, self.options.templates),
            cipher=self.cipher,
            expressions=self.expressions,
            check_start=self._check_start,
            tracing=self.tracing,
            settings=self.settings,
            configured_keys=self.configured_keys,
            faults=self.faults,
            seen_workers=self.seen_workers,
            live=self.live,
            past=self.past,
            keep=self.options.runtime.keep,
            keep_failed=self.options.runtime.keep_failed,
        )

    async def _check_start(self, job: Job, events: Sequence[Event]) -> Outcome | None:
        return await self.check_start(job, events)

    async def _knows_task(self, task: str) -> bool:
        """Whether the task is registered here, or declared as a remote task."""
        return task in self.registry.tasks() or task in self.options.remote_tasks_by_name

    def _note_dead_letter(self, dead_letter: DeadLetter) -> None:
        self.telemetry.dead_lettered(dead_letter)
        if self._publisher is not None:
            self._publisher.submit(dead_letter)

    async def wait_for_end(self, id: JobId) -> JobInfo:
        """The job, once it has ended."""
        if self.run_due_jobs is not None:
            await self.run_due_jobs(id)
        changes = self.changes()
        try:
            while (job := await self.finished_job(id)) is None:
                await changes.wait(LOOK_AGAIN)
            return job
        finally:
            changes.close()

    # Event loops

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for `work` from synchronous code."""
        return self.portal.call(work)

    def run_jobs_here(self, publisher: DeadLetterPublisher | None) -> None:
        """Note that jobs run in the running event loop, until `run_no_jobs`.

        New dead letters go to the publisher, if there is one.
        """
        self._jobs_loop, self._publisher = asyncio.get_running_loop(), publisher

    def run_no_jobs(self) -> None:
        self._jobs_loop = self._publisher = None

    @property
    def is_running(self) -> bool:
        return self._jobs_loop is not None

    def in_jobs_loop(self) -> bool:
        """Whether the caller runs in the event loop that runs the jobs."""
        with contextlib.suppress(RuntimeError):
            return self.is_running and asyncio.get_running_loop() is self._jobs_loop
        return False


def unknown_key(key: str) -> NotFound:
    return NotFound(f"no schedule has the id or key {key!r}")
