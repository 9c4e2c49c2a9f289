"""`Onbeat`: tasks and schedules of one program, and the loops that run them."""

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
    Mapping,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, Unpack, cast, overload

from onbeat.app.calls import Call, JobOptions, Span, check_call, isolation_of, name_of, options
from onbeat.app.composition import (
    Machinery,
    Options,
    Parts,
    open_store,
    remote_desk,
    system_chance,
    system_clock,
)
from onbeat.app.desk import Desk, LocalDesk
from onbeat.app.facades import Jobs, Policies, Queues, Rule, Schedules
from onbeat.app.handle import Job, decode_plain
from onbeat.app.portal import Portal
from onbeat.app.running import until_signalled
from onbeat.app.task import AnyTask, FanOut, Params, Task
from onbeat.app.virtual import Trial, instant
from onbeat.app.within import Within, finish_within
from onbeat.engine.clocks import ClockKeeper, StoreClock
from onbeat.model import job as model
from onbeat.model.errors import Misconfigured
from onbeat.model.ids import JobId
from onbeat.model.letter import DeadLetter
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.operations.operator import Operator, TaskDefaults
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Settlement, Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import Recurrence, compile_spec
from onbeat.targets.handler import Handler, Isolation, Registry
from onbeat.telemetry.standard import Silent

Value = TypeVar("Value")
Result = TypeVar("Result")
Calls = TypeVar("Calls", bound=AsyncIterator[Call[Any]] | Iterator[Call[Any]])
Function = TypeVar("Function", bound=Callable[..., Any])


