"""Submissions as calls of `submit:<task>`, whose params are the task's arguments."""

from typing import Final

import msgspec
from msgspec import UNSET

from onbeat.model.errors import Invalid
from onbeat.wire.decode import decode_typed, guard_values
from onbeat.wire.jobs import JobBody, JobDraft, read_draft
from onbeat.wire.jsonrpc import RpcCall, UnknownMethod
from onbeat.wire.targets import handler_target
from onbeat.wire.values import read_task

PREFIX: Final = "submit:"
KEY_HEADER: Final = "onbeat-key"
SENT_HEADER: Final = "onbeat-sent-at"
OPTIONS: Final = "onbeat"
NOT_OPTIONS: Final = ("task", "args", "kwargs", "target")


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The job, and whether it is new: false where another job has the unique key."""

    id: str
    created: bool


def task_of(method: str) -> str:
    """The task of a submission's method. Raises `UnknownMethod` for another method."""
    if not method.startswith(PREFIX) or method == PREFIX:
        raise UnknownMethod
    return read_task(method.removeprefix(PREFIX), "task")


def read_submission(call: RpcCall) -> JobDraft:
    """The job: an object of params as keyword arguments, an array as positional ones.

    The member `onbeat` beside the params has its options, as in a job's body in REST.
    """
    guard_values(bytes(call.text))
    params = UNSET if call.params is None else call.params
    by_place = has_places(call)
    target = handler_target(
        task_of(call.method),
        args=params if by_place else UNSET,
        kwargs=UNSET if by_place else params,
        field="params",
    )
    return read_draft(read_options(call), target, f"{OPTIONS}.")


def has_places(call: RpcCall) -> bool:
    return bytes(call.params or b"{}").startswith(b"[")


def named_params(call: RpcCall) -> dict[str, object] | None:
    """The params by name, None for positional ones."""
    if has_places(call):
        return None
    return msgspec.json.decode(call.params or b"{}", type=dict[str, object])


def read_options(call: RpcCall) -> JobBody:
    if call.onbeat is None:
        return JobBody()
    try:
        options = decode_typed(JobBody, bytes(call.onbeat))
    except Invalid as error:
        field = f"{OPTIONS}.{error.field}" if error.field else OPTIONS
        raise type(error)(f"{OPTIONS}: {error}", field) from None
    for name in NOT_OPTIONS:
        if getattr(options, name) is not UNSET:
            field = f"{OPTIONS}.{name}"
            raise Invalid(f"{field}: the method names the task, params are its arguments", field)
    return options
