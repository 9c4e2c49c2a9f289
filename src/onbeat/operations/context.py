"""The context that every operation receives."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.principal import LOCAL, Principal
from onbeat.model.remote_task import RemoteFence, RemoteTask
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, NotifyTarget, Target
from onbeat.model.trace_context import HEADER, STATE_HEADER, TraceContext, read_trace
from onbeat.operations.notice_checks import NO_NOTICES, Notices
from onbeat.operations.old_lanes import OldLanes
from onbeat.operations.seen_workers import SeenWorkers
from onbeat.ports.checks import Examine, no_checkup
from onbeat.ports.clock import Clock
from onbeat.ports.computation import Gone, compute, compute_aside
from onbeat.ports.encryption import NO_CIPHER, Cipher
from onbeat.ports.expressions import NO_EXPRESSIONS, Expressions
from onbeat.ports.randomness import Randomness
from onbeat.ports.store import Store
from onbeat.ports.target import CheckStart, allow_start
from onbeat.ports.telemetry import Telemetry
from onbeat.ports.tracing import UNTRACED_SEND, SendSpan, Tracing, active_trace
from onbeat.recurrence import Budget, compile_spec
from onbeat.rules.callback_policy import (
    checked_connect_timeout,
    checked_redirects,
    checked_success,
)
from onbeat.rules.fault_tally import FaultTally
from onbeat.rules.idempotency import RequestKey
from onbeat.rules.live_feed import LiveFeed
from onbeat.rules.notices import ALWAYS_KNOWN
from onbeat.rules.plans import Compile, with_budget
from onbeat.rules.urls import checked_headers, checked_method, checked_secrets, checked_url
from onbeat.wire.settings import SettingAnswer

Found = TypeVar("Found")


class TaskDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults of a task's declaration for its jobs; UNSET where the task declares none.

    `fields` are fields of a job by name, with the values that it has where nothing is declared.
    """

    fields: dict[str, Any] = {}
    retry: RetryPolicy | UnsetType = UNSET
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
    remote; `remote_tasks` are those by name, `remote_fence` is what their results need.
    `on_dead_letter` is called with every new dead letter, `telemetry` receives the events of remote
    workers. `connections` are the names of the brokers that messages may be sent to.
    `notices` knows channels and templates, `cipher` encrypts stored data, `expressions` compiles
    those of requests. `faults` counts failures of remote workers, `seen_workers`
    show which tasks are unknown. `check_start` is asked before a
    job is given to a remote worker. `check_capacity` raises `Unavailable` while the store must not
    accept more work. `live` is told of changes while somebody watches, `past` is what timelines
    remember. `principal` is the caller on whose behalf the operation runs, `budget` bounds the
    total cost of its searches for occurrences, and `gone` waits until the caller has
    disconnected: they are set for each request. `key` is the idempotency key of the request, if
    it has one. `tracing` makes spans of what is sent; `trace` is the trace context that
    came with the request. `settings` are those of this process, for people, and `examine` answers
    what the checks of `onbeat doctor` find in it. `configured_keys` are the names of the API keys
    of the settings. `keep` is how long jobs that ended well are kept
    here, and `keep_failed` how long failed ones are; None where that is not known.
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
    remote_tasks: Mapping[str, RemoteTask] = {}
    remote_fence: RemoteFence = RemoteFence.TOKEN
    on_dead_letter: Callable[[DeadLetter], None] = ignore_dead_letter
    telemetry: Telemetry | None = None
    connections: frozenset[str] = frozenset()
    notices: Notices = NO_NOTICES
    cipher: Cipher = NO_CIPHER
    expressions: Expressions = NO_EXPRESSIONS
    check_start: CheckStart = allow_start
    faults: FaultTally = msgspec.field(default_factory=FaultTally)
    seen_workers: SeenWorkers = msgspec.field(default_factory=SeenWorkers)
    check_capacity: Callable[[], Awaitable[None]] = no_capacity_check
    live: LiveFeed = msgspec.field(default_factory=LiveFeed)
    past: OldLanes = msgspec.field(default_factory=OldLanes)
    principal: Principal = LOCAL
    key: RequestKey | None = None
    budget: Budget | None = None
    gone: Gone | None = None
    tracing: Tracing | None = None
    trace: TraceContext | None = None
    settings: tuple[SettingAnswer, ...] = ()
    configured_keys: frozenset[str] = frozenset()
    keep: timedelta | None = None
    keep_failed: timedelta | None = None
    examine: Examine = no_checkup

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

    def for_request(
        self, principal: Principal, budget: Budget, gone: Gone, trace: TraceContext | None = None
    ) -> "OperationContext":
        """The same context with the caller, the budget, the end and the trace of one request."""
        return msgspec.structs.replace(
            self, principal=principal, budget=budget, gone=gone, trace=trace
        )

    def traced_by(self, headers: Mapping[str, str]) -> "OperationContext":
        """The same context with the trace of a message, where its headers name one."""
        text, state = headers.get(HEADER), headers.get(STATE_HEADER)
        trace = None if text is None else read_trace([text], [] if state is None else [state])
        return self if trace is None else msgspec.structs.replace(self, trace=trace)

    def sending(self) -> AbstractContextManager[SendSpan]:
        """A span around the making and storing of jobs, where something makes spans."""
        return UNTRACED_SEND if self.tracing is None else self.tracing.send(self.trace)

    @property
    def sender(self) -> TraceContext | None:
        """The trace context for jobs that are made here and now."""
        return active_trace() or self.trace

    def for_principal(self, principal: Principal) -> "OperationContext":
        return msgspec.structs.replace(self, principal=principal)

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


def checked_target(
    context: OperationContext,
    target: Target,
    field: str,
    known: Collection[str] | None = ALWAYS_KNOWN,
) -> Target:
    """The target in its stored form. Raises `Invalid` for a target that cannot be reached.

    A placeholder for a stored credential stays; `rules.origins` resolves it. `field` is the path of
    the request's fields, "" at the top level. `known` are the names that templates may read; None
    leaves the templates to `Notices.check_texts`.
    """
    prefix = f"{field}." if field else ""
    if isinstance(target, MessageTarget):
        check_connection(context, target.to, f"{field.removesuffix('http')}message.to")
    if isinstance(target, NotifyTarget):
        context.notices.check(target, f"{field.removesuffix('http')}notify.", known)
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
        success=checked_success(target.success or None, field=f"{prefix}success"),
        redirects=checked_redirects(target.redirects, field=f"{prefix}redirects"),
        connect_timeout=checked_connect_timeout(
            target.connect_timeout, field=f"{prefix}connect_timeout"
        ),
    )


def check_connection(context: OperationContext, name: str, field: str) -> None:
    if name not in context.connections:
        known = ", ".join(sorted(context.connections)) or "none"
        raise Invalid(
            f"{field}: no connection is named {name!r}; the configuration's `connections` has: "
            f"{known}",
            field,
        )
