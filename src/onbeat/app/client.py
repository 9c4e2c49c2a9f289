"""`Onbeat`: the tasks and schedules of one program, and the loops that run them."""

import contextlib
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, Literal, Self, TypeVar, Unpack, cast, overload

from onbeat.app import event_loop
from onbeat.app.alerts import Alerts
from onbeat.app.audit import Audit
from onbeat.app.backend import Backend
from onbeat.app.batch import Batch
from onbeat.app.call import Call, NoticeOptions, TaskOptions, check_keywords, name_of, options
from onbeat.app.composition import RunningApp
from onbeat.app.dead_letters import DeadLetters
from onbeat.app.events import Events
from onbeat.app.failures import Failures
from onbeat.app.first_declaration import FirstDeclaration
from onbeat.app.flows import Flows
from onbeat.app.handle import JobHandle
from onbeat.app.hooks import HookRegistrar
from onbeat.app.isolation import isolation_of
from onbeat.app.jobs import Jobs
from onbeat.app.keys import Keys
from onbeat.app.local_backend import LocalBackend
from onbeat.app.notifier import Recipients, calls_for
from onbeat.app.options import Options
from onbeat.app.overview import Overview
from onbeat.app.pulses import Pulses
from onbeat.app.queues import Queues
from onbeat.app.registrar import Registrar
from onbeat.app.registry import TaskRegistry
from onbeat.app.schedule_drafts import Policies, Rule, draft_of
from onbeat.app.schedules import Schedules
from onbeat.app.secrets import Secrets
from onbeat.app.sender import Sender
from onbeat.app.signals import wait_for_signal
from onbeat.app.stores import check_front
from onbeat.app.task import (
    AnyTask,
    Anything,
    Context,
    ContextTask,
    EventTask,
    FanOut,
    Given,
    Params,
    Task,
)
from onbeat.app.transaction.sender import TransactionalSender
from onbeat.app.virtual_clock import IN_MEMORY, VirtualRun, instant
from onbeat.model.errors import Misconfigured
from onbeat.model.owner import Owner
from onbeat.ports.clock import Clock
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry

IS_IMPORTING: ContextVar[bool] = ContextVar("onbeat_is_importing", default=False)
"""Whether a command imports the program, to run it itself."""

START_AT_IMPORT = (
    "the program starts itself while it is imported; put that, such as beat.run(), under"
    ' `if __name__ == "__main__":`, since this command runs it'
)
RUN_IN_A_LOOP = (
    "run() has an event loop of its own, and one is running here; use `async with beat` instead"
)

Result = TypeVar("Result")
Calls = TypeVar("Calls", bound=AsyncIterator[Call[Any]] | Iterator[Call[Any]])
Function = TypeVar("Function", bound=Callable[..., Any])