class Onbeat:
    """Sends jobs, keeps schedules and, while it is running, does the work.

    `url` names the store, `memory://` or `sqlite:///PATH`, or a service elsewhere, `http://HOST`,
    which then keeps and runs everything; `api_key` is for that one. Nothing is opened before the
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
        chance: Chance | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.url = url
        self.options = options or Options()
        self.desk: Desk = LocalDesk(self)
        self.own_store = store
        if url.startswith(("http://", "https://")):
            self.desk = remote_desk(url, api_key)
        elif store is None:
            self.own_store = open_store(url)
        self.clock: Clock = StoreClock(clock or system_clock())
        self.chance = chance or system_chance()
        self.telemetry = telemetry or Silent()
        self.registry = Registry(self)
        self.defaults: dict[str, JobOptions] = {}
        self.functions: dict[str, Recurrence] = {}
        self.portal = Portal()
        self.opening = threading.Lock()
        self.is_open = False
        self.machinery: Machinery | None = None
        self.home: asyncio.AbstractEventLoop | None = None
        self.schedules = Schedules(self)
        self.jobs = Jobs(self)
        self.queues = Queues(self)

    # Tasks

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
        queue: str | None = None,
        priority: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Span | None = None,
        labels: Mapping[str, str] | None = None,
        group: str | None = None,
        isolation: Literal["none", "process"] = "none",
        memory: int | str | None = None,
    ) -> "Registrar": ...

    def task(
        self,
        name: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Span | None = None,
        labels: Mapping[str, str] | None = None,
        group: str | None = None,
        isolation: Literal["none", "process"] = "none",
        memory: int | str | None = None,
    ) -> Any:
        """Register a function as a task; its name is `name`, or `module.function` without.

        Coroutine functions run in the event loop, others in threads. A generator function, plain
        or asynchronous, yields calls, and each becomes a job. With `isolation="process"` each
        attempt runs in a process of its own, which is killed when the attempt is stopped or takes
        too long; `memory` then bounds it, in bytes or as text such as "512MB". Raises `Invalid` for
        an option that cannot be right, ValueError when another function has the name.
        """
        said = options(
            queue=queue,
            priority=priority,
            retry=retry,
            timeout=timeout,
            labels=labels,
            group=group,
        )
        own = isolation_of(isolation, memory)
        registrar = Registrar(self, name if isinstance(name, str) else None, said, own)
        return registrar(name) if callable(name) else registrar

    def schedule(
        self, recurrence: Rule, *, key: str | None = None, **policies: Unpack[Policies]
    ) -> Callable[[Function], Function]:
        """Register the decorated function as a task and keep it on a schedule.

        The schedule is put in place when the program starts to run, under `key` (the task's name
        without one); keywords are those of `schedules.put`. Raises RuntimeError while it runs.
        """
        if self.machinery is not None:
            raise RuntimeError("this Onbeat is running already; use schedules.put")

        def declare(function: Function) -> Function:
            known = isinstance(function, Task)
            made = cast("AnyTask", function) if known else cast("AnyTask", self.task(function))
            self.schedules.declare(key or made.name, recurrence, made.call(), policies)
            return cast("Function", made)

        return declare

    def remember(self, handler: Handler, said: JobOptions) -> None:
        self.registry.add(handler)
        self.defaults[handler.task] = said

    # Sending

    @overload
    def send(self, calls: Call[Result]) -> Job[Result]: ...

    @overload
    def send(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]: ...

    def send(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return self.send_call(calls)
        return self.portal.call(self.asend(calls))

    @overload
    async def asend(self, calls: Call[Result]) -> Job[Result]: ...

    @overload
    async def asend(self, calls: Sequence[Call[Any]]) -> list[Job[Any]]: ...

    async def asend(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return await self.asend_call(calls)
        for call in calls:
            check_call(call)
        now = await self.present()
        ids = self.chance.ids(len(calls))
        jobs = [call.job(id, now, self.options.retry) for call, id in zip(calls, ids, strict=True)]
        enqueued = await self.desk.enqueue(jobs)
        return [
            Job(self, answer.id, call, created=answer.created)
            for call, answer in zip(calls, enqueued, strict=True)
        ]

    def send_call(self, call: Call[Result]) -> Job[Result]:
        return self.portal.call(self.asend_call(call))

    async def asend_call(self, call: Call[Result]) -> Job[Result]:
        check_call(call)
        job = call.job(self.chance.ids(1)[0], await self.present(), self.options.retry)
        (enqueued,) = await self.desk.enqueue([job])
        return Job(self, enqueued.id, call, created=enqueued.created)

    def within(self, connection: object) -> Within:
        """Sends jobs in the transaction that `connection` is in; they exist when it commits.

        Raises TypeError for what is no connection known here, naming what is.
        """
        return Within(self, connection)

    def decoder_of(self, call: Call[Any]) -> Callable[[bytes], Any]:
        """How the result of the call is read back: by what its function says it returns."""
        task = getattr(call.target, "task", None)
        handler = self.registry.handlers.get(task) if task is not None else None
        return handler.decode_result if handler is not None else decode_plain

    # What handlers need

    def job_of(self, call: object, id: JobId, now: datetime) -> model.Job:
        """The job that a call asks for. Raises TypeError for what is no call."""
        check_call(call)
        return cast("Call[Any]", call).job(id, now, self.options.retry)

    def finish(self, connection: object, settlement: Settlement) -> Awaitable[None]:
        """Settle a job in the transaction that `connection` is in.

        On a plain connection that is done when this returns. Raises `LeaseLost`.
        """
        return finish_within(self.store, connection, settlement)

    # What handles and facades need

    @property
    def store(self) -> Store:
        """Raises `Misconfigured` where a service elsewhere keeps everything."""
        if self.own_store is None:
            raise Misconfigured(
                f"the service at {self.url} keeps and runs everything; "
                "to run tasks here, name its store instead",
                "store",
            )
        return self.own_store

    @store.setter
    def store(self, store: Store) -> None:
        self.own_store = store

    def wait_for(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Wait for `work` from plain code."""
        return self.portal.call(work)

    def runs_here(self) -> bool:
        """Whether the calling code stands in the event loop that runs the jobs."""
        with contextlib.suppress(RuntimeError):
            return self.machinery is not None and asyncio.get_running_loop() is self.home
        return False

    @property
    def operator(self) -> Operator:
        """What operations work with."""
        return Operator(
            store=self.store,
            clock=self.clock,
            chance=self.chance,
            horizon=self.options.runtime.horizon,
            retry=self.options.retry,
            refuse_url=self.options.http.refuse,
            task_defaults=self.task_defaults,
            read=self.read,
            knows_task=self.knows_task,
            buried=self.note_buried,
            telemetry=self.telemetry,
            connections=frozenset(self.options.connections),
        )

    async def knows_task(self, task: str) -> bool:
        """Whether the task is registered here, or declared to be run in another language."""
        return task in self.registry.tasks() or task in self.options.remote_tasks

    def note_buried(self, letter: DeadLetter) -> None:
        self.telemetry.buried(letter)
        if self.machinery is not None and self.machinery.brokerage is not None:
            self.machinery.brokerage.dead.put(letter)

    def task_defaults(self, task: str) -> TaskDefaults:
        said = self.defaults.get(task)
        if said is None:
            return TaskDefaults()
        given: dict[str, Any] = {
            "queue": said.queue,
            "group": said.group,
            "priority": said.priority,
            "timeout": said.timeout,
        }
        if said.retry is not None:
            given["retry"] = said.retry
        return TaskDefaults(**given)

    def read(self, spec: RecurrenceSpec) -> Recurrence:
        """Give life to a stored rule; functions of time are found by the schedule's key."""
        found = self.functions.get(spec.text) if spec.kind == "function" else None
        return found if found is not None else compile_spec(spec)

    # Running

    async def present(self) -> datetime:
        """Now: by the store's clock, where the store is this program's own to open."""
        if self.own_store is not None:
            await self.open()
        return self.clock.now()

    async def open(self) -> None:
        """Open the store, once, and keep with its clock; every use does so by itself."""
        if not self.is_open:
            await self.open_once()
        if isinstance(self.clock, StoreClock) and self.clock.is_stale:
            await ClockKeeper(self.clock, self.store, self.telemetry).refresh()

    async def open_once(self) -> None:
        if not self.opening.acquire(blocking=False):
            await asyncio.to_thread(self.opening.acquire)
        try:
            if not self.is_open:
                await self.store.open()
                self.is_open = True
        finally:
            self.opening.release()

    async def start(self) -> None:
        """Put the declared schedules in place and begin all loops in the running event loop."""
        if self.machinery is not None:
            raise RuntimeError("this Onbeat is running already")
        await self.open()
        try:
            await self.schedules.put_declared()
            self.machinery = self.build()
            self.home = asyncio.get_running_loop()
            await self.machinery.start()
        except BaseException:
            await self.close()
            raise

    def build(self) -> Machinery:
        return Machinery(self.parts(), self.options)

    async def put_declared(self) -> None:
        await self.schedules.put_declared()

    def testing(self, at: datetime | str) -> Trial:
        """This program on a memory store and a virtual clock that begins at `at`, until closed."""
        return Trial(self, open_store("memory://"), instant(at))

    async def stop(self) -> int:
        """Drain, then end the loops. Returns how many attempts had to be stopped."""
        machinery, self.machinery = self.machinery, None
        return 0 if machinery is None else await machinery.stop()

    async def close(self) -> None:
        """Stop, and close the store. The next use opens it again."""
        await self.stop()
        if self.is_open:
            self.is_open = False
            await self.store.close()

    def parts(self) -> Parts:
        return Parts(
            operator=self.operator,
            store=self.store,
            clock=self.clock,
            chance=self.chance,
            telemetry=self.telemetry,
            registry=self.registry,
            read=self.read,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @contextlib.contextmanager
    def started(self) -> Generator[Self, None, None]:
        """Run the loops in a background thread; leaving drains."""
        self.portal.call(self.start())
        try:
            yield self
        finally:
            self.portal.call(self.close())

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain.

        A second signal stops at once, with exit code 1; what ran then counts as lost.
        """
        if not asyncio.run(self.run_until_signalled()):
            raise SystemExit(1)

    async def run_until_signalled(self) -> bool:
        return await until_signalled(self.start, self.close)


class Registrar:
    """Turns a function into a task, with the options said in the decorator."""

    def __init__(
        self, beat: Onbeat, name: str | None, said: JobOptions, isolation: Isolation | None = None
    ) -> None:
        self.beat = beat
        self.name = name
        self.said = said
        self.isolation = isolation

    @overload
    def __call__(
        self, function: Callable[Params, Coroutine[Any, Any, Result]]
    ) -> Task[Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def __call__(self, function: Callable[Params, Calls]) -> Task[Params, Calls, FanOut]: ...

    @overload
    def __call__(self, function: Callable[Params, Result]) -> Task[Params, Result, Result]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        name = name_of("name", self.name or f"{module_of(function)}.{function.__qualname__}")
        handler = Handler(name, function, self.isolation)
        self.beat.remember(handler, self.said)
        task: AnyTask = Task(self.beat, handler, function, self.said)
        return task


def module_of(function: Callable[..., Any]) -> str:
    """The function's module; a program run as a script counts as the module that its file is."""
    main = sys.modules.get("__main__")
    if function.__module__ == "__main__" and main is not None and getattr(main, "__file__", None):
        return Path(str(main.__file__)).stem
    return function.__module__
