"""`Onbeat`: the tasks and schedules of one program, and the loops that run them."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, Literal, Self, TypeVar, Unpack, cast, overload

from onbeat.app import event_loop, shutdown
from onbeat.app.audit import Audit
from onbeat.app.backend import Backend, LocalBackend
from onbeat.app.call import (
    Call,
    JobOptions,
    TaskOptions,
    check_call,
    check_keywords,
    isolation_of,
    options,
    task_name_of,
)
from onbeat.app.composition import (
    Dependencies,
    RunningApp,
    cipher_for,
    open_store,
    remote_backend,
    system_clock,
    system_randomness,
)
from onbeat.app.handle import JobHandle, decode_json
from onbeat.app.jobs import Jobs
from onbeat.app.options import Options
from onbeat.app.portal import Portal
from onbeat.app.queues import Queues
from onbeat.app.schedules import Policies, Rule, Schedules
from onbeat.app.secrets import Secrets
from onbeat.app.signals import wait_for_signal
from onbeat.app.task import AnyTask, Context, ContextTask, FanOut, Params, Task
from onbeat.app.transaction.sender import TransactionalSender, finish_in_transaction
from onbeat.app.virtual_clock import VirtualRun, instant
from onbeat.engine.clocks import ClockKeeper, StoreClock
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Misconfigured
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.renamed import warn_renamed
from onbeat.operations.context import OperationContext, TaskDefaults
from onbeat.operations.encryption import encrypted_job
from onbeat.ports.clock import Clock
from onbeat.ports.encryption import Cipher
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Settlement, Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import Budget, Recurrence, compile_spec
from onbeat.targets.handler import Handler, Isolation, Registry
from onbeat.telemetry.log_events import LogEvents

Value = TypeVar("Value")
Result = TypeVar("Result")
Calls = TypeVar("Calls", bound=AsyncIterator[Call[Any]] | Iterator[Call[Any]])
Function = TypeVar("Function", bound=Callable[..., Any])


class Onbeat:
    """Sends jobs, keeps schedules and, while it is running, runs jobs.

    `url` names the store, `memory://` or `sqlite:///PATH`, or a remote service, `http://HOST`,
    which then stores and runs everything; `api_key` is for the service. Nothing is opened before
    first use. One `Onbeat` may be used from any thread and any event loop.
    """

    def __init__(
        self,
        url: str = "sqlite:///onbeat.db",
        *,
        api_key: str | None = None,
        options: Options | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.url = url
        self.options = options or Options()
        self.backend: Backend = LocalBackend(self)
        self._own_store = store
        if url.startswith(("http://", "https://")):
            self.backend = remote_backend(url, api_key)
        elif store is None:
            self._own_store = open_store(url)
        self.clock: Clock = StoreClock(clock or system_clock())
        self.randomness = randomness or system_randomness()
        self.telemetry = telemetry or LogEvents()
        self.registry = Registry(self)
        self.defaults: dict[str, JobOptions] = {}
        self.functions: dict[str, Recurrence] = {}
        self.portal = Portal()
        self._opening = threading.Lock()
        self.is_open = False
        self._running: RunningApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.schedules = Schedules(self)
        self.jobs = Jobs(self)
        self.queues = Queues(self)
        self.audit = Audit(self)
        self.secrets = Secrets(self)

    # Tasks

    @overload
    def task(
        self, name: Callable[Concatenate[Context, Params], Coroutine[Any, Any, Result]]
    ) -> ContextTask[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def task(
        self, name: Callable[Concatenate[Context, Params], Calls]
    ) -> ContextTask[Params, Calls, FanOut]: ...

    @overload
    def task(
        self, name: Callable[Concatenate[Context, Params], Result]
    ) -> ContextTask[Params, Result, Result]: ...

    @overload
    def task(
        self, name: Callable[Params, Coroutine[Any, Any, Result]]
    ) -> Task[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def task(self, name: Callable[Params, Calls]) -> Task[Params, Calls, FanOut]: ...

    @overload
    def task(self, name: Callable[Params, Result]) -> Task[Params, Result, Result]: ...

    @overload
    def task(
        self,
        name: str | None = None,
        *,
        isolation: Literal["none", "process"] = "none",
        memory: int | str | None = None,
        encrypted: bool = False,
        **given: Unpack[TaskOptions],
    ) -> "Registrar": ...

    def task(
        self,
        name: Any = None,
        *,
        isolation: Literal["none", "process"] = "none",
        memory: int | str | None = None,
        encrypted: bool = False,
        **given: Unpack[TaskOptions],
    ) -> Any:
        """Register a function as a task; its name is `name`, or `module.function` by default.

        Coroutine functions run in the event loop, others in threads. A generator function, plain or
        asynchronous, yields calls, and each becomes a job. With `isolation="process"` each attempt
        runs in a process of its own, which is killed when the attempt is stopped or times out;
        `memory` limits that process, in bytes or as text such as "512MB". The arguments of an
        `encrypted` task are encrypted at rest, with a key of `Options.encryption_keys`. Raises
        `Invalid` for an invalid option, ValueError when another function has the name.
        """
        check_keywords("Onbeat.task", given, TaskOptions.__annotations__)
        job_options = options(**given)
        own = isolation_of(isolation, memory)
        registrar = Registrar(
            self, name if isinstance(name, str) else None, job_options, own, encrypted
        )
        return registrar(name) if callable(name) else registrar

    def schedule(
        self, recurrence: Rule, *, key: str | None = None, **policies: Unpack[Policies]
    ) -> Callable[[Function], Function]:
        """Register the decorated function as a task with a schedule.

        The schedule is stored when the program starts to run, under `key` (by default the task's
        name); keywords are those of `schedules.put`. Raises RuntimeError while it runs.
        """
        if self._running is not None:
            raise RuntimeError("this Onbeat is running already; use schedules.put")

        def declare(function: Function) -> Function:
            known = isinstance(function, Task)
            made = cast("AnyTask", function) if known else cast("AnyTask", self.task(function))
            self.schedules.declare(key or made.name, recurrence, made.call(), policies)
            return cast("Function", made)

        return declare

    def register(self, handler: Handler, options: JobOptions) -> None:
        self.registry.add(handler)
        self.defaults[handler.task] = options

    # Sending

    @overload
    def send(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    def send(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    def send(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return self.send_call(calls)
        return self.portal.call(self.asend(calls))

    @overload
    async def asend(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    async def asend(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    async def asend(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return await self.asend_call(calls)
        for call in calls:
            check_call(call)
        now = await self.now()
        ids = self.randomness.ids(len(calls))
        jobs = [call.job(id, now, self.options.retry) for call, id in zip(calls, ids, strict=True)]
        enqueued = await self.backend.enqueue(jobs)
        return [
            JobHandle(self, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    def send_call(self, call: Call[Result]) -> JobHandle[Result]:
        return self.portal.call(self.asend_call(call))

    async def asend_call(self, call: Call[Result]) -> JobHandle[Result]:
        check_call(call)
        job = call.job(self.randomness.ids(1)[0], await self.now(), self.options.retry)
        (enqueued,) = await self.backend.enqueue([job])
        return JobHandle(self, enqueued.id, call, created=enqueued.created)

    def in_transaction(self, connection: object) -> TransactionalSender:
        """A sender in the transaction of `connection`; its jobs exist once that commits.

        Raises TypeError for an unsupported connection, naming the supported ones.
        """
        return TransactionalSender(self, connection)

    def within(self, connection: object) -> TransactionalSender:
        """Deprecated name of `in_transaction`."""
        warn_renamed("onbeat.within", "onbeat.in_transaction")
        return self.in_transaction(connection)

    def decoder_of(self, call: Call[Any]) -> Callable[[bytes], Any]:
        """The decoder of the call's result, from its function's return annotation."""
        task = getattr(call.target, "task", None)
        handler = self.registry.handlers.get(task) if task is not None else None
        return handler.decode_result if handler is not None else decode_json

    # Interface for handlers

    def job_of(self, call: object, id: JobId, now: datetime) -> Job:
        """The job of a call. Raises TypeError for other objects."""
        check_call(call)
        job = cast("Call[Any]", call).job(id, now, self.options.retry)
        return encrypted_job(self.cipher, job)

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle a job in the transaction that `connection` is in.

        On a synchronous connection the job is settled when this returns. Raises `LeaseLost`.
        """
        return finish_in_transaction(self.store, connection, settlement)

    # Interface for handles and facades

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

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for `work` from synchronous code."""
        return self.portal.call(work)

    def in_own_loop(self) -> bool:
        """Whether the caller runs in the event loop that runs the jobs."""
        with contextlib.suppress(RuntimeError):
            return self._running is not None and asyncio.get_running_loop() is self._loop
        return False

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
            task_defaults=self.task_defaults,
            compile=self.compile,
            knows_task=self.knows_task,
            on_dead_letter=self.note_dead_letter,
            telemetry=self.telemetry,
            connections=frozenset(self.options.connections),
            cipher=self.cipher,
        )

    @property
    def cipher(self) -> Cipher:
        """Encrypts data in this program's own store."""
        return cipher_for(self.options.encryption_keys)

    async def knows_task(self, task: str) -> bool:
        """Whether the task is registered here, or declared as a remote task."""
        return task in self.registry.tasks() or task in self.options.remote_tasks

    def note_dead_letter(self, dead_letter: DeadLetter) -> None:
        self.telemetry.dead_lettered(dead_letter)
        if self._running is not None and self._running.broker_setup is not None:
            self._running.broker_setup.dead_letters.submit(dead_letter)

    def task_defaults(self, task: str) -> TaskDefaults:
        fields = self.defaults.get(task)
        if fields is None:
            return TaskDefaults()
        given: dict[str, Any] = {
            "encrypted": self.registry.handlers[task].encrypted,
            "queue": fields.job.queue,
            "group": fields.job.group,
            "priority": fields.job.priority,
            "timeout": fields.job.timeout,
        }
        if fields.retry is not None:
            given["retry"] = fields.retry
        return TaskDefaults(**given)

    def compile(self, spec: RecurrenceSpec, budget: Budget | None = None, /) -> Recurrence:
        """Compile a stored rule; functions of time are found by the schedule's key."""
        result = self.functions.get(spec.text) if spec.kind == "function" else None
        return result.within(budget) if result is not None else compile_spec(spec, budget)

    # Running

    async def now(self) -> datetime:
        """The current time, by the store's clock where this program opens the store itself."""
        if self._own_store is not None:
            await self.open()
        return self.clock.now()

    async def open(self) -> None:
        """Open the store once and synchronize with its clock; every use calls this."""
        if not self.is_open:
            await self.open_once()
        if isinstance(self.clock, StoreClock) and self.clock.is_stale:
            await ClockKeeper(self.clock, self.store, self.telemetry).refresh()

    async def open_once(self) -> None:
        if not self._opening.acquire(blocking=False):
            await asyncio.to_thread(self._opening.acquire)
        try:
            if not self.is_open:
                await self.store.open()
                self.is_open = True
                shutdown.register(self)
        finally:
            self._opening.release()

    async def start(self) -> None:
        """Store the declared schedules and start all loops in the running event loop."""
        if self._running is not None:
            raise RuntimeError("this Onbeat is running already")
        await self.open()
        try:
            await self.schedules.put_declared()
            self._running = self.build_running()
            self._loop = asyncio.get_running_loop()
            await self._running.start()
        except BaseException:
            await self.aclose()
            raise

    def build_running(self) -> RunningApp:
        return RunningApp(self.dependencies(), self.options)

    async def put_declared(self) -> None:
        await self.schedules.put_declared()

    def testing(self, at: datetime | str) -> VirtualRun:
        """This program on a memory store and a virtual clock that starts at `at`, until closed."""
        return VirtualRun(self, open_store("memory://"), instant(at))

    async def stop(self) -> int:
        """Drain, then end the loops. Returns how many attempts were stopped early."""
        running, self._running = self._running, None
        return 0 if running is None else await running.stop()

    async def aclose(self) -> None:
        """Stop, and close the store. The next use opens it again."""
        await self.stop()
        if self.is_open:
            self.is_open = False
            shutdown.unregister(self)
            await self.store.close()

    def close(self) -> None:
        """Stop, and close the store and the background thread. The next use opens them again.

        Raises RuntimeError in a coroutine; use `aclose` there.
        """
        if event_loop.is_running_here():
            raise RuntimeError("this would block the event loop; use `await beat.aclose()`")
        if self.is_open or self._running is not None:
            self.portal.call(self.aclose())
        self.portal.close()

    @property
    def is_running(self) -> bool:
        return self._running is not None

    def __enter__(self) -> Self:
        """For programs that only send: opens nothing before the first use, and runs no jobs."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def dependencies(self) -> Dependencies:
        return Dependencies(
            url=self.url,
            context=self.context,
            store=self.store,
            clock=self.clock,
            randomness=self.randomness,
            telemetry=self.telemetry,
            registry=self.registry,
            compile=self.compile,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @contextlib.contextmanager
    def started(self) -> Generator[Self, None, None]:
        """Run the loops in a background thread; leaving drains."""
        self.portal.call(self.start())
        try:
            yield self
        finally:
            self.portal.call(self.aclose())

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain.

        A second signal stops at once, with exit code 1; running jobs then count as lost.
        """
        if not event_loop.run(self.run_until_signalled()):
            raise SystemExit(1)

    async def run_until_signalled(self) -> bool:
        return await wait_for_signal(self.start, self.aclose)


