"""The context that every operation receives."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.principal import LOCAL, Principal
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target
from onbeat.ports.clock import Clock
from onbeat.ports.computation import Gone, compute, compute_aside
from onbeat.ports.encryption import NO_CIPHER, Cipher
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import Budget, compile_spec
from onbeat.rules.idempotency import RequestKey
from onbeat.rules.plans import Compile, with_budget
from onbeat.rules.urls import checked_headers, checked_method, checked_secrets, checked_url

Found = TypeVar("Found")


class TaskDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults of a task's declaration for its jobs; UNSET where the task declares none."""

    queue: str | UnsetType = UNSET
    group: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout: timedelta | UnsetType | None = UNSET
    encrypted: bool = False


NO_DEFAULTS = TaskDefaults()


def no_defaults(_task: str) -> TaskDefaults:
    return NO_DEFAULTS


def allow_every_url(_url: str) -> str | None:
    return None


async def knows_no_task(_task: str) -> bool:
    return False


def ignore_dead_letter(_letter: DeadLetter) -> None:
    pass


async def no_capacity_check() -> None:
    pass


class OperationContext(msgspec.Struct, frozen=True, kw_only=True):
    """The store and the other dependencies of operations.

    `refuse_url` returns why a callback URL is not allowed here, or None. `task_defaults` returns
    the defaults that the named task declares in this process. `compile` compiles stored rules into
    recurrences. `knows_task` says whether a task is registered in this process or declared as
    remote. `on_dead_letter` is called with every new dead letter, `telemetry` receives the events
    of remote workers. `connections` are the names of the brokers that messages may be sent to.
    `cipher` encrypts stored data. `check_capacity` raises `Unavailable` while the store must not
    accept more work. `principal` is the caller on whose behalf the operation runs, `budget` bounds
    the total cost of its searches for occurrences, and `gone` waits until the caller has
    disconnected: they are set for each request. `key` is the idempotency key of the request, if it
    has one.
    """

    store: Store
    clock: Clock
    randomness: Randomness
    horizon: timedelta = timedelta(minutes=10)
    retry: RetryPolicy = RetryPolicy()
    refuse_url: Callable[[str], str | None] = allow_every_url
    task_defaults: Callable[[str], TaskDefaults] = no_defaults
    compile: Compile = compile_spec
    knows_task: Callable[[str], Awaitable[bool]] = knows_no_task
    on_dead_letter: Callable[[DeadLetter], None] = ignore_dead_letter
    telemetry: Telemetry | None = None
    connections: frozenset[str] = frozenset()
    cipher: Cipher = NO_CIPHER
    check_capacity: Callable[[], Awaitable[None]] = no_capacity_check
    principal: Principal = LOCAL
    key: RequestKey | None = None
    budget: Budget | None = None
    gone: Gone | None = None

    def acting_for(self, principal: Principal) -> "OperationContext":
        """The same context on behalf of another principal."""
        return msgspec.structs.replace(self, principal=principal)

    def keyed_request(
        self, answer: Callable[[Any], object], ids: Sequence[str] = ()
    ) -> KeyedRequest | None:
        """The stored record that keeps a repeated request from being executed again.

        `answer` makes the answer from the verb's result; `ids` are the ids of the jobs that it
        creates.
        """
        return None if self.key is None else self.key.request(answer, ids)

    def for_request(self, principal: Principal, budget: Budget, gone: Gone) -> "OperationContext":
        """The same context with the caller, the budget and the end of one request."""
        return msgspec.structs.replace(self, principal=principal, budget=budget, gone=gone)

    async def compute(self, work: "Callable[[OperationContext], Found]") -> Found:
        """The result of `work`; long searches for occurrences go to a thread.

        `work` may be started twice, so it only reads, and does not use the store.
        """
        return await compute(lambda budget: work(self.with_budget(budget)), self.budget, self.gone)

    async def compute_aside(self, work: "Callable[[OperationContext], Found]") -> Found:
        """The same for work that is known to be long, or handles costly rules itself."""
        return await compute_aside(
            lambda budget: work(self.with_budget(budget)), self.budget, self.gone
        )

    def with_budget(self, budget: Budget) -> "OperationContext":
        """The same context with this budget for every search for occurrences."""
        read = with_budget(self.compile, budget)
        return msgspec.structs.replace(self, budget=budget, compile=read)

    def fresh_id(self) -> str:
        return self.randomness.ids(1)[0]

    def defaults_of(self, target: Target) -> TaskDefaults:
        return self.task_defaults(target.task) if isinstance(target, HandlerTarget) else NO_DEFAULTS

    def retry_of(self, target: Target) -> RetryPolicy:
        """The retry policy of jobs for `target` that name none."""
        declared = self.defaults_of(target).retry
        return self.retry if declared is UNSET else declared


def checked_target(context: OperationContext, target: Target, field: str) -> Target:
    """The target in its stored form. Raises `Invalid` for a target that cannot be reached.

    A placeholder for a stored credential stays; `rules.origins` resolves it. `field` is the path of
    the request's fields, "" at the top level.
    """
    prefix = f"{field}." if field else ""
    if isinstance(target, MessageTarget):
        check_connection(context, target.to, f"{field.removesuffix('http')}message.to")
    if isinstance(target, HandlerTarget) and context.defaults_of(target).encrypted:
        return msgspec.structs.replace(target, encrypted=True)
    if not isinstance(target, HttpTarget):
        return target
    url = checked_url(target.url, field=f"{prefix}url")
    return checked_http_target(context, target, url, prefix, f"{prefix}url")


def checked_http_target(
    context: OperationContext, target: HttpTarget, url: str, prefix: str, url_field: str
) -> HttpTarget:
    """The target with its `url`, which is in its stored form. Raises `Invalid` as above."""
    refusal = context.refuse_url(url)
    if refusal is not None:
        raise Invalid(f"The callback URL is not allowed: {refusal}", url_field)
    return msgspec.structs.replace(
        target,
        url=url,
        method=checked_method(target.method, field=f"{prefix}method"),
        headers=checked_headers(target.headers, field=f"{prefix}headers"),
        secret=checked_secrets(target.secret, field=f"{prefix}secret"),
    )


def check_connection(context: OperationContext, name: str, field: str) -> None:
    if name not in context.connections:
        known = ", ".join(sorted(context.connections)) or "none"
        raise Invalid(
            f"{field}: no connection is named {name!r}; the configuration's `connections` has: "
            f"{known}",
            field,
        )
