"""What every operation is given to work with."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.letter import DeadLetter
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget, Target
from onbeat.ports.chance import Chance
from onbeat.ports.clock import Clock
from onbeat.ports.store import Store
from onbeat.ports.telemetry import Telemetry
from onbeat.recurrence import compile_spec
from onbeat.rules.planning import Read
from onbeat.rules.urls import checked_headers, checked_method, checked_secret, checked_url


class TaskDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What a task's declaration says about its jobs; UNSET where it says nothing."""

    queue: str | UnsetType = UNSET
    group: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    retry: RetryPolicy | UnsetType = UNSET
    timeout: timedelta | UnsetType | None = UNSET


NO_DEFAULTS = TaskDefaults()


def nothing_known(_task: str) -> TaskDefaults:
    return NO_DEFAULTS


def refuse_none(_url: str) -> str | None:
    return None


async def nothing_here(_task: str) -> bool:
    return False


def untold(_letter: DeadLetter) -> None:
    pass


async def room_for_all() -> None:
    pass


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """The store, and what comes in from outside.

    `refuse_url` says why a callback's address is not allowed here, or None. `task_defaults` gives
    what the task of that name declares in this process. `read` gives life to stored rules.
    `knows_task` says whether a task is registered in this process or declared to be run elsewhere.
    `buried` is told of every message that is put aside, `telemetry` of what remote workers do.
    `connections` are the names of the brokers that messages may be sent to. `check_room` raises
    `Unavailable` while the store should take nothing more.
    """

    store: Store
    clock: Clock
    chance: Chance
    horizon: timedelta = timedelta(minutes=10)
    retry: RetryPolicy = RetryPolicy()
    refuse_url: Callable[[str], str | None] = refuse_none
    task_defaults: Callable[[str], TaskDefaults] = nothing_known
    read: Read = compile_spec
    knows_task: Callable[[str], Awaitable[bool]] = nothing_here
    buried: Callable[[DeadLetter], None] = untold
    telemetry: Telemetry | None = None
    connections: frozenset[str] = frozenset()
    check_room: Callable[[], Awaitable[None]] = room_for_all

    def fresh_id(self) -> str:
        return self.chance.ids(1)[0]

    def defaults_of(self, target: Target) -> TaskDefaults:
        return self.task_defaults(target.task) if isinstance(target, HandlerTarget) else NO_DEFAULTS

    def retry_of(self, target: Target) -> RetryPolicy:
        """The policy of jobs for `target` that name none."""
        declared = self.defaults_of(target).retry
        return self.retry if declared is UNSET else declared


def checked_target(
    operator: Operator, target: Target, field: str, *, url_field: str = "url"
) -> Target:
    """The target in the form in which it is kept; raises `Invalid` for one that cannot be reached.

    `field` is the path of the request's fields, "" when they stand at the top.
    """
    prefix = f"{field}." if field else ""
    if isinstance(target, MessageTarget):
        check_connection(operator, target.to, f"{field.removesuffix('http')}message.to")
    if not isinstance(target, HttpTarget):
        return target
    url = checked_url(target.url, field=prefix + url_field)
    refusal = operator.refuse_url(url)
    if refusal is not None:
        raise Invalid(f"The callback URL is not allowed: {refusal}", prefix + url_field)
    secret = target.secret
    return msgspec.structs.replace(
        target,
        url=url,
        method=checked_method(target.method, field=f"{prefix}method"),
        headers=checked_headers(target.headers, field=f"{prefix}headers"),
        secret=checked_secret(secret, field=f"{prefix}secret") if secret else None,
    )


def check_connection(operator: Operator, name: str, field: str) -> None:
    if name not in operator.connections:
        known = ", ".join(sorted(operator.connections)) or "none"
        raise Invalid(
            f"{field}: no connection is named {name!r}; the configuration's `connections` has: "
            f"{known}",
            field,
        )
