"""Functions that a program runs before and after each of its handlers.

A hook runs where its handler runs: a plain one in the thread of a plain handler, or in the event
loop beside a coroutine; a coroutine function in the event loop. So a hook may set a context
variable for the handler, and may close what is bound to the handler's thread. An error in a hook is
logged and changes nothing else.
"""

import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final

from onbeat.targets.context import Context

log: Final = logging.getLogger("onbeat.hooks")

BeforeHook = Callable[[Context], object]
AfterHook = Callable[[Context, BaseException | None], object]


class Hooks:
    """The hooks of a program, in the order of their registration."""

    def __init__(self) -> None:
        self.before: list[BeforeHook] = []
        self.after: list[AfterHook] = []
        self.failed: list[Callable[[Any], object]] = []
        self.start: list[Callable[[], object]] = []
        self.stop: list[Callable[[], object]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there are none round handlers."""
        return not self.before and not self.after


class HookedAttempt:
    """The hooks round one attempt. Those before it that are coroutines run first."""

    def __init__(self, hooks: Hooks, context: Context) -> None:
        self.hooks = hooks
        self.context = context

    async def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Await the call between the coroutine hooks."""
        error: BaseException | None = None
        for hook in filter(inspect.iscoroutinefunction, self.hooks.before):
            await call_in_loop(hook, self.context)
        try:
            return await call()
        except BaseException as raised:
            error = raised
            raise
        finally:
            for hook in filter(inspect.iscoroutinefunction, self.hooks.after):
                await call_in_loop(hook, self.context, error)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function between the plain hooks, and of the same kind: plain, coroutine, generator.

        They begin when its body does, in the same thread.
        """
        for is_kind, wrap in KINDS:
            if is_kind(function):
                return wrap(self, function)
        return plain(self, function)

    def begin(self) -> None:
        for hook in self.hooks.before:
            if not inspect.iscoroutinefunction(hook):
                call_here(hook, self.context)

    def end(self, error: BaseException | None) -> None:
        for hook in self.hooks.after:
            if not inspect.iscoroutinefunction(hook):
                call_here(hook, self.context, error)

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(None if isinstance(error, GeneratorExit) else error)


def call_here(hook: Callable[..., object], *given: object) -> None:
    try:
        hook(*given)
    except Exception:
        log.exception("a hook failed", extra={"hook": name_of(hook)})


async def call_in_loop(hook: Callable[..., Any], *given: object) -> None:
    try:
        await hook(*given)
    except Exception:
        log.exception("a hook failed", extra={"hook": name_of(hook)})


def name_of(hook: Callable[..., object]) -> str:
    return str(getattr(hook, "__qualname__", hook))


def plain(hooks: HookedAttempt, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with hooks:
            return function(*args, **kwargs)

    return call


def coroutine(hooks: HookedAttempt, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        with hooks:
            return await function(*args, **kwargs)

    return call


def generator(hooks: HookedAttempt, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        with hooks:
            yield from function(*args, **kwargs)

    return call


def async_generator(hooks: HookedAttempt, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        with hooks:
            values = function(*args, **kwargs)
            try:
                async for value in values:
                    yield value
            finally:
                await values.aclose()

    return call


KINDS: Final[
    tuple[
        tuple[
            Callable[[object], bool],
            Callable[[HookedAttempt, Callable[..., Any]], Callable[..., Any]],
        ],
        ...,
    ]
] = (
    (inspect.iscoroutinefunction, coroutine),
    (inspect.isasyncgenfunction, async_generator),
    (inspect.isgeneratorfunction, generator),
)