class Registrar:
    """Turns a function into a task with the options of the decorator."""

    def __init__(
        self,
        app: Onbeat,
        name: str | None,
        options: JobOptions,
        isolation: Isolation | None,
        encrypted: bool,  # noqa: FBT001  passed on from the decorator
    ) -> None:
        self.onbeat = app
        self.name = name
        self.task_options = options
        self.isolation = isolation
        self.encrypted = encrypted

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Coroutine[Any, Any, Result]]
    ) -> ContextTask[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Calls]
    ) -> ContextTask[Params, Calls, FanOut]: ...

    @overload
    def __call__(
        self, function: Callable[Concatenate[Context, Params], Result]
    ) -> ContextTask[Params, Result, Result]: ...

    @overload
    def __call__(
        self, function: Callable[Params, Coroutine[Any, Any, Result]]
    ) -> Task[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(self, function: Callable[Params, Calls]) -> Task[Params, Calls, FanOut]: ...

    @overload
    def __call__(self, function: Callable[Params, Result]) -> Task[Params, Result, Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = task_name_of("name", self.name or f"{module_of(function)}.{function.__qualname__}")
        handler = Handler(name, function, self.isolation, encrypted=self.encrypted)
        self.onbeat.register(handler, self.task_options)
        if handler.codec.context_place == 0:
            return ContextTask[..., Any, Any](self.onbeat, handler, function, self.task_options)
        return Task[..., Any, Any](self.onbeat, handler, function, self.task_options)


def module_of(function: Callable[..., Any]) -> str:
    """The function's module; `__main__` is replaced by the name of the script's file."""
    main = sys.modules.get("__main__")
    if function.__module__ == "__main__" and main is not None and getattr(main, "__file__", None):
        return Path(str(main.__file__)).stem
    return function.__module__