class Onbeat(HookRegistrar, Overview):
    """Sends jobs, keeps schedules and, while it is running, runs jobs.

    `url` names the store, `memory://` or `sqlite:///PATH`, or a remote service, `http://HOST`,
    which then stores and runs everything; `api_key` is for the service. Nothing is opened before
    first use. One `Onbeat` may be used from any thread and any event loop.

    `owner` names the program among those with the same store: at its start, schedules that it
    declared before and no longer declares are paused. `release` orders its versions.
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
        owner: str | None = None,
        release: str | None = None,
    ) -> None:
        build = remote_backend(api_key) if is_service(url) else LocalBackend
        self._registry = TaskRegistry()
        super().__init__(self._registry.hooks)
        self.backend: Backend = build(
            url,
            self._registry,
            options=options,
            store=store,
            clock=clock,
            randomness=randomness,
            telemetry=telemetry,
            owner=owner_of(owner, release),
        )
        self._sender = Sender(self.backend)
        self._running: RunningApp | None = None
        self._declaration: FirstDeclaration | None = None
        self.schedules = Schedules(self.backend)
        self.jobs = Jobs(self.backend)
        self.flows = Flows(self.backend)
        self.queues = Queues(self.backend)
        self.pulses = Pulses(self.backend)
        self.failures = Failures(self.backend)
        self.dead_letters = DeadLetters(self.backend)
        self.events = Events(self.backend)
        self.alerts = Alerts(self.backend)
        self.audit = Audit(self.backend)
        self.secrets = Secrets(self.backend)
        self.keys = Keys(self.backend)

    # Tasks

    @overload
    def task(self, name: Callable[Concatenate[Context, Anything, ...], Any]) -> AnyTask: ...

    @overload
    def task(self, name: Callable[Concatenate[Anything, ...], Any]) -> AnyTask: ...

    @overload
    def task(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, name: Callable[Concatenate[Context, Given, Params], Coroutine[Any, Any, Result]]
    ) -> EventTask[
        Concatenate[Context, Given, Params], Params, Coroutine[Any, Any, Result], Result
    ]: ...

    @overload
    def task(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, name: Callable[Concatenate[Context, Given, Params], Calls]
    ) -> EventTask[Concatenate[Context, Given, Params], Params, Calls, FanOut]: ...

    @overload
    def task(
        self, name: Callable[Concatenate[Context, Given, Params], Result]
    ) -> EventTask[Concatenate[Context, Given, Params], Params, Result, Result]: ...

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
        self, name: Callable[Concatenate[Given, Params], Coroutine[Any, Any, Result]]
    ) -> EventTask[Concatenate[Given, Params], Params, Coroutine[Any, Any, Result], Result]: ...

    @overload
    def task(
        self, name: Callable[Concatenate[Given, Params], Calls]
    ) -> EventTask[Concatenate[Given, Params], Params, Calls, FanOut]: ...

    @overload
    def task(
        self, name: Callable[Concatenate[Given, Params], Result]
    ) -> EventTask[Concatenate[Given, Params], Params, Result, Result]: ...

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
    ) -> Registrar: ...

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
        named = None if name is None or callable(name) else name_of("name", name)
        registrar = Registrar(self._registry, self._sender, named, job_options, own, encrypted)
        return registrar(name) if callable(name) else registrar

    def schedule(
        self,
        recurrence: Rule | None = None,
        *,
        key: str | None = None,
        **policies: Unpack[Policies],
    ) -> Callable[[Function], Function]:
        """Register the decorated function as a task with a schedule, by a recurrence or `on`.

        The schedule is stored when the program starts to run, under `key` (by default the task's
        name); keywords are those of `schedules.put`. Raises RuntimeError while it runs.
        """
        if self._running is not None:
            raise RuntimeError("this Onbeat is running already; use schedules.put")

        def declare(function: Function) -> Function:
            known = isinstance(function, Task)
            made = cast("AnyTask", function) if known else cast("AnyTask", self.task(function))
            self._declare(key or made.name, recurrence, made.call(), policies)
            return cast("Function", made)

        return declare

    def _declare(
        self, key: str, recurrence: Rule | None, call: Call[Any], policies: Policies
    ) -> None:
        # A declaration is complete: saying nothing of a pause ends an earlier one of its own.
        given: Policies = {"paused": False, **policies}
        draft = draft_of(self.backend, "schedule", key, recurrence, call, given)
        self._registry.schedules.append((key, draft))

    # Sending

    @overload
    def send(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    def send(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    def send(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return self._sender.send_call(calls)
        return self._sender.send_all(calls)

    @overload
    async def asend(self, calls: Call[Result]) -> JobHandle[Result]: ...

    @overload
    async def asend(self, calls: Sequence[Call[Any]]) -> list[JobHandle[Any]]: ...

    async def asend(self, calls: Call[Any] | Sequence[Call[Any]]) -> Any:
        """Store a call, or many in one write, and return when they are durable."""
        if not isinstance(calls, Sequence):
            return await self._sender.asend_call(calls)
        return await self._sender.asend_all(calls)

    def notify(
        self, channel: str, to: Recipients = None, **given: Unpack[NoticeOptions]
    ) -> list[JobHandle[None]]:
        """Tell one or many people over a channel: a job for each, all in one write.

        Keywords are those of `onbeat.notify`; `unique` counts for each recipient.
        """
        return self._sender.send_all(calls_for(self.backend, channel, to, given))

    async def anotify(
        self, channel: str, to: Recipients = None, **given: Unpack[NoticeOptions]
    ) -> list[JobHandle[None]]:
        """Tell one or many people over a channel: a job for each, all in one write."""
        return await self._sender.asend_all(calls_for(self.backend, channel, to, given))

    def batch(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
    ) -> Batch:
        """Store many calls in one write, with one handle.

        `then` runs when all of them have succeeded, `on_failure` when all have ended and one has
        failed. Raises `Invalid` for no calls, TypeError for what is no call.
        """
        return self.backend.wait_for(self.abatch(calls, then=then, on_failure=on_failure))

    async def abatch(
        self,
        calls: Iterable[Call[Any]],
        *,
        then: Call[Any] | None = None,
        on_failure: Call[Any] | None = None,
    ) -> Batch:
        """As `batch`, from a coroutine."""
        return await self._sender.asend_batch(calls, then, on_failure)

    def in_transaction(self, connection: object) -> TransactionalSender:
        """A sender in the transaction of `connection`; its jobs exist once that commits.

        Raises TypeError for an unsupported connection, naming the supported ones.
        """
        return self._sender.in_transaction(connection)

    def within(self, connection: object) -> TransactionalSender:
        """The older name of `in_transaction`, which stays."""
        return self.in_transaction(connection)

    # Running

    async def start(self) -> None:
        """Store the declared schedules and start all loops in the running event loop.

        While one of several cells is away, the schedules are stored in the background. Raises
        `Misconfigured` while `onbeat up` imports the program, which it starts itself.
        """
        if IS_IMPORTING.get():
            raise Misconfigured(START_AT_IMPORT, key="app")
        if self._running is not None:
            raise RuntimeError("this Onbeat is running already")
        check_front(self.backend.url, self.backend.options.runtime.roles)
        await self.backend.open()
        try:
            self._declaration = FirstDeclaration(self.backend)
            await self._declaration.start()
            await self._start_loops()
        except BaseException:
            await self.aclose()
            raise

    async def _start_loops(self) -> None:
        running = self._running = RunningApp(self.backend)
        self.backend.run_jobs_here(running.dead_letters)
        await running.start()

    async def stop(self) -> int:
        """Drain, then end the loops. Returns how many attempts were stopped early."""
        declaration, self._declaration = self._declaration, None
        if declaration is not None:
            await declaration.stop()
        running, self._running = self._running, None
        self.backend.run_no_jobs()
        return 0 if running is None else await running.stop()

    async def aclose(self) -> None:
        """Stop, and close the store. The next use opens it again."""
        await self.stop()
        await self.backend.aclose()

    def close(self) -> None:
        """Stop, and close the store and the background thread. The next use opens them again.

        Raises RuntimeError in a coroutine; use `aclose` there.
        """
        if event_loop.is_running_here():
            raise RuntimeError("this would block the event loop; use `await beat.aclose()`")
        if self.backend.is_open or self._running is not None:
            self.backend.wait_for(self.aclose())
        self.backend.portal.close()

    def __enter__(self) -> Self:
        """For programs that only send: opens nothing before the first use, and runs no jobs."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @contextlib.contextmanager
    def started(self) -> Generator[Self, None, None]:
        """Run the loops in a background thread; leaving drains."""
        self.backend.wait_for(self.start())
        try:
            yield self
        finally:
            self.backend.wait_for(self.aclose())

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then drain.

        A second signal stops at once, with exit code 1; running jobs then count as lost. Raises as
        `start`, and RuntimeError in a coroutine.
        """
        if event_loop.is_running_here():
            raise RuntimeError(RUN_IN_A_LOOP)
        if not event_loop.run(wait_for_signal(self.start, self.aclose)):
            raise SystemExit(1)

    def testing(self, at: datetime | str, *, store: str = IN_MEMORY) -> VirtualRun:
        """This program on a virtual clock that starts at `at`, and on another store, until closed.

        `store` is the URL of a store that nothing else uses meanwhile; what the trial stores stays
        there. Raises `Misconfigured` for an unknown one.
        """
        return VirtualRun(self.backend, instant(at), store)


def owner_of(name: str | None, release: str | None) -> Owner:
    """Raises `Invalid` for a name that is empty or too long."""
    for field, value in (("owner", name), ("release", release)):
        if value is not None:
            name_of(field, value)
    return Owner(name, release)


def is_service(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def remote_backend(api_key: str | None) -> Callable[..., Backend]:
    """Builds clients of a service, whose HTTP client is loaded on demand."""
    from onbeat.app.remote_backend import RemoteBackend  # noqa: PLC0415

    return partial(RemoteBackend, api_key=api_key)
